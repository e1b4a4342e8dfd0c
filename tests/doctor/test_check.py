"""The status of all checks is the worst of them, and what is unknown is never ok."""

from edgetop.doctor.check import ok, problem, unknown, warning, worst


def test_the_worst_wins() -> None:
    assert worst([ok("a", ""), warning("b", ""), ok("c", "")]) == "warning"
    assert worst([problem("a", ""), warning("b", "")]) == "problem"
    assert worst([]) == "ok"


def test_unknown_is_a_warning_that_says_so() -> None:
    check = unknown("clocks", "nobody tells")
    assert (check.status, check.found) == ("warning", "unknown: nobody tells")
