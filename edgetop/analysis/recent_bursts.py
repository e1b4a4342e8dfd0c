"""Which bursts tell how it is now."""

from collections.abc import Sequence
from statistics import median

from edgetop.analysis.operator_shares import BurstInfo
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS, Burst

# Three at least; of slow models, whose bursts have one run each, as many more as it takes to settle, as long as these
# took about what the last ones do: when a board throttles, three bursts later only throttled ones count.
MOST_RECENT_BURSTS = 12
ALIKE = 0.15


def recent_bursts(bursts: Sequence[tuple[Burst, BurstInfo]]) -> list[tuple[Burst, BurstInfo]]:
    """Those of them that tell how it is now."""
    newest_first = list(reversed(bursts))
    recent, before = newest_first[:LEAST_BURSTS], newest_first[LEAST_BURSTS:]
    runs = sum(info.runs for _, info in recent)
    now_ns = median(info.run_ns for _, info in recent) if recent else 0
    for burst, info in before:
        if runs >= LEAST_RUNS:
            break
        if abs(info.run_ns - now_ns) <= ALIKE * now_ns:
            recent.append((burst, info))
            runs += info.runs
    return recent[::-1]
