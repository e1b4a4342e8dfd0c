"""The caches of a CPU, and the smallest cache that holds the data of an operator."""

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
    """Return the name of the smallest CPU cache that holds an operator's data, such as "L2".

    The result is MEMORY if the data is larger than every cache, and None if `working_set_bytes` is None or `caches` is
    empty (unknown). `working_set_bytes` is the size of the operator's inputs, outputs and weights. `caches` are in
    ascending order of level.

    >>> smallest_holding(100_000, [Cache(1, 32_768), Cache(2, 524_288)])
    'L2'
    """
    if working_set_bytes is None or not caches:
        return None
    return next((cache_name(one.level) for one in caches if working_set_bytes <= one.size_bytes), MEMORY)
