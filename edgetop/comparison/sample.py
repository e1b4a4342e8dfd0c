"""Samples: what a comparison uses of each session, namely its report and how much its figures vary within it.

The two variants of an A/B session are two samples, each with the inferences of its own turns. Measurements of a process
or the whole board (memory, CPU, heat) belong to both variants, so both samples lack them.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from edgetop.analysis.ab_figures import AbView, Ratio
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.report_parts import PERCENTILE_KEYS, EnergyFigures
from edgetop.analysis.session_report import Report, report
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest
from edgetop.session.outputs import KeptOutputs
from edgetop.session.records import MEASURE, NO_READINGS
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import QUANTILES
from edgetop.session.turns import SIDES

QUARTERS = 4
# Figures that are known from the turns of an A/B session: key of the figure -> name of the ratio.
OF_TURNS = {"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "throughput_hz": "throughput", "gross_mj": "energy"}


@frozen
class ModelWork:
    """The size and work of a model for the shapes in which it ran, computed from its file. None means unknown."""

    parameters: int | None = None
    macs: int | None = None  # of one inference
    flops: int | None = None  # of one inference
    depth: int | None = None  # number of operators with weights
    weight_bits: float | None = None  # mean size of a parameter in the file
    external_bytes: int | None = None  # size of the files with weights beside the model; None if it needs none


@frozen
class Sample:
    """What a comparison knows of one session, or of one variant of an A/B session."""

    report: Report
    quarters: Mapping[str, tuple[float, ...]] = field(
        default_factory=dict
    )  # values in the quarters of the session, in order, in ms, by figure
    others_pct: float | None = None  # mean CPU use of other processes, in % of a core
    steal_pct: float | None = None  # mean steal time of a hypervisor, in % of a core
    caps_mhz: Mapping[str, float] = field(default_factory=dict)  # highest limit by clock
    buckets: histogram.Counts = field(
        default_factory=lambda: np.zeros(histogram.SIZE, np.int64)
    )  # histogram of all latencies
    work: ModelWork = ModelWork()
    outputs: KeptOutputs | None = None  # kept outputs, if any
    in_turns: AbView | None = None  # A/B view of the session, which both variants share

    @property
    def session(self) -> Manifest:
        return self.report.session

    @property
    def model_bytes(self) -> int | None:
        """Return the size of all files of the model, or None if unknown."""
        model = self.session.model
        if model.size_bytes is None or model.beside_bytes is not None:
            return model.whole_bytes
        return model.size_bytes + (self.work.external_bytes or 0)

    @property
    def crowding(self) -> float:
        """The logarithm of the factor by which other processes may have slowed the session; 0 for no slowdown."""
        others = (self.others_pct or 0.0) / 100 / (self.session.board.cores or 1) + (self.steal_pct or 0.0) / 100
        return float(np.log1p(max(others, 0.0)))


@frozen
class Group:
    """One column of a comparison: one session, or several sessions that are taken together."""

    name: str
    samples: tuple[Sample, ...]


def p99_spread(samples: Sequence[Sample]) -> float | None:
    """Return how much p99 varies between sessions: its standard deviation divided by its mean.

    The result is None if fewer than two sessions have a p99.
    """
    known = [one.report.latency.p99_ms for one in samples if one.report.latency.p99_ms is not None]
    if len(known) < 2 or not (mean := statistics.fmean(known)):
        return None
    return round(statistics.stdev(known) / mean, 6)


def sample(analysis: Analysis) -> Sample:
    """Return what a comparison uses of an analysed session. Raises ValueError if the session has no description yet."""
    views = analysis.stream_views()
    quarters: dict[str, tuple[float, ...]] = {}
    for view in views:
        quarters |= _quarters(view.parts(QUARTERS), of_stream(view.name) if len(views) > 1 else "")
    others_pct, steal_pct = neighbours(analysis)
    caps = ((track.info.id, track.max) for track in analysis.tracks.views("freqcap"))
    return Sample(
        report=report(analysis),
        quarters=quarters,
        others_pct=others_pct,
        steal_pct=steal_pct,
        caps_mhz={name: mhz for name, mhz in caps if mhz is not None},
        buckets=views[0].latency.buckets if len(views) == 1 else np.zeros(histogram.SIZE, np.int64),
    )


def of_stream(name: str) -> str:
    """Return the suffix of a figure's key for one model, if sessions run several models.

    >>> of_stream("detector")
    '[detector]'
    """
    return f"[{name}]"


def _quarters(parts: Sequence[histogram.Counts], of: str) -> dict[str, tuple[float, ...]]:
    """Return the latency percentiles and the mean latency of each part of a session in ms, by key, such as `p50_ms`.

    `parts` has the latency histogram of each part. `of` is appended to the keys.
    """
    figures = [
        {**dict(zip(PERCENTILE_KEYS, percentiles, strict=True)), "mean": _mean_ns(counts)}
        for counts in parts
        for percentiles in [histogram.percentiles(counts, QUANTILES, 0, 2**62)]
    ]
    return {f"{key}_ms{of}": tuple(part[key] / 1e6 for part in figures) for key in figures[0]} if figures else {}


def neighbours(analysis: Analysis) -> tuple[float | None, float | None]:
    """Return the mean CPU use of other processes, and the CPU time taken by a hypervisor, in percent of a core.

    None means unknown.
    """
    others, steal = (analysis.tracks.one(name) for name in ("load/others", "load/steal"))
    return others.mean if others else None, steal.mean if steal else None


def _mean_ns(counts: histogram.Counts) -> float:
    bucket = np.flatnonzero(counts)
    middle = (histogram.lower_edge_ns(bucket) + histogram.lower_edge_ns(bucket + 1)) / 2
    return float(np.average(middle, weights=counts[bucket]))


def variants(whole: Analysis, batches: Iterable[Batch]) -> list[Sample]:
    """Return the samples of the variants A and B of an A/B session, or [] if it has too few turns.

    `whole` is the analysis of the session, and `batches` are all its data.
    """
    view, manifest = whole.ab_view(), whole.manifest
    if view is None or manifest is None or not view.variants:
        return []
    analyses, seconds = (Analysis(), Analysis()), (SecondAggregator(None), SecondAggregator(None))
    for batch in batches:
        for side, (analysis, aggregator) in enumerate(zip(analyses, seconds, strict=True)):
            rows = batch.inferences
            own = rows[(rows["variant"] == side) & ((rows["t_ns"] >= view.plan.quads_ns) | (rows["phase"] != MEASURE))]
            analysis.fold(replace(
                batch, inferences=own, seconds=aggregator.add(own), readings=NO_READINGS, bursts=(),
                manifest=batch.manifest and _manifest_of(batch.manifest, side),
            ))  # fmt: skip
    for side, (analysis, aggregator) in enumerate(zip(analyses, seconds, strict=True)):
        analysis.fold(Batch(view.latest.end_ns, seconds=aggregator.close(), manifest=_manifest_of(manifest, side)))
    others_pct, steal_pct = neighbours(whole)  # these include the other variant if it has its own process
    made = (_variant(analysis, view, side) for side, analysis in enumerate(analyses))
    return [replace(one, others_pct=others_pct, steal_pct=steal_pct) for one in made]


def _manifest_of(whole: Manifest, side: int) -> Manifest:
    if whole.ab is None:
        return whole
    of, letter = whole.ab.variants[side], SIDES[side]
    return replace(
        whole,
        id=f"{whole.id}-{letter}",
        name=f"{whole.name} {letter}",
        model=of.model,
        engine=of.engine,
        methodology=replace(whole.methodology, measure_runs=None),
        ab=None,
    )


def _variant(analysis: Analysis, view: AbView, side: int) -> Sample:
    made, of = sample(analysis), view.variants[side]
    latency = replace(
        made.report.latency, p50_ms=of.p50_ms, p90_ms=of.p90_ms, p99_ms=of.p99_ms, throughput_hz=of.throughput_hz,
        items_per_s=None, jitter_ms=None,
    )  # fmt: skip
    energy = EnergyFigures(gross_mj=of.energy_mj, rails={})
    memory = replace(made.report.memory, rss_peak_mib=None, rss_end_mib=None, growth_mib_per_h=None)
    report = replace(made.report, latency=latency, energy=energy, memory=memory, usage=None, warnings=())
    report = replace(report, slowdowns=None, burst=None, sustained=None, throttled=None, throttled_share=None)
    return replace(made, report=report, in_turns=view)


def in_turns(base: Sample, other: Sample) -> AbView | None:
    """Return the results of an A/B session if the samples are its two variants, or None if not."""
    return base.in_turns if base.in_turns is other.in_turns else None


def turns_ratio(view: AbView, key: str) -> Ratio | None:
    """Return B divided by A for the figure `key`, such as `p50_ms`, or None if the A/B
    session does not give that ratio.
    """
    return view.ratios.get(OF_TURNS.get(key, ""))


# Properties by which sessions can be grouped, besides labels.
KEYS: Mapping[str, Callable[[Manifest], str | None]] = {
    "model": lambda session: session.model_name,
    "precision": lambda session: session.model.precision,
    "runtime": lambda session: session.engine.runtime,
    "provider": lambda session: ",".join(session.engine.providers),
    "threads": lambda session: str(session.engine.threads or "default"),
    "board": lambda session: session.board.model or session.board.cpu,
    "batch": lambda session: str(session.load.batch or 1),
    "rate": lambda session: "none" if session.load.rate_hz is None else f"{session.load.rate_hz:g}",
    "governor": lambda session: session.board.governor,
    "power-mode": lambda session: session.board.power_mode,
    "version": lambda session: session.edgetop_version,
}


def grouped(samples: Sequence[Sample], key: str | None) -> tuple[Group, ...]:
    """Return the samples in groups with the same value of `key`, in the order of their first samples.

    `key` is a label that the user gave, or one of KEYS; None makes each sample a group. Raises InputError if a session
    lacks the key.
    """
    found: dict[str, list[Sample]] = {}
    names: list[str] = []
    for one in samples:
        session, same = one.session, names.count(one.session.name)
        names.append(session.name)
        if key is None:
            name = f"{session.name} ({same + 1})" if same else session.name
        elif (value := session.labels.get(key) or (KEYS[key](session) if key in KEYS else None)) is not None:
            name = f"{key}={value}"
        else:
            text = f"--group-by: {session.name} has no label {key or '(an empty one)'}"
            raise InputError(text, f"choose one that all sessions have, or {', '.join(KEYS)}")
        found.setdefault(name, []).append(one)
    return tuple(Group(name, tuple(members)) for name, members in found.items())
