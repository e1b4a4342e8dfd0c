"""The sentences of evidence, each once."""

import pytest

from edgetop.analysis.slowdowns.clue import Clue, ClueKind
from edgetop.analysis.slowdowns.from_start import OTHERS, PRESSURE, STEAL, WAIT
from edgetop.analysis.slowdowns.signals import _COUNTS, CAUSES, LOAD_OF_OTHERS
from edgetop.wording.clue_words import EXAMINED, clue_words
from edgetop.wording.sensor_words import sensor_name

WORDS = [
    (Clue("set", "f", share=1.0, at_s=70), "f was set at 00:01:10, and in 100.0 % of the slow time"),
    (Clue("set-from-start", "f", share=0.52), "f was set from the start, in 52.0 % of the seconds"),
    (Clue("set-since", "f", share=0.52, at_s=2), "f was set at 00:00:02, and in 52.0 % of the seconds"),
    (Clue("in-force", "f"), "f was in force already"),
    (Clue("state", "c", value=3.0, usual=0.0, at_s=70), "c went from state 0 to 3 at 00:01:10"),
    (Clue("fell", "k", "MHz", 1200.0, 1800.0, at_s=70), "k fell from 1800 to 1200 MHz at 00:01:10"),
    (Clue("rose", LOAD_OF_OTHERS, "%", 90.0, at_s=70), "the load of other processes rose to 90.0 % at 00:01:10"),
    (Clue("was", "volt/EXT5V", "V", 4.6, at_s=60), "the 5 V input was 4.600 V at 00:01:00"),
    (Clue("trip", value=-0.5), "a zone was 0.5 °C below its trip"),
    (Clue("trip", value=0.0), "a zone was 0.0 °C above its trip"),
    (
        Clue("low-clock", unit="MHz", value=600.0, usual=1800.0),
        "the CPU ran at 600 MHz under load where its governor allows 1800 MHz",
    ),
    (Clue("all-along", share=1.0), "others took the CPU all along, in 100.0 % of the slow time"),
    (Clue("stood", STEAL, "%", 40.0), "steal stood at 40.0 % before it and in it"),
    (Clue("process", "cc1", value=155.0), "cc1 took 155 % of a core"),
    (Clue("process-now", "cc1", value=155.0), "cc1 155 %"),
    (Clue("process-memory", "cc1", "MiB", 2410.0, 2230.0), "cc1 took 2.2 GiB of memory and holds 2.4 GiB"),
    (
        Clue("between", "cls.onnx", value=3.0, usual=0.0556),
        "calls of cls.onnx now come between: 3.0 for each of its own, 0.06 before",
    ),
    (Clue("process-gpu", "blender", value=84.6), "blender took 85 % of the GPU"),
    (Clue("taken", WAIT, value=350.0), "run-queue wait was 350 ms/s"),
    (
        Clue("taken-from-start", OTHERS, value=165.0, share=0.98),
        "other processes took 165 % of a core from the start, in 98.0 % of the seconds",
    ),
    (Clue("taken-now", PRESSURE, value=96.0), "CPU pressure 96 %"),
    (Clue("taken-now", WAIT, value=600.0), "run-queue wait 600 ms/s"),
    (Clue("taken-now"), "others"),
    (Clue("unchanged", causes=("clock-change",)), "nothing changed with it in clocks and their caps"),
    (
        Clue("not-in-force", causes=("cpu-quota", "memory-high")),
        "not set: the CPU quota of its cgroup, memory.high of its cgroup",
    ),
    (
        Clue("unreported", causes=("cpu-quota", "clock-change")),
        "not reported by this board: the CPU quota of its cgroup, clocks and their caps",
    ),
]


@pytest.mark.parametrize(("clue", "words"), WORDS, ids=[clue.kind for clue, _ in WORDS])
def test_each_clue_has_its_sentence(clue: Clue, words: str) -> None:
    assert clue_words(clue) == words


def test_every_kind_of_clue_is_tested() -> None:
    assert {clue.kind for clue, _ in WORDS} == set(ClueKind.__args__)


def test_evidence_of_another_cause_says_so() -> None:
    clue = Clue("set", "f", share=1.0, at_s=70, also="memory-pressure", also_share=0.35)
    assert clue_words(clue).startswith("also memory-pressure, 35.0 % of the time: f was set")


def test_programs_get_the_id_of_a_sensor_instead_of_words() -> None:
    clue = Clue("rose", "rate/major-faults", "/s", 304.8, 0.0, at_s=70)
    assert clue_words(clue) == "major page faults rose from 0 to 305 per second at 00:01:10"
    assert clue_words(clue, has_ids=True) == "rate/major-faults rose from 0 to 305 per second at 00:01:10"


def test_every_signal_of_a_slowdown_has_words() -> None:
    ids = [*_COUNTS, "throttle/thermal", "cooling/0-cpufreq-cpu0", "freq/cpu0", "freqcap/gpu", "mem/cgroup-left"]
    assert [of for of in ids if sensor_name(of) == of or "/" in sensor_name(of)] == []


def test_a_time_that_is_told_beside_it_is_left_out() -> None:
    assert clue_words(Clue("fell", "k", "MHz", 1200.0, 1800.0, at_s=70), begin_s=70) == "k fell from 1800 to 1200 MHz"
    assert clue_words(Clue("set", "f", share=1.0, at_s=70), begin_s=70).startswith("f was set at 00:01:10")


def test_what_is_examined_has_words_for_every_cause() -> None:
    assert set(EXAMINED) == set(CAUSES)
