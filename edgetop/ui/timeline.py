"""Zooming and panning the one time axis that all panes share.

To look back, time must stand: a live screen is frozen, and a replay paused, by the first step back.
"""

from edgetop.analysis.lens import Lens
from edgetop.formatting import span
from edgetop.ui.monitor import NS, MonitorScreen


def zoom(screen: MonitorScreen, step: int) -> None:
    """Closer, or for a negative step wider."""
    change = screen.lens.closer if step > 0 else screen.lens.wider
    screen.use_lens(change(_now_s(screen), whole=screen.window_ns is None))


def pan(screen: MonitorScreen, step: int) -> None:
    if step < 0:
        screen.hold()
    screen.use_lens(screen.lens.moved(step, _now_s(screen), whole=screen.window_ns is None))


def reset(screen: MonitorScreen) -> None:
    screen.use_lens(Lens())


def zoom_words(screen: MonitorScreen) -> str:
    """For the last line, once the timelines are not as they were."""
    if screen.lens.is_plain:
        return ""
    return "zoom" if screen.lens.span_s is None else span(screen.lens.span_s * NS)


def _now_s(screen: MonitorScreen) -> float:
    return screen.view.progress.now_ns / NS
