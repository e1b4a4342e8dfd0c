"""Sessions told second by second: a latency for each, and what sensors read in it."""

from collections.abc import Mapping, Sequence

import numpy as np

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.slowdown import Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.batch import Batch
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, SensorInfo
from edgetop.session.records import READING, Inferences, Readings
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from tests.support.sessions import MS, folded, make_inferences, make_manifest, make_sensor, phase_event

RATE = 20  # inferences a second, unless told otherwise

# What sensors are where it matters; a test names them by their ids.
KNOWN = {
    "freq/cpu0": {"max": 1800.0},
    "freq/cpu1": {"max": 1800.0},
    "freqcap/cpu0": {"max": 1800.0},
    "freq/gpu": {"max": 1000.0},
    "freqcap/gpu": {"max": 1000.0},
    "freq/arm": {"max": 1800.0},
    "temp/cpu-thermal": {"trips": {"passive": 85.0, "critical": 105.0}},
    "cooling/0-cpufreq-cpu0": {"throttles": True, "max_state": 10},
    "cooling/1-pwm-fan": {"throttles": False, "max_state": 4},
}


def stretch(*pieces: tuple[int, float]) -> list[float]:
    """Each piece is (seconds, value): `stretch((60, 10.0), (30, 14.0))`."""
    return [value for seconds, value in pieces for _ in range(seconds)]


def sensor(sensor_id: str) -> SensorInfo:
    return make_sensor(sensor_id, **KNOWN.get(sensor_id, {}))


def readings_of(sensors: Mapping[str, Sequence[float]], every_s: int = 1) -> Readings:
    """A reading of each sensor in the middle of each second; NaN: none."""
    rows = [
        (second * NS + NS // 2, place, value)
        for place, values in enumerate(sensors.values())
        for second, value in enumerate(values)
        if second % every_s == 0 and not np.isnan(value)
    ]
    return np.array(sorted(rows), READING)


def inferences_of(
    latency_ms: Sequence[float], rate_hz: float = RATE, scatter: float = 0.01, wait_ms: Sequence[float] | None = None
) -> Inferences:
    """Paced, each with the latency and the wait of the second in which it starts, give or take."""
    random = np.random.default_rng(5)
    start_s = np.arange(0, len(latency_ms), 1 / rate_hz) + 0.2 / rate_hz
    latency = np.array(latency_ms)[start_s.astype(int)] * np.exp(random.normal(0, scatter, len(start_s)))
    waits = np.zeros(len(start_s)) if wait_ms is None else np.array(wait_ms)[start_s.astype(int)]
    return make_inferences(
        (start_s * NS).astype(np.int64), (latency * MS).astype(np.int64), wait_ns=(waits * MS).astype(np.int64)
    )


def session_of(
    latency_ms: Sequence[float],
    sensors: Mapping[str, Sequence[float]] | None = None,
    *,
    rate_hz: float = RATE,
    scatter: float = 0.01,
    every_s: int = 1,
    governor: str | None = None,
    load: Load | None = None,
    wait_ms: Sequence[float] | None = None,
    unset: Sequence[str] = (),
) -> Batch:
    """The whole session as one batch; the measurement begins at 0. `wait_ms`: of each second, with a paced `load`.

    `unset`: ids of sensors that it lacks because no limit is set.
    """
    sensors, load = sensors or {}, load or Load()
    aggregator = SecondAggregator(load.deadline_ns, is_paced=load.is_paced)
    inferences = inferences_of(latency_ms, rate_hz, scatter, wait_ms)
    return Batch(
        until_ns=len(latency_ms) * NS,
        inferences=inferences,
        seconds=concatenate([aggregator.add(inferences), aggregator.close()]),
        readings=readings_of(sensors, every_s),
        events=(phase_event(0, "measure"),),
        manifest=make_manifest(
            *map(sensor, sensors), board=Board(governor=governor), load=load, unset_limits=tuple(unset)
        ),
        restart=True,
    )


def analysed(*arguments: object, **more: object) -> Analysis:
    return folded([session_of(*arguments, **more)])  # type: ignore[arg-type]


def view_of(*arguments: object, **more: object) -> SlowdownsView:
    fold = Slowdowns()
    fold.fold(session_of(*arguments, **more))  # type: ignore[arg-type]
    return fold.view()


def slowdowns_of(*arguments: object, **more: object) -> tuple[Slowdown, ...]:
    return view_of(*arguments, **more).slowdowns
