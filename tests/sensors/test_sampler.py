"""The sampler: a source that hangs costs only itself."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgetop.sensors.sampler import MAX_THREADS, Sampler
from edgetop.sensors.sensor_protocol import Gap, Source, sensor
from edgetop.session.clock import SystemClock
from edgetop.session.events import Event
from edgetop.session.manifest import SensorInfo
from tests.support.waiting import wait_until


class Scripted:
    """A source that answers as its function does, and counts."""

    def __init__(self, label: str, answer: Callable[[], Sequence[float | Gap]], cadence_s: float = 0.01) -> None:
        self.name = f"temp/{label}"
        self.sensors: tuple[SensorInfo, ...] = (sensor("temp", label, "here"),)
        self.cadence_s = cadence_s
        self.reads = 0
        self._answer = answer

    def read(self) -> Sequence[float | Gap]:
        self.reads += 1
        return self._answer()


def steady(label: str = "steady") -> Scripted:
    return Scripted(label, lambda: [1.0])


def hanging(release: threading.Event, label: str = "hanging") -> Scripted:
    def answer() -> Sequence[float]:
        release.wait()
        return [2.0]

    return Scripted(label, answer)


class Run:
    """A started sampler, with everything it has given."""

    def __init__(self, *sources: Source) -> None:
        clock = SystemClock()
        self.sampler = Sampler(sources, clock, clock.monotonic_ns())
        self.values: dict[int, list[float]] = {}
        self.events: list[Event] = []
        self.sampler.start()

    def drain(self) -> None:
        readings, events = self.sampler.drain()
        for _, index, value in readings.tolist():
            self.values.setdefault(index, []).append(value)
        self.events.extend(events)

    def until(self, condition: Callable[[], object]) -> None:
        def drained() -> object:
            self.drain()
            return condition()

        wait_until(drained)

    def goes_on(self, source: Scripted) -> None:
        """Fails where the source is not read a few times more."""
        reads = source.reads
        self.until(lambda: source.reads > reads + 3)


@contextmanager
def running(*sources: Source) -> Iterator[Run]:
    run = Run(*sources)
    try:
        yield run
    finally:
        run.sampler.stop()


@pytest.fixture
def release() -> threading.Event:
    return threading.Event()


@pytest.fixture(autouse=True)
def no_thread_is_left(release: threading.Event) -> object:
    before = threading.active_count()
    yield None
    release.set()
    wait_until(lambda: threading.active_count() <= before)


def sensor_threads() -> int:
    return sum(thread.name == "sensors" for thread in threading.enumerate())


def test_every_source_is_read_at_its_pace() -> None:
    fast, slow = steady("fast"), Scripted("slow", lambda: [2.0], cadence_s=600.0)
    with running(fast, slow) as run:
        run.until(lambda: len(run.values.get(0, [])) > 5)
    assert run.values[1] == [2.0]


def test_a_sign_of_throttling_is_told_when_it_comes_and_goes() -> None:
    value, told = [0.0], threading.Event()
    flag = Scripted("flag", lambda: list(value))
    flag.sensors = (sensor("throttle", "thermal", "here"),)
    clock = SystemClock()
    sampler = Sampler([flag], clock, clock.monotonic_ns())
    sampler.start(told.set)
    try:
        wait_until(lambda: flag.reads > 2)
        assert not told.is_set()
        for value[0] in (1.0, 0.0):
            wait_until(told.is_set)
            told.clear()
    finally:
        sampler.stop()


def test_readings_carry_the_time_of_the_session() -> None:
    clock = SystemClock()
    origin = clock.monotonic_ns()
    sampler = Sampler([steady()], clock, origin)
    sampler.start()
    taken: list[tuple[int, int, float]] = []
    wait_until(lambda: taken.extend(sampler.drain()[0].tolist()) or taken)
    sampler.stop()
    assert 0 <= taken[0][0] <= clock.monotonic_ns() - origin


def test_a_source_that_hangs_costs_only_itself(release: threading.Event) -> None:
    stuck, others = hanging(release), [steady(f"steady-{i}") for i in range(3)]
    with running(others[0], stuck, *others[1:]) as run:
        run.until(lambda: stuck.reads)
        for other in others:
            run.goes_on(other)
        assert stuck.reads == 1
        assert 1 not in run.values


def test_several_that_hang_cost_only_themselves(release: threading.Event) -> None:
    stuck = [hanging(release, f"hanging-{i}") for i in range(5)]
    good = steady()
    with running(*stuck, good) as run:
        run.until(lambda: all(source.reads for source in stuck))
        run.goes_on(good)


def test_a_read_that_hangs_in_the_kernel_is_the_same(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # Two writers may meet one reader, and a reader one that has not written yet.
    stuck, good = Scripted("fifo", lambda: [float(fifo.read_text()[:4])]), steady()
    with running(stuck, good) as run:
        try:
            run.until(lambda: stuck.reads)
            run.goes_on(good)
            run.until(lambda: let_go(fifo) and stuck.reads > 1 and run.values.get(0))
        finally:
            run.sampler.stop()
            wait_until(lambda: not let_go(fifo) and sensor_threads() == 0)
    assert set(run.values[0]) == {61.4}


def let_go(fifo: Path) -> bool:
    """Write to the pipe. False: nobody waits there."""
    try:
        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with contextlib.suppress(BrokenPipeError):
        os.write(writer, b"61.4")
    os.close(writer)
    return True


def test_the_number_of_threads_is_bounded(release: threading.Event) -> None:
    stuck = [hanging(release, f"hanging-{i}") for i in range(MAX_THREADS + 4)]
    with running(*stuck) as run:
        run.until(lambda: sum(source.reads for source in stuck) == MAX_THREADS)
        give_up = time.monotonic() + 0.3
        run.until(lambda: time.monotonic() > give_up)
        assert sensor_threads() == MAX_THREADS
        assert sum(source.reads for source in stuck) == MAX_THREADS


def test_a_late_read_counts_and_its_thread_retires(release: threading.Event) -> None:
    stuck, good = hanging(release), steady()
    with running(stuck, good) as run:
        run.goes_on(good)
        run.until(lambda: sensor_threads() == 2)  # on a busy machine any read may be late for a moment
        release.set()
        run.until(lambda: run.values.get(0))
        run.goes_on(stuck)
        run.until(lambda: sensor_threads() == 1)
        run.goes_on(good)


def test_a_stop_does_not_wait_for_a_read_in_hand(release: threading.Event) -> None:
    stuck, good = hanging(release), steady()
    with running(stuck, good) as run:
        run.goes_on(good)
        run.sampler.stop()
        wait_until(lambda: sensor_threads() == 1)
        reads = good.reads
        release.set()
        wait_until(lambda: sensor_threads() == 0)
    assert good.reads == reads
    assert stuck.reads == 1


@pytest.mark.parametrize(
    "failure", [OSError(5, "Input/output error"), ValueError("not a number: ''"), ZeroDivisionError()]
)
def test_a_source_that_fails_costs_only_itself(failure: Exception) -> None:
    def answer() -> Sequence[float]:
        raise failure

    broken, good = Scripted("broken", answer), steady()
    with running(broken, good) as run:
        run.until(lambda: run.events)
        run.goes_on(good)
        run.until(lambda: sensor_threads() == 1)
    assert [event.kind for event in run.events] == ["sensor-lost"]
    assert run.events[0].source == "sensor temp/broken"
    assert (getattr(failure, "strerror", None) or str(failure) or type(failure).__name__) in run.events[0].message
    assert 0 not in run.values


def test_sources_added_later_are_read_and_their_sensors_follow() -> None:
    first, later = steady("first"), Scripted("later", lambda: [7.0])
    with running(first) as run:
        run.goes_on(first)
        run.sampler.add([later])
        run.goes_on(later)
        run.until(lambda: run.values.get(1))
        assert [info.id for info in run.sampler.sensors] == ["temp/first", "temp/later"]
    assert set(run.values[1]) == {7.0}


def test_a_sampler_without_sources_waits_for_some() -> None:
    with running() as run:
        for number in range(20):
            late = Scripted(f"late-{number}", lambda: [1.0], cadence_s=600.0)
            run.sampler.add([late])
            run.until(lambda late=late: late.reads)
