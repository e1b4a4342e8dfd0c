"""A part of a session's time."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.seconds import NS


@dataclass(frozen=True, slots=True)
class Span:
    """From `begin_ns` up to, not including, `end_ns`."""

    begin_ns: int = -(2**62)
    end_ns: int = 2**62

    def holds(self, t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        held: npt.NDArray[np.bool_] = (t_ns >= self.begin_ns) & (t_ns < self.end_ns)
        return held

    def touches(self, first_ns: int, last_ns: int) -> bool:
        """Whether something between these two may lie in it."""
        return last_ns >= self.begin_ns and first_ns < self.end_ns

    def in_steps_of(self, step_ns: int) -> "Span":
        """Widened to whole steps.

        >>> Span(1_500, 2_001).in_steps_of(1_000)
        Span(begin_ns=1000, end_ns=3000)
        """
        return Span(self.begin_ns // step_ns * step_ns, -(-self.end_ns // step_ns) * step_ns)

    def in_seconds(self) -> "Span":
        """Widened to whole seconds, which rows of `seconds` cannot be divided below."""
        return self.in_steps_of(NS)


WHOLE = Span()
