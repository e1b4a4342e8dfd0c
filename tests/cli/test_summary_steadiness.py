"""The head of a text report: what the board sustains, and what slowed it."""

from edgetop.analysis.report import report_document
from edgetop.cli.summary import summary
from edgetop.cli.summary_steadiness import SHOWN, steadiness_lines
from tests.support.slow_sessions import analysed, stretch

SLOW = stretch((60, 10.0), (20, 14.0), (60, 10.0), (80, 12.0))
FLAG = stretch((60, 0.0), (20, 1.0), (140, 0.0))


def document_of(*arguments: object) -> dict:
    return report_document(analysed(*arguments))


def test_sustained_and_drift_lead_then_each_slowdown_with_its_evidence() -> None:
    lines = list(steadiness_lines(document_of(SLOW, {"throttle/thermal": FLAG})))
    assert lines[0] == ""
    assert lines[1].startswith("sustained  p50 11.99")
    assert lines[1].endswith("00:02:40 to 00:03:40, +20.1 % to the burst")
    assert lines[2].startswith("burst      p50 ")
    assert lines[2].endswith("00:00:00 to 00:00:30")
    assert lines[3] == "throttles  once, 9 % of the time: thermal, p50 up to +40 %"
    assert lines[4:6] == [
        "slowdown   00:01:00 to 00:01:20  +40 %  thermal (confidence 0.90)",
        "             throttle/thermal was set at 00:01:00, and in 100.0 % of the slow time",
    ]
    assert lines[6].startswith("slowdown   00:02:20 to the end  +20 %  unknown")


def test_it_stands_before_the_latency() -> None:
    text = summary(document_of(SLOW))
    assert text.index("sustained  ") < text.index("latency    ")


def test_of_a_steady_session_there_are_none() -> None:
    assert list(steadiness_lines(document_of(stretch((70, 10.0)))))[-1] == "slowdowns  none"


def test_of_many_the_longest_are_shown() -> None:
    document = document_of(SLOW, {"throttle/thermal": FLAG})
    document["slowdowns"] = [{**document["slowdowns"][0], "start_s": 100.0 * i, "end_s": 101.0 * i} for i in range(30)]
    lines = list(steadiness_lines(document))
    shown = [line for line in lines if line.startswith("slowdown   ")]
    assert len(shown) == SHOWN
    assert shown[0].startswith("slowdown   00:33:20 to ")
    assert lines[-1] == "           and 20 shorter ones"


def test_of_too_little_nothing_is_said() -> None:
    assert list(steadiness_lines(document_of(stretch((3, 10.0))))) == []


def test_names_of_sensors_cannot_act() -> None:
    document = document_of(SLOW, {"throttle/thermal": FLAG})
    document["slowdowns"][0]["evidence"] = ["throttle/\x1b[31m was set"]
    assert all("\x1b" not in line for line in steadiness_lines(document))
