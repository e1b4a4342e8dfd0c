"""Which bursts tell how it is now."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from edgetop.session.operators import Burst
from edgetop.session.seconds import NS

# "Now": of a single burst, an operator of few microseconds says little. Three at least; of slow models, whose bursts
# have one run each, as many more as make ten runs, as long as these took about what the last ones do: when a board
# throttles, three bursts later only throttled ones count.
RECENT_BURSTS, MOST_RECENT_BURSTS = 3, 12
RECENT_RUNS = 10
RECENT_NS = 120 * NS
ALIKE = 0.15


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of a burst beside its operators."""

    runs: int
    run_ns: int  # median of its instrumented inferences as a whole


def recent_bursts(bursts: Sequence[tuple[Burst, Told]]) -> list[tuple[Burst, Told]]:
    """Those of them that tell how it is now."""
    newest_first = list(reversed(bursts))
    recent, before = newest_first[:RECENT_BURSTS], newest_first[RECENT_BURSTS:]
    runs = sum(told.runs for _, told in recent)
    now_ns = median(told.run_ns for _, told in recent) if recent else 0
    for burst, told in before:
        if runs >= RECENT_RUNS or recent[0][0].t_ns - burst.t_ns > RECENT_NS:
            break
        if abs(told.run_ns - now_ns) <= ALIKE * now_ns:
            recent.append((burst, told))
            runs += told.runs
    return recent[::-1]
