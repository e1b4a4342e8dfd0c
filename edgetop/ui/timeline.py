"""Zooming and panning the one time axis that all panes share.

To look back, time must stand: a live screen is frozen, and a replay paused, by the first step back.
"""

from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.lens import Lens
from edgetop.formatting import span
from edgetop.ui.screenshot import ScreenshotScreen

NS = 1_000_000_000


class TimelineScreen(ScreenshotScreen):
    _view: MonitorView
    _lens = Lens()

    def hold(self) -> None:
        """Let time stand, on the screen."""
        raise NotImplementedError

    def action_zoom_time(self, step: int) -> None:
        """Closer, or for a negative step wider."""
        change = self._lens.closer if step > 0 else self._lens.wider
        self._look_through(change(self._now_s, whole=self._is_whole))

    def action_pan_time(self, step: int) -> None:
        if step < 0:
            self.hold()
        self._look_through(self._lens.moved(step, self._now_s, whole=self._is_whole))

    def action_pan_live(self, step: int) -> None:
        """The arrows, which seek in a replay."""
        self.action_pan_time(step)

    def action_whole_time(self) -> None:
        self._look_through(Lens())

    def _look_through(self, lens: Lens) -> None:
        if lens != self._lens:
            self._lens = lens
            self.redraw_all()

    def _follow_time(self) -> None:
        """Time goes on: what is looked at ends now again, as closely as before."""
        self._lens = Lens(self._lens.span_s)

    @property
    def _now_s(self) -> float:
        return self._view.progress.now_ns / NS

    @property
    def _is_whole(self) -> bool:
        return self._view.latency.window_ns is None

    def _timeline_keys(self) -> list[tuple[str, str]]:
        """For the last line: once they were used, and where time stands."""
        if self._lens.is_plain:
            return []
        words = "zoom" if self._lens.span_s is None else span(self._lens.span_s * NS)
        keys = [(self._pressed("closer", "wider"), words), (self._pressed("pan-back", "pan-on"), "pan")]
        return [*keys, (self._pressed("timeline-whole"), "timeline as it was")]
