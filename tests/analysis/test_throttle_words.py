"""Throttling as events, each once, and in words."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.alerts.alert_rules import parse_rule
from edgetop.analysis.alerts.alerts import Findings, derived_alerts
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import ThrottleEvents
from edgetop.session.batch import Batch
from edgetop.session.event_codec import data_of
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.wording.alert_words import problem_words
from edgetop.wording.event_words import worded
from edgetop.wording.report_document import report_document
from edgetop.wording.throttle_words import throttles_words
from tests.analysis.slowdowns.test_throttles import CLOCK, FLAG, ZONE, pieces, view, whole

HOT = {
    FLAG: {0: 0, 20: 1, 40: 0, 50: 1},
    CLOCK: {0: 1728, 20: 1267, 30: 1037, 40: 1728, 50: 1267},
    ZONE: {0: 60, 20: 85, 30: 86.2, 40: 60, 50: 85},
}
SLOW_S = [(20, 40), (50, 60)]


def recorded(batch: Batch, cuts_s: Iterable[float]) -> list[Event]:
    fold = ThrottleEvents()
    return [worded(event) for piece in pieces(batch, cuts_s) for event in fold.fold(piece)]


def test_a_run_records_each_beginning_and_each_end_once() -> None:
    begin, end, again = recorded(whole(HOT, slow_s=SLOW_S, end=True), range(60))
    assert (begin.t_ns // NS, begin.kind, begin.severity) == (20, "throttle-begin", "critical")
    assert begin.message == "throttling begins: thermal, cpu 1728 to 1267 MHz at 85.0 C"
    assert data_of(begin.body) == {
        "cause": "thermal",
        "sensor": FLAG,
        "clock_mhz": 1267,
        "best_mhz": 1728,
        "temp_c": 85,
    }
    assert (end.t_ns // NS, end.kind, end.severity) == (40, "throttle-end", "info")
    assert end.message == "throttling over after 20.0s: thermal, cpu down to 1037 MHz, 86.2 C at most"
    assert data_of(end.body) == {
        **data_of(begin.body),
        "min_clock_mhz": 1037,
        "max_temp_c": 86.2,
        "latency_ratio": pytest.approx(1.3, abs=0.002),
        "duration_s": pytest.approx(20),
    }
    assert (again.t_ns // NS, again.kind) == (50, "throttle-begin")


def test_a_short_one_at_the_very_end_is_recorded_as_well() -> None:
    batch = whole({FLAG: {0: 0, 59: 1}}, 59.5, end=True)
    assert [event.kind for event in recorded(batch, range(60))] == ["throttle-begin"]


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    course=st.dictionaries(st.integers(0, 59), st.sampled_from([0.0, 1.0]), max_size=12),
    cuts_s=st.lists(st.floats(0.5, 59.5), max_size=60),
)
def test_recorded_events_agree_with_derived_ones(course: dict[int, float], cuts_s: list[float]) -> None:
    batch = whole({FLAG: course, "throttle/under-voltage": {0: 0, 30: 1, 34: 0}}, end=True)
    events, spans = recorded(batch, cuts_s), view(batch).spans
    begun = [event.t_ns for event in events if event.kind == "throttle-begin"]
    over = [event.t_ns for event in events if event.kind == "throttle-end"]
    assert sorted(begun) == [span.start_ns for span in spans]
    assert sorted(over) == sorted(span.end_ns or 0 for span in spans if not span.was_cut)


def test_recorded_events_are_not_shown_beside_derived_ones() -> None:
    batch = whole(HOT, slow_s=SLOW_S, end=True)
    analysis = Analysis()
    analysis.fold(replace(batch, events=(*batch.events, *recorded(batch, range(60)))))
    shown = [event for event in analysis.view(None).events.newest_first if event.kind.startswith("throttle-")]
    assert [(event.t_ns // NS, event.kind) for event in shown] == [
        (50, "throttle-begin"),
        (40, "throttle-end"),
        (20, "throttle-begin"),
    ]


def test_a_throttling_and_its_slowdown_are_one_alert() -> None:
    throttles = view(whole(HOT, slow_s=SLOW_S))
    of_heat = Slowdown(21 * NS, 41 * NS, "thermal", 1.3, 0.9, (Clue("in-force", "throttle/thermal"),))
    later = Slowdown(44 * NS, 48 * NS, "thermal", 1.3, 0.9, ())
    crowd = Slowdown(22 * NS, 30 * NS, "contention", 1.3, 0.9, ())
    alerts = sorted(derived_alerts(Findings((of_heat, crowd, later), throttles)), key=lambda alert: alert.begin_ns)
    assert [(alert.begin_ns // NS, alert.name, problem_words(alert)) for alert in alerts] == [
        (20, "throttled", "30 % slower: thermal (the thermal flag was in force already)"),
        (22, "slowed", "30 % slower: contention"),
        (44, "throttled", "30 % slower: thermal"),
        (50, "throttled", "thermal, cpu 1728 to 1267 MHz at 85.0 C"),
    ]


def test_a_rule_about_throttled_sees_the_spans() -> None:
    batch = whole({**HOT, "throttle/power-limit": {0: 0, 35: 1, 45: 0}}, slow_s=SLOW_S)
    for text, expected in (
        ("throttled", [(20, 45), (50, None)]),
        ("throttled for=15s", [(20, 45)]),
        ("throttled for=30s", []),
    ):
        analysis = Analysis((parse_rule(text),))
        analysis.fold(batch)
        alerts = [alert for alert in analysis.alerts_view().newest_first if alert.name == "alert"]
        assert [(a.begin_ns // NS, a.end_ns and a.end_ns // NS) for a in reversed(alerts)] == expected
        assert {alert.rule for alert in alerts} <= {text}


def test_the_report_lists_them() -> None:
    batch = whole(HOT, slow_s=SLOW_S)
    analysis = Analysis()
    analysis.fold(batch)
    document = report_document(analysis)
    first, last = document["throttles"]
    assert list(first) == ["start_s", "end_s", "cause", "sensor", "min_clock_mhz", "max_temp_c", "latency_ratio"]
    assert (round(first["start_s"]), round(first["end_s"]), first["cause"], first["sensor"]) == (
        20,
        40,
        "thermal",
        FLAG,
    )
    assert (first["min_clock_mhz"], first["max_temp_c"]) == (1037, 86.2)
    assert last["end_s"] is None
    assert document["throttled"] is True


def test_a_healthy_session_lists_none() -> None:
    analysis = Analysis()
    analysis.fold(whole({FLAG: {0: 0}}))
    document = report_document(analysis)
    assert (document["throttles"], document["throttled"]) == ([], False)
    assert throttles_words(document["throttles"], 0.0) == ""


def test_an_unchanged_clock_is_not_said_to_have_fallen() -> None:
    span = {"cause": "thermal", "min_clock_mhz": 1800.0, "max_temp_c": 88.0, "latency_ratio": 1.0}
    assert throttles_words([span], 0.3).startswith("once, 30 % of the time: thermal, lowest clock 1800 MHz")
    assert throttles_words([span], 0.0).startswith("once: thermal")
