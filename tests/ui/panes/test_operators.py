"""The hotspots pane: what it lists, in which order, and why when there is nothing."""

import re
from dataclasses import replace

import pytest

from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.operator_shares import OperatorView
from edgetop.cli.running.operator_output import NAME_CELLS
from edgetop.formatting import cut_middle
from edgetop.session.ceilings import Ceilings
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.operators import Operator
from edgetop.ui.panes.header import identity_line
from edgetop.ui.panes.operators_pane import OPERATORS
from edgetop.ui.panes.pane import Listing
from tests.support.screens import area, plain, text_of, view_of
from tests.support.scripts import Script, measured

BEFORE = (
    Operator("first", "Conv", "CPU", 8, 4_000),
    Operator("big", "Gemm", "CUDA", 8, 12_000),
    Operator("last", "Relu", "CPU", 8, 4_000),
)
AFTER = (BEFORE[0], BEFORE[1], replace(BEFORE[2], total_ns=8_000))


def profiled() -> Script:
    script = measured(10)
    for _ in range(3):
        script.profile(BEFORE)
    for _ in range(3):
        script.measure(10).profile(AFTER)
    return script


def listed(listing: Listing, width: int = 80) -> list[str]:
    """The rows of operators."""
    lines = OPERATORS.body(view_of(profiled()), replace(area(width, 18), listing=listing))
    return [plain(line) for line in lines][4:]


def names(listing: Listing) -> list[str]:
    return [row.split()[-1] for row in listed(listing)]


def test_operators_stand_by_share_by_run_order_or_by_change() -> None:
    assert names(Listing(0)) == ["big", "last", "first"]
    assert names(Listing(1)) == ["first", "big", "last"]
    assert names(Listing(2)) == ["last", "first", "big"]
    assert names(Listing(3)) == names(Listing(0))


def test_a_filter_wants_all_its_words_wherever_they_stand() -> None:
    assert names(Listing(words="CPU")) == ["last", "first"]
    assert names(Listing(words="cpu conv")) == ["first"]
    assert names(Listing(words="nothing")) == []


def test_the_title_says_the_order_and_the_filter() -> None:
    view = view_of(profiled())
    assert OPERATORS.title(view, area(80, 18)) == "3 operators by share"
    narrowed = replace(area(80, 18), listing=Listing(2, "cpu"))
    assert OPERATORS.title(view, narrowed) == "3 operators, of these 2 with: cpu, by change"


def test_a_row_has_share_bar_time_of_the_p50_change_and_provider() -> None:
    big, last, _ = listed(Listing())
    assert big.split() == ["50.0", "\u28ff" * 10, "2501.0", "+0", "%", "CUDA", "big"]
    assert last.split() == ["33.3", "\u28ff" * 6 + "\u2847", "1667.3", "+100", "%", "CPU", "last"]


def test_the_type_is_shown_where_there_is_room() -> None:
    assert "Gemm" not in listed(Listing())[0]
    assert "Gemm" in listed(Listing(), width=120)[0]


def test_it_says_what_bursts_cost_and_what_times_are() -> None:
    state = text_of(list(OPERATORS.body(view_of(profiled()), area(100, 18)))[:3])
    assert "6 rounds, every 10s, 0.6 % of the time, last 00:00:41 of 8" in state
    assert "instrumented inferences +8.0 %, not measured; times are shares of p50 5.002 ms; 3 partitions" in state
    assert "Gemm 50.0 % (1)  Relu 33.3 % (1)" in state


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(), "not known yet"),
        (measured(5), "not profiled (--profile-every)"),
        (measured(5).tell("profiler", way="", reason="no libonnxruntime.so", every_ns=1), "no libonnxruntime.so"),
        (
            measured(5).tell("profiler", way="runs", reason="", every_ns=1),
            "not profiled yet; p profiles now",
        ),
        (
            measured(5).tell("profiler", way="runs", reason="", every_ns=1).end(),
            "no operator was profiled",
        ),
    ],
)
def test_without_a_burst_it_says_why(script: Script, words: str) -> None:
    assert words in text_of(OPERATORS.body(view_of(script), area(80, 18)))


def test_a_profile_that_ended_says_so_above_what_it_has() -> None:
    script = profiled().tell("profiler", way="", reason="profiling ended: the helper is gone", every_ns=1)
    lines = [plain(line) for line in OPERATORS.body(view_of(script), area(80, 18))]
    assert lines[0] == "profiling ended: the helper is gone"
    assert "big" in lines[5]


def with_work(operators: list[OperatorView]) -> MonitorView:
    view = view_of(profiled())
    assert view.manifest
    manifest = replace(view.manifest, engine=replace(view.manifest.engine, providers=("CUDA", "CPU")))
    ceilings = Ceilings(100e9, 10e9, "2026-11-21T10:00:00Z")
    return view.replaced(
        manifest=manifest, operators=replace(view.operators, operators=tuple(operators), ceilings=ceilings)
    )


def test_an_operators_rates_and_bound_are_shown_where_they_fit() -> None:
    """Half of 5 ms, for 125 MFLOP: 50 GFLOP/s."""
    known = OperatorView(0, "r1_nchwc", "Conv", "CPU", 1.0, 0.5, None, 125_000_000, 1_000, "conv1 + relu1")
    unknown = OperatorView(1, "reorder", "Reorder", "CPU", 1.0, 0.25, None)
    elsewhere = OperatorView(2, "conv2", "Conv", "CUDA", 1.0, 0.25, None, 125_000_000, 1_000)
    view = with_work([known, unknown, elsewhere])
    rows = [plain(line).split() for line in OPERATORS.body(view, area(130, 18))][5:]
    assert rows[0][4:] == ["CPU", "50.0", "compute-bound", "Conv", "r1_nchwc", "=", "conv1", "+", "relu1"]
    assert rows[1][4:] == ["CPU", "-", "-", "Reorder", "reorder"]
    assert rows[2][4:] == ["CUDA", "100.0", "-", "Conv", "conv2"]  # the ceilings are the CPU's
    assert "compute-bound" not in text_of(OPERATORS.body(view, area(100, 18)))


def test_the_second_line_of_the_screen_says_how_much_of_the_time_each_provider_had() -> None:
    conv = OperatorView(0, "conv", "Conv", "CUDA", 1.0, 0.9, None)
    shape = OperatorView(1, "shape", "Shape", "CPU", 1.0, 0.1, None)
    assert " onnxruntime 1.23.2 CUDA 90.0 % + CPU 10.0 % " in plain(
        identity_line(with_work([conv, shape]), area(120, 1), "")
    )
    assert " onnxruntime 1.23.2 CUDA+CPU " in plain(identity_line(with_work([]), area(120, 1), ""))


def test_what_fell_back_to_the_cpu_is_one_line() -> None:
    found = [
        OperatorView(0, "a", "Conv", "CUDA", 1.0, 0.9, None),
        OperatorView(1, "odd\x1b", "Where", "CPU", 1.0, 0.1, None),
    ]
    lines = OPERATORS.body(with_work(found), area(80, 18))
    (line,) = [line for line in lines if "fell back" in plain(line)]
    assert plain(line).rstrip() == "1 operator fell back to the CPU, 10.0 %: odd\\x1b"
    assert line[0].style == "warning"
    assert "fell back" not in text_of(OPERATORS.body(view_of(profiled()), area(80, 18)))
    view, why = with_work(found), FallbackReasons("", {"no kernel for \x1b[31mPad": 2, "second": 0, "third": 1})
    shown = text_of(OPERATORS.body(view.replaced(operators=replace(view.operators, fallback=why)), area(80, 18)))
    assert "no kernel for \\x1b[31mPad (2 operators)" in shown
    assert "second" in shown
    assert "third" not in shown


def doubts(script: Script, width: int = 80) -> str:
    """The line above the list that tells of what is not settled, and that list."""
    lines = [plain(line) for line in OPERATORS.body(view_of(script), area(width, 18))]
    return "\n".join(line.rstrip() for line in lines[3:])


def test_before_shares_settle_they_have_a_question_mark() -> None:
    shown = doubts(measured(10).profile(BEFORE))
    assert shown.startswith("? not settled: 1 of 3 rounds, 8 of 10 inferences\n")
    assert "60.0 ?  \u28ff" in shown


def test_a_share_that_differs_from_burst_to_burst_is_not_settled() -> None:
    script = measured(10)
    for operators in (BEFORE, AFTER, (replace(BEFORE[0], total_ns=40_000), *BEFORE[1:])):
        script.measure(5).profile(operators)
    shown = doubts(script)
    assert shown.startswith("? not settled\n")
    assert re.search(r"\d \?  \u28ff", shown)


def test_what_others_disturbed_is_said() -> None:
    left_out = measured(10).profile(BEFORE, left_out_runs=5).profile(BEFORE, disturbed_runs=8)
    assert "; 13 runs left out: disturbed\n" in doubts(left_out)
    all_of_them = measured(10).profile(BEFORE, disturbed_runs=8)
    assert doubts(all_of_them).startswith("? not settled: others took CPU time from each instrumented inference\n")
    assert len(doubts(all_of_them).splitlines()[0]) <= 80
    assert not doubts(profiled()).startswith("?")


def test_a_filter_finds_the_names_of_the_models_file() -> None:
    known = OperatorView(0, "r1_nchwc", "Conv", "CUDA", 1.0, 0.5, None, origin="stem/conv")
    view = with_work([known])
    assert "r1_nchwc" in text_of(OPERATORS.body(view, replace(area(130, 18), listing=Listing(words="stem"))))


def test_an_estimate_is_called_one_before_anything_else() -> None:
    way = "estimate (isolated): each operator run by itself"
    script = profiled().tell("profiler", way=way, reason="no profiler with --delegate", every_ns=1)
    assert text_of(OPERATORS.body(view_of(script), area(80, 18))).startswith("estimate (isolated): 6 rounds")


def test_an_estimate_is_still_called_one_after_profiling_ended() -> None:
    script = profiled().tell("profiler", way="estimate (isolated): each by itself", reason="", every_ns=1)
    script.tell("profiler", way="", reason="profiling ended: it is gone", every_ns=1)
    shown = text_of(OPERATORS.body(view_of(script), area(80, 18)))
    assert shown.startswith("profiling ended: it is gone\nestimate (isolated): 6 rounds")
    assert text_of(OPERATORS.body(view_of(profiled()), area(80, 18))).startswith("6 rounds")


def test_names_that_begin_alike_are_told_apart_as_in_ops() -> None:
    long = [f"/model/backbone/features/features.{n}/conv/conv.0/Conv_{n}" for n in (11, 12)]
    profile = [OperatorView(n, name, "Conv", "CPU", 1.0, 0.5, None) for n, name in enumerate(long)]
    for cells in (60, 80, 100, 130):
        shown = text_of(OPERATORS.body(with_work(profile), area(cells, 18)))
        assert "_11\n" in f"{shown}\n", shown
        assert "_12\n" in f"{shown}\n", shown
    assert cut_middle(long[0], NAME_CELLS) in text_of(OPERATORS.body(with_work(profile), area(116 + NAME_CELLS, 18)))


def test_names_that_differ_at_their_beginning_are_told_apart() -> None:
    profile = [
        OperatorView(n, f"block{n}/depthwise/conv/pointwise/relu6", "Conv", "CPU", 1.0, 0.5, None) for n in (8, 9)
    ]
    shown = text_of(OPERATORS.body(with_work(profile), area(54, 18)))
    assert "block8" in shown
    assert "block9" in shown
