"""Slowdowns among what happened, and in the verdict: derived, never recorded."""

from dataclasses import replace

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.from_start import STEAL
from edgetop.analysis.slowdowns.signals import CAUSES, OF_PROGRAM
from edgetop.analysis.verdict_reasons import Lasts, LimitedBy, SlowedBy, State, TakenBy
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.seconds import NS
from edgetop.wording.event_words import worded
from edgetop.wording.report_document import report_document
from edgetop.wording.verdict_words import headline
from tests.support.sessions import ended_event
from tests.support.slow_sessions import analysed, session_of, stretch

THERMAL = {"throttle/thermal": stretch((60, 0.0), (20, 1.0), (40, 0.0))}
LATENCY = stretch((60, 10.0), (20, 14.0), (40, 10.0))
CONTENTION = {"load/steal": stretch((60, 0.0), (60, 30.0))}


def events_of(analysis: Analysis) -> list[tuple[float, str, str]]:
    return [
        (event.t_ns / NS, event.kind, event.message) for event in map(worded, analysis.view(None).events.newest_first)
    ]


def test_beginning_and_end_stand_among_the_events_in_their_time() -> None:
    analysis = analysed(LATENCY, THERMAL)
    analysis.fold(Batch(120 * NS, events=(read_event(70 * NS, "mark", "info", "user", "fan on"),)))
    assert events_of(analysis) == [
        (80.5, "throttle-end", "throttling over after 20.0s: thermal"),
        (80, "slowdown-ended", "full speed again after 20.0s (thermal)"),
        (70, "mark", "fan on"),
        (60.5, "throttle-begin", "throttling begins: thermal (the thermal flag)"),
        (
            60,
            "slowdown-began",
            "40 % slower: thermal (the thermal flag was set at 00:01:00, and in 100.0 % of the slow time)",
        ),
        (0, "phase", "measure begins"),
    ]
    view = analysis.view(None).events
    assert (view.total, view.warnings, view.criticals) == (6, 1, 1)
    assert len(analysis.events.view().newest_first) == 2


def test_what_became_worse_was_not_at_full_speed_again() -> None:
    latency = stretch((60, 10.0), (20, 12.0), (20, 20.0), (40, 10.0))
    analysis = analysed(latency, {"load/steal": stretch((80, 0.0), (20, 60.0), (40, 0.0))})
    ended = [event for event in events_of(analysis) if event[1] == "slowdown-ended"]
    assert ended == [
        (100, "slowdown-ended", "full speed again after 20.0s (contention)"),
        (80, "slowdown-ended", "slower still after 20.0s (unknown)"),
    ]
    assert [found["then"] for found in report_document(analysis)["slowdowns"]] == ["slower", None]


def test_the_view_of_events_is_the_same_until_the_next_event() -> None:
    analysis = analysed(LATENCY, THERMAL)
    before = analysis.view(None).events
    analysis.fold(Batch(until_ns=121 * NS))
    assert analysis.view(None).events is before
    analysis.fold(Batch(122 * NS, events=(read_event(121 * NS, "mark", "info", "user", "fan on"),)))
    assert analysis.view(None).events is not before


def test_the_verdict_separates_the_board_from_others() -> None:
    verdict = analysed(LATENCY[:80], {"throttle/thermal": THERMAL["throttle/thermal"][:80]}).view(None).verdict
    assert (verdict.state, verdict.level) == (State.THROTTLING, "critical")
    assert verdict.reasons == (LimitedBy("thermal"), Lasts(19 * NS + NS // 2))
    verdict = analysed(stretch((60, 10.0), (60, 14.0)), CONTENTION).view(None).verdict
    assert (verdict.state, verdict.level) == (State.CONTENDED, "warning")
    assert (verdict.reasons, verdict.p50_change) == (
        (TakenBy(Clue("taken-now", STEAL, value=30)), Lasts(60 * NS)),
        pytest.approx(0.4, abs=0.005),
    )


def test_the_change_that_a_verdict_shows_fits_the_present_p50_beside_it() -> None:
    analysis = analysed(stretch((60, 10.0), (40, 13.0), (12, 13.9)), CONTENTION)
    view = analysis.view(10 * NS)
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.latency_ratio == pytest.approx(1.32, abs=0.01)  # over the whole slowdown
    assert view.latency.window
    assert view.burst
    now = view.latency.window.percentile_ns(0.50) / view.burst.p50_ns - 1
    assert headline(view.verdict, view.progress.now_ns).figure == f"{now:.0%} slower".replace("%", " %")
    assert now == pytest.approx(0.39, abs=0.01)


def test_the_verdict_is_steady_with_a_burst_and_after_a_slowdown() -> None:
    assert analysed(LATENCY[:20]).view(None).verdict.state is State.MEASURING
    assert analysed(LATENCY[:50]).view(None).verdict.state is State.STEADY
    assert analysed(LATENCY, THERMAL).view(None).verdict.state is State.STEADY


def test_an_unknown_cause_is_said_to_be_unknown() -> None:
    lasts, because = analysed(LATENCY[:80]).view(None).verdict.reasons
    assert lasts == Lasts(20 * NS)
    assert isinstance(because, SlowedBy)
    assert because.slowdown.cause == "unknown"


def test_the_verdict_shows_a_cut_within_five_seconds() -> None:
    whole = session_of(LATENCY, THERMAL)
    for second in (64, 65):
        until_ns = second * NS
        batch = replace(
            whole,
            until_ns=until_ns,
            inferences=whole.inferences[whole.inferences["t_ns"] < until_ns],
            seconds=whole.seconds.where(whole.seconds.rows["t_ns"] < until_ns),
            readings=whole.readings[whole.readings["t_ns"] < until_ns],
        )
        analysis = Analysis()
        analysis.fold(batch)
        assert analysis.view(None).verdict.state is State.THROTTLING


def test_the_report_tells_each_slowdown() -> None:
    analysis = analysed(LATENCY, THERMAL)
    analysis.fold(Batch(120 * NS, events=(ended_event(120 * NS),)))
    document = report_document(analysis)
    assert document["slowdowns"] == [
        {
            "start_s": 60.0, "end_s": 80.0, "cause": "thermal", "latency_ratio": 1.4003, "confidence": 0.9,
            "evidence": ["throttle/thermal was set at 00:01:00, and in 100.0 % of the slow time"],
            "from_start": False, "then": None,
            "considered": [
                {"cause": cause, "share": 0.0, "reason": "no-sensor"}
                for cause in CAUSES if cause not in ("thermal", *OF_PROGRAM)
            ],
        }
    ]  # fmt: skip
    assert document["throttled"] is True


def test_no_slowdown_and_not_known_are_told_apart() -> None:
    assert report_document(analysed(LATENCY[:50]))["slowdowns"] == []
    assert report_document(analysed(LATENCY[:4]))["slowdowns"] is None


def test_a_flag_in_the_warm_up_alone_is_not_throttled() -> None:
    session = session_of(stretch((40, 10.0)), {"throttle/thermal": stretch((5, 1.0), (35, 0.0))})
    analysis = Analysis()
    late = read_event(8 * NS, "phase", "info", "engine", "measurement begins", {"phase": "measure"})
    seconds = session.seconds.where(session.seconds.rows["t_ns"] >= 8 * NS)
    analysis.fold(Batch(40 * NS, seconds=seconds, readings=session.readings, events=(late,), manifest=session.manifest))
    assert report_document(analysis)["throttled"] is False
