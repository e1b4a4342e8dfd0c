"""The causes of slow inferences and of misses, alerts and derived events in words."""

import pytest

from edgetop.analysis.alerts.alert import Alert, Figures, Missed, Overloaded
from edgetop.analysis.deadline import MissCause
from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.memory_use import GrowthView, Slope
from edgetop.analysis.slowdowns.slow_inferences import CAUSES, TailPart
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.session.event_kinds import AlertBegan, Remark, SlowdownBegan
from edgetop.session.seconds import NS
from edgetop.wording.alert_words import alert_words, problem_words
from edgetop.wording.event_words import worded
from edgetop.wording.load_words import late_in_brief, late_words
from edgetop.wording.tail_words import TAIL_CAUSES, tail_words

SLOWER = Slowdown(0, 20 * NS, "thermal", 1.314, 0.9, ())


def test_every_cause_of_the_tail_has_words() -> None:
    assert set(TAIL_CAUSES) == set(CAUSES)
    assert all(TAIL_CAUSES.values())


def test_the_parts_of_the_tail_are_joined() -> None:
    parts = TailPart("contention", 22, (("stress-ng", 20), ("cc1", 2))), TailPart("page-faults", 1, ())
    assert tail_words(parts) == "22 while another process took the CPU (stress-ng, cc1), 1 with page faults"
    assert tail_words(()) == ""


def test_slow_calls_are_explained_by_the_tail() -> None:
    named, unnamed = TailPart("contention", 2, (("cc1", 2),)), TailPart("contention", 2, ())
    cause = MissCause("contention", 10e6, 33e6, parts=(named,))
    assert late_words(cause) == (
        "p50 of 10 ms fits, but some calls take longer: 2 while another process took the CPU (cc1)"
    )
    assert late_in_brief(cause) == "slow calls: cc1 took the CPU"
    assert late_in_brief(MissCause("contention", 10e6, 33e6, parts=(unnamed,))) == (
        "slow calls: another process took the CPU"
    )


@pytest.mark.parametrize(
    ("alert", "words"),
    [
        (Alert("slowed", "warning", 0, None, SLOWER), "31 % slower: thermal"),
        (Alert("overloaded", "critical", 0, None), "a queue grows without end"),
        (
            Alert("overloaded", "critical", 0, None, Overloaded(20.0, 18.0)),
            "a queue grows without end: 20 Hz asked, 18.0 Hz done",
        ),
        (Alert("stalled", "critical", 0, None), "an inference has not come back"),
        (
            Alert("leak", "warning", 0, None, GrowthView(Slope(12.0, 10.0, 14.0), is_leak=True)),
            "the engine's memory grows by 12 MiB/h, since the start, and does not level off",
        ),
        (Alert("near-trip", "warning", 0, None), "a zone is within 5 C of throttling"),
        (Alert("misses", "warning", 0, None), "more than 1 % of the last minute missed the deadline"),
        (Alert("engine-died", "critical", 0, 0, "killed by SIGSEGV"), "killed by SIGSEGV"),
        (Alert("deadline", "warning", 0, None, Missed(33.0)), "the deadline of 33 ms is missed"),
        (
            Alert("deadline", "warning", 0, None, Missed(33.0, MissCause("unknown", 10e6, 33e6))),
            "the deadline of 33 ms is missed: p50 of 10 ms fits, but some calls take longer, cause unknown",
        ),
    ],
)
def test_an_alert_says_what_the_problem_is(alert: Alert, words: str) -> None:
    assert problem_words(alert) == words


def test_an_alert_of_a_rule_has_its_worst_value() -> None:
    hot = Alert("alert", "warning", 0, None, "temp>80C", "temp>80C", Figures("C", 80.0, 81.0, 82.54))
    assert alert_words(hot) == "temp>80C: 82.54 C"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (DerivedEvent(0, SlowdownBegan("thermal"), "warning", about=SLOWER), "31 % slower: thermal"),
        (
            DerivedEvent(20 * NS, Remark("slowdown-ended"), "info", about=SLOWER),
            "full speed again after 20.0s (thermal)",
        ),
        (
            DerivedEvent(0, AlertBegan("stalled"), "critical", about=Alert("stalled", "critical", 0, 5 * NS)),
            "an inference has not come back",
        ),
        (
            DerivedEvent(0, Remark("alert-ended"), "info", about=Alert("stalled", "critical", 0, 5 * NS)),
            "over after 5.0s: an inference has not come back",
        ),
        (
            DerivedEvent(0, Remark("deadline-end"), "info", about=Alert("", "warning", 0, 5 * NS, Missed(33.0))),
            "the deadline is met again, after 5.0s",
        ),
    ],
)
def test_a_derived_event_has_a_message(event: DerivedEvent, words: str) -> None:
    assert worded(event).message == words
