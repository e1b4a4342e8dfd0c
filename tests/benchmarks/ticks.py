"""A session at 1 Hz as a screen gets it, of any length and cheap to make: for what is measured, not judged."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from edgetop.session.batch import Batch
from edgetop.session.manifest import Watched, WatchedStream
from edgetop.session.records import READING, Inferences, Readings
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate
from tests.support.sessions import MS, back_to_back, make_inferences, make_manifest, make_sensor, phase_event

CPUS, ZONES, RATE_HZ = 8, 5, 400
RAILS = {"vdd-in": "total", "vdd-cpu": "part", "vdd-gpu": "part", "vdd-soc": "part"}
SENSORS = (
    *(make_sensor(f"{kind}/cpu{cpu}", max=1800.0) for kind in ("freq", "freqcap") for cpu in range(CPUS)),
    *(make_sensor(f"temp/zone{zone}", trips={"passive": 85.0}) for zone in range(ZONES)),
    *(make_sensor(f"power/{rail}", role=role, accuracy="on-board-monitor") for rail, role in RAILS.items()),
    *map(make_sensor, (
        "throttle/thermal", "throttle/under-voltage", "load/cpu", "load/steal", "load/others", "load/edgetop",
        "pressure/cpu-some", "pressure/memory-some", "mem/rss", "mem/system-available",
    )),
)  # fmt: skip
USUAL = {"freq": 1800.0, "freqcap": 1800.0, "temp": 60.0, "power": 5.0, "throttle": 0.0, "mem": 200.0}
SPREAD = {"freq": 0.0, "freqcap": 0.0, "temp": 0.2, "power": 0.5, "throttle": 0.0, "mem": 0.1}
CYCLE_S = 60  # after which inferences come again: making each anew would take longer than what is measured


class Ticks:
    """Batches in their order."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(5)
        latency = NS // RATE_HZ * np.exp(self._random.normal(0, 0.02, (CYCLE_S, RATE_HZ - 16)))
        self._cycle = [back_to_back(MS, row.astype(np.int64)) for row in latency]
        self._seconds = [_summarised(inferences) for inferences in self._cycle]
        self._now_s = 0

    def batches(self, length_s: int, step_s: int = 1) -> Iterator[Batch]:
        """So many seconds from where the last ones ended; with each inference where a step is a second."""
        end_s = self._now_s + length_s
        while self._now_s < end_s:
            begin_s, self._now_s = self._now_s, min(self._now_s + step_s, end_s)
            yield self._batch(begin_s, self._now_s)

    def _batch(self, begin_s: int, end_s: int) -> Batch:
        first = begin_s == 0
        inferences = self._inferences(begin_s) if end_s == begin_s + 1 else self._inferences(begin_s)[:0]
        return Batch(
            until_ns=end_s * NS,
            inferences=inferences,
            # A second is complete when an inference of the next has come.
            seconds=concatenate([self._second(second) for second in range(max(0, begin_s - 1), end_s - 1)]),
            readings=self._readings(begin_s, end_s),
            events=(phase_event(0, "measure"),) if first else (),
            manifest=make_manifest(*SENSORS) if first else None,
            restart=first,
        )

    def _inferences(self, second: int) -> Inferences:
        moved: Inferences = self._cycle[second % CYCLE_S].copy()
        moved["t_ns"] += second * NS
        return moved

    def _second(self, second: int) -> Seconds:
        known = self._seconds[second % CYCLE_S]
        rows = known.rows.copy()
        rows["t_ns"] = second * NS
        return Seconds(rows, known.offsets, known.bucket, known.bucket_count)

    def _readings(self, begin_s: int, end_s: int) -> Readings:
        second = np.arange(begin_s, end_s)
        usual, spread = (np.array([of_kind.get(sensor.kind, 1.0) for sensor in SENSORS]) for of_kind in (USUAL, SPREAD))
        readings = np.zeros(len(second) * len(SENSORS), READING)
        readings["t_ns"] = np.repeat(second * NS + NS // 2, len(SENSORS))
        readings["sensor"] = np.tile(np.arange(len(SENSORS)), len(second))
        readings["value"] = self._random.normal(usual, spread, (len(second), len(SENSORS))).ravel()
        return readings


def program_batches(streams: int, length_s: int) -> Iterator[Batch]:
    """The same board under a program with so many models, each of which runs in every second."""
    random, aggregator = np.random.default_rng(3), SecondAggregator(split_by="stream")
    watched = Watched(("./program",), streams=tuple(WatchedStream(f"/m/{number}.onnx") for number in range(streams)))
    for second, tick in enumerate(Ticks().batches(length_s)):
        count = max(4, RATE_HZ // streams) * streams
        number = random.integers(0, streams, count)
        latency_ns = MS * (1 + number % 7) * np.exp(random.normal(0, 0.02, count))
        start_ns = np.sort(random.integers(0, NS, count)) + second * NS
        runs = make_inferences(start_ns, latency_ns.astype(np.int64), stream=number)
        manifest = replace(tick.manifest, watched=watched) if tick.manifest else None
        yield replace(tick, inferences=runs, seconds=aggregator.add(runs), manifest=manifest)


def _summarised(inferences: Inferences) -> Seconds:
    aggregator = SecondAggregator()
    return concatenate([aggregator.add(inferences), aggregator.close()]) if len(inferences) else NO_SECONDS
