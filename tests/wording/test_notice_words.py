"""The sentences of findings, each once, with what to do about it."""

from typing import get_args

import pytest

from edgetop.analysis import findings as of
from edgetop.analysis.faults import Fault
from edgetop.analysis.findings import EVENT_CODES, Finding
from edgetop.analysis.hotspots import ThreadView
from edgetop.analysis.memory_use import GrowthView, Slope
from edgetop.analysis.operator_shares import OperatorView
from edgetop.analysis.recent_events import Lasting
from edgetop.session.engine_events import RecordsLost
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.wording.notice_words import ADVICE, notice, notice_words

FAULT = Fault("slowdowns", "sensors", "ValueError: empty", "")
HOT = read_event(2 * NS, "governor-changed", "warning", "sensor settings", "the governor is powersave now")
LOST = Event(2 * NS, RecordsLost(100), "critical", "engine", "100 inferences were not reported")


def op(name: str, share: float, provider: str = "CPU", *, settled: bool = True) -> OperatorView:
    return OperatorView(0, name, "Conv", provider, 1.0, share, None, settled=settled)


WORDS = [
    (
        of.PartsFailed(("sensors", "slowdowns"), FAULT),
        "sensors, slowdowns: not available: internal error in sensors: ValueError: empty",
        {"parts": "sensors, slowdowns", "error": "ValueError: empty"},
    ),
    (of.EventTold(Lasting(HOT, 2 * NS)), "the governor is powersave now", {}),
    (
        of.EventTold(Lasting(HOT, 61 * NS, times=3)),
        "the governor is powersave now (the first of 3 times from 00:00:02 to 00:01:01)",
        {"times": 3, "first_s": 2.0, "last_s": 61.0},
    ),
    (of.EventTold(Lasting(LOST, 2 * NS, inferences=100)), "100 inferences were not reported", {"count": 100}),
    (
        of.EventTold(Lasting(LOST, 600 * NS, times=3, inferences=1_107)),
        "1107 inferences not reported: lost 3 times from 00:00:02 to 00:10:00",
        {"count": 1_107, "times": 3, "first_s": 2.0, "last_s": 600.0},
    ),
    (of.QueueGrew(30.0, 24.07, is_over=False), "overloaded: 30 Hz asked, 24.1 Hz done", {}),
    (of.QueueGrew(30.0, 24.07, is_over=True), "overloaded for a time: 30 Hz asked, 24.1 Hz done", {}),
    (
        of.WarmupShort(9, was_imported=False),
        "only 9 warm-up runs: the first measured ones may be slower than the rest",
        {"warmup_runs": 9},
    ),
    (of.NotSettled((0.5, 0.99), 10), "p50 and p99 not settled: only 10 inferences", {"count": 10}),
    (
        of.NotSettled((0.99,), 4_000, 123),
        "p99 not settled: inferences that follow each other take about as long, so 4000 count as 123 independent ones",
        {"count": 4_000, "independent": 123},
    ),
    (
        of.Leak(GrowthView(Slope(12.34, 11.8, 12.9), is_leak=True, hours_left=3.2)),
        "the engine's memory grows by 12 MiB/h (95 %: 11.8 to 12.9) and does not level off; what is left lasts 3h12m",
        {},
    ),
    (
        of.Leak(GrowthView(Slope(2048.0, 1024.0, 3072.0), is_leak=True)),
        "the engine's memory grows by 2.0 GiB/h (95 %: 1.0 to 3.0) and does not level off",
        {},
    ),
    (
        of.BackgroundLoad(34.126, ("stress-ng", "\x1b[31mevil")),
        "other processes took 34 % of a core on average: stress-ng, \\x1b[31mevil",
        {"mean_pct": 34.13, "names": "stress-ng, \x1b[31mevil"},
    ),
    (of.BackgroundLoad(34.0, ()), "other processes took 34 % of a core on average", {"mean_pct": 34.0, "names": ""}),
    (
        of.StillWarming("temp/cpu-thermal", 4.512),
        "the temperature of cpu-thermal was still rising at the end: by 4.5 °C in the last two minutes",
        {"sensor": "temp/cpu-thermal", "rose_c": 4.51},
    ),
    (
        of.SettingDiffers("power-mode", "15W", "MODE_30W"),
        "the power mode was MODE_30W, and 15W is declared",
        {"declared": "15W", "was": "MODE_30W"},
    ),
    (
        of.HalvesDiffer(10e6, 12.5e6),
        "p99 was 10.00 ms in the first half and 12.50 ms in the second",
        {"first_ms": 10.0, "second_ms": 12.5},
    ),
    (
        of.ClockLimitMoved("freqcap/cpu0", 1200.0, 1800.0, 1),
        "the clock limit of cpu0 changed during the run: it was between 1200 and 1800 MHz",
        {"sensor": "freqcap/cpu0", "low_mhz": 1200.0, "high_mhz": 1800.0, "clocks": 1},
    ),
    (
        of.ClockLimitMoved("freqcap/cpu0", 1200.0, 1800.0, 3),
        "the clock limit of cpu0 (and 2 more) changed during the run: it was between 1200 and 1800 MHz",
        {"sensor": "freqcap/cpu0", "low_mhz": 1200.0, "high_mhz": 1800.0, "clocks": 3},
    ),
    (
        of.ModeUnsustainable("MAXN"),
        "the power mode MAXN sets no limit: over-current and heat throttle it",
        {"power_mode": "MAXN"},
    ),
    (
        of.NotSustained(1.25),
        "the speed of the start was not held: sustained p50 is 25 % above that of the burst",
        {"drift_ratio": 1.25},
    ),
    (of.Stolen(2.0), "a hypervisor took 2.0 % of a core on average", {"mean_pct": 2.0}),
    (of.MonitorCost(2.5), "edgetop itself took 2.5 % of a core", {"mean_pct": 2.5}),
    (
        of.SustainedShort(299 * NS),
        "the sustained figures are from 4m59s of measuring: heat takes minutes",
        {"measured_s": 299.0},
    ),
    (
        of.PowerShort(299 * NS),
        "power was measured for 4m59s: too short for what the board draws when it is warm",
        {"measured_s": 299.0},
    ),
    (
        of.OneInput("random"),
        ("every inference got the same input (random): what depends on the values (time, memory, power) does not show, "
        "nor do caches that new data would fill"),
        {"input": "random"},
    ),
    (
        of.FellBack((op("b", 0.1),), "CUDA", 3),
        ("1 operator ran on the CPU and not on CUDA, 10.0 % of the time, with 2 crossings between 3 partitions: "
        "b (Conv, 10.0 %)"),
        {},
    ),
    (
        of.FellBack((op("b", 0.3, "XNNPACK"), op("c", 0.2, settled=False)), "CUDA", 1),
        "2 operators ran on the CPU and XNNPACK and not on CUDA: b (Conv, 30.0 %), c (Conv)",
        {},
    ),
    (of.Crossings(("CUDA", "TensorRT"), 2), "1 crossing between 2 partitions of CUDA and TensorRT", {}),
    (of.DominantOperator(op("big", 0.51)), "big (Conv) takes 51.0 % of the time", {}),
    (
        of.SlowKernels(tuple(op(name, 0.1) for name in "abcd")),
        ("4 operators of 40.0 % of the time, with less than a quarter of the FLOP/s of similar operators: "
        "a (Conv, 10.0 %), b (Conv, 10.0 %), c (Conv, 10.0 %), ..."),
        {},
    ),
    (
        of.Conversions((op("q", 0.1), op("r", 0.2))),
        ("2 operators for nothing but conversions of dtypes or layouts take 30.0 % of the time: r (Conv, 20.0 %), "
        "q (Conv, 10.0 %)"),
        {},
    ),
    (
        of.DynamicQuantisation((op("q", 0.2),)),
        ("1 operator with integer weights and float activations, which are quantised anew in every inference, takes "
        "20.0 % of the time"),
        {},
    ),
    (
        of.NotFused((op("relu", 0.2),)),
        "1 operator behind a convolution, not merged into it, takes 20.0 % of the time: relu (Conv, 20.0 %)",
        {},
    ),
    (
        of.SmallForDelegate(4e6, ("CUDA", "TensorRT")),
        "an inference takes 4.000 ms on CUDA, TensorRT: handing it over may be most of it",
        {},
    ),
    (
        of.ThreadImbalance(ThreadView(4, 0.25, "conv", 0, 0.0), "conv"),
        "the thread that runs the model waited 25.0 % of the time for the slowest of 4 threads, most in conv",
        {},
    ),
    (
        of.ThreadsMoved(8.0),
        "threads moved to another CPU 8 times in a second of inference, or more often",
        {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "message", "figures"), WORDS, ids=[finding.code for finding, *_ in WORDS])
def test_each_finding_has_its_message_and_figures(finding: Finding, message: str, figures: dict[str, object]) -> None:
    told = notice(finding)
    assert (told.code, told.message, told.data) == (finding.code, message, figures)
    assert notice_words(finding) == message


def test_every_kind_of_finding_is_tested() -> None:
    assert {type(finding) for finding, *_ in WORDS} == set(get_args(Finding))


@pytest.mark.parametrize(
    ("finding", "advice"),
    [
        (of.WarmupShort(9, was_imported=False), "leave --warmup-runs at its default of 50"),
        (
            of.WarmupShort(9, was_imported=True),
            "give trtexec a longer --warmUp, and import with that as --warmup-time",
        ),
        (of.NotSettled((0.99,), 10), "run longer: p99 needs 662 inferences"),
        (of.NotSettled((0.99,), 4_000, 123), "run longer: p99 needs 500 independent inferences"),
        (
            of.SettingDiffers("power-mode", "15W", "MODE_30W"),
            "set the power mode that deployment has, or mend the label; edgetop doctor tells how",
        ),
    ],
)
def test_an_advice_that_depends_on_the_finding(finding: Finding, advice: str) -> None:
    assert notice(finding).advice == advice


def test_every_other_code_has_one_advice() -> None:
    fixed = {of_code.code for of_code, *_ in WORDS} - {"short-warmup", "not-settled", "power-mode-differs"}
    assert set(ADVICE) == fixed | EVENT_CODES
