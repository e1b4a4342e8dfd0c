"""Moving in time: playing and seeking in a replay, and zooming and moving the time axis.

Only a replay can be played and sought. Looking back freezes a live screen and pauses a replay.
"""

from edgetop.feeds.feed_protocol import Transport
from edgetop.formatting import clock_time, parse_clock_time, span
from edgetop.ui.monitor_screen import NS, MonitorScreen

SPEEDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
THROTTLING = "throttle-begin"  # kind of event that begins a throttling span
JUST_PASSED_S = 2  # while replaying, going back skips an event this close behind, because it was just visited


def play(screen: MonitorScreen) -> None:
    if player := screen.feed.player:
        player.play(not player.transport.is_playing)
        screen.follow_time()
        screen.redraw_all()


def play_words(screen: MonitorScreen) -> str:
    """Return what the play key does now: "pause" while a replay plays, else "play"."""
    return "pause" if screen.transport and screen.transport.is_playing else "play"


def step_speed(screen: MonitorScreen, step: int) -> None:
    if player := screen.feed.player:
        now = player.transport.speed
        faster = [speed for speed in SPEEDS if speed > now]
        slower = [speed for speed in SPEEDS if speed < now]
        player.set_speed((faster or SPEEDS[-1:])[0] if step > 0 else (slower or SPEEDS[:1])[-1])
        screen.tick()


def seek_by(screen: MonitorScreen, seconds: int) -> None:
    if transport := screen.transport:
        screen.seek(transport.t_ns + seconds * NS)


def seek_end(screen: MonitorScreen) -> None:
    if transport := screen.transport:
        screen.seek(transport.end_ns)


def seek_event(screen: MonitorScreen, step: int, kind: str = "") -> None:
    """Go to the next event of a replay, or to the previous one if `step` is negative.

    If `kind` is not "", only events of this kind count, such as `throttle-begin`.
    """
    if transport := screen.transport:
        to_ns = next_mark(transport, step, kind)
        if to_ns is None:
            screen.report(f"no {_CALLED.get(kind, kind)} {'after' if step > 0 else 'before'} this")
        else:
            screen.seek(to_ns)


_CALLED = {"": "event", THROTTLING: "throttling"}


def next_mark(transport: Transport, step: int, kind: str = "") -> int | None:
    """Return the session time in ns of the next event of a replay, or of the previous one if `step` is negative.

    Return None if there is none. If a second has several events, its last one counts. If `kind` is not "", only events
    of this kind count, such as `throttle-begin`.
    """
    times = {mark.t_ns // NS: mark.t_ns for mark in transport.marks if kind in ("", mark.kind)}.values()
    if step > 0:
        return min((t_ns for t_ns in times if t_ns > transport.t_ns), default=None)
    passed_ns = int(JUST_PASSED_S * NS * transport.speed) if transport.is_playing else 0
    return max((t_ns for t_ns in times if t_ns < transport.t_ns - passed_ns), default=None)


def seek_throttling(screen: MonitorScreen) -> None:
    if transport := screen.transport:
        to_ns = next((mark.t_ns for mark in transport.marks if mark.kind == THROTTLING), None)
        if to_ns is None:
            screen.report("the board reported no throttling in this session", seconds=3)
        else:
            screen.seek(to_ns)


def open_go_to(screen: MonitorScreen) -> None:
    from edgetop.ui.dialogs import InputDialog  # noqa: PLC0415  not before it is opened

    if transport := screen.transport:
        dialog = InputDialog(
            f"Go to a time up to {clock_time(transport.end_ns)}", parse_clock_time, "Enter goes there, Esc cancels",
            placeholder="01:02:05, 90s, 1h02m ...", length=40,
        )  # fmt: skip
        screen.app.push_screen(dialog, lambda t_ns: None if t_ns is None else screen.seek(t_ns))


def zoom(screen: MonitorScreen, step: int) -> None:
    """Zoom the time axis in, or out if `step` is negative."""
    change = screen.lens.closer if step > 0 else screen.lens.wider
    screen.use_lens(change(_now_s(screen), whole=screen.window_ns is None))


def pan(screen: MonitorScreen, step: int) -> None:
    if step < 0:
        screen.hold()
    screen.use_lens(screen.lens.moved(step, _now_s(screen), whole=screen.window_ns is None))


def zoom_words(screen: MonitorScreen) -> str:
    """Return the text for the zoom keys in the last line: the span that the timelines show, such as `10m`.

    Return "zoom" if the timelines were moved but not zoomed, and "" if they were neither moved nor zoomed.
    """
    if screen.lens.is_plain:
        return ""
    return "zoom" if screen.lens.span_s is None else span(screen.lens.span_s * NS)


def pan_words(screen: MonitorScreen) -> str:
    """Return the text for the keys that move the timelines in the last line, or "" while the timelines are whole."""
    return "" if screen.lens.is_plain else "pan"


def _now_s(screen: MonitorScreen) -> float:
    return screen.view.progress.now_ns / NS
