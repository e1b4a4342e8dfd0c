"""The usage table: the CPU, memory, network and disks that sessions used, with a row for each session or group.

The keys are those in `usage` of `report --json`. A group of several sessions has the median of each figure, and the
highest of each peak.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from edgetop.analysis.usage import UsageFigures
from edgetop.comparison.sample import Group
from edgetop.frozen import frozen

PEAKS = ("cpu_peak_pct", "mem_peak_mib", "cgroup_peak_mib")
KEYS = (
    *("cpu_mean_pct", "cpu_peak_pct", "mem_mean_mib", "mem_peak_mib", "mem_limit_mib", "cgroup_peak_mib"),
    *("net_rx_bytes", "net_tx_bytes", "block_read_bytes", "block_write_bytes", "total_time_ms"),
)


@frozen
class UsageRow:
    name: str  # of the session or group
    values: tuple[float | None, ...]  # by KEYS; None: not known

    def to_json(self) -> dict[str, str | float | None]:
        return {"name": self.name, **dict(zip(KEYS, self.values, strict=True))}


def usage_row(name: str, usages: Iterable[UsageFigures | None]) -> UsageRow | None:
    """Return a row called `name` about the resources that one or several sessions used; None if no session has figures.

    `usages` has None for a session without figures.
    """
    known = [asdict(usage) for usage in usages if usage is not None]
    return UsageRow(name, tuple(_together(key, [one[key] for one in known]) for key in KEYS)) if known else None


def _together(key: str, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return known[0] if known else None
    return max(known) if key in PEAKS else statistics.median(known)


def usage_rows(groups: Sequence[Group]) -> tuple[UsageRow, ...]:
    """Return a row about used resources for each group of a comparison that has such figures."""
    rows = (usage_row(group.name, (one.report.usage for one in group.samples)) for group in groups)
    return tuple(row for row in rows if row is not None)
