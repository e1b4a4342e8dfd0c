"""The event log: the last events, and what went wrong, each thing once."""

from itertools import permutations

from edgetop.analysis.recent_events import MAX_EVENTS, MAX_LASTING, EventLog, Lasting
from edgetop.session.engine_events import RecordsLost
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event, Severity


def event(t_ns: int, kind: str = "mark", severity: Severity = "info", message: str = "a note") -> Event:
    return read_event(t_ns, kind, severity, "user", message)


def log_of(*events: Event) -> EventLog:
    log = EventLog()
    log.fold(events)
    return log


def test_events_are_newest_first() -> None:
    log = log_of(event(1), event(2))
    log.fold((event(3),))
    assert [e.t_ns for e in log.view().newest_first] == [3, 2, 1]


def test_only_the_last_thousand_are_kept_but_all_are_counted() -> None:
    view = log_of(*(event(i) for i in range(MAX_EVENTS + 5))).view()
    assert MAX_EVENTS == 1_000
    assert len(view.newest_first) == MAX_EVENTS
    assert (view.newest_first[0].t_ns, view.newest_first[-1].t_ns) == (MAX_EVENTS + 4, 5)
    assert view.total == MAX_EVENTS + 5


def test_what_went_wrong_lasts_though_a_thousand_events_follow() -> None:
    wrong = event(0, "provider-dropped", "critical")
    log = log_of(wrong)
    log.fold(tuple(event(i) for i in range(2 * MAX_EVENTS)))
    assert [one.first for one in log.view().lasting] == [wrong]


def test_each_thing_that_went_wrong_lasts_once_the_oldest_first() -> None:
    first, second = event(1, "sensor-lost", "warning", "a"), event(2, "sensor-lost", "warning", "b")
    log = log_of(first, second, event(3, "sensor-lost", "warning", "a"))
    assert [one.first for one in log.view().lasting] == [first, second]


def test_a_recurring_trouble_lasts_once_with_its_sum_in_whatever_order_its_events_come() -> None:
    lost = [
        Event(t_ns, RecordsLost(count), "critical", "engine", f"{count} were lost")
        for t_ns, count in ((1, 7), (5, 20), (3, 4))
    ]
    for order in permutations(lost):
        assert log_of(*order).view().lasting == (Lasting(lost[0], 5, 3, 31),)


def test_what_is_lost_after_the_bound_of_lasting_events_is_in_the_sum() -> None:
    lost = [Event(t_ns, RecordsLost(2), "critical", "engine", f"message {t_ns}") for t_ns in range(3 * MAX_LASTING)]
    (one,) = log_of(*lost).view().lasting
    assert (one.times, one.inferences, one.last_ns) == (3 * MAX_LASTING, 6 * MAX_LASTING, 3 * MAX_LASTING - 1)


def test_log_lines_and_what_went_well_do_not_last() -> None:
    assert log_of(event(1, "log", "critical"), event(2, "phase", "info")).view().lasting == ()


def test_the_number_of_lasting_events_is_bounded() -> None:
    view = log_of(*(event(i, "sensor-lost", "warning", str(i)) for i in range(3 * MAX_LASTING))).view()
    assert len(view.lasting) == MAX_LASTING
    assert view.lasting[0].first.t_ns == 0


def test_warnings_and_worse_are_counted_log_lines_too() -> None:
    view = log_of(event(1, "log", "warning"), event(2, "x", "critical"), event(3, "y", "warning"), event(4)).view()
    assert (view.warnings, view.criticals, view.total) == (2, 1, 4)


def test_a_view_is_the_same_object_until_something_happens() -> None:
    log = log_of(event(1))
    view = log.view()
    log.fold(())
    assert log.view() is view
    log.fold((event(2),))
    assert log.view() is not view
    assert len(view.newest_first) == 1
