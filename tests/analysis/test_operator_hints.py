"""Hints from where the time goes: each holds where it should and nowhere else."""

from dataclasses import replace

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.findings import Crossings, FellBack
from edgetop.analysis.hotspots import ThreadView
from edgetop.analysis.notices import notices
from edgetop.analysis.operator_hints import fell_back, operator_hints, plain_run_ns, slow_kernels
from edgetop.analysis.operator_shares import OperatorView
from edgetop.session.manifest import EngineInfo
from edgetop.session.operators import Operator
from edgetop.wording.report_document import report_document
from tests.support.scripts import measured

MS = 1e6


def op(name, share, op_type="Conv", provider="CPU", flops=None, moved=None):
    return OperatorView(0, name, op_type, provider, 1.0, share, None, flops, moved)


def hints(*operators, inference_ns=50 * MS, providers=("CPU",)):
    return {hint.code: hint for hint in operator_hints(operators, inference_ns, providers)}


EVEN = [op(f"c{i}", 0.25) for i in range(4)]


def test_a_model_as_it_should_be_gets_none():
    assert hints(*EVEN) == {}
    assert operator_hints((), None, ()) == ()


def test_operators_that_fell_back_have_their_share_and_crossings():
    on_cpu = op("b", 0.1)
    told = hints(op("a", 0.6, provider="CUDA"), on_cpu, op("c", 0.3, provider="CUDA"), providers=("CUDA", "CPU"))
    assert told["fell-back"] == FellBack((on_cpu,), "CUDA", 3)


def test_nothing_fell_back_where_the_cpu_is_what_was_meant():
    assert fell_back([op("a", 1.0)], ("CPU",)) == []
    assert fell_back([op("a", 1.0)], ()) == []
    assert fell_back([op("a", 1.0, provider="XNNPACK")], ("XNNPACK", "CPU")) == []


def test_what_xnnpack_and_the_cpu_take_from_a_delegate_fell_back():
    mixed = [op("a", 0.5, provider="Claiming"), op("b", 0.3, provider="XNNPACK"), op("c", 0.2)]
    told = hints(*mixed, providers=("/lib/libclaiming.so", "XNNPACK", "CPU"))
    assert [o.name for o in fell_back(mixed, ("/lib/libclaiming.so", "CPU"))] == ["b", "c"]
    assert told["fell-back"] == FellBack(tuple(mixed[1:]), "/lib/libclaiming.so", 3)
    assert "crossings" not in told


def test_everything_falls_back_from_a_provider_that_was_dropped():
    asked = EngineInfo(asked=("CUDA",), providers=("CPU",))
    assert len(fell_back(EVEN, asked.preferred)) == 4
    assert "fell-back" in hints(*EVEN, providers=asked.preferred)


def test_where_xnnpack_was_asked_for_the_cpu_alone_is_a_fallback():
    mixed = [op("a", 0.5, provider="XNNPACK"), op("b", 0.5)]
    for asked in ("XNNPACK", "Xnnpack", "/usr/lib/libxnnpack.so"):
        assert [o.name for o in fell_back(mixed, (asked, "CPU"))] == ["b"]


def test_crossings_are_told_whoever_takes_the_rest():
    two = [op("a", 0.6, provider="TensorRT"), op("b", 0.2, provider="CUDA"), op("c", 0.2, provider="TensorRT")]
    told = hints(*two, providers=("TensorRT", "CUDA", "CPU"))
    assert told["crossings"] == Crossings(("CUDA", "TensorRT"), 3)
    assert "fell-back" not in told


def unsettled(operator, ci95=(0.0, 1.0)):
    return replace(operator, settled=False, share_ci95=ci95)


def test_unsettled_operators_give_no_hint_about_their_time():
    every = [
        op("big", 0.88, "Gemm"),
        op("q", 0.1, "QuantizeLinear"),
        op("d", 0.2, "DynamicQuantizeLinear"),
        op("c", 0.2),
        op("relu", 0.2, "Relu"),
        *(op(f"c{i}", 0.1, flops=10**9, moved=10**7) for i in range(4)),
        op("slow", 0.5, flops=10**9, moved=10**7),
    ]
    assert len(hints(*every)) >= 5
    assert hints(*map(unsettled, every)) == {}


def test_providers_are_known_before_shares_are_settled():
    on_cpu = unsettled(op("b", 0.4))
    told = hints(op("a", 0.6, provider="CUDA"), on_cpu, providers=("CUDA", "CPU"))
    assert told["fell-back"] == FellBack((on_cpu,), "CUDA", 2)


def test_what_may_be_less_than_half_is_not_called_dominant():
    rest = op("rest", 0.45)
    assert "dominant-operator" not in hints(replace(op("big", 0.55), share_ci95=(0.48, 0.62)), rest)
    assert "dominant-operator" in hints(replace(op("big", 0.55), share_ci95=(0.52, 0.58)), rest)


def test_times_and_threads_give_no_advice_before_enough_is_known():
    threads = ThreadView(4, 0.5, "a", 100, 50.0)
    on_gpu = [op("a", 1.0, provider="CUDA")]
    few = operator_hints(on_gpu, 1 * MS, ("CUDA",), threads, is_enough=False)
    assert {notice.code for notice in few} == {"dominant-operator"}
    enough = {notice.code for notice in operator_hints(on_gpu, 1 * MS, ("CUDA",), threads)}
    assert enough == {"dominant-operator", "small-for-delegate", "thread-imbalance", "threads-moved"}


def test_one_burst_hit_by_a_preemption_gives_no_advice_anywhere():
    script = measured(10)
    script.profile([Operator("hit", "Add", "CPU", 1, 88_000), Operator("rest", "Conv", "CPU", 1, 12_000)], runs=1)
    analysis = Analysis()
    analysis.fold(script.whole())
    document = report_document(analysis)
    codes = {"dominant-operator", "slow-kernel", "conversions-time", "not-fused", "small-for-delegate"}
    assert not codes & {warning["code"] for warning in document["warnings"]}
    assert not codes & {notice.code for notice in analysis.view(None).notices}
    assert [(o["settled"], o["share_ci95"]) for o in document["operators"]] == [(False, None)] * 2


def test_an_operator_of_more_than_half_of_the_time_is_named():
    assert hints(op("big", 0.51), op("rest", 0.49))["dominant-operator"].operator.name == "big"
    assert "dominant-operator" not in hints(op("big", 0.5), op("rest", 0.5))


def test_a_kernel_far_below_others_like_it_is_slow():
    alike = [op(f"c{i}", 0.1, flops=10**9, moved=10**7) for i in range(4)]
    slow = op("slow", 0.5, flops=10**9, moved=10**7)
    assert slow_kernels([*alike, slow], 50 * MS) == [slow]
    assert hints(*alike, slow)["slow-kernel"].operators == (slow,)
    assert slow_kernels([*alike[:2], slow], 50 * MS) == []  # too few to compare with
    small = op("small", 0.02, flops=10**7, moved=10**5)
    assert slow_kernels([*alike, small], 50 * MS) == []


def conv(name, flops, share=0.1):
    return op(name, share, flops=flops, moved=flops // 100)


@pytest.mark.parametrize(("flops", "is_slow"), [(24 * 10**7, True), (26 * 10**7, False)])
def test_a_quarter_of_the_rate_of_three_others_is_slow(flops, is_slow):
    kernel = conv("slow", flops)
    assert bool(slow_kernels([*(conv(f"c{i}", 10**9) for i in range(3)), kernel], 50 * MS)) is is_slow


@pytest.mark.parametrize(("share", "is_slow"), [(0.029, False), (0.031, True)])
def test_three_percent_of_the_time_are_worth_a_hint(share, is_slow):
    kernel = conv("slow", 10**7, share)
    assert bool(slow_kernels([*(conv(f"c{i}", 10**9) for i in range(3)), kernel], 50 * MS)) is is_slow


def test_an_operator_that_moves_more_per_flop_is_not_slow():
    """Depthwise convolutions have the type of others, and never their FLOP/s."""
    pointwise = [op(f"c{i}", 0.1, flops=10**9, moved=10**7) for i in range(4)]
    assert slow_kernels([*pointwise, op("depthwise", 0.2, flops=10**8, moved=10**7)], 50 * MS) == []


def test_conversions_are_told_from_a_tenth_of_the_time_on():
    assert "conversions-time" in hints(*EVEN[:3], op("q", 0.1, "QuantizeLinear"))
    assert "conversions-time" in hints(*EVEN[:3], op("r", 0.1, "ReorderInput"))
    assert "conversions-time" not in hints(*EVEN[:3], op("q", 0.09, "QuantizeLinear"))


def test_dynamic_quantisation_is_told():
    assert "dynamic-quantisation" in hints(*EVEN[:3], op("q", 0.2, "DynamicQuantizeLinear"))


def test_an_activation_left_behind_a_convolution_is_told():
    assert "not-fused" in hints(op("c", 0.4), op("relu", 0.2, "Relu"), op("d", 0.4))
    xnnpack = [op("c", 0.4, "Convolution (NHWC, F32) IGEMM"), op("clamp", 0.2, "Clamp (NC)"), op("e", 0.4, "Add (ND)")]
    assert "not-fused" in hints(*xnnpack)
    assert "not-fused" not in hints(op("a", 0.4, "Add"), op("relu", 0.2, "Relu"), op("d", 0.4))


def test_a_small_model_on_an_accelerator_is_told():
    on_gpu = [op("a", 0.5, provider="CUDA"), op("b", 0.5, provider="CUDA")]
    assert "small-for-delegate" in hints(*on_gpu, inference_ns=4.9 * MS, providers=("CUDA", "CPU"))
    assert "small-for-delegate" not in hints(*on_gpu, inference_ns=5.1 * MS, providers=("CUDA", "CPU"))
    assert "small-for-delegate" not in hints(*EVEN, inference_ns=1 * MS)


def test_a_model_that_no_cpu_computes_as_fast_is_not_small():
    for tera, is_told in ((9, True), (11, False)):
        on_gpu = [op("a", 0.5, provider="CUDA", flops=tera * 10**9), op("b", 0.5, provider="CUDA")]
        assert ("small-for-delegate" in hints(*on_gpu, inference_ns=1 * MS, providers=("CUDA", "CPU"))) == is_told


def test_the_profiler_makes_no_model_slow():
    """An inference took 2 ms with the profiler, four times as long as without it."""
    assert plain_run_ns(2e6, 4.0) == 5e5
    assert plain_run_ns(2e6, None) == 2e6
    assert plain_run_ns(None, 4.0) is None


def test_hints_are_report_warnings_however_the_session_comes():
    script = measured(10)
    for _ in range(4):
        script.profile([Operator("big", "Gemm", "CPU", 8, 60_000), Operator("rest", "Add", "CPU", 8, 20_000)])
    whole, stepwise = Analysis(), Analysis()
    whole.fold(script.whole())
    for batch in script.batches:
        stepwise.fold(batch)
        stepwise.view(None)
    assert notices(whole) == notices(stepwise)
    codes = {warning["code"] for warning in report_document(whole)["warnings"]}
    assert "dominant-operator" in codes
