"""Hints for making a model faster, from the times of its operators."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from edgetop.analysis.findings import (
    Conversions,
    Crossings,
    DominantOperator,
    DynamicQuantisation,
    FellBack,
    Hint,
    NotFused,
    SlowKernels,
    SmallForDelegate,
    ThreadImbalance,
    ThreadsMoved,
)
from edgetop.analysis.hotspots import Operators, OperatorsView, ThreadView, each_call_ns, partitions, short_name
from edgetop.analysis.operator_bounds import rates
from edgetop.analysis.operator_shares import OperatorView
from edgetop.session.median import median
from edgetop.session.operators import CPU, XNNPACK, hosts

# Share of the time from which one operator is dominant. Choice: half. Larger: a bottleneck is not named; smaller:
# every small model has one.
DOMINANT = 0.50
# Share of the time from which it is worth a hint that something computes nothing, could have been merged, or waits.
# Choice. Larger: waste is not named; smaller: hints that gain little.
NOTABLE = 0.10
# FLOP/s of a slow kernel, as a share of operators like it. Choice: a factor that shapes alone rarely explain. Larger:
# an unlucky shape is a slow kernel; smaller: reference kernels are not named.
SLOW = 0.25
# Share of the time from which a slow kernel is worth a hint. Choice. Larger: several small ones pass; smaller: hints
# that gain little.
SLOW_FROM_SHARE = 0.03
# Number of operators that one is compared with at least. Choice. Larger: small models get no hint; smaller: one fast
# neighbour decides.
LIKE_IT = 3
# Latency below which handing a model over to another device gains nothing. Choice: handing over costs about a
# millisecond. Larger: models that gain get the hint; smaller: small models are handed over unnoticed.
SMALL_NS = 5e6
# FLOP/s above which the CPU need not be tried. Choice: above what the CPU of any board reaches. Larger: models that no
# CPU computes as fast get the hint; smaller: models that the CPU of a server computes as fast get none.
FASTEST_CPU_FLOPS_PER_S = 10e12

# Number of moves of threads to other CPUs from which they count. Choice. Larger: short sessions get no hint; smaller:
# a few moves are one.
MOVES = 5
# The same for each second. Choice: a move costs some 0.1 ms or, to a slower CPU, a slice of 4 to 10 ms. Larger: moves
# that cost a percent pass; smaller: usual balancing is a hint.
MOVES_PER_S = 5.0

# Who runs nothing but what is its own, or is timed on its device, where handing over does not count.
_NOT_HANDED_TO = frozenset({CPU, XNNPACK, "TensorRT"})

_CONVERSIONS = ("quantize", "dequantize", "cast", "convert", "reorder", "reformat", "memcpy")
_DYNAMIC = ("DynamicQuantize", "MatMulIntegerToFloat", "ConvInteger", "MatMulInteger")
_CONVOLUTIONS = ("Conv", "QLinearConv", "CONV_2D", "DEPTHWISE_CONV_2D")
# Activations that a convolution can take in, in the runtimes' words; a Clip is XNNPACK's Clamp.
_ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "RELU", "RELU6", "Clamp")


def operator_hints(
    operators: Sequence[OperatorView],
    inference_ns: float | None,
    providers: Sequence[str],
    threads: ThreadView | None = None,
    *,
    is_enough: bool = True,
) -> tuple[Hint, ...]:
    """Return the hints that apply to a model, each with the operators that it is about.

    `operators`: the operators in the order in which they run. `inference_ns`: the time of an inference in ns; None if
    unknown. `providers`: the requested providers, followed by the engine's own providers, the first choice first.
    `threads`: how the engine's threads shared the work; None if unknown. `is_enough`: whether there are enough
    profiling rounds for hints about `threads` and about handing over to a delegate. A hint about times is given only
    for operators with enough samples.
    """
    settled = [operator for operator in operators if operator.settled]
    found = (
        _fell_back(operators, providers),
        _crossed(operators, providers),
        _dominant(settled),
        _slow(settled, inference_ns),
        _avoidable(operators),
        _handed_over(operators, inference_ns) if is_enough else (),
        _shared_badly(operators, threads) if threads and is_enough else (),
    )
    return tuple(hint for hints in found for hint in hints)


class BurstHints:
    """The hints from the last profiling rounds, for the screen. They are computed anew after each round."""

    def __init__(self) -> None:
        self._of: tuple[OperatorsView, Sequence[str]] | None = None
        self._hints: tuple[Hint, ...] = ()

    def now(self, operators: Operators, providers: Sequence[str]) -> tuple[Hint, ...]:
        view = operators.view()
        if self._of is None or self._of[0] is not view or self._of[1] != providers:
            self._of = view, providers
            threads = operators.threads.view()
            self._hints = operator_hints(
                view.operators,
                plain_run_ns(view.run_ns, view.overhead),
                providers,
                threads,
                is_enough=view.is_enough,
            )
        return self._hints


def session_hints(operators: Operators, providers: Sequence[str]) -> tuple[Hint, ...]:
    """Return the hints from all profiling rounds, for reports.

    `providers`: the requested providers, followed by the engine's own providers, the first choice first.
    """
    tally = operators.session
    threads = operators.threads.view()
    return operator_hints(
        tally.views(),
        plain_run_ns(tally.run_ns, operators.view().overhead),
        providers,
        threads,
        is_enough=tally.is_enough,
    )


def plain_run_ns(run_ns: float | None, overhead: float | None) -> float | None:
    """Return how many ns an inference takes without the profiler, or None if it is unknown.

    `run_ns`: the time of an instrumented inference in ns; None if unknown. `overhead`: that time divided by the time of
    a plain inference. If it is None (unknown), `run_ns` is returned.
    """
    return None if run_ns is None else run_ns / (overhead or 1.0)


def fell_back(operators: Iterable[OperatorView], providers: Sequence[str]) -> list[OperatorView]:
    """Return the operators that did not run on the preferred provider, the longest-running operator first.

    `providers`: the requested providers, followed by the engine's own providers, the first choice first.
    """
    others = hosts(providers)
    return sorted((o for o in operators if o.provider in others), key=lambda operator: -operator.share)


def _fell_back(operators: Sequence[OperatorView], providers: Sequence[str]) -> Iterator[Hint]:
    """Yield a hint about the operators that ran elsewhere than on the preferred provider.

    One instrumented inference is enough to show where an operator ran. The operators' share of the time is added when
    there are enough samples of it.
    """
    if found := fell_back(operators, providers):
        yield FellBack(tuple(found), providers[0], partitions(operators) or 1)


def _crossed(operators: Sequence[OperatorView], providers: Sequence[str]) -> Iterator[Hint]:
    """Yield a hint if inferences cross from one requested provider to another."""
    parts = partitions(operators) or 1
    if parts > 1 and not fell_back(operators, providers):
        yield Crossings(tuple(sorted({operator.provider for operator in operators})), parts)


def _dominant(operators: Sequence[OperatorView]) -> Iterator[Hint]:
    for operator in operators:
        if (operator.share_ci95 or (operator.share,))[0] > DOMINANT:
            yield DominantOperator(operator)


def slow_kernels(operators: Sequence[OperatorView], inference_ns: float | None) -> list[OperatorView]:
    """Return the operators that reach far fewer FLOP/s than similar operators.

    Operators are similar to an operator if they have its type, and at most twice its FLOPs per byte moved.
    `inference_ns`: the time of an inference in ns; None if unknown.
    """
    rated = []
    for operator in operators:
        rate = rates(operator.flops, None, each_call_ns(operator, inference_ns)).flops_per_s
        if rate and operator.flops and operator.bytes:
            rated.append((operator, rate, operator.flops / operator.bytes))
    found = []
    for operator, rate, intensity in rated:
        if operator.share < SLOW_FROM_SHARE:
            continue
        alike = [
            other_rate
            for other, other_rate, other_intensity in rated
            if other is not operator and other.op_type == operator.op_type and other_intensity <= 2 * intensity
        ]
        if len(alike) >= LIKE_IT and rate < SLOW * median(alike):
            found.append(operator)
    return found


def _slow(operators: Sequence[OperatorView], inference_ns: float | None) -> Iterator[Hint]:
    if found := slow_kernels(operators, inference_ns):
        yield SlowKernels(tuple(found))


def _avoidable(operators: Sequence[OperatorView]) -> Iterator[Hint]:
    """Yield hints about operators that cost time needlessly.

    Some operators only convert data or quantise it anew. Others could have been merged into the convolution before
    them.
    """
    settled = [operator for operator in operators if operator.settled]
    dynamic = [o for o in settled if o.op_type.startswith(_DYNAMIC)]
    conversions = [o for o in settled if any(word in o.op_type.lower() for word in _CONVERSIONS) and o not in dynamic]
    pairs = pairwise(operators)
    unmerged = [o for before, o in pairs if _type(before) in _CONVOLUTIONS and _type(o) in _ACTIVATIONS and o.settled]
    if _total(conversions) >= NOTABLE:
        yield Conversions(tuple(conversions))
    if _total(dynamic) >= NOTABLE:
        yield DynamicQuantisation(tuple(dynamic))
    if _total(unmerged) >= NOTABLE:
        yield NotFused(tuple(unmerged))


def _type(operator: OperatorView) -> str:
    """Return the plain type of an operator without XNNPACK's details: `Conv` for `Convolution (NHWC, F32) IGEMM`."""
    word = operator.op_type.partition(" (")[0]
    return {"Convolution": "Conv", "FusedConv": "Conv"}.get(word, word)


def _handed_over(operators: Sequence[OperatorView], inference_ns: float | None) -> Iterator[Hint]:
    """Yield a hint if an inference is so short that handing it over to an accelerator may take most of its time.

    There is no hint if the accelerator reaches more FLOP/s than any CPU can.
    """
    others = sorted({operator.provider for operator in operators} - _NOT_HANDED_TO)
    if not others or inference_ns is None or inference_ns >= SMALL_NS:
        return
    flops = sum(operator.flops * operator.calls for operator in operators if operator.flops)
    if flops / inference_ns * 1e9 < FASTEST_CPU_FLOPS_PER_S:
        yield SmallForDelegate(inference_ns, tuple(others))


def _shared_badly(operators: Sequence[OperatorView], threads: ThreadView) -> Iterator[Hint]:
    if threads.wait_share >= NOTABLE:
        most = next((short_name(operator) for operator in operators if operator.name == threads.most), threads.most)
        yield ThreadImbalance(threads, most)
    if threads.moves >= MOVES and threads.moves_per_s >= MOVES_PER_S:
        yield ThreadsMoved(threads.moves_per_s)


def _total(operators: Iterable[OperatorView]) -> float:
    return sum(operator.share for operator in operators)
