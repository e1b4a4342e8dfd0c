"""The limits of CPUs, CPU time, memory and disk that `--limit` sets for the engine or the program.

Every command that can run a session imports this module, so it imports nothing slow.
"""

import os
from collections.abc import Mapping, Sequence

from edgetop.errors import InputError
from edgetop.frozen import frozen

DEFAULT_PERIOD_US = 100_000  # of a quota, as in the kernel: Documentation/scheduler/sched-bwc.rst


@frozen
class Limit:
    """What the engine, or a watched program with all its children, is allowed to use. None means no limit."""

    cpus: int | None = None  # number of CPUs it is pinned to, and of threads if that option is not given
    memory_bytes: int | None = None
    quota_pct: float | None = None  # CPU time; 100 is one CPU
    period_us: int = DEFAULT_PERIOD_US  # length of the periods in which the quota is given
    swap_bytes: int = 0  # swap in addition to the memory; only with a limit of memory
    io_bytes_per_s: int | None = None  # for each disk: bytes that may be read, and as many that may be written

    @property
    def is_any(self) -> bool:
        """Whether at least one resource is limited."""
        return self.cpus is not None or self.needs_cgroup

    @property
    def needs_cgroup(self) -> bool:
        """Whether a limit needs a cgroup: a limit of memory, CPU time or disk traffic."""
        return any(value is not None for value in (self.memory_bytes, self.quota_pct, self.io_bytes_per_s))

    @property
    def quota_us(self) -> int | None:
        """The CPU time in us that the engine may use in each period of `period_us`. None means no limit."""
        return None if self.quota_pct is None else round(self.quota_pct / 100 * self.period_us)


def joined(limits: Sequence[Mapping[str, float]]) -> Limit:
    """Return one Limit with the fields of all mappings. Raises ValueError if a field occurs twice.

    Each mapping, such as `{"memory_bytes": 2**30}`, comes from one `--limit` option.
    """
    fields: dict[str, float] = {}
    for each in limits:
        if both := each.keys() & fields.keys():
            raise ValueError(f"{min(both).partition('_')[0]} is limited twice")
        fields.update(each)
    return Limit(**fields)  # type: ignore[arg-type]


def limit_of(given: Sequence[Mapping[str, float]]) -> Limit:
    """Return one Limit with the fields of all mappings, as `joined` does, checked against this machine.

    Raises InputError if a field occurs twice, or if a limit is above what this machine has.
    """
    try:
        limit = joined(given)
    except ValueError as error:
        raise InputError(f"--limit: {error}") from None
    refuse_unlimiting(limit, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), os.cpu_count() or 1)
    return limit


def refuse_unlimiting(limit: Limit, memory_bytes: int, cpus: int) -> None:
    """Raise InputError if a limit has no effect, because the machine has less `memory_bytes` or fewer `cpus`."""
    if limit.memory_bytes is not None and limit.memory_bytes > memory_bytes:
        has, given = (f"{size / 2**20:,.0f} MiB" for size in (memory_bytes, limit.memory_bytes))
        raise InputError(f"--limit memory: {given} limits nothing, because this machine has {has}", "give less")
    if limit.quota_pct is not None and limit.quota_pct > 100 * cpus:
        why = f"limits nothing, because this machine has {cpus} CPU{'' if cpus == 1 else 's'}"
        raise InputError(f"--limit quota: {limit.quota_pct:g}% {why}", "give less")
