"""What `--limit` allows the engine. A request of a run holds it, so this module loads nothing heavy."""

from collections.abc import Mapping, Sequence

from edgetop.frozen import frozen

DEFAULT_PERIOD_US = 100_000  # of a quota, as in the kernel: Documentation/scheduler/sched-bwc.rst


@frozen
class Limit:
    """The resources that the engine may use. None means no limit."""

    cpus: int | None = None  # number of CPUs it is pinned to, and of threads if that option is not given
    memory_bytes: int | None = None  # swap is not allowed either
    quota_pct: float | None = None  # CPU time; 100 is one CPU
    period_us: int = DEFAULT_PERIOD_US  # length of the periods in which the quota is given

    @property
    def is_any(self) -> bool:
        """Whether anything is limited."""
        return any(value is not None for value in (self.cpus, self.memory_bytes, self.quota_pct))

    @property
    def quota_us(self) -> int | None:
        """CPU time in microseconds that each period allows; None without a quota."""
        return None if self.quota_pct is None else round(self.quota_pct / 100 * self.period_us)


def joined(limits: Sequence[Mapping[str, float]]) -> Limit:
    """Combine several `--limit` options. Raises ValueError if a resource is limited twice."""
    fields: dict[str, float] = {}
    for each in limits:
        if both := each.keys() & fields.keys():
            raise ValueError(f"{min(both).partition('_')[0]} is limited twice")
        fields.update(each)
    return Limit(**fields)  # type: ignore[arg-type]
