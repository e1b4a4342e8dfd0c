"""A session of a day, written straight in the format. Run as a script: python long_session.py FOLDER [HOURS] [HZ]

86.4 million inferences are too many to run for a benchmark: numpy makes them, a few seconds at a
time, with bursts, a slowdown now and then and what the sensors of a board read each second, and the
recorder's own tables keep them.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgetop.recording.recorder import Recorder
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.operators import Burst, OperatorInfo
from edgetop.session.records import MEASURE, READING, Inferences, Readings
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from tests.support.recordings import first_manifest
from tests.support.scripts import SENSORS

BLOCK_S = 10
OPERATORS = 100  # in the burst of each block
USUAL = {"temp": 60.0, "freq": 1800.0, "freqcap": 1800.0, "load": 30.0, "mem": 200.0}  # of each kind, in its unit
NOISY = {"temp": 0.02, "load": 0.1, "mem": 0.001}  # by what share of it readings vary
OPERATOR_INFOS = tuple(OperatorInfo(f"conv{i}/fused_relu", "Conv", "CPU", 10**6 * i, 10**5) for i in range(OPERATORS))


def inferences_of(second: int, count_s: int, hz: int, random: np.random.Generator) -> Inferences:
    """Paced at `hz`, about half of each period spent, slower by a tenth in every fifth hour."""
    from edgetop.session.records import INFERENCE

    count, period = count_s * hz, NS // hz
    inferences = np.zeros(count, INFERENCE)
    wait = random.gamma(2.0, period * 0.005, count).astype(np.int64)
    slow = 1.1 if second // 3600 % 5 == 4 else 1.0
    spikes = (random.random(count) < 0.001) * random.exponential(period, count)
    inferences["wait_ns"] = wait
    inferences["t_ns"] = second * NS + np.arange(count) * period + wait
    inferences["latency_ns"] = period * 0.5 * slow + random.gamma(2.0, period * 0.01, count) + spikes
    inferences["phase"], inferences["ok"] = MEASURE, True
    return inferences


def readings_of(second: int, count_s: int, random: np.random.Generator) -> Readings:
    readings = np.zeros(count_s * len(SENSORS), READING)
    readings["t_ns"] = (second + np.arange(count_s).repeat(len(SENSORS))) * NS
    readings["sensor"] = np.tile(np.arange(len(SENSORS)), count_s)
    usual = np.tile([USUAL[info.kind] for info in SENSORS], count_s)
    noise = np.tile([NOISY.get(info.kind, 0.0) for info in SENSORS], count_s)
    readings["value"] = np.round(usual * (1 + noise * random.normal(size=len(readings))), 1)
    return readings


def profiled(second: int, random: np.random.Generator) -> tuple[Event, Burst]:
    number = second // BLOCK_S
    data = {"burst": number, "duration_ns": 50_000_000, "runs": 10, "run_ns": 600_000}
    event = read_event(second * NS, "profile-burst", "info", "engine", "10 instrumented inferences in 50 ms", data)
    total_ns = (random.gamma(2.0, 1_000, OPERATORS) * 10).astype(np.int64)
    return event, Burst(second * NS, number, OPERATOR_INFOS, np.full(OPERATORS, 10, np.int64), total_ns)


def batches(hours: float, hz: int) -> Iterator[Batch]:
    random, aggregator = np.random.default_rng(0), SecondAggregator()
    seconds = int(hours * 3600)
    begun = read_event(0, "phase", "info", "engine", "measurement begins", {"phase": "measure", "runs": None})
    yield Batch(0, manifest=replace(first_manifest("long"), sensors=SENSORS), events=(begun,))
    for second in range(0, seconds, BLOCK_S):
        until = (second + BLOCK_S) * NS
        block = inferences_of(second, BLOCK_S, hz, random)
        event, burst = profiled(second, random)
        readings = readings_of(second, BLOCK_S, random)
        yield Batch(until, block, aggregator.add(block), readings, (event,), bursts=(burst,))
    ended = read_event(seconds * NS, "ended", "info", "edgetop", "session over", {"reason": "duration"})
    yield Batch(seconds * NS, seconds=aggregator.close(), events=(ended,))


def write(folder: Path, hours: float = 24.0, hz: int = 1_000) -> Path:
    manifest = replace(first_manifest("long"), sensors=SENSORS)
    recorder = Recorder(folder, manifest)
    for batch in batches(hours, hz):
        for event in recorder.write(batch):
            raise RuntimeError(event.message)
    recorder.finish(replace(manifest, state="finished", end_reason="duration", duration_ns=int(hours * 3600) * NS))
    return folder


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(float, sys.argv[2:3]), *map(int, sys.argv[3:4]))
