"""The roofline: whether memory or arithmetic limits an operator.

The roofline model (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785): no
operator can be faster than its bytes through the memory and its FLOPs through the units.
"""

from dataclasses import replace

from edgetop.frozen import frozen
from edgetop.session.ceilings import DTYPE, INTEGERS, Ceilings
from edgetop.session.operators import RESOLUTION_NS

# Share of an operator's time that a ceiling must explain to limit it. Choice: the rest goes to calls, to threads that
# wait for each other, or to a kernel that was not written for this shape. Larger: slow kernels of small operators are
# overhead; smaller: overhead is called memory or compute bound.
EXPLAINED = 0.10

MEMORY, COMPUTE, OVERHEAD = "memory-bound", "compute-bound", "overhead"
TOO_SHORT, ABOVE_CEILING = "too-short", "above-ceiling"


@frozen
class Rates:
    """The rates that an operator achieved; None if unknown."""

    flops_per_s: float | None
    bytes_per_s: float | None
    # Why a rate cannot be measured: TOO_SHORT (neither can), ABOVE_CEILING (the bytes did not come from memory), or
    # None if both can, as far as the work is known.
    not_measurable: str | None = None


def rates(flops: int | None, moved: int | None, ns: float | None, ceilings: Ceilings | None = None) -> Rates:
    """Return the rates of a call that takes `ns`, computes `flops` and moves `moved` bytes. None means unknown.

    A call that is shorter than the runtime's clock can resolve has no rates. A call that moves its bytes faster than
    the memory can (`ceilings`) took them from a cache, so it has no bandwidth.
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
    """Return what limits a call: MEMORY, COMPUTE or OVERHEAD; None if an argument is unknown or `ns` is too short.

    `flops`, `moved`, `ns`: its FLOPs, the bytes that it moves, and its time. `ceilings`: the highest rates of the
    board.
    """
    if flops is None or moved is None or not ns or ns < RESOLUTION_NS or ceilings is None:
        return None
    compute_ns, memory_ns = flops / ceilings.flops_per_s * 1e9, moved / ceilings.bytes_per_s * 1e9
    if max(compute_ns, memory_ns) < EXPLAINED * ns:
        return OVERHEAD
    return COMPUTE if compute_ns >= memory_ns else MEMORY


def applicable(ceilings: Ceilings | None, precision: str | None) -> Ceilings | None:
    """Return the ceilings that hold for a model of this `precision`, or None if there are none.

    Those of float32 also hold if the precision is None (unknown).
    """
    if ceilings is None or precision in (None, DTYPE):
        return ceilings
    if precision in INTEGERS and ceilings.int8_flops_per_s:
        return replace(ceilings, flops_per_s=ceilings.int8_flops_per_s)
    return None
