"""The metrics of a session as values, with names, labels, base units, and histograms that can be added over boards.

An unknown value is left out, and is never 0. A family (all series with the same name) has at most MOST series.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.progress import is_stalled
from edgetop.analysis.slowdowns.signals import GRAVEST_FIRST
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.streams import StreamView
from edgetop.analysis.tracks import TrackView
from edgetop.analysis.verdict import ROTATED, final_verdict
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.manifest import Manifest
from edgetop.wording import verdict_words

PREFIX = "edgetop_"
STARTED = "session_start_timestamp_seconds"
RUNNING, DURATION, FAILED = "session_running", "session_duration_seconds", "session_failed"
TO_FIRST, BETWEEN = "time_to_first_token_seconds", "time_per_output_token_seconds"
MOST = 64  # most samples of a family
MOST_LABELS = 16  # most labels of the user
MOST_CHARACTERS = 120  # longest value of a label

Kind = Literal["gauge", "counter", "info", "histogram"]
Labels = tuple[tuple[str, str], ...]

# Upper bounds of classic buckets in ns: four per octave, from 10 us to 43 s. Each coincides with the beginning of a
# bucket of the session's histogram. They are the same for all sessions, so that histograms of boards can be added.
BOUNDS_NS: npt.NDArray[np.int64] = np.array(
    [m * 2**k * histogram.UNIT_NS for k in range(8, 30) for m in (4, 5, 6, 7)] + [2**32 * histogram.UNIT_NS], np.int64
)
_PLACES = histogram.bucket_of(BOUNDS_NS)


@frozen
class Distribution:
    """A distribution of times, such as latencies.

    `counts` are the counts of all buckets of a histogram of `edgetop.session.histogram`.
    """

    counts: histogram.Counts
    sum_s: float
    min_s: float
    max_s: float

    def cumulative(self) -> list[tuple[float, int]]:
        """Return (bound in s, exact number of latencies at or below this bound) pairs."""
        # Latencies are whole ns, and a bucket contains the latencies below its end. So a bound is the last ns before
        # that end.
        upto = np.cumsum(self.counts)[_PLACES - 1]
        return list(zip(((BOUNDS_NS - 1) / 1e9).tolist(), upto.tolist(), strict=True))

    @property
    def count(self) -> int:
        return int(self.counts.sum())


@frozen
class Sample:
    labels: Labels
    value: float | Distribution


@frozen
class Family:
    name: str  # without the suffix that a format appends by kind: _total, _info, _bucket
    kind: Kind
    about: str
    samples: tuple[Sample, ...]
    unit: str = ""


# Sensors of the kind `rate` that are no events, but ms per second.
MS_PER_SECOND = frozenset(
    f"rate/{name}" for name in (
        "run-queue-wait", "children-run-queue-wait", "call-run-queue-wait", "cpu-throttled", "task-clock"
    )
)  # fmt: skip

# kind of sensor -> (metric, unit, label with the name of the sensor, factor from the sensor's unit, description)
SENSOR_METRICS = {
    "temp": ("temperature_celsius", "celsius", "sensor", 1.0, "Temperature of a zone of the board."),
    "humidity": ("humidity_ratio", "ratio", "sensor", 0.01, "Relative humidity of the air."),
    "ambient": ("ambient_celsius", "celsius", "sensor", 1.0, "Temperature of a probe that is not part of the board."),
    "freq": ("clock_hertz", "hertz", "sensor", 1e6, "Clock of a CPU, GPU or NPU."),
    "freqcap": ("clock_cap_hertz", "hertz", "sensor", 1e6, "Highest clock that is currently allowed."),
    "cooling": ("cooling_state", "", "sensor", 1.0, "State of a cooling device; 0 is off."),
    "throttle": (
        "throttle_flag",
        "",
        "flag",
        1.0,
        "Throttle flag of the board; sticky flags are set until the next boot.",
    ),
    "power": ("power_watts", "watts", "rail", 1.0, "Power of a rail. Never add a total to its parts."),
    "volt": ("voltage_volts", "volts", "rail", 1.0, "Voltage of a rail."),
    "current": ("current_amperes", "amperes", "rail", 1.0, "Current of a rail."),
    "mem": (
        "memory_bytes",
        "bytes",
        "kind",
        2.0**20,
        "Memory of the engine, of edgetop, of its cgroup, or of the system.",
    ),
    "load": ("load_ratio", "ratio", "kind", 0.01, "Use of a CPU or accelerator; 1 is all of it."),
    "pressure": ("pressure_ratio", "ratio", "kind", 0.01, "Share of the last interval in which tasks waited (PSI)."),
    "rate": ("event_rate_per_second", "", "event", 1.0, "Kernel events per second."),
    "fan": ("fan_speed_rpm", "rpm", "sensor", 1.0, "Speed of a fan."),
    "stage": ("stage_seconds", "seconds", "stage", 1e-3, "Time of a stage in the last frame of the program."),
    "frame": ("frame_seconds", "seconds", "part", 1e-3, "Times of the last frame of the program."),
    "net": ("network_bytes_per_second", "", "direction", 1.0, "Network traffic of the board."),
    "disk": ("disk_bytes_per_second", "", "direction", 1.0, "Disk traffic of the board."),
    "dram": ("memory_traffic_bytes_per_second", "", "direction", 1.0, "Traffic of the board's memory."),
}


def families(analysis: Analysis) -> list[Family]:
    """Return all metrics of a session, or [] before the session has begun.

    The caller must hold the lock of `analysis`.
    """
    if analysis.manifest is None:
        return []
    found = []
    for family in _families(analysis, analysis.manifest):
        named: dict[Labels, Sample] = {}
        for sample in (
            family.samples
        ):  # keep the first sample of each name, because duplicates would make the whole answer invalid
            named.setdefault(sample.labels, sample)
        if named:
            found.append(replace(family, samples=tuple(named.values())[:MOST]))
    return found


def _families(analysis: Analysis, manifest: Manifest) -> Iterator[Family]:
    """Yield the metrics of a session, without those that an internal error affects."""
    made: list[Family] = []
    parts = (_of_session, _of_progress, _verdict, _of_inferences, _of_tokens, _throttled, _memory_growth, _energy)
    for make in (*parts, _of_sensors):
        name = f"metrics: {make.__name__.strip('_')}"
        group, failed = analysis.faults.attempt(name, partial(_all_of, make, analysis, manifest), lambda: ())
        made += () if failed and make is not _verdict else group
    yield from made
    faults = tuple(Sample((("part", _text(of.name)),), 1.0) for of in analysis.faults.distinct)
    yield Family(
        f"{PREFIX}internal_error",
        "gauge",
        "1 for each part of the analysis that is missing because of an internal error.",
        faults,
    )


def _all_of(make: Callable[[Analysis, Manifest], Iterable[Family]], *of: Any) -> tuple[Family, ...]:
    return tuple(make(*of))


def _of_session(_: Analysis, manifest: Manifest) -> Iterator[Family]:
    yield Family(
        f"{PREFIX}session", "info", "Model, runtime and board of the session.", (Sample(_about(manifest), 1.0),)
    )
    if wall := manifest.wall_time():
        yield _one(STARTED, "gauge", "Unix time at which the session began.", wall.origin_us / 1e6, "seconds")
    yield _one("timestamp_seconds", "gauge", "Unix time at which these values were taken.", time.time(), "seconds")


def _of_progress(analysis: Analysis, manifest: Manifest) -> Iterator[Family]:
    """Yield the metrics for alerts: whether the session runs, how long, and whether it has failed or is stalled.

    The duration ends at the newest data, so the duration stands still if edgetop hangs. The wall clock has no effect.
    """
    progress = analysis.progress.view()
    end_reason = (progress.end_reason or "") if progress.phase == "over" and progress.end_reason != ROTATED else None
    yield _one(RUNNING, "gauge", "1 while the session runs, 0 once it is over.", float(end_reason is None))
    about = "Time from the start of the session to its newest data."
    yield _one(DURATION, "gauge", about, progress.now_ns / 1e9, "seconds")
    failed = end_reason is not None and final_verdict(end_reason).level in ("warning", "critical")
    about = "1 if the session is over because its engine, its program, a gate or its disk failed."
    yield _one(FAILED, "gauge", about, float(failed))
    if progress.phase in ("warmup", "measure"):
        totals = analysis.totals()
        stalled = is_stalled(progress, totals.max_ns if totals else None, manifest)
        yield _one("stalled", "gauge", "1 while an inference is overdue.", float(stalled))


def _verdict(analysis: Analysis, _: Manifest) -> Iterator[Family]:
    verdict = Sample((("verdict", verdict_words.now(analysis.verdict())),), 1.0)
    yield Family(f"{PREFIX}verdict", "gauge", "1 for the current verdict.", (verdict,))


def _throttled(analysis: Analysis, _: Manifest) -> Iterator[Family]:
    throttles = analysis.throttles.view()
    if (
        throttles.has_flag or throttles.spans
    ):  # absent if the board cannot report throttling, since no signal is no proof
        is_over = analysis.progress.view().phase == "over"
        in_force = {span.cause for span in throttles.spans if span.end_ns is None and not is_over}
        samples = tuple(Sample((("cause", cause),), float(cause in in_force)) for cause in GRAVEST_FIRST)
        yield Family(f"{PREFIX}throttled", "gauge", "1 while the board reports that it throttles.", samples)


def _memory_growth(analysis: Analysis, _: Manifest) -> Iterator[Family]:
    growth = analysis.growth_view()
    if growth.mib_per_h is not None:
        rate, about = growth.mib_per_h.value * 2**20 / 3600, "Growth of the engine's memory over the session."
        yield _one("memory_growth_bytes_per_second", "gauge", about, rate)
    if growth.is_leak is not None:
        yield _one("memory_leak", "gauge", "1 if memory growth is significant and does not level off.", growth.is_leak)


def _of_sensors(analysis: Analysis, _: Manifest) -> Iterator[Family]:
    for kind, (name, unit, label, scale, about) in SENSOR_METRICS.items():
        tracks = [track for track in analysis.tracks.views(kind) if track.value is not None and not track.is_lost]
        times = [track for track in tracks if track.info.id in MS_PER_SECOND]
        samples = tuple(_sample(label, track, scale) for track in tracks if track not in times)
        yield Family(f"{PREFIX}{name}", "gauge", about, samples, unit)
        if times:
            of_time = "Time of threads, on a CPU or waiting for one, per second; 1 is one thread all the time."
            shares = tuple(_sample("kind", track, 1e-3) for track in times)
            yield Family(f"{PREFIX}thread_time_ratio", "gauge", of_time, shares, "ratio")


def _sample(label: str, track: TrackView, scale: float) -> Sample:
    return Sample(_named(label, track), (track.value or 0.0) * scale)


def _about(manifest: Manifest) -> Labels:
    engine = manifest.engine
    known = {
        "session": manifest.name,
        "model": manifest.model_name,
        "runtime": engine.runtime,
        "runtime_version": engine.version,
        "provider": ",".join(engine.providers),
        "threads": str(engine.threads),
        "board": manifest.board.model,
        "simulated": "true" if manifest.board.simulated else "false",
        "edgetop_version": manifest.edgetop_version,
    }
    for key, value in list(manifest.labels.items())[:MOST_LABELS]:
        known["label_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in key)[:MOST_CHARACTERS]] = value
    return tuple((name, _text(value)) for name, value in known.items() if value)


def _text(text: str) -> str:
    """Return text from outside in a form that is safe for a label: short, valid UTF-8, without control characters."""
    return clean(text)[:MOST_CHARACTERS].encode("utf-8", "replace").decode()


def _one(name: str, kind: Kind, about: str, value: float | Distribution, unit: str = "") -> Family:
    return Family(f"{PREFIX}{name}", kind, about, (Sample((), value),), unit)


def _of_inferences(analysis: Analysis, manifest: Manifest) -> Iterator[Family]:
    load, views = manifest.load, analysis.stream_views()
    about = "Service time of measured inferences, from their start to their outputs."
    times = [(_labels(of, views), _distribution(of.latency.buckets, of.statistics)) for of in views if of.statistics]
    if times:
        yield _each("inference_duration_seconds", "histogram", about, times, "seconds")
    about = "Response time of measured inferences, from their intended start."
    times = [
        (_labels(of, views), _distribution(of.latency.response_buckets, of.response)) for of in views if of.response
    ]
    if times:
        yield _each("response_duration_seconds", "histogram", about, times, "seconds")
    errors = [(_labels(of, views), float(of.latency.errors)) for of in views]
    yield _each("inference_errors", "counter", "Inferences that raised an error.", errors)
    if load.deadline_ns is not None:
        yield _one("deadline_seconds", "gauge", "The deadline.", load.deadline_ns / 1e9, "seconds")
        misses = [(_labels(of, views), float((of.statistics.misses if of.statistics else 0) or 0)) for of in views]
        yield _each("deadline_misses", "counter", "Inferences that missed the deadline.", misses)


def _of_tokens(analysis: Analysis, _: Manifest) -> Iterator[Family]:
    """Yield the times and the numbers of a language model's tokens.

    The module `otlp` sends these metrics under the names of OpenTelemetry.
    """
    view = analysis.generation.view()
    if view is None:
        return
    to_first, between = analysis.generation.counts()
    for name, about, counts, of in (
        (TO_FIRST, "Time from the due time of a request to its first token.", to_first, view.ttft),
        (BETWEEN, "Time between two successive tokens of a request.", between, view.itl),
    ):
        if of is not None:
            yield _one(name, "histogram", about, _distribution(counts, of), "seconds")
    numbers = (("input", float(view.tokens_in)), ("output", float(view.tokens_out)))
    samples = tuple(Sample((("type", kind),), value) for kind, value in numbers)
    yield Family(f"{PREFIX}tokens", "counter", "Tokens of prompts, and generated tokens.", samples)


def _labels(view: StreamView, views: Sequence[StreamView]) -> Labels:
    """Return the labels of a stream's series: `stream` with its name, or no labels if `views` has only one stream."""
    return (("stream", _text(view.name)),) if len(views) > 1 else ()


def _each(
    name: str, kind: Kind, about: str, values: Iterable[tuple[Labels, float | Distribution]], unit: str = ""
) -> Family:
    return Family(f"{PREFIX}{name}", kind, about, tuple(Sample(labels, value) for labels, value in values), unit)


def _distribution(counts: histogram.Counts, of: Statistics) -> Distribution:
    return Distribution(counts, of.mean_ns * of.count / 1e9, of.min_ns / 1e9, of.max_ns / 1e9)


def _energy(analysis: Analysis, _: Manifest) -> Iterator[Family]:
    """Yield the energy of each rail (a supply line with a power sensor) in the measured phase, as counters in J.

    A rail with negative power, such as a battery's, is left out, because a counter cannot fall.
    """
    view = analysis.power.view(analysis.tracks, None, analysis.progress.measured_until_ns, is_each_precise=False)
    grow = (rail for rail in (view.total, *view.rails) if rail and rail.covered_s)
    rails = [rail for rail in grow if rail.track.min is not None and rail.track.min >= 0]
    samples = tuple(Sample(_named("rail", rail.track), rail.energy_j) for rail in rails)
    yield Family(f"{PREFIX}energy_joules", "counter", "Energy of a rail in the measured phase.", samples, "joules")


def _named(label: str, track: TrackView) -> Labels:
    """Return the labels of a sensor's series: its name under `label` and, for a power
    sensor, its role (total or part).
    """
    role = (("role", track.info.role or "part"),) if track.info.kind == "power" else ()
    return ((label, _text(track.info.label)), *role)
