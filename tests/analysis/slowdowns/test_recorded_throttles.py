"""What a run recorded of throttling is what every analysis shows of it; readings supply what was not recorded."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.throttles import ThrottleEvents, Throttles, throttle_events
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import ThrottleBegan, ThrottleEnded
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.wording.event_words import worded
from tests.analysis.slowdowns.test_throttles import CLOCK, FLAG, ZONE, pieces, spans_s, view, whole

HOT = {FLAG: {0: 0, 20: 1, 40: 0, 50: 1}, CLOCK: {0: 1728, 20: 1267, 40: 1728, 50: 1267}, ZONE: {0: 60, 20: 85, 40: 60}}


def begun(second: float, cause: str = "thermal", clock_mhz: float = 1000.0) -> Event:
    body = ThrottleBegan(cause, FLAG, clock_mhz, 1500.0, 80.0)
    return Event(round(second * NS), body, "critical", "analysis", "recorded beginning")


def over(second: float, cause: str = "thermal") -> Event:
    body = ThrottleEnded(cause, FLAG, 1000.0, 1500.0, 80.0, 900.0, 99.0, 1.5, 20.0)
    return Event(round(second * NS), body, "info", "analysis", "recorded end")


def with_events(batch: Batch, *events: Event) -> Batch:
    return replace(batch, events=tuple(sorted((*batch.events, *events), key=lambda event: event.t_ns)))


def test_a_span_has_the_figures_that_were_recorded_of_it() -> None:
    batch = with_events(whole(HOT, end=True), begun(20), over(40))
    first, again = view(batch).spans
    assert (first.begin_clock_mhz, first.best_mhz, first.begin_temp_c) == (1000, 1500, 80)
    assert (first.min_clock_mhz, first.max_temp_c, first.latency_ratio) == (900, 99, 1.5)
    assert (again.begin_clock_mhz, again.best_mhz, again.start_ns) == (1267, 1728, 50 * NS)  # not recorded: as read


def test_events_are_those_that_were_recorded() -> None:
    batch = with_events(whole(HOT, end=True), begun(20), over(40))
    analysis = Analysis.of([batch])
    shown = [one for one in map(worded, analysis.events_view().newest_first) if one.kind.startswith("throttle-")]
    assert [(one.t_ns // NS, one.message) for one in shown] == [
        (50, "throttling begins: thermal, cpu 1728 to 1267 MHz at 60.0 C"),
        (40, "recorded end"),
        (20, "recorded beginning"),
    ]


def test_a_span_whose_readings_are_lost_is_as_recorded() -> None:
    found = view(with_events(whole({CLOCK: {0: 1728}}, end=True), begun(20), over(40), begun(50)))
    assert spans_s(found) == [(20, 40, "thermal"), (50, 50, "thermal")]  # of the second no end is known
    assert [span.min_clock_mhz for span in found.spans] == [900, 1000]
    assert (found.throttled_ns, found.measured_total) == (20 * NS, 2)


def test_a_recorded_cause_and_beginning_outlast_later_readings() -> None:
    """A flag was read 3 s late: the span began earlier than the run knew."""
    found = view(with_events(whole({FLAG: {0: 0, 20: 1, 40: 0}}, end=True), begun(23), over(40)))
    assert spans_s(found) == [(23, 40, "thermal")]


def test_a_cause_that_was_unknown_at_first_is_that_of_the_end() -> None:
    batch = whole({"throttle/throttled": {0: 0, 20: 1, 40: 0}}, end=True)
    events = [
        replace(one, body=replace(one.body, sensor="throttle/throttled")) for one in (begun(20, "unknown"), over(40))
    ]  # type: ignore[type-var]
    assert spans_s(view(batch)) == [(20, 40, "unknown")]
    assert spans_s(view(with_events(batch, *events))) == [(20, 40, "thermal")]


def test_an_end_that_the_readings_contradict_does_not_hide_that_the_board_is_slowed() -> None:
    found = view(with_events(whole({FLAG: {0: 0, 20: 1}}), begun(20), over(40)))
    assert found.now is not None
    assert found.now.begin_clock_mhz == 1000


def test_a_cause_that_this_version_does_not_know_is_not_taken() -> None:
    found = view(with_events(whole({FLAG: {0: 0, 20: 1, 40: 0}}, end=True), begun(20, "gremlins")))
    assert spans_s(found) == [(20, 40, "thermal")]
    assert found.spans[0].begin is None


def live(batch: Batch, cuts_s: Iterable[float]) -> tuple[Analysis, list[Event]]:
    """Analyse a session as its run does, which records events on the way."""
    fold, analysis, made = ThrottleEvents(), Analysis(), []
    for piece in pieces(batch, cuts_s):
        made += (news := tuple(map(worded, fold.fold(piece))))
        analysis.fold(replace(piece, events=(*piece.events, *news)))
    return analysis, made


def test_the_live_screen_and_a_later_analysis_show_what_was_recorded() -> None:
    """Its fastest clock came after the throttling: what was recorded before names the best one of that time."""
    sensors = {FLAG: {0: 0, 20: 1, 30: 0}, CLOCK: {0: 1500, 20: 1267, 30: 1700}, ZONE: {0: 60, 21: 84, 22: 86, 24: 90}}
    batch = whole(sensors, end=True)
    analysis, made = live(batch, range(60))
    (began,) = [one.body for one in made if isinstance(one.body, ThrottleBegan)]
    assert (began.clock_mhz, began.best_mhz, began.temp_c) == (1267, 1500, 86)  # of its first three seconds
    assert throttle_events(analysis.throttles.view()) == made[::-1]
    assert view(with_events(batch, *made)).spans == analysis.throttles.view().spans


def test_a_beginning_is_recorded_once_its_first_seconds_are_known() -> None:
    _, made = live(whole({FLAG: {0: 0, 20: 1}}, 23.5), range(24))
    assert made == []
    _, made = live(whole({FLAG: {0: 0, 20: 1}}, 24.5), range(25))
    assert [one.t_ns // NS for one in made] == [20]


@pytest.mark.parametrize(
    "sensors",
    [
        {FLAG: {0: 0, 20: 1, 21: 0}, CLOCK: {0: 1728}},
        {"freqcap/cpu0": {0: 1728, 20: 1267}, ZONE: {0: 60, 21: 85, 23: 60}},
        {"freqcap/cpu0": {0: 1728, 20: 1267}, ZONE: {0: 60}},
        {CLOCK: {0: 1728, 20: 1267}},
    ],
)
def test_a_board_is_quiet_until_there_is_throttling(sensors: dict[str, dict[float, float]]) -> None:
    """A view of a quiet board leaves out steps that cannot change it."""

    class Whole(Throttles):
        is_quiet = False

    fold, thorough = Throttles(), Whole()
    for piece in pieces(whole(sensors, 40), range(40)):
        fold.fold(piece)
        thorough.fold(piece)
        assert not (fold.is_quiet and thorough.view().total)
        assert fold.view() == thorough.view()
    assert fold.is_quiet == (not fold.view().total)


def test_an_end_is_recorded_once_no_late_reading_can_continue_it() -> None:
    _, made = live(whole({FLAG: {0: 0, 20: 1, 30: 0}}, 35.5), range(36))
    assert [one.kind for one in made] == ["throttle-begin"]
    _, made = live(whole({FLAG: {0: 0, 20: 1, 30: 0}}, 36.5), range(37))
    assert [(one.kind, one.t_ns // NS) for one in made] == [("throttle-begin", 20), ("throttle-end", 30)]
