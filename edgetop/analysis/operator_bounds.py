"""The roofline: whether memory or arithmetic limits an operator.

The roofline model (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785): no
operator can be faster than its bytes through the memory and its FLOPs through the units.
"""

from edgetop.frozen import frozen
from edgetop.session.ceilings import DTYPE, Ceilings

# Share of an operator's time that a ceiling must explain to limit it. Choice: the rest goes to calls, to threads that
# wait for each other, or to a kernel that was not written for this shape. Larger: slow kernels of small operators are
# overhead; smaller: overhead is called memory or compute bound.
EXPLAINED = 0.10

MEMORY, COMPUTE, OVERHEAD = "memory-bound", "compute-bound", "overhead"


@frozen
class Rates:
    """The rates that an operator achieved; None if unknown."""

    flops_per_s: float | None
    bytes_per_s: float | None


def rates(flops: int | None, moved: int | None, ns: float | None) -> Rates:
    """Return the rates of a call that takes `ns`, computes `flops` and moves `moved` bytes. None means unknown."""
    if not ns or ns <= 0:
        return Rates(None, None)
    return Rates(None if flops is None else flops / ns * 1e9, None if moved is None else moved / ns * 1e9)


def bound(flops: int | None, moved: int | None, ns: float | None, ceilings: Ceilings | None) -> str | None:
    """Return what limits a call: MEMORY, COMPUTE or OVERHEAD; None if an argument is unknown.

    `flops`, `moved`, `ns`: its FLOPs, the bytes that it moves, and its time. `ceilings`: the highest rates of the
    board.
    """
    if flops is None or moved is None or not ns or ns <= 0 or ceilings is None:
        return None
    compute_ns, memory_ns = flops / ceilings.flops_per_s * 1e9, moved / ceilings.bytes_per_s * 1e9
    if max(compute_ns, memory_ns) < EXPLAINED * ns:
        return OVERHEAD
    return COMPUTE if compute_ns >= memory_ns else MEMORY


def applicable(ceilings: Ceilings | None, precision: str | None) -> Ceilings | None:
    """Return the ceilings if they hold for a model of this `precision`, else None.

    They also hold if the precision is None (unknown).
    """
    return ceilings if precision in (None, DTYPE) else None
