"""Which operators fit into the caches of a CPU, in words."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.session.caches import Cache, cache_name, smallest_holding


def cache_sizes(caches: Sequence[Cache]) -> str:
    """Return the sizes of the caches as text.

    >>> cache_sizes([Cache(1, 32 * 1024), Cache(2, 1024 * 1024)])
    'L1 32.0 KiB, L2 1.0 MiB'
    """
    return ", ".join(f"{cache_name(one.level)} {formatting.size(one.size_bytes)}" for one in caches)


def fit_words(working_sets: Sequence[tuple[str, int | None]], caches: Sequence[Cache]) -> list[str]:
    """Return two lines: for each cache, how many operators are too large for it; and the largest operator.

    Return [] if nothing is known. `working_sets` has, for each operator, its name and the bytes that it reads and
    writes, or None if unknown. Names must be safe to print.
    """
    known = [(name, size) for name, size in working_sets if size is not None]
    if not caches or not known:
        return []
    beyond = [(one, sum(size > one.size_bytes for _, size in known)) for one in caches]
    of_all = f" of {formatting.quantity(len(known), 'operator')}"
    too_large = ", ".join(
        f"{number}{of_all if place == 0 else ''} for {cache_name(one.level)}"
        for place, (one, number) in enumerate((one, number) for one, number in beyond if number)
    )
    unknown = len(working_sets) - len(known)
    more = f" ({formatting.quantity(unknown, 'operator')} of unknown size)" if unknown else ""
    name, size = max(known, key=lambda one: one[1])
    place = smallest_holding(size, caches)
    largest, last = formatting.size(size), caches[-1]
    end = (
        f"does not fit into {cache_name(last.level)} ({formatting.size(last.size_bytes)})"
        if size > last.size_bytes
        else f"fits into {place}"
    )
    head = f"too large: {too_large}" if too_large else f"all of {len(known)} fit into {cache_name(caches[0].level)}"
    return [f"{head}{more}", f"largest: {name}, {largest}, {end}"]
