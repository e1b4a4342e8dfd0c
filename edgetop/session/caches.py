"""The caches of a CPU, and the smallest one that holds the working set of an operator."""

from collections.abc import Sequence

from edgetop.frozen import frozen

MEMORY = "memory"  # in place of a cache, for a working set that is larger than every cache


@frozen
class Cache:
    level: int  # from 1
    size_bytes: int  # of the largest data cache of this level: cores of a board may differ


def cache_name(level: int) -> str:
    return f"L{level}"


def smallest_holding(working_set_bytes: int | None, caches: Sequence[Cache]) -> str | None:
    """Return the name of the smallest cache that holds a working set, MEMORY if none does, or None if unknown.

    `working_set_bytes`: bytes that the operator reads and writes, with its weights; None if unknown. `caches`: lowest
    level first; empty if unknown.
    """
    if working_set_bytes is None or not caches:
        return None
    return next((cache_name(one.level) for one in caches if working_set_bytes <= one.size_bytes), MEMORY)
