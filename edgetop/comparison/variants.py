"""The two variants of an A/B session as two columns of a comparison.

Their ratio is that of their turns, which is known far better than that of two sessions, and their inferences are those
of these turns. What is measured of one process or of the whole board (memory, CPU, heat) tells nothing of one variant,
and is left out of both.
"""

from collections.abc import Iterable
from dataclasses import replace

from edgetop.analysis.ab import AbView, Ratio
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.report_parts import EnergyFigures
from edgetop.comparison.sample import Sample, neighbours, sample
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest
from edgetop.session.records import MEASURE, NO_READINGS
from edgetop.session.seconds import SecondAggregator
from edgetop.session.turns import SIDES

METRICS = {"p50_ms": "p50", "p90_ms": "p90", "p99_ms": "p99", "throughput_hz": "throughput", "gross_mj": "energy"}


def variants(whole: Analysis, batches: Iterable[Batch]) -> list[Sample]:
    """A and B; none where there are too few quads. `batches`: with single inferences; `whole` has folded them all."""
    view, manifest = whole.ab_view(), whole.manifest
    if view is None or manifest is None or not view.variants:
        return []
    analyses, seconds = (Analysis(), Analysis()), (SecondAggregator(None), SecondAggregator(None))
    for batch in batches:
        for side, (analysis, aggregator) in enumerate(zip(analyses, seconds, strict=True)):
            rows = batch.inferences
            own = rows[(rows["variant"] == side) & ((rows["t_ns"] >= view.plan.quads_ns) | (rows["phase"] != MEASURE))]
            analysis.fold(
                replace(
                    batch,
                    inferences=own,
                    seconds=aggregator.add(own),
                    readings=NO_READINGS,
                    bursts=(),
                    manifest=batch.manifest and _manifest(batch.manifest, side),
                )
            )
    for side, (analysis, aggregator) in enumerate(zip(analyses, seconds, strict=True)):
        analysis.fold(Batch(view.plan.end_ns, seconds=aggregator.close(), manifest=_manifest(manifest, side)))
    others_pct, steal_pct = neighbours(whole)  # the other variant among them, if it has a process of its own
    made = (_sample(analysis, view, side) for side, analysis in enumerate(analyses))
    return [replace(one, others_pct=others_pct, steal_pct=steal_pct) for one in made]


def _manifest(whole: Manifest, side: int) -> Manifest:
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


def _sample(analysis: Analysis, view: AbView, side: int) -> Sample:
    made, of = sample(analysis), view.variants[side]
    latency = replace(
        made.report.latency,
        p50_ms=of.p50_ms,
        p90_ms=of.p90_ms,
        p99_ms=of.p99_ms,
        throughput_hz=of.throughput_hz,
        items_per_s=None,
        jitter_ms=None,
    )
    energy = EnergyFigures(gross_mj=of.energy_mj, rails={})
    memory = replace(made.report.memory, rss_peak_mib=None, rss_end_mib=None, growth_mib_per_h=None)
    report = replace(made.report, latency=latency, energy=energy, memory=memory, usage=None, warnings=())
    report = replace(report, slowdowns=None, burst=None, sustained=None, throttled=None, throttled_share=None)
    return replace(made, report=report, in_turns=view)


def in_turns(base: Sample, other: Sample) -> AbView | None:
    """Return the A/B view where the two are the variants of one session."""
    return base.in_turns if base.in_turns is other.in_turns else None


def turns_ratio(view: AbView, key: str) -> Ratio | None:
    """Return a figure's ratio of B to A; None: the turns do not give it."""
    return view.ratios.get(METRICS.get(key, ""))
