"""Sources that hang as drivers do, and whole runs of a real model beside them."""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgetop.engines.process_engine import ProcessEngine
from edgetop.runner.conductor import Conductor
from edgetop.runner.outcome import Outcome
from edgetop.runner.session_sensors import SessionSensors
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Found, Gap, Source, sensor
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import SystemClock
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import measured
from edgetop.session.seconds import NS
from tests.support.engine_runs import spec_for
from tests.support.sessions import begun
from tests.support.waiting import wait_until

CADENCE_S = 0.1


class FileSource:
    """Reads a file as Python does, which waits where the kernel makes it wait."""

    cadence_s = CADENCE_S

    def __init__(self, label: str, path: Path, hangs_from_read: int = 0) -> None:
        """Before that read it gives a value without looking at the file."""
        self.name = f"temp/{label}"
        self.sensors: tuple[SensorInfo, ...] = (sensor("temp", label, str(path)),)
        self.path = path
        self.reads = 0
        self._hangs_from_read = hangs_from_read

    def read(self) -> Sequence[float | Gap]:
        self.reads += 1
        if self.reads <= self._hangs_from_read:
            return [1.0]
        return [float(self.path.read_text().split()[0])]


@contextmanager
def hanging(folder: Path) -> Iterator[list[FileSource]]:
    """A pipe that nobody opens for writing, one that somebody opened and never fills, and one that hangs in mid-run."""
    unopened, unfilled, late = (folder / name for name in ("unopened", "unfilled", "late"))
    for path in (unopened, unfilled, late):
        os.mkfifo(path)
    holder = os.open(unfilled, os.O_RDWR)
    before = threading.active_count()
    try:
        yield [FileSource("unopened", unopened), FileSource("unfilled", unfilled), FileSource("late", late, 5)]
    finally:
        os.close(holder)  # the end of the file, for who waits in a read
        wait_until(lambda: _let_go(unopened, late) or threading.active_count() <= before)


def _let_go(*pipes: Path) -> None:
    """Whoever waits for a writer gets one, which goes at once."""
    for path in pipes:
        with contextlib.suppress(OSError):  # nobody waits there
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))


def steady(count: int) -> list[FileSource]:
    return [FileSource(f"steady-{number}", Path("/proc/uptime")) for number in range(count)]


@dataclass(frozen=True, slots=True)
class RunFigures:
    outcome: Outcome
    late_ms: npt.NDArray[np.float64]  # of every reading of the steady sources: how much later than its cadence
    reads: list[int]  # of each steady source
    latency_ms: npt.NDArray[np.float64]  # of measured inferences
    events: list[str]


class _Sink:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def put(self, batch: Batch) -> None:
        self.batches.append(batch)

    def close(self) -> None:
        pass


def run_beside(model: Path, seconds: float, sources: Sequence[Source]) -> RunFigures:
    """A real engine measures for so long, while these are sampled."""
    clock, sink = SystemClock(), _Sink()
    spec = spec_for(model, runs=None, duration_ns=int(seconds * NS))
    manifest = begun(clock)
    session_state = SessionState(manifest, spec, clock)
    sampler = Sampler((), clock, manifest.clock.origin_monotonic_ns)
    sensors = SessionSensors(sampler, Found(tuple(sources)), lambda _: Found(), session_state)
    conductor = Conductor(ProcessEngine(spec), sensors, None, sink, session_state, clock)
    conductor.start()
    outcome = conductor.join()
    assert outcome is not None
    whole = merge(sink.batches)
    places = [i for i, info in enumerate(sampler.sensors) if info.label.startswith("steady")]
    times = [whole.readings["t_ns"][whole.readings["sensor"] == place] for place in places]
    return RunFigures(
        outcome=outcome,
        late_ms=np.concatenate([np.diff(of_one) / 1e6 - CADENCE_S * 1e3 for of_one in times]),
        reads=[len(of_one) for of_one in times],
        latency_ms=measured(whole.inferences)["latency_ns"] / 1e6,
        events=[f"{event.kind} {event.source}" for event in whole.events if event.source.startswith("sensor ")],
    )
