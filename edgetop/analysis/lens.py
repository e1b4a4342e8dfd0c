"""The part of a session that its timelines show, as the user zooms and pans: its length, and how far back it ends."""

from dataclasses import dataclass, replace

from edgetop.analysis.timeline import Axis, choose_axis

ZOOMS_S = (20, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800)
LEAST_SPAN_S = 5
STEPS = 30  # in a span: an axis that follows time moves by one step at once, so charts are seldom redrawn as a whole
LEAST_STEP_S = 5
PANS = 4  # in a span


@dataclass(frozen=True, slots=True)
class Lens:
    span_s: int | None = None  # None: chosen by the session's age
    back_s: int = 0  # how far the end of the axis is moved back

    @classmethod
    def between(cls, begin_s: float, end_s: float, now_s: float) -> "Lens":
        """The part of the session from `begin_s` to `end_s`, and a little around it if it is short."""
        span = max(LEAST_SPAN_S, round(end_s - begin_s))
        to_s = max(span, round((begin_s + end_s + span) / 2))
        return cls(span, max(0, _end(now_s, span) - to_s))

    @property
    def is_plain(self) -> bool:
        return self.span_s is None and not self.back_s

    def axis(self, now_s: float, *, whole: bool) -> Axis:
        """`whole`: show the whole session if no span was chosen."""
        if self.is_plain:
            return choose_axis(now_s, whole)
        span = self._span(now_s, whole=whole)
        to_s = max(span, _end(now_s, span) - self.back_s)
        return Axis(to_s - span, to_s)

    def _span(self, now_s: float, *, whole: bool) -> int:
        if self.span_s is not None:
            return self.span_s
        axis = choose_axis(now_s, whole)
        return axis.to_s - axis.from_s

    def closer(self, now_s: float, *, whole: bool) -> "Lens":
        span = self._span(now_s, whole=whole)
        return self._around_the_middle(max((s for s in ZOOMS_S if s < span), default=span), now_s, whole=whole)

    def wider(self, now_s: float, *, whole: bool) -> "Lens":
        """Zoom out, up to the whole session."""
        span = self._span(now_s, whole=whole)
        if span > now_s:
            return self
        return self._around_the_middle(min((s for s in ZOOMS_S if s > span), default=span), now_s, whole=whole)

    def _around_the_middle(self, span: int, now_s: float, *, whole: bool) -> "Lens":
        """Set the span around the middle of the axis; an axis that follows time still does."""
        if not self.back_s:
            return replace(self, span_s=span)
        axis = self.axis(now_s, whole=whole)
        to_s = (axis.from_s + axis.to_s) // 2 + span // 2
        return Lens(span, self._clamped(_end(now_s, span) - to_s, span, now_s))

    def moved(self, step: int, now_s: float, *, whole: bool) -> "Lens":
        """Move by a quarter of the axis, back if `step` is negative, within the session."""
        span = self._span(now_s, whole=whole)
        back_s = self.back_s - step * max(1, span // PANS)
        return Lens(span, self._clamped(back_s, span, now_s))

    def _clamped(self, back_s: int, span: int, now_s: float) -> int:
        return min(max(back_s, 0), _end(now_s, span) - span)


def _end(now_s: float, span: int) -> int:
    """Return the end of an axis of that span that follows time."""
    step = max(1, span // STEPS, min(LEAST_STEP_S, span // PANS))
    return max(span, (int(now_s) // step + 1) * step)
