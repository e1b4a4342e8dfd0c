"""The schedule: when each source is due, and what its reads become."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from edgetop.sensors.sampler import MAX_BACKOFF_NS, NS, Entry, Schedule
from edgetop.sensors.sensor_protocol import Backlog, Gap, SensorEvent, sensor
from edgetop.session.event_codec import data_of
from edgetop.session.event_kinds import ClockSource
from edgetop.session.manifest import SensorInfo

GONE = Gap("no such device")
MS = NS // 1000


@dataclass(frozen=True)
class Named:
    """A source that is only scheduled: what its reads give is told to the schedule by the test."""

    name: str
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = 1.0
    is_latent: bool = False

    def read(self) -> Sequence[float | Gap]:
        raise NotImplementedError


def source(label: str, sensors: int = 1, cadence_s: float = 1.0) -> Named:
    infos = tuple(sensor("temp", label if sensors == 1 else f"{label}-{i}", "here") for i in range(sensors))
    return Named(f"temp/{label}", infos, cadence_s)


class Told:
    """A schedule with one source, and the reads it is told of."""

    def __init__(self, given: Named) -> None:
        self.schedule = Schedule([given], 0)
        self.now_ns = 0

    def read(self, values: Sequence[float | Gap] | Gap, took_ns: int = 0) -> None:
        """The source's next read, when it is due."""
        due = self.schedule.next_due_ns()
        assert due is not None
        self.now_ns = max(self.now_ns, due)
        entry = self.schedule.take(self.now_ns)
        assert entry is not None
        self.now_ns += took_ns
        self.schedule.put(entry, self.now_ns - took_ns, self.now_ns, values)

    def events(self) -> list[tuple[str, str, str]]:
        """Kind, source and message of what was told since the last call."""
        return [(event.kind, event.source, event.message) for event in self.schedule.drain(self.now_ns)[1]]

    def wait_ns(self) -> int:
        due = self.schedule.next_due_ns()
        assert due is not None
        return due - self.now_ns


def test_sources_are_due_in_the_order_of_their_time() -> None:
    schedule = Schedule([source("slow", cadence_s=3.0), source("fast", cadence_s=1.0)], 0)
    read: list[tuple[int, str]] = []
    for now in range(0, 7 * NS, NS // 2):
        while (entry := schedule.take(now)) is not None:
            read.append((now // NS, entry.source.name.removeprefix("temp/")))
            schedule.put(entry, now, now, [1.0])
    fast, slow = ([t for t, name in read if name == wanted] for wanted in ("fast", "slow"))
    assert fast == [0, 1, 2, 3, 4, 5, 6]
    assert slow == [0, 3, 6]


def test_none_is_due_before_its_time_and_none_twice_at_once() -> None:
    schedule = Schedule([source("a")], 5 * NS)
    assert schedule.take(5 * NS - 1) is None
    assert schedule.next_due_ns() == 5 * NS
    assert schedule.take(5 * NS) is not None
    assert schedule.take(99 * NS) is None
    assert schedule.next_due_ns() is None


def test_values_become_readings_at_the_middle_of_the_read() -> None:
    schedule = Schedule([source("one"), source("two", sensors=2)], 0)
    for values in ([1.0], [2.0, 3.0]):
        entry = schedule.take(0)
        assert entry is not None
        schedule.put(entry, 10 * MS, 30 * MS, values)
    readings, events = schedule.drain(30 * MS)
    assert readings.tolist() == [(20 * MS, 0, 1.0), (20 * MS, 1, 2.0), (20 * MS, 2, 3.0)]
    assert events == ()


def test_a_drain_takes_what_there_is() -> None:
    told = Told(source("a"))
    told.read([1.0])
    assert len(told.schedule.drain(0)[0]) == 1
    assert len(told.schedule.drain(0)[0]) == 0


def test_sources_added_later_follow_those_there_are() -> None:
    schedule = Schedule([source("a", sensors=2)], 0)
    entry = schedule.take(0)
    assert entry is not None
    schedule.put(entry, 0, 0, [1.0, 2.0])
    schedule.add([source("b"), source("c")], NS // 2)
    while (later := schedule.take(NS // 2)) is not None:
        schedule.put(later, NS // 2, NS // 2, [3.0])
    assert [row[1] for row in schedule.drain(NS)[0].tolist()] == [0, 1, 2, 3]


def test_a_latent_source_has_sensors_from_its_first_value_on() -> None:
    """With the values before it, which were not above 0; sources that came meanwhile are numbered before."""
    latent = replace(source("late", sensors=2), is_latent=True)
    told = Told(latent)
    for values in ([GONE, GONE], [0.0, 0.0], [0.0, GONE]):
        told.read(values)
    assert (told.schedule.sensors, told.events()) == ((), [])
    told.schedule.add([source("a", cadence_s=99.0)], 99 * NS)
    told.read([0.0, 5.0])
    told.read([0.0, 0.0])
    assert [info.id for info in told.schedule.sensors] == ["temp/a", "temp/late-0", "temp/late-1"]
    readings = [(sensor, value) for _, sensor, value in told.schedule.drain(told.now_ns)[0].tolist()]
    assert readings == [(1, 0.0), (1, 0.0), (2, 5.0), (1, 0.0), (2, 0.0)]


def test_a_latent_source_is_replaced_by_one_that_is_not() -> None:
    """The engine was started again, with a quota."""
    told = Told(replace(source("late"), is_latent=True))
    told.read([0.0])
    told.schedule.add([source("late")], told.now_ns)
    told.read([0.0])
    assert [info.id for info in told.schedule.sensors] == ["temp/late"]
    assert told.schedule.drain(told.now_ns)[0]["value"].tolist() == [0.0]


def test_a_cadence_does_not_drift_with_what_reads_take() -> None:
    told = Told(source("a"))
    for _ in range(50):
        told.read([1.0], took_ns=100 * MS)
    assert told.schedule.next_due_ns() == 50 * NS


def test_sources_added_at_different_times_share_their_wake_ups() -> None:
    schedule = Schedule([source("a")], 0)
    schedule.add([source("b"), source("c", cadence_s=0.5), source("d", cadence_s=5.0)], 300 * MS)
    woken = set()
    while (due := schedule.next_due_ns()) is not None and due <= 20 * NS:
        entry = schedule.take(due)
        assert entry is not None
        schedule.put(entry, due, due + MS, [40.0])
        woken.add(due)
    assert {due % (NS // 2) for due in woken if due > NS} == {0}


def test_a_late_source_is_not_read_in_a_burst() -> None:
    told = Told(source("a"))
    told.read([1.0], took_ns=10 * NS)
    assert told.wait_ns() == NS


def test_a_failing_source_is_read_ever_more_rarely() -> None:
    told = Told(source("a"))
    waits = []
    for _ in range(40):
        told.read(GONE)
        waits.append(told.wait_ns())
    assert waits[:6] == [NS, 2 * NS, 4 * NS, 8 * NS, 16 * NS, 32 * NS]
    assert set(waits[6:]) == {MAX_BACKOFF_NS}


def test_a_source_slower_than_the_limit_keeps_its_pace() -> None:
    told = Told(source("a", cadence_s=300.0))
    for _ in range(5):
        told.read(GONE)
    assert told.wait_ns() == 300 * NS


def test_one_success_ends_the_waiting() -> None:
    told = Told(source("a"))
    for _ in range(5):
        told.read(GONE)
    told.read([1.0])
    assert told.wait_ns() == NS
    told.read(GONE)
    assert told.wait_ns() == NS


def test_a_source_of_which_one_value_is_there_is_not_failing() -> None:
    told = Told(source("a", sensors=2))
    for _ in range(5):
        told.read([1.0, GONE])
    assert told.wait_ns() == NS


def test_a_loss_and_a_return_are_each_reported_once() -> None:
    told = Told(source("a"))
    told.read([1.0])
    for _ in range(3):
        told.read(GONE)
    assert told.events() == [("sensor-lost", "sensor temp/a", "no such device")]
    for _ in range(3):
        told.read([2.0])
    assert told.events() == [("sensor-back", "sensor temp/a", "reads again")]
    told.read(GONE)
    assert told.events() == [("sensor-lost", "sensor temp/a", "no such device")]


def test_a_gap_is_no_reading() -> None:
    told = Told(source("a"))
    told.read([1.0])
    told.read(GONE)
    assert told.schedule.drain(0)[0]["value"].tolist() == [1.0]


def test_the_first_read_of_a_rate_is_no_loss() -> None:
    told = Told(source("a"))
    told.read([GONE])
    told.read([1.0])
    assert told.events() == []


def test_a_sensor_that_never_reads_is_told_as_lost() -> None:
    told = Told(source("a"))
    told.read(GONE)
    told.read(GONE)
    assert told.events() == [("sensor-lost", "sensor temp/a", "no such device")]


def test_of_several_sensors_only_the_lost_one_is_told() -> None:
    told = Told(source("a", sensors=3))
    told.read([1.0, 2.0, 3.0])
    told.read([1.0, GONE, 3.0])
    assert told.events() == [("sensor-lost", "sensor temp/a-1", "no such device")]
    told.read([GONE, GONE, 3.0])
    assert told.events() == [("sensor-lost", "sensor temp/a-0", "no such device")]
    told.read([1.0, GONE, 3.0])
    assert told.events() == [("sensor-back", "sensor temp/a-0", "reads again")]


def begin_read(told: Told) -> Entry:
    entry = told.schedule.take(told.now_ns)
    assert entry is not None
    return entry


@pytest.mark.parametrize(("cadence_s", "patience_s"), [(0.1, 2), (1.0, 2), (10.0, 20)])
def test_a_read_that_does_not_come_back_is_told_once(cadence_s: float, patience_s: int) -> None:
    told = Told(source("a", cadence_s=cadence_s))
    begin_read(told)
    told.now_ns = patience_s * NS
    assert told.events() == []
    told.now_ns += 1
    assert [kind for kind, *_ in told.events()] == ["sensor-stuck"]
    told.now_ns += 1000 * NS
    assert told.events() == []


def test_a_stuck_read_that_comes_back_is_told_each_time() -> None:
    told = Told(source("a"))
    for _ in range(2):
        entry = begin_read(told)
        told.now_ns += 5 * NS
        assert [kind for kind, *_ in told.events()] == ["sensor-stuck"]
        told.schedule.put(entry, 0, told.now_ns, [1.0])
        assert told.events() == [("sensor-back", "sensor temp/a", "answers again")]
        assert told.wait_ns() == NS
        told.now_ns += NS


def test_a_stuck_read_without_values_leaves_the_sensor_lost() -> None:
    told = Told(source("a"))
    told.read([1.0])
    told.now_ns = NS
    entry = begin_read(told)
    told.now_ns = 9 * NS
    told.events()
    told.schedule.put(entry, NS, told.now_ns, GONE)
    assert [kind for kind, *_ in told.events()] == ["sensor-back", "sensor-lost"]


def test_what_a_log_tells_is_dated_as_it_says_and_no_loss() -> None:
    told = Told(source("log"))
    told.read([Backlog("past", ((10, 1.0), (20, 2.0)))])
    told.read([Backlog("past")])
    told.read([Backlog("past")])
    readings, events = told.schedule.drain(told.now_ns)
    assert readings.tolist() == [(10, 0, 1.0), (20, 0, 2.0)]
    assert events == ()
    assert told.wait_ns() == NS


def test_a_log_that_is_gone_is_lost_and_comes_back() -> None:
    told = Told(source("log"))
    told.read([Backlog("past", ((10, 1.0),))])
    told.read(GONE)
    told.read([Backlog("past")])
    assert [kind for kind, *_ in told.events()] == ["sensor-lost", "sensor-back"]


@dataclass(frozen=True)
class Notifying(Named):
    """A source that has something to say after each read."""

    def take_events(self) -> Sequence[SensorEvent]:
        return [SensorEvent(ClockSource("hpet"), "something", "warning")]


def test_what_a_source_has_to_say_becomes_an_event() -> None:
    told = Told(Notifying("others", (sensor("load", "others", "here"),)))
    told.read([1.0])
    (event,) = told.schedule.drain(told.now_ns)[1]
    assert (event.kind, event.severity, event.source) == ("clock-source", "warning", "sensor others")
    assert (event.message, data_of(event.body)) == ("something", {"clock": "hpet"})


def test_a_source_without_sensors_is_read_at_its_cadence() -> None:
    told = Told(source("settings", sensors=0, cadence_s=5.0))
    waits = []
    for _ in range(4):
        told.read([])
        waits.append(told.wait_ns())
    assert waits == [5 * NS] * 4


def test_a_read_that_takes_unusually_long_is_told_with_its_time() -> None:
    told = Told(source("cpu"))
    for _ in range(4):
        told.read([1.0], took_ns=MS)
    assert told.events() == []
    told.read([1.0], took_ns=25 * MS)
    (event,) = told.schedule.drain(told.now_ns)[1]
    assert (event.kind, event.severity) == ("sensor-slow", "info")
    assert data_of(event.body) == {"begin_ns": told.now_ns - 25 * MS, "took_ns": 25 * MS}


def test_a_source_that_is_always_slow_explains_nothing() -> None:
    told = Told(source("cpu"))
    for _ in range(10):
        told.read([1.0], took_ns=30 * MS)
    assert told.events() == []


def test_a_read_under_20_ms_holds_nothing_up() -> None:
    told = Told(source("cpu"))
    for _ in range(4):
        told.read([1.0], took_ns=MS // 10)
    told.read([1.0], took_ns=19 * MS)
    assert told.events() == []


def test_a_source_with_the_same_sensors_replaces_the_old_one() -> None:
    told = Told(source("rss"))
    told.read([1.0])
    for _ in range(5):  # it is asked less and less often
        told.read(GONE)
    told.schedule.drain(told.now_ns)
    told.schedule.add([source("rss")], told.now_ns)
    assert (len(told.schedule.entries), told.wait_ns()) == (1, 0)
    told.read([2.0])
    assert told.events() == [("sensor-back", "sensor temp/rss", "reads again")]


def test_a_read_says_whether_a_sign_of_throttling_has_changed() -> None:
    infos = (sensor("throttle", "thermal", "here"), sensor("cooling", "fan", "here", throttles=False))
    schedule = Schedule([Named("thermal limits", infos, 1.0)], 0)
    told = []
    reads: list[Sequence[float | Gap] | Gap] = [[0.0, 0.0], [0.0, 3.0], [1.0, 3.0], [1.0, 2.0], Gap("gone"), [0.0, 0.0]]
    for second, values in enumerate(reads):
        entry = schedule.take(60 * second * NS)
        assert entry is not None
        told.append(schedule.put(entry, 60 * second * NS, 60 * second * NS, values))
    assert told == [False, False, True, False, True, False]
