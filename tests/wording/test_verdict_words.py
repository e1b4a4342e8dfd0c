"""The sentences of the verdict, each once."""

import pytest

from edgetop.analysis import verdict_reasons as why
from edgetop.analysis.ab_figures import Turn
from edgetop.analysis.deadline import TOO_SLOW, MissCause
from edgetop.analysis.faults import Fault
from edgetop.analysis.memory_use import GrowthView, Slope
from edgetop.analysis.session_gates import GateResult, parse_gate
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.verdict import FINAL, GATE_ENDED
from edgetop.analysis.verdict_data import Verdict
from edgetop.analysis.verdict_reasons import State
from edgetop.session.seconds import NS
from edgetop.wording import verdict_words

CAUSE = MissCause(TOO_SLOW, 38e6, 33e6, 38e6)
LEAK = GrowthView(Slope(12.0, 10.0, 14.0), is_leak=True, hours_left=12.53)
FAILED = GateResult(parse_gate("max>33ms"), 40.0, ok=False)
FAULT = Fault("slowdowns", "sensors", "ValueError: empty", "")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (why.Told("/models/net.onnx"), "/models/net.onnx"),
        (why.NotSeen("no inference was seen in 10 s: it is linked statically"), "it is linked statically"),
        (why.NotSeen("nothing was seen"), "nothing was seen"),
        (why.Lasts(27 * NS), "for 0:27"),
        (why.LimitedBy("thermal"), "thermal"),
        (why.TakenBy(Clue("process-now", "cc1", value=155)), "cc1 155 %"),
        (why.SlowedBy(Slowdown(0, None, "unknown", 1.4, 0.0, ())), "unknown cause"),
        (why.ClockNow("cpu", 1200.0, 1800.0), "cpu 1200 of 1800 MHz"),
        (why.ClockNow("", 1200.0, None), "1200 MHz"),
        (why.TemperatureNow(85.6, 85.0), "86 of 85 C"),
        (why.TemperatureNow(54.0, None), "54 C"),
        (why.PowerNow(14.83, 15.0), "14.8 of 15 W"),
        (why.PowerNow(None, 12.5), "limit 12.5 W"),
        (why.MemoryRose(96.5, 1500.0), "its memory rose from 96.5 MiB to 1.5 GiB"),
        (why.LateBecause(CAUSE), "needs 38 of 33 ms"),
        (why.MissedNow(0.000152), "now 0.015 % missed"),
        (why.LeakRate(LEAK), "12 MiB/h since the start"),
        (why.MemoryFull(LEAK), "memory is full in 12h31m"),
        (why.Overdue(5 * NS), "an inference has not come back for 5.0s"),
        (why.Raised(3, 10), "3 of 10 inferences raised an error"),
        (why.Queueing(30.0, 24.41), "30 Hz asked, 24.4 Hz done"),
        (why.Scatters(0.12), "latency scatters by 12 % from second to second"),
        (why.NothingRecent(), "nothing was measured in the last minute"),
        (why.AwayFromBurst(-0.3), "p50 is 30 % below that of the burst"),
        (why.AwayFromBurst(0.09), "p50 is 9 % above that of the burst"),
        (why.BaselineDone(12 * NS, 30 * NS), "12 of 30 s, in which nothing runs"),
        (why.FirstInference(), "first inference"),
        (why.WarmupDone(12, 50), "12 of 50"),
        (why.EndedBy("power-loss"), "the power was lost"),
        (why.EndedBy("internal-error"), "internal-error"),
        (why.ExitStatus("3"), "the program ended with exit status 3"),
        (why.ExitStatus("3", "train.py"), "the program ended with exit status 3 (train.py)"),
        (why.DiedOf("sh", "killed by SIGSEGV (in native code)"), "sh was killed by SIGSEGV (in native code)"),
        (why.DiedOf("sh", "out of memory at its limit"), "sh: out of memory at its limit"),
        (why.GatesFailed((FAILED, FAILED)), "max>33ms: 40 ms; max>33ms: 40 ms"),
        (why.FaultFound(FAULT), "not available: internal error in sensors: ValueError: empty"),
        (why.AbDifference(None, 0.008), "too few turns to compare, 0.8 % can be told apart here"),
        (why.AbTurn(Turn("B", 4, 12)), "quad 4 of 12, turn of B"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_each_reason_has_its_words(reason: why.Reason, words: str) -> None:
    assert verdict_words.reason_words(reason) == words


@pytest.mark.parametrize(
    ("trouble", "words", "brief"),
    [
        (
            why.WasThrottled(1, ("thermal",), 0.14),
            "was throttled once, 14 % of the time (thermal)",
            "throttled 1x, 14 %",
        ),
        (why.WasThrottled(2, ("a", "b"), None), "was throttled 2 times (a, b)", "throttled 2x"),
        (
            why.WasThrottled(1, ("thermal",), 0.0, is_before_measuring=True),
            "was throttled once, before measuring (thermal)",
            "throttled 1x, before measuring",
        ),
        (
            why.WasSlowed(State.SLOWED, 1, 0.14, ("unknown",)),
            "was slowed once, 14 % of the time (unknown cause)",
            "slowed 1x, 14 %",
        ),
        (
            why.WasSlowed(State.CONTENDED, 3, None, who=Clue("process", "stress-ng", value=98.4)),
            "was contended 3 times (stress-ng took 98 % of a core)",
            "contended 3x",
        ),
        (why.WasSlowed(State.CONTENDED, 1, 0.5), "was contended once, 50 % of the time", "contended 1x, 50 %"),
        (why.WasOverloaded(20.0, 19.98), "was overloaded: 20 Hz asked, 20.0 Hz done", "overloaded"),
        (why.Raised(3, 10), "3 of 10 inferences raised an error", "3 errors"),
        (
            why.MissedDeadline(33.0, 1.0, CAUSE),
            "missed its deadline of 33 ms: 100.0 % (the model needs 38 ms and has 33 ms: too slow, at full speed too)",
            "missed 100.0 %, too slow",
        ),
        (why.MissedDeadline(33.0, 0.136, None), "missed its deadline of 33 ms: 13.6 %", "missed 13.6 %"),
        (
            why.MissedDeadline(33.0, 0.136, CAUSE, is_explained=True),
            "missed its deadline of 33 ms: 13.6 %",
            "missed 13.6 %, too slow",
        ),
        (why.FaultFound(FAULT), "not available: internal error in sensors: ValueError: empty", "internal error"),
    ],
)
def test_a_past_trouble_is_in_the_past_tense_and_in_brief(trouble: why.Past, words: str, brief: str) -> None:
    assert verdict_words.past_words(trouble) == words
    assert verdict_words.past_in_brief(trouble) == brief


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (why.Leaked(LEAK), "leaked 12 MiB/h"),
        (why.GatesFailed((FAILED,)), "gate failed: max>33ms: 40 ms"),
        (why.EndedAs(State.MEASURING), "too short to say whether it is steady"),
        (why.EndedAs(State.STEADY), "steady"),
        (why.EndedAs(State.UNSETTLED, why.NothingRecent()), "unsettled: nothing was measured in the last minute"),
    ],
)
def test_what_a_list_does_not_show_has_words_too(trouble: why.Past, words: str) -> None:
    assert verdict_words.past_words(trouble) == words


def test_the_words_are_one_line_of_all_of_it() -> None:
    verdict = Verdict(
        State.THROTTLING, "critical", (why.LimitedBy("thermal"), why.Lasts(19 * NS)),
        also=(
            Verdict(State.OVERLOADED, "critical", (why.Queueing(30.0, 24.0),)),
            Verdict(State.MISSING_DEADLINE, "warning", (why.LateBecause(CAUSE), why.MissedNow(1.0), why.Lasts(NS))),
            Verdict(State.LEAKING, "warning", (why.LeakRate(LEAK), why.MemoryFull(LEAK))),
        ),
        past=(why.MissedDeadline(33.0, 0.238, None),),
        p50_change=0.4,
    )  # fmt: skip
    assert verdict_words.words(verdict) == (
        "THROTTLING: thermal, for 0:19, p50 +40 %; also OVERLOADED; also MISSING DEADLINE 100.0 %; "
        "also LEAKING 12 MiB/h since the start; missed its deadline of 33 ms: 23.8 %"
    )


def test_a_gate_leaves_it_to_the_miss_to_say_why() -> None:
    missing = Verdict(State.MISSING_DEADLINE, "warning", (why.LateBecause(CAUSE), why.MissedNow(1.0)))
    verdict = Verdict(State.GATE_EXCEEDED, "critical", (why.GatesFailed((FAILED,)),), also=(missing,))
    assert verdict_words.words(verdict) == "GATE: max>33ms: 40 ms; also MISSING DEADLINE 100.0 %: needs 38 of 33 ms"


def test_a_session_in_brief_is_its_gravest_trouble_or_its_last_state() -> None:
    throttled = why.WasThrottled(6, ("thermal",), 0.22)
    finished = Verdict(State.FINISHED, "good", at_end=State.STEADY)
    assert verdict_words.brief(finished) == "steady"
    assert verdict_words.brief(Verdict(State.STOPPED, "neutral", at_end=State.MEASURING)) == "too short to tell"
    assert (
        verdict_words.brief(Verdict(State.FINISHED, "good", at_end=State.STEADY, gist=throttled))
        == "throttled 6x, 22 %"
    )
    assert verdict_words.brief(Verdict(State.ENGINE_DIED, "critical", at_end=State.ENGINE_DIED)) == "engine died"
    assert verdict_words.brief(Verdict(State.STEADY, "good")) == ""


def test_each_end_of_a_session_has_words() -> None:
    assert verdict_words.ENDS.keys() == {*FINAL, "engine-died", GATE_ENDED}
