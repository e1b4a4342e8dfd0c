"""The first lines of a text report: what a reader who reads nothing else must know."""

from typing import Any

from edgetop.analysis.report import report_document
from edgetop.cli.summary import summary
from edgetop.cli.summary_verdict import verdict_of
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.manifest import Load
from edgetop.session.seconds import NS
from tests.support.sessions import MS, ended_event, folded, make_manifest
from tests.support.slow_sessions import session_of, stretch

SLOW = stretch((60, 10.0), (20, 14.0), (60, 10.0), (30, 12.0))
FLAG = stretch((60, 0.0), (20, 1.0), (90, 0.0))


def document_of(latency_ms: list[float], reason: str | None = "duration", gate: str = "", **more: Any) -> dict:
    """Of a session that was measured and ended, unless there is no reason."""
    end_ns = len(latency_ms) * NS
    analysis = folded([session_of(latency_ms, **more)])
    events = [Event(end_ns, "gate", "info", "user", "", {"expr": gate})] if gate else []
    events += [ended_event(end_ns, reason)] if reason else []
    analysis.fold(Batch(end_ns, events=tuple(events)))
    document = report_document(analysis)
    document["session"] |= {"end_reason": reason, "duration_ns": end_ns if reason else None}
    return document


def test_a_steady_session_is_called_steady() -> None:
    assert verdict_of(document_of(stretch((80, 10.0)))) == ("FINISHED, STEADY", [])
    assert verdict_of(document_of(stretch((80, 10.0)), "user")) == ("STOPPED, STEADY", [])


def test_of_too_little_only_the_end_is_told() -> None:
    assert verdict_of(document_of(stretch((2, 10.0)))) == ("FINISHED", [])
    assert verdict_of(report_document(folded([Batch(manifest=make_manifest(), restart=True)]))) == ("LIVE", [])


def test_slowdowns_are_told_with_size_time_and_cause_those_of_the_board_first() -> None:
    verdict, others = verdict_of(document_of(SLOW, sensors={"throttle/thermal": FLAG}))
    assert verdict == "FINISHED, THROTTLED 40 % for 20.0s: thermal"
    assert others == ["SLOWED 20 % for 30.0s: unknown cause"]
    several = document_of(stretch((60, 10.0), (20, 14.0), (40, 10.0), (20, 12.0), (40, 10.0)))
    assert verdict_of(several)[0] == "FINISHED, SLOWED up to 40 % for 40.0s: unknown cause"


def test_what_was_throttled_from_the_start_is_called_that_whatever_the_cause() -> None:
    flag = document_of(stretch((180, 10.0)), sensors={"throttle/thermal": stretch((180, 1.0))})
    assert verdict_of(flag) == ("FINISHED, THROTTLED FROM THE START for 3m00s: thermal", [])
    cap = document_of(stretch((180, 10.0)), sensors={"throttle/freq-capped": stretch((180, 1.0))})
    assert verdict_of(cap) == ("FINISHED, THROTTLED FROM THE START for 3m00s: unknown cause", [])


def test_throttled_from_the_start_and_again_is_one_item() -> None:
    flag = stretch((60, 1.0), (60, 0.0), (20, 1.0), (60, 0.0))
    latency = stretch((60, 14.0), (60, 10.0), (20, 14.0), (60, 10.0))
    document = document_of(latency, sensors={"throttle/thermal": flag})
    assert [slowdown["from_start"] for slowdown in document["slowdowns"]] == [True, False]
    verdict, others = verdict_of(document)
    assert verdict.startswith("FINISHED, THROTTLED FROM THE START up to 40 % for 1m2")
    assert others == []


def test_a_slowdown_of_a_live_session_goes_on() -> None:
    assert verdict_of(document_of(stretch((60, 10.0), (30, 12.0)), None))[0] == "LIVE, SLOWED 20 %: unknown cause"


def test_what_was_asked_for_and_not_kept_is_told() -> None:
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    waits = [0.0] * 60 + [40.0 * second for second in range(20)]
    document = document_of(stretch((80, 10.0)), load=load, wait_ms=waits, gate="max>33ms")
    assert document["gates"][0]["ok"] is False
    verdict, others = verdict_of(document)
    assert verdict == "GATE FAILED, OVERLOADED: 20 Hz asked, 20.0 Hz done"
    assert others == ["MISSES 23.8 % of its 33 ms deadline"]
    assert verdict_of(document | {"session": document["session"] | {"end_reason": "user"}})[1][0] == "GATE FAILED"


def test_its_words_stand_in_the_order_of_the_screen() -> None:
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33 * MS)
    waits = [0.0] * 60 + [40.0 * second for second in range(20)] + [0.0] * 90
    more = {"sensors": {"throttle/thermal": FLAG}, "load": load, "wait_ms": waits}
    verdict, others = verdict_of(document_of(SLOW, "signal", "max>33ms", **more))
    assert verdict.startswith("STOPPED, THROTTLED 40 %")
    assert [other.split(" for ")[0].split(":")[0] for other in others] == [
        "OVERLOADED", "GATE FAILED", "SLOWED 20 %", "MISSES 11.2 % of its 33 ms deadline"
    ]  # fmt: skip


def test_a_leak_is_told() -> None:
    document = document_of(stretch((80, 10.0)))
    document["memory"] |= {"leak": True, "growth_mib_per_h": 12.34}
    assert verdict_of(document) == ("FINISHED, LEAKING 12.3 MiB/h", [])


def test_how_it_was_cut_short_is_told_and_nothing_foreign_acts() -> None:
    session = document_of(stretch((2, 10.0)))
    assert verdict_of(_ended(session, "writer-killed"))[0] == "CUT SHORT (edgetop was killed)"
    assert verdict_of(_ended(session, "engine-died"))[0] == "ENGINE DIED"
    assert verdict_of(_ended(session, "\x1b[31mred"))[0] == "ENDED (\\x1b[31mred)"


def _ended(document: dict, reason: str) -> dict:
    return document | {"session": document["session"] | {"end_reason": reason}}


def test_it_leads_the_report() -> None:
    lines = summary(document_of(SLOW, sensors={"throttle/thermal": FLAG})).splitlines()
    assert lines[0].startswith("FINISHED, THROTTLED 40 % for 20.0s: thermal  a-session  2026-")
    assert lines[1] == "  also     SLOWED 20 % for 30.0s: unknown cause"
    assert lines[2].startswith("  model    ")
