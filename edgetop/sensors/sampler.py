"""Read every source of sensors on its own schedule, so that a source that hangs does not affect the others.

One thread reads all sources in turn. If a read does not return soon (a driver in D state cannot be cancelled), another
thread takes over the schedule. The late thread is never joined, and ends when its read returns.
"""

import heapq
import itertools
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from edgetop.sensors.sensor_protocol import Backlog, Closable, Gap, Notifying, Source, gap_of
from edgetop.session.clock import Clock
from edgetop.session.event_kinds import Remark, SensorSlow
from edgetop.session.events import Body, Event, Severity
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import NO_READINGS, READING, Readings

TAKE_OVER_AFTER_NS = 50_000_000
MAX_THREADS = 16  # if this many threads hang, no more are started
NS = 1_000_000_000
MAX_BACKOFF_NS = 60 * NS
# A read that takes longer than both of these is reported as stuck.
STUCK_AFTER_CADENCES = 2
STUCK_AFTER_NS = 2 * NS
# A read that takes this long can delay an inference. It is reported if it also takes this many times as long as the
# source's reads usually do: a read that is always slow does not explain a single slow inference.
SLOW_READ_NS = 20_000_000
SLOW_FACTOR = 3
SLOW_READS = 3  # reads needed to know what is usual
SEED = 4  # of the jitter, so that the same run is sampled in the same way


@dataclass(slots=True)
class Entry:
    """One source of sensors, and the state of its reads."""

    source: Source
    due_ns: int
    first_sensor: int | None = None  # index of its first sensor in the manifest; None if its sensors are not in it
    # Properties of the source, read once, since isinstance with a protocol takes microseconds.
    cadence_ns: int = field(init=False)
    interval_s: tuple[float, float] | None = field(init=False)  # range of the intervals between jittered reads
    notifying: Notifying | None = field(init=False)
    signs: tuple[int, ...] = field(init=False)  # positions of the sensors that show throttling
    is_gone: list[bool] = field(init=False)  # for each sensor, whether its loss has been reported
    is_latent: bool = field(init=False)  # whether its sensors get into the manifest with the first value above 0
    latest: tuple[int, Sequence[float | Gap]] = (0, ())  # time in ns and values of the last read before that
    reading_since_ns: int | None = None
    failures: int = 0  # reads in a row in which the whole source failed
    is_stuck: bool = False  # whether it has been reported as stuck
    reads: int = 0
    read_ns: int = 0  # time spent in all reads
    worst_late_ns: int = 0
    in_force: list[bool] = field(init=False)  # whether each of `signs` was above 0 at the last read

    def __post_init__(self) -> None:
        self.cadence_ns = int(self.source.cadence_s * NS)
        self.interval_s = getattr(self.source, "interval_s", None)
        self.notifying = self.source if isinstance(self.source, Notifying) else None
        self.is_gone = [False] * len(self.source.sensors)
        infos = enumerate(self.source.sensors)
        self.signs = tuple(place for place, info in infos if info.kind == "throttle" or info.throttles)
        self.in_force = [False] * len(self.signs)
        self.is_latent = getattr(self.source, "is_latent", False)

    def note_signs(self, values: Sequence[float | Gap]) -> bool:
        """Note which signs of throttling are in force. Return whether that has changed since the last read.

        `values` are those of the present read.
        """
        if not self.signs:
            return False
        found, before = (values[place] for place in self.signs), self.in_force
        self.in_force = [not isinstance(value, Gap) and value > 0 for value in found]
        return self.in_force != before

    def replace_source(self, source: Source, due_ns: int) -> None:
        """From now on, read `source` instead of the present source. Both have the same sensors.

        The first read is due at `due_ns`. A sensor that was reported as lost is reported as back at its first reading.
        """
        was_gone = self.is_gone
        if isinstance(self.source, Closable):
            self.source.close()
        self.source, self.due_ns, self.failures, self.reads = source, due_ns, 0, 0
        self.__post_init__()
        self.is_gone = was_gone


class Schedule:
    """Decides which source is read next, and turns the results of reads into readings and events.

    It never reads a source or a clock itself, so that it can be tested without waiting.
    """

    def __init__(self, sources: Sequence[Source], start_ns: int) -> None:
        self.entries: list[Entry] = []
        self._heap: list[tuple[int, int, Entry]] = []
        self._ticket = itertools.count()
        self._readings: list[tuple[int, int, float]] = []
        self._events: list[Event] = []
        self._random = random.Random(SEED)  # noqa: S311  jitter, not a secret
        self.add(sources, start_ns)

    @property
    def sensors(self) -> tuple[SensorInfo, ...]:
        """Return the sensors in the order of their numbers in the readings.

        The sensors of a latent source are left out until one of them has had a value above 0.
        """
        numbered = {
            entry.first_sensor: entry.source.sensors for entry in self.entries if entry.first_sensor is not None
        }
        return tuple(info for _, sensors in sorted(numbered.items()) for info in sensors)

    def add(self, sources: Sequence[Source], start_ns: int) -> None:
        """Add sources whose first read is due at `start_ns`. Their sensors are numbered after the present ones.

        The sensors of a latent source, such as a quota that may be set later, are numbered when one of them has a value
        above 0. A source with the same sensors as a present source replaces it. That happens when the process that it
        reads was started again.
        """
        by_ids = {tuple(info.id for info in entry.source.sensors): entry for entry in self.entries}
        for source in sources:
            if entry := by_ids.get(tuple(info.id for info in source.sensors)):
                entry.replace_source(source, start_ns)
                self._heap = [(each.due_ns, number, each) for _, number, each in self._heap]
                heapq.heapify(self._heap)
            else:
                entry = Entry(source, start_ns)
                self.entries.append(entry)
                self._push(entry)
            if entry.first_sensor is None and not entry.is_latent:
                entry.first_sensor = len(self.sensors)

    def _push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, (entry.due_ns, next(self._ticket), entry))

    def next_due_ns(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def take(self, now_ns: int) -> Entry | None:
        """Return the entry of a source that is due at `now_ns`, and mark it as being read. None if no source is due."""
        if not self._heap or self._heap[0][0] > now_ns:
            return None
        entry = heapq.heappop(self._heap)[2]
        entry.reading_since_ns = now_ns
        entry.worst_late_ns = max(entry.worst_late_ns, now_ns - entry.due_ns)
        return entry

    def put(self, entry: Entry, begin_ns: int, end_ns: int, values: Sequence[float | Gap] | Gap) -> bool:
        """Store the result of a read, and schedule the source again. Return whether a sign of throttling has changed.

        `entry` has the source. The read lasted from `begin_ns` to `end_ns`. `values` has one value for each sensor of
        the source, or one gap for all.
        """
        entry.reading_since_ns = None
        entry.reads += 1
        entry.read_ns += end_ns - begin_ns
        sensors = entry.source.sensors
        if isinstance(values, Gap):
            values = [values] * len(sensors)
        has_gaps = any(isinstance(value, Gap) for value in values)
        t_ns = (begin_ns + end_ns) // 2
        if entry.is_stuck:  # reported before its values, so that a sensor lost by this read stays lost
            entry.is_stuck = False
            self._emit(Remark("sensor-back"), "info", entry.source.name, end_ns, "answers again")
        if entry.first_sensor is None and any(not isinstance(value, Gap) and value > 0 for value in values):
            entry.first_sensor = len(self.sensors)
            before_ns, before = entry.latest  # analysis must see that it begins only now
            self._readings += [
                (before_ns, entry.first_sensor + i, value)
                for i, value in enumerate(before)
                if not isinstance(value, Gap)
            ]
        if entry.first_sensor is None:
            entry.latest = t_ns, values
        elif not has_gaps and not any(entry.is_gone):  # as nearly all reads
            first = entry.first_sensor
            self._readings += [(t_ns, first + i, value) for i, value in enumerate(values)]  # type: ignore[misc]
        else:
            for i, value in enumerate(values):
                self._put_one(entry, i, entry.first_sensor + i, t_ns, value)
        has_failed = has_gaps and all(isinstance(value, Gap) and not isinstance(value, Backlog) for value in values)
        entry.failures = entry.failures + 1 if has_failed else 0
        took_ns, reads = end_ns - begin_ns, entry.reads - 1
        usual_ns = (entry.read_ns - took_ns) / max(reads, 1)
        if took_ns >= SLOW_READ_NS and reads >= SLOW_READS and took_ns >= SLOW_FACTOR * usual_ns:
            # Only information: it may explain what happened to inferences meanwhile.
            text = f"a read took {took_ns / 1e6:.0f} ms, {usual_ns / 1e6:.1f} ms as a rule"
            self._emit(SensorSlow(begin_ns, took_ns), "info", entry.source.name, end_ns, text)
        if entry.notifying is not None:
            for told in entry.notifying.take_events():
                self._emit(told.body, told.severity, entry.source.name, t_ns, told.message)
        entry.due_ns = self._next_due(entry, end_ns)
        self._push(entry)
        return entry.note_signs(values)

    def _next_due(self, entry: Entry, now_ns: int) -> int:
        cadence_ns = entry.cadence_ns
        if entry.failures > 1:
            return now_ns + max(cadence_ns, min(cadence_ns << min(entry.failures - 1, 16), MAX_BACKOFF_NS))
        if entry.interval_s is not None:  # regular intervals would see a periodic load always in the same phase
            return now_ns + int(self._random.uniform(*entry.interval_s) * NS)
        # At multiples of the cadence, so that sources share wake-ups. Missed reads are not made up for.
        after_ns = max(entry.due_ns, now_ns) + cadence_ns // 2
        return (after_ns // cadence_ns + 1) * cadence_ns if cadence_ns else now_ns

    def _put_one(self, entry: Entry, position: int, place: int, t_ns: int, value: float | Gap) -> None:
        name = entry.source.sensors[position].id
        is_gone = entry.is_gone[position]
        if isinstance(value, Backlog):
            self._readings += [(then_ns, place, sample) for then_ns, sample in value.samples]
        elif isinstance(value, Gap):
            if not is_gone and entry.reads > 1:  # the first read of a rate is always a gap
                entry.is_gone[position] = True
                self._emit(Remark("sensor-lost"), "warning", name, t_ns, value.reason)
            return
        else:
            self._readings.append((t_ns, place, value))
        if is_gone:
            entry.is_gone[position] = False
            self._emit(Remark("sensor-back"), "info", name, t_ns, "reads again")

    def _emit(self, body: Body, severity: Severity, source: str, t_ns: int, message: str) -> None:
        self._events.append(Event(t_ns, body, severity, f"sensor {source}", message))

    def drain(self, now_ns: int) -> tuple[Readings, tuple[Event, ...]]:
        """Return the readings and events since the last call, in the order in which they were made.

        If a source's present read has lasted for too long at `now_ns`, an event reports this once.
        """
        for entry in self.entries:
            if (since := entry.reading_since_ns) is None or entry.is_stuck:
                continue
            if now_ns - since > max(STUCK_AFTER_NS, STUCK_AFTER_CADENCES * entry.cadence_ns):
                entry.is_stuck = True
                message = f"a read has not come back for {(now_ns - since) / NS:.0f} s; the others go on"
                self._emit(Remark("sensor-stuck"), "warning", entry.source.name, now_ns, message)
        readings, self._readings = self._readings, []
        events, self._events = self._events, []
        return np.array(readings, READING) if readings else NO_READINGS, tuple(events)


class Sampler:
    """Reads all sources on threads, each source at its own interval."""

    def __init__(self, sources: Sequence[Source], clock: Clock, origin_ns: int) -> None:
        self._clock = clock
        self._origin_ns = origin_ns
        self._schedule = Schedule(sources, self._now())
        self._changed = threading.Condition()
        self._stopping = False
        self._on_throttling: Callable[[], object] = lambda: None
        self._idle = 0
        self._threads = 0

    @property
    def sensors(self) -> tuple[SensorInfo, ...]:
        """Return the sensors in the order of their numbers in the readings."""
        return self._schedule.sensors

    def start(self, on_throttling: Callable[[], object] = lambda: None) -> None:
        """Begin to read the sources. A thread calls `on_throttling` when a sign of throttling changes."""
        self._on_throttling = on_throttling
        with self._changed:
            self._add_thread()

    def add(self, sources: Sequence[Source]) -> None:
        """Add sources. Their sensors are numbered after the present ones."""
        with self._changed:
            self._schedule.add(sources, self._now())
            self._changed.notify_all()

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        """Return the readings and events since the last call.

        If all threads hang in a read, another thread is started.
        """
        with self._changed:
            now = self._now()
            began = [entry.reading_since_ns for entry in self._schedule.entries]
            is_held_up = all(since is None or now - since > TAKE_OVER_AFTER_NS for since in began)
            if self._idle == 0 and 0 < self._threads < MAX_THREADS and is_held_up:
                self._add_thread()
            return self._schedule.drain(now)

    def stop(self) -> None:
        """Begin no more reads, and close the sources. Running reads are not waited for."""
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
                if self._schedule.put(entry, begin, end, values):
                    self._on_throttling()
                if self._idle:  # another thread has taken over the schedule
                    self._threads -= 1
                    self._changed.notify()
                    return
                self._idle += 1

    def _wait_for_one(self) -> Entry | None:
        """Wait until a source is due, and return its entry. None if the sampler is stopped.

        The lock is released while waiting.
        """
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
    except Exception as error:  # noqa: BLE001  a defect of one source must not affect the others
        return Gap(f"internal error: {type(error).__name__}: {error}")
