"""The roofline model: whether memory or arithmetic limits the speed of an operator.

An operator takes at least the time in which the memory moves its bytes, and at least the time in which the arithmetic
units do its FLOPs (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785).
"""

from dataclasses import replace

from edgetop.frozen import frozen
from edgetop.session.ceilings import DTYPE, INTEGERS, Ceilings
from edgetop.session.operators import ON_CPU, RESOLUTION_NS

# Share of an operator's time that a ceiling must explain to limit it. Choice: the rest goes to calls, to threads that
# wait for each other, or to a kernel that was not written for this shape. Larger: slow kernels of small operators are
# overhead; smaller: overhead is called memory or compute bound.
EXPLAINED = 0.10

MEMORY, COMPUTE, OVERHEAD = "memory-bound", "compute-bound", "overhead"
TOO_SHORT, ABOVE_CEILING = "too-short", "above-ceiling"


@frozen
class Rates:
    """The FLOP/s and bytes/s that an operator achieved. An unknown rate is None."""

    flops_per_s: float | None
    bytes_per_s: float | None
    # Why a rate cannot be measured: TOO_SHORT (neither can), ABOVE_CEILING (the bytes did not come from memory), or
    # None if both can, as far as the work is known.
    not_measurable: str | None = None


def rates(flops: int | None, moved: int | None, ns: float | None, ceilings: Ceilings | None = None) -> Rates:
    """Return the FLOP/s and bytes/s of one call of an operator.

    `flops`: the call's FLOPs. `moved`: the bytes that the call moves. `ns`: the time of the call in ns. `ceilings`: the
    highest rates of the board. An unknown argument is None. If the call is too short for the runtime's clock, both
    rates are None. If the bytes/s are higher than the memory allows, the bytes came from a cache, and the bytes/s are
    None.
    """
    if not ns or ns <= 0:
        is_short = ns is not None and (flops is not None or moved is not None)
        return Rates(None, None, TOO_SHORT if is_short else None)
    if ns < RESOLUTION_NS:
        return Rates(None, None, TOO_SHORT if flops is not None or moved is not None else None)
    flops_per_s = None if flops is None else flops / ns * 1e9
    bytes_per_s = None if moved is None else moved / ns * 1e9
    if bytes_per_s is not None and ceilings is not None and bytes_per_s > ceilings.bytes_per_s:
        return Rates(flops_per_s, None, ABOVE_CEILING)
    return Rates(flops_per_s, bytes_per_s)


def bound(flops: int | None, moved: int | None, ns: float | None, ceilings: Ceilings | None) -> str | None:
    """Return what limits a call of an operator: MEMORY, COMPUTE, or OVERHEAD if neither explains the time.

    `flops`: the call's FLOPs. `moved`: the bytes that the call moves. `ns`: the time of the call in ns. `ceilings`: the
    highest rates of the board. The result is None if any argument is None (unknown), or if `ns` is too short to be
    measured.
    """
    if flops is None or moved is None or not ns or ns < RESOLUTION_NS or ceilings is None:
        return None
    compute_ns, memory_ns = flops / ceilings.flops_per_s * 1e9, moved / ceilings.bytes_per_s * 1e9
    if max(compute_ns, memory_ns) < EXPLAINED * ns:
        return OVERHEAD
    return COMPUTE if compute_ns >= memory_ns else MEMORY


def of_provider(ceilings: Ceilings | None, provider: str) -> Ceilings | None:
    """Return `ceilings`, the CPU's highest rates, if operators of `provider` run on the CPU, or else None.

    The highest rates of other devices are not measured.
    """
    return ceilings if provider in ON_CPU else None


def applicable(ceilings: Ceilings | None, precision: str | None) -> Ceilings | None:
    """Return the highest rates of the board that apply to models of this precision, or None if there are none.

    `ceilings`: the measured highest rates; None if unknown. `precision`: the data type of the model, such as "int8". If
    it is None (unknown), the rates of float32 apply.
    """
    if ceilings is None or precision in (None, DTYPE):
        return ceilings
    if precision in INTEGERS and ceilings.int8_flops_per_s:
        return replace(ceilings, flops_per_s=ceilings.int8_flops_per_s)
    return None
