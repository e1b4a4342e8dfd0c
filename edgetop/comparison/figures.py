"""The figures that a comparison shows, with one entry for each row: how to read a figure and how to compare it.

The key of a row is the figure's key in `report --json`, if there is one. Figures are compared as ratios, on a
logarithmic scale, or as differences if they can be zero or negative.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgetop.analysis.ab_figures import SAME_WITHIN
from edgetop.analysis.memory_use import Z_975
from edgetop.analysis.report_parts import LatencyFigures
from edgetop.analysis.statistics import SETTLED_COUNTS
from edgetop.comparison.meters import MeterShare, share_of_net, share_of_power
from edgetop.comparison.sample import Sample, of_stream
from edgetop.formatting import clean, shortened, stream_name
from edgetop.frozen import frozen
from edgetop.session.trips import trips_c

Number = float | None
Interval = Sequence[float | None] | None
# Standard deviation, as a logarithm, between runs of the same thing, by causes that do not vary within a run, such as
# the layout of memory and the choice of cores. Paper: Kalibera and Jones 2013, Rigorous benchmarking in reasonable
# time, ISMM (table 4: 0.1 to 2 % of the mean between executions). Larger: small regressions are missed; smaller:
# equal sessions differ.
RUN_TO_RUN = 0.01
# The same for figures whose drift within a session is unknown. Choice: only a factor over 4 then differs. Larger: a
# tail that grew fivefold is missed; smaller: one slow inference is a regression.
BLIND = 0.4
# Largest difference of shares that counts as the same. Choice. Larger: a rate of misses that grew is missed; smaller:
# short sessions are "unknown".
SHARE_WITHIN = 0.01
MOST_STREAMS, STREAM_CELLS = 12, 20  # compared streams; width of a name


@frozen
class Fact:
    """One property of a session, such as its runtime, that a comparison shows but does not judge."""

    key: str
    label: str
    read: Callable[[Sample], str | int | None]
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    key: str
    label: str
    unit: str
    read: Callable[[Sample], Number]
    more: str = "higher"  # word for a larger value
    less: str = "lower"
    within: float = SAME_WITHIN  # largest difference that counts as the same, as a share or in its unit
    is_difference: bool = False  # whether it is compared as a difference, not as a ratio of positive values
    quarters: str = ""  # figure whose quarters show how much this one drifts
    interval: Callable[[Sample], Interval] | None = None  # returns the 95 % interval of a session by itself
    meter: Callable[[Sample], MeterShare | None] | None = None  # returns the errors of its power meter
    run_to_run: Number = None  # variation between runs, without quarters; None: one session says nothing about others
    is_lead: bool = False  # whether it is a main figure, which is not corrected for the number of rows
    is_judged: bool = True
    is_operator: bool = False
    is_crowded: bool = True  # whether other processes affect it
    least_count: int = 0  # least number of inferences
    stream: str = ""  # the stream that it is of, in a session with several

    def on_scale(self, value: float) -> float:
        return value if self.is_difference else math.log(value)

    def known(self, sample: Sample) -> Number:
        """Return the session's value of the figure, or None if it is unknown or cannot be compared."""
        return self.comparable(self.read(sample))

    def comparable(self, value: Number) -> Number:
        if value is None or not math.isfinite(value) or (value <= 0 and not self.is_difference):
            return None
        return value

    def error(self, sample: Sample) -> Number:
        """Return the standard error of the figure within one session, or None if unknown.

        For a figure that is compared as a ratio, this is the error of the figure's logarithm.
        """
        low, high = (self.interval and self.interval(sample)) or (None, None)
        if low is None or high is None or (low <= 0 and not self.is_difference):
            return None
        return (self.on_scale(high) - self.on_scale(low)) / (2 * Z_975)

    def spread_between_runs(self, sample: Sample, warmth: float) -> Number:
        """Return the standard deviation of the figure that is expected from session to session, or None if unknown.

        `warmth` is how far apart two sessions' start temperatures are, as a share of the rise of temperature in this
        session.
        """
        # One session cannot show how sessions differ, so its quarters stand for sessions.
        quarters, error = self.quarters and sample.quarters.get(self.quarters), self.error(sample)
        crowding = sample.crowding if self.is_crowded else 0.0
        if not self.quarters:
            is_told = self.run_to_run is not None and (self.interval is None or error is not None)
            return math.hypot(self.run_to_run or 0.0, 2 * (error or 0.0), crowding) if is_told else None
        if not quarters or (self.interval and error is None) or not self.is_settled(sample):
            return None if self.is_operator else math.hypot(BLIND, crowding)
        logs = np.log(quarters)
        half = abs(float(logs[2:].mean() - logs[:2].mean()))
        apart = max(float(logs.std(ddof=1)), error or 0.0)
        return math.hypot(apart, RUN_TO_RUN, crowding, half * warmth)

    def is_settled(self, sample: Sample) -> bool:
        """Whether the figure comes from enough inferences to be trusted. True for a figure that is no percentile."""
        report = sample.report
        kind, _, name = self.key.partition("[")[0].removesuffix("_ms").rpartition("_")
        if kind in ("burst", "sustained"):
            span = report.burst if kind == "burst" else report.sustained
            return span is None or span.settled[name]
        if kind in ("ttft", "itl"):
            times = getattr(report.generation, kind, None)
            return times is None or name != "p99" or times.settled
        latency = _stream_latency(sample, self.stream) if self.stream else report.latency
        return latency is None or kind not in ("", "response") or latency.is_settled(name)


def _at(path: str) -> Callable[[Sample], Any]:
    """Return a function that reads a value from the report of a session, such as `power.mean_w`.

    That function returns None if a part of the path is None.
    """

    def read(sample: Sample) -> Any:
        part: Any = sample.report
        for name in path.split("."):
            part = None if part is None else getattr(part, name)
        return part

    return read


def _time(key: str, label: str, path: str, **more: Any) -> Figure:
    return Figure(key=key, label=label, unit="ms", more="slower", less="faster", read=_at(path), **more)


def _latency(name: str, label: str, quantile: float | None = None, *, is_lead: bool = False) -> Figure:
    key = f"{name}_ms"
    return _time(
        key, label, f"latency.{key}",
        quarters=key,
        interval=lambda sample: (sample.report.latency.ci95 or {}).get(key),
        is_lead=is_lead,
        is_judged=name != "max",  # the maximum grows with the number of inferences
        least_count=SETTLED_COUNTS[quantile] if quantile else 0,
    )  # fmt: skip


STREAM_KEYS = ("p50_ms", "p99_ms")  # keys of the rows that each stream has


def figures_of_streams(samples: Sequence[Sample]) -> tuple[Figure, ...]:
    """Return the figures p50 and p99 of each model, the busiest model first, or () if each session runs one model.

    Models are matched by name.
    """
    several = [sample.report.streams for sample in samples if len(sample.report.streams) > 1]
    names = dict.fromkeys(stream.name for streams in several for stream in streams)
    return tuple(
        _of_stream(name, key.removesuffix("_ms"), quantile)
        for name in list(names)[:MOST_STREAMS]
        for key, quantile in zip(STREAM_KEYS, (0.50, 0.99), strict=True)
    )


def _of_stream(stream: str, name: str, quantile: float) -> Figure:
    key = f"{name}_ms"

    def read(sample: Sample) -> Number:
        latency = _stream_latency(sample, stream)
        return getattr(latency, key) if latency else None

    def interval(sample: Sample) -> Any:
        latency = _stream_latency(sample, stream)
        return (latency.ci95 or {}).get(key) if latency else None

    return Figure(
        key=f"{key}{of_stream(stream)}", label=f"{name} {stream_name(stream, STREAM_CELLS)}", unit="ms",
        more="slower", less="faster", read=read, interval=interval, quarters=f"{key}{of_stream(stream)}",
        is_lead=True, least_count=SETTLED_COUNTS[quantile], stream=stream,
    )  # fmt: skip


def _stream_latency(sample: Sample, name: str) -> LatencyFigures | None:
    """Return the latency of the model called `name` in a session, or None if there is no such model."""
    return next((stream.latency for stream in sample.report.streams if stream.name == name), None)


def _share(key: str, label: str, read: Callable[[Sample], Number]) -> Figure:
    return Figure(key=key, label=label, unit="share", read=read, is_difference=True, within=SHARE_WITHIN)


def _energy(
    key: str, label: str, ci95: str, meter: Callable[[Sample], MeterShare | None], *, is_lead: bool = False
) -> Figure:
    return Figure(
        key=key, label=label, unit="mJ", is_lead=is_lead, read=_at(f"energy.{key}"), interval=_at(f"energy.{ci95}"),
        run_to_run=2 * RUN_TO_RUN, meter=meter,
    )  # fmt: skip


def _usage(key: str, label: str, unit: str) -> Figure:
    is_judged = key.startswith(("cpu", "mem"))
    return Figure(key=key, label=label, unit=unit, is_judged=is_judged, read=_at(f"usage.{key}"))


def ended_itself(sample: Sample) -> bool:
    """Whether the session watched a program that ended by itself, so that the program's total time is a result."""
    return sample.session.watched is not None and sample.session.end_reason == "exit"


def _slowed_share(sample: Sample) -> Number:
    usage, slowdowns = sample.report.usage, sample.report.slowdowns
    if usage is None or not usage.total_time_ms or slowdowns is None:
        return None
    end_ns, slow_ns = sample.session.duration_ns, 0
    for one in slowdowns:
        if (until_ns := end_ns if one.end_ns is None else one.end_ns) is None:
            return None
        slow_ns += until_ns - one.start_ns
    return min(slow_ns / 1e6 / usage.total_time_ms, 1.0)


def _hottest_end_c(sample: Sample) -> Number:
    return max((zone.end for zone in sample.report.temperature.values() if zone.end is not None), default=None)


def _headroom_c(sample: Sample) -> Number:
    """Return by how many °C the board could still heat up before it throttles, or None if unknown.

    The temperature zone that is nearest to its throttling point at the end of the session counts.
    """
    trips = {sample.session.sensors[place].id: trip for place, trip in trips_c(sample.session).items()}
    zones = sample.report.temperature.items()
    left = [trips[name] - zone.end for name, zone in zones if zone.end is not None and name in trips]
    return min(left, default=None)


def _runtime(sample: Sample) -> str | None:
    engine = sample.session.engine
    return f"{engine.runtime} {engine.version or ''}".strip() if engine.runtime else None


def _board(sample: Sample) -> str | None:
    board = sample.session.board
    name = board.model or board.cpu
    return f"{name or 'board'} SIMULATED" if board.simulated else name


FACTS = (
    Fact("model", "model", lambda sample: sample.session.model_name or None),
    Fact("model_bytes", "size", lambda sample: sample.model_bytes, "B"),
    Fact("parameters", "parameters", lambda sample: sample.work.parameters),
    Fact("macs", "MACs", lambda sample: sample.work.macs),
    Fact("precision", "precision", lambda sample: sample.session.model.precision),
    Fact("runtime", "runtime", _runtime),
    Fact("provider", "provider", lambda sample: ", ".join(sample.session.engine.providers) or None),
    Fact("threads", "threads", lambda sample: sample.session.engine.threads or "default"),
    Fact("board", "board", _board),
    Fact("count", "inferences", _at("latency.count")),
)

MOST_SETTINGS = 32  # rows about settings of the runtime


def setting_facts(samples: Sequence[Sample]) -> tuple[Fact, ...]:
    """Return a fact for each setting of the runtime that is not the same in all sessions, such as `optimize`.

    A setting that a session lacks is "default", if another session with the same runtime has the setting.
    """
    engines = [sample.session.engine for sample in samples]
    names = list(dict.fromkeys(name for engine in engines for name in engine.settings))
    differing = [name for name in names if len({engine.settings.get(name) for engine in engines}) > 1]

    def read(name: str, sample: Sample) -> str | None:
        engine = sample.session.engine
        has_runtime = any(one.runtime == engine.runtime and name in one.settings for one in engines)
        return engine.settings.get(name, "default" if has_runtime else None)

    return tuple(
        Fact(f"settings.{name}", f"setting {shortened(clean(name), STREAM_CELLS)}", partial(read, name))
        for name in differing[:MOST_SETTINGS]
    )


FIGURES = (
    _time("init_ms", "load", "phases.init_ms"),
    _time("compile_ms", "compile", "phases.compile_ms"),
    _time("first_ms", "first inference", "phases.first_ms"),
    _latency("mean", "mean"),
    _latency("p50", "p50", 0.50, is_lead=True),
    _latency("p90", "p90", 0.90),
    _latency("p95", "p95", 0.95),
    _latency("p99", "p99", 0.99, is_lead=True),
    _latency("p999", "p99.9", 0.999),
    _latency("max", "max"),
    Figure(key="jitter_ms", label="jitter", unit="ms", read=_at("latency.jitter_ms")),
    Figure(
        key="throughput_hz", label="throughput", unit="1/s", more="faster", less="slower", is_lead=True,
        read=_at("latency.throughput_hz"), quarters="mean_ms",
    ),
    *(
        _time(f"response_{name}_ms", f"response {name}", f"latency.response.{name}_ms", quarters=f"{name}_ms")
        for name in ("p50", "p90", "p99")
    ),
    _time("response_p999_ms", "response p99.9", "latency.response.p999_ms"),
    *(
        _time(f"{kind}_{name}_ms", f"{label} {name}", f"generation.{kind}.{name}_ms", quarters=f"{name}_ms")
        for kind, label in (("ttft", "TTFT"), ("itl", "ITL")) for name in ("p50", "p99")
    ),
    *(
        Figure(
            key=f"{kind}_tok_s", label=kind, unit="tok/s", more="faster", less="slower", is_lead=kind == "decode",
            read=_at(f"generation.{kind}_tok_s"), quarters="mean_ms",
        ) for kind in ("prefill", "decode")
    ),
    Figure(
        key="j_per_token", label="energy per token", unit="J", read=_at("generation.j_per_token"),
        run_to_run=2 * RUN_TO_RUN, meter=share_of_power,
    ),
    _share("miss_rate", "deadline misses", _at("latency.deadline.miss_rate")),
    *(
        _time(f"{span}_{name}_ms", f"{span} {name}", f"{span}.{name}_ms", quarters=f"{name}_ms")
        for span in ("burst", "sustained") for name in ("p50", "p99")
    ),
    _share("throttled_share", "time throttled", _at("throttled_share")),
    _share("slowed_share", "time slowed", _slowed_share),
    Figure(key="temp_end_c", label="hottest at end", unit="°C", read=_hottest_end_c, is_difference=True, within=2.0),
    Figure(key="headroom_c", label="headroom", unit="°C", read=_headroom_c, is_difference=True, within=2.0),
    Figure(
        key="mean_w", label="mean power", unit="W", read=_at("power.mean_w"), run_to_run=2 * RUN_TO_RUN,
        meter=share_of_power,
    ),
    _energy("gross_mj", "energy, gross", "ci95_mj", share_of_power, is_lead=True),
    _energy("net_mj", "energy, net", "net_ci95_mj", share_of_net),
    Figure(
        key="inferences_per_charge", label="per charge", unit="inferences",
        read=_at("energy.inferences_per_charge"),
    ),
    Figure(
        key="rss_peak_mib", label="peak RSS", unit="MiB", is_lead=True,
        read=_at("memory.rss_peak_mib"), run_to_run=2 * RUN_TO_RUN, is_crowded=False,
    ),
    Figure(
        key="growth_mib_per_h", label="growth", unit="MiB/h", is_difference=True, within=1.0,
        read=_at("memory.growth_mib_per_h"),
    ),
    _usage("cpu_mean_pct", "CPU", "%"),
    _usage("cpu_peak_pct", "CPU, peak", "%"),
    _usage("mem_mean_mib", "mean memory", "MiB"),
    *(
        _usage(key, label, "B") for key, label in (
            ("net_rx_bytes", "network in"), ("net_tx_bytes", "network out"),
            ("block_read_bytes", "disk read"), ("block_write_bytes", "disk written"),
        )
    ),
    _usage("total_time_ms", "measured for", "ms"),
    Figure(
        key="run_j", label="energy of the run", unit="J", read=_at("energy.run_j"), run_to_run=2 * RUN_TO_RUN,
        meter=share_of_power,
    ),
)  # fmt: skip
TOTAL_TIME = _time("total_time_ms", "total time", "usage.total_time_ms", is_lead=True, run_to_run=2 * RUN_TO_RUN)


def figures_for(samples: Sequence[Sample]) -> tuple[Figure, ...]:
    """Return the figures to compare for these sessions, such as p50.

    The total time is only judged as better or worse if all sessions watched programs that ended by themselves.
    """
    if not all(map(ended_itself, samples)):
        return FIGURES
    return tuple(TOTAL_TIME if figure.key == TOTAL_TIME.key else figure for figure in FIGURES)


MOST_OPERATORS = 5


def operators(baseline: Sample, others: list[Sample]) -> tuple[tuple[Figure, ...], int]:
    """Return the figures of the operators whose time changed most, and how many operators could be compared."""
    before, moved = operator_us(baseline), dict[str, float]()
    for other in others:
        after = operator_us(other)
        for name in before.keys() & after.keys():
            moved[name] = max(moved.get(name, 0.0), abs(after[name] - before[name]))
    most = sorted(moved, key=lambda name: (-moved[name], name))[:MOST_OPERATORS]
    return tuple(map(_operator, most)), len(moved)


def operator_us(sample: Sample) -> dict[str, float]:
    """Return the mean time per inference of each operator in us, by name. Times of equal names are added up."""
    found: dict[str, float] = {}
    for one in sample.report.operators or ():
        if one.mean_us is not None:
            found[one.name] = found.get(one.name, 0.0) + one.mean_us
    return found


def _operator(name: str) -> Figure:
    def interval(sample: Sample) -> Interval:
        each = [one for one in sample.report.operators or () if one.name == name]
        return each[0].share_ci95 if len(each) == 1 and each[0].settled else None

    return Figure(
        key=f"operator/{name}", label=name, unit="us", more="slower", less="faster",
        read=lambda sample: operator_us(sample).get(name), quarters="p50_ms", interval=interval,
        is_operator=True,
    )  # fmt: skip
