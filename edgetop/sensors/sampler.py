"""Reads every source on its own schedule, so that one that hangs costs only itself.

One thread reads them all in turn. When a read has not come back soon (a driver in D state
cannot be cancelled), another thread takes over the schedule; the late one keeps its own
source, is never joined, and retires when its read returns.
"""

import threading
from collections.abc import Sequence

from edgetop.sensors.protocol import Closable, Gap, Source, gap_of
from edgetop.sensors.schedule import Entry, Schedule
from edgetop.session.clock import Clock
from edgetop.session.events import Event
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import Readings

TAKE_OVER_AFTER_NS = 50_000_000
MAX_THREADS = 16  # so many sources that hang are one too many; their events are reported by then


class Sampler:
    """Readings of all sources; `drain` takes what has come since."""

    def __init__(self, sources: Sequence[Source], clock: Clock, origin_ns: int) -> None:
        self._clock = clock
        self._origin_ns = origin_ns
        self._schedule = Schedule(sources, self._now())
        self._changed = threading.Condition()
        self._stopping = False
        self._idle = 0
        self._threads = 0

    @property
    def sensors(self) -> tuple[SensorInfo, ...]:
        """Return the sensors in the order of their indices in the readings."""
        return tuple(info for entry in self._schedule.entries for info in entry.source.sensors)

    def start(self) -> None:
        with self._changed:
            self._add_thread()

    def add(self, sources: Sequence[Source]) -> None:
        """More sources; their sensors follow those there are."""
        with self._changed:
            self._schedule.add(sources, self._now())
            self._changed.notify_all()

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        """Return what was read since the last call; it also starts another thread where all others are held up."""
        with self._changed:
            now = self._now()
            began = [entry.reading_since_ns for entry in self._schedule.entries]
            is_held_up = all(since is None or now - since > TAKE_OVER_AFTER_NS for since in began)
            if self._idle == 0 and 0 < self._threads < MAX_THREADS and is_held_up:
                self._add_thread()
            return self._schedule.drain(now)

    def stop(self) -> None:
        """No further read is begun. Reads in hand are left to end by themselves."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for entry in self._schedule.entries:
            if isinstance(entry.source, Closable):
                entry.source.close()

    def _now(self) -> int:
        return self._clock.monotonic_ns() - self._origin_ns

    def _add_thread(self) -> None:
        self._threads += 1
        self._idle += 1
        threading.Thread(target=self._work, name="sensors", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                entry = self._wait_for_one()
                if entry is None:
                    self._threads -= 1
                    return
            begin = self._now()
            values = read_source(entry.source)
            end = self._now()
            with self._changed:
                self._schedule.put(entry, begin, end, values)
                if self._idle:  # somebody took over meanwhile, and sees to what is due next
                    self._threads -= 1
                    self._changed.notify()
                    return
                self._idle += 1

    def _wait_for_one(self) -> Entry | None:
        """The next source that is due, or None at the end. The lock is held, but for the waiting."""
        while not self._stopping:
            now = self._now()
            if (entry := self._schedule.take(now)) is not None:
                self._idle -= 1
                return entry
            due = self._schedule.next_due_ns()
            self._changed.wait(None if due is None else max(0.0, (due - now) / 1e9))
        self._idle -= 1
        return None


def read_source(source: Source) -> Sequence[float | Gap] | Gap:
    try:
        return source.read()
    except (OSError, ValueError) as error:
        return gap_of(error)
    except Exception as error:  # noqa: BLE001  a defect of one source costs only that source
        return Gap(f"internal error: {type(error).__name__}: {error}")
