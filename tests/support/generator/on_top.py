"""Sessions that one cause slows, and later another much more: until both are over, or one of them goes on alone."""

import numpy as np

from tests.support.generator.effects import Effect, Truth
from tests.support.generator.kinds import BOARDS

ON_TOP = "on-top"
# A clock that fell already hides why it falls further.
FIRST_OF_TWO = ("unknown", "unknown", "thermal", "contention", "memory-pressure")
_NEVER_SECOND = frozenset({"unknown", "clock-change", "under-voltage"})


def draw_on_top(random: np.random.Generator, cause: str, board: str, length_s: float) -> tuple[Effect, ...]:
    start_s = float(random.uniform(12 if random.random() < 0.2 else 45, length_s - 75))
    later_s = start_s + float(random.uniform(6, max(7, min(60, length_s - start_s - 50))))
    end_s = float(random.uniform(later_s + 40, length_s)) if random.random() < 0.6 else length_s + 1
    over_s = float(random.uniform(later_s + 12, min(end_s, length_s) - 20)) if random.random() < 0.5 else end_s
    first = Effect(cause, start_s, end_s, float(random.uniform(1.12, 1.6)))
    second = str(random.choice([c for c in BOARDS[board][2] if c != cause and c not in _NEVER_SECOND]))
    how = "over-current" if second == "power-cap" and board == "jetson-orin" else ""
    return first, Effect(second, later_s, over_s, float(random.uniform(1.25, 2.2)), how=how)


def stages(effects: tuple[Effect, ...], end_s: float) -> tuple[Truth, ...]:
    """What each moment was slowed by: the later one, as long as it was at work."""
    first, later = effects
    over_s, later_s = min(first.end_s, end_s), min(later.end_s, end_s)
    found = [Truth(first.start_s, later.start_s, first.cause), Truth(later.start_s, later_s, later.cause)]
    return (*found, Truth(later_s, over_s, first.cause)) if later_s < over_s else tuple(found)
