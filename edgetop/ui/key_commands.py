"""The commands of the screen of a session: their keys, when they can be used, and what they do.

The table `COMMANDS` defines all keys. The last line of the screen, the help, the command palette and the settings of
keys are made from it, in its order. So the most important commands come first. A key may do one thing on a live screen
and another in a replay.
"""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Protocol

from textual.app import App

from edgetop.analysis.timeline import Lens
from edgetop.feeds.feed_protocol import Can
from edgetop.formatting import clean, quantity, size, span
from edgetop.paths import bytes_below
from edgetop.session.events import Order, Severity
from edgetop.ui import playback
from edgetop.ui.characters import CharacterSet, choose_theme
from edgetop.ui.keys import AnyCommand, Command, Entry, help_lines
from edgetop.ui.layout import PANES
from edgetop.ui.monitor_screen import Host, MonitorScreen
from edgetop.ui.pane_widget import PaneWidget
from edgetop.ui.process_dialog import KINDS, open_process
from edgetop.ui.screen_settings import WINDOWS_NS

EXPLANATION = """\
Percentiles are nearest-rank. A "?" behind a percentile marks too few inferences. In the \
latency map, a colour is the share of the inferences of a column; p50 is a light line, p99 an \
orange one. Longer latencies are in its top row. All timelines share one time axis. \
With a focused pane (Tab), ? explains that pane in its place.

More: edgetop help"""
REFRESHES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

# Dialogs are imported when they are opened, so that the screen appears sooner.
# ruff: noqa: PLC0415


class CommandedScreen(Protocol):
    """The part of a screen that commands use. It is the same for the screen of one session and that of many boards."""

    host: Host
    characters: CharacterSet

    @property
    def app(self) -> App[object]: ...

    def present_commands(self) -> Iterator[AnyCommand]: ...


def _open_sessions(screen: MonitorScreen) -> None:
    from edgetop.ui.sessions_dialog import open_sessions

    open_sessions(screen)


def open_help(screen: CommandedScreen, explanation: str) -> None:
    from edgetop.ui.dialogs import help_dialog

    screen.app.push_screen(help_dialog(help_lines(screen.present_commands()), explanation))


def _open_help(screen: MonitorScreen) -> None:
    """Show the explanation of the focused pane, in place of what the pane shows.

    Open the list of all keys instead if that explanation is shown already, or if no pane has the focus.
    """
    pane = screen.focused  # not `has_focus`, which the pane learns later than a quick second key comes
    if isinstance(pane, PaneWidget) and not pane.stop_explaining():
        pane.explain()
    else:
        open_help(screen, EXPLANATION)


def _open_palette(screen: MonitorScreen) -> None:
    from edgetop.ui.dialogs import PaletteDialog

    dialog = PaletteDialog(palette_entries(screen), ascii_only=screen.characters.ascii_only)
    screen.app.push_screen(dialog, lambda entry: entry.run() if entry else None)


def palette_entries(screen: MonitorScreen) -> list[Entry]:
    """Return the entries of the command palette: commands, time windows for percentiles, themes and export formats."""
    alike: dict[str, list[Command[MonitorScreen]]] = {}
    for command in sorted(screen.present_commands(), key=lambda command: command.help != _ALONE):
        alike.setdefault(command.words, []).append(command)
    entries = [
        Entry(words, " ".join(key for command in same for key in command.key_words), partial(same[0].run, screen))
        for words, same in alike.items()
    ]
    windows = [
        (f"window of the percentiles: {name}", partial(screen.use_window, ns)) for name, ns in WINDOWS_NS.items()
    ]
    themes = [(f"theme {name}", partial(screen.host.use_theme, name)) for name in screen.host.theme_names]
    exports = [
        (f"export to {form}: {what}", partial(screen.exports.begin, form))
        for form, what in screen.exports.forms.items()
    ]
    reset = [("Reset view settings: sort order, layout, theme, window", partial(_reset_view, screen))]
    return [*entries, *(Entry(words, "", run) for words, run in (*reset, *windows, *themes, *exports))]


def _reset_view(screen: MonitorScreen) -> None:
    """Return to the default sort order, layout, theme and time window for percentiles."""
    screen.reset_view()
    screen.host.use_theme(screen.settings.reset_theme or choose_theme())
    screen.report("sort order, layout, theme and window are reset", seconds=3)


def _open_leave(screen: MonitorScreen) -> None:
    if screen.analysis.progress.view().phase == "over" or Can.STOP not in screen.feed.can:
        screen.app.exit()
        return
    from edgetop.ui.dialogs import Choice, ChoiceDialog

    can_detach = Can.DETACH in screen.feed.can
    leaves = "leave it running; edgetop attach returns" if can_detach else "leave it running here, with progress lines"
    stops = "stop the run, finish its recording" if can_detach else "stop the run"
    choices = [Choice("q,enter,d,g", leaves, _leave), Choice("s,Q", stops, stop_and_leave)]
    dialog = ChoiceDialog("Leave the screen", choices, below="\n\nEnter  as q\nEsc    stay")
    screen.app.push_screen(dialog, lambda run: run(screen) if run else None)


def _leave(screen: MonitorScreen) -> None:
    screen.app.exit()


def stop_and_leave(screen: MonitorScreen) -> None:
    if Can.STOP in screen.feed.can:
        screen.feed.order(Order("stop"))
    screen.app.exit()


def _open_stop(screen: MonitorScreen) -> None:
    """Ask whether to stop a run that another process made, and stop it if the user agrees."""
    from edgetop.ui.dialogs import Choice, ChoiceDialog

    choices = [Choice("s", "stop it, finish its recording", Order("stop")), Choice("q,Q,ctrl+c", "", None)]
    dialog = ChoiceDialog("Stop the run", choices, below="\nEsc  leave it running")
    screen.app.push_screen(dialog, lambda order: screen.feed.order(order) if order else None)


def open_filter(screen: CommandedScreen, rows: str, before: str, use: Callable[[str], None]) -> None:
    """Ask the user for words. Only rows with all these words are then shown.

    `rows` says what the rows are, such as `events`, and `before` is the present filter. `use` is called with the words
    at each change, and with `before` if the user cancels.
    """
    from edgetop.ui.dialogs import InputDialog

    examples = {"operators": "conv ...", "events": "warning ...", "sensors": "temp ..."}
    dialog = InputDialog(
        f"Show the {rows} with these words", str, "Enter keeps the filter; no words show all; Esc cancels",
        placeholder=examples.get(rows, ""), text=before, changed=use,
    )  # fmt: skip
    dialog.add_class("bottom")
    screen.app.push_screen(dialog, lambda words: use(before if words is None else words))


def _open_filter(screen: MonitorScreen) -> None:
    pane = screen.listing_pane(lambda drawing: bool(drawing.rows))
    before = pane.listing
    open_filter(screen, pane.drawing.rows, before.words, lambda words: pane.use_listing(replace(before, words=words)))


def _step_severity(screen: MonitorScreen) -> None:
    pane = screen.listing_pane(lambda drawing: drawing.rows == "events")
    graver: dict[str, Severity] = {"info": "warning", "warning": "critical", "critical": "info"}
    pane.use_listing(replace(pane.listing, least=graver[pane.listing.least]))
    if not pane.display:
        screen.report(f"events: {pane.listing.least} and worse")


def _open_item(screen: MonitorScreen) -> None:
    """Show all details of the list entry under the cursor. A replay also goes to the time of that entry.

    If no list entry has the cursor, zoom the timelines to their time cursor. If the timelines have no time cursor
    either, put the cursor on a list entry.
    """
    from edgetop.ui.dialogs import TextDialog

    pane = screen.chosen_pane
    if screen.cursor_s is not None and pane.item is None:
        _zoom_to_cursor(screen)
    elif pane.item is None:
        pane.move(1)
    elif item := pane.item:
        if item.t_ns is not None:
            screen.seek(item.t_ns)
        screen.app.push_screen(TextDialog(pane.drawing.name, item.detail()))


def _copy(screen: MonitorScreen) -> None:
    """Copy the row under the cursor to the clipboard, else the text of the focused pane, else the verdict line."""
    pane = screen.chosen_pane
    _copy_text(screen, pane.text if pane.item or pane.has_focus else screen.verdict_text)


def _copy_command(screen: MonitorScreen) -> None:
    manifest = screen.live.manifest
    if manifest and manifest.command:
        _copy_text(screen, shlex.join(manifest.command))
    else:
        screen.report("the command that made this session is not recorded")


def _copy_text(screen: MonitorScreen, text: str) -> None:
    screen.app.copy_to_clipboard(text)
    lines = text.split("\n")
    more = f" and {quantity(len(lines) - 1, 'more line')}" if lines[1:] else ""
    screen.report(f"copied: {lines[0].strip()}{more}")


def _sort(screen: MonitorScreen) -> None:
    pane = screen.listing_pane(lambda drawing: bool(drawing.orders))
    screen.sort(pane)
    if not pane.display:
        screen.report(f"{pane.drawing.name}: {pane.listing.order_of(pane.drawing.orders)}")


def _profile(screen: MonitorScreen) -> None:
    operators = screen.live.operators
    if operators.way:
        screen.feed.order(Order("profile"))
        screen.report("profiling: hotspots show the result when it is done", seconds=3)
    else:
        text = operators.reason or "operators are not profiled: --profile-every 0"
        screen.report(f"operators: {clean(text)}", seconds=5)


def open_mark(screen: CommandedScreen, mark: Callable[[str], None]) -> None:
    """Ask for a note, and call `mark` with it, unless the user cancels. An empty note becomes "mark"."""
    from edgetop.ui.dialogs import InputDialog

    dialog = InputDialog(
        "Mark this moment", lambda text: text or "mark", "Enter marks, Esc cancels",
        placeholder="what happened: fan on, door closed ...", length=500,
    )  # fmt: skip
    screen.app.push_screen(dialog, lambda note: mark(note) if note else None)


def _open_recording(screen: MonitorScreen) -> None:
    """Show the path and the size of the recording, and offer to pause or resume it."""
    from edgetop.ui.dialogs import Choice, ChoiceDialog

    settings, paused = screen.settings, screen.live.recording_paused
    folder, host = settings.recording_now, settings.recording_host
    can_pause = Can.PAUSE_RECORDING in screen.feed.can and settings.recording is not None
    words = "This session is not recorded (--no-record)."
    choices: list[Choice[Order]] = [Choice("r,q", "", None)]
    if folder is not None:
        state = "paused" if paused else "recording" if can_pause else "finished"
        where = clean(f"{host}:{folder}".removeprefix(":"), ascii_only=screen.characters.ascii_only)
        words = f"{where}\n{'' if host else f'{size(bytes_below(folder))} on the disk, '}{state}"
    if folder is not None and can_pause:
        pause = "resume the recording" if paused else "pause the recording; leaves a gap, the run continues"
        choices.insert(0, Choice("p", pause, Order("resume" if paused else "pause")))
    dialog = ChoiceDialog("Recording", choices, above=words)
    screen.app.push_screen(dialog, lambda order: screen.feed.order(order) if order else None)


def _reset(screen: MonitorScreen) -> None:
    screen.analysis.reset()
    screen.draw()
    screen.report("statistics reset; the recording keeps everything", seconds=3)


def _choose_stream(screen: MonitorScreen) -> None:
    name = screen.analysis.choose_stream()
    screen.draw()
    screen.report(f"latency of {clean(name)}" if name else "this session has one model", seconds=3)


def _switch_response(screen: MonitorScreen) -> None:
    load = screen.live.manifest.load if screen.live.manifest else None
    if load is None or not load.is_paced:
        screen.report(
            "no pace was asked for, so every inference begins at once: all times are service times", seconds=3
        )
        return
    screen.analysis.shows_service = not screen.analysis.shows_service
    screen.draw()
    is_service = screen.analysis.shows_service
    words = "service time: from the start of an inference" if is_service else "response time: from the intended start"
    screen.report(words, seconds=3)


def _zoom_to_cursor(screen: MonitorScreen) -> None:
    """Zoom the timelines to about a tenth of their span, with the time under the cursor in the middle.

    The new span is at least 10 s.
    """
    if screen.cursor_s is None:
        screen.report("move the cursor with the left and right keys first", seconds=3)
        return
    axis = screen.view.axis
    half_s = max(5.0, (axis.to_s - axis.from_s) / 20)
    at, now_s = screen.cursor_s, screen.view.progress.now_ns / 1e9
    screen.hold()
    screen.use_lens(screen.lens.between(at - half_s, at + half_s, now_s))


def open_themes(screen: CommandedScreen) -> None:
    from edgetop.ui.dialogs import PaletteDialog

    host, before, names = screen.host, screen.host.theme_name, screen.host.theme_names
    dialog = PaletteDialog(
        [Entry(name, "", partial(host.use_theme, name)) for name in names],
        ascii_only=screen.characters.ascii_only, heading="Theme", placeholder="name of a theme; Enter keeps it",
        first=names.index(before), seen=lambda entry: entry.run(),
    )  # fmt: skip
    dialog.add_class("right")
    screen.app.push_screen(dialog, lambda entry: entry.run() if entry else host.use_theme(before))


def _step_window(screen: MonitorScreen) -> None:
    windows = list(WINDOWS_NS.values())
    screen.use_window(windows[(windows.index(screen.window_ns) + 1) % len(windows)])


def _step_refresh(screen: MonitorScreen, step: int) -> None:
    nearest = min(range(len(REFRESHES_S)), key=lambda i: abs(REFRESHES_S[i] - screen.refresh_s))
    screen.refresh_every(REFRESHES_S[min(max(nearest + step, 0), len(REFRESHES_S) - 1)])
    screen.draw_frame()
    screen.report(f"refresh every {_period(screen)}")


def _period(screen: MonitorScreen) -> str:
    return span(screen.refresh_s * 1e9)


def _refresh_words(screen: MonitorScreen) -> str:
    if screen.feed.player:
        return ""
    return "refresh" if screen.refresh_s == screen.settings.refresh_s else f"every {_period(screen)}"


def _list_words(screen: MonitorScreen, words: str, attribute: str) -> str:
    """Return `words` if the focused pane supports a command, else "".

    `attribute` is the name of a field of the pane's `Drawing`, such as `orders` for sorting. The pane supports the
    command if this field is not empty.
    """
    pane = screen.focused
    return words if isinstance(pane, PaneWidget) and getattr(pane.drawing, attribute) else ""


_THROTTLINGS = "next throttling, previous throttling"
_EVENTS, _SPEEDS = "next event, previous event", "slower, faster: 0.1x to 1000x"
_PANES, _PANS, _ZOOMS = "next pane, previous pane", "move the timelines back, forward", "zoom the timelines in, out"
_SEEKS, _EDGES, _TOP_END = "seek -10 s, +10 s", "seek to the start, to the end", "scroll to the top, to the end"
_CURSOR = "read all values at an earlier, later moment"
_ROWS, _PAGE, _REFRESH = "choose a row, or scroll", "scroll by a page", "refresh more often, less often"
_Y_ZOOMS = "zoom the latency axis in, out"
_ALONE = "show that pane alone"
_RUN_CONTINUES = "leave; the run continues"

COMMANDS: tuple[Command[MonitorScreen], ...] = (
    Command("help", "question_mark,f1", "help", _open_help, footer="help"),
    Command("leave", "q", "leave; asks once, q or Enter then lets the run continue", _open_leave, footer="leave",
            replaced_with=Can.VISIT | Can.SEEK),
    Command("leave-replay", "q", "leave", _leave, footer="leave", needs=Can.SEEK),
    Command("depart", "q,d", _RUN_CONTINUES, _leave, footer="leave", needs=Can.VISIT),
    Command("stop", "Q", "stop and leave", stop_and_leave, replaced_with=Can.VISIT),
    Command("stop-other", "Q", "stop the run; asks first", _open_stop, needs=Can.VISIT | Can.STOP),
    Command("detach", "d", "detach: the run continues; edgetop attach returns", _leave, footer="detach",
            needs=Can.DETACH, asks="the run continues, edgetop attach returns"),
    # In a replay.
    Command("play", "space", "play, pause", playback.play,
            footer=playback.play_words, needs=Can.SPEED),
    Command("slower", "less_than_sign", "play slower", lambda s: playback.step_speed(s, -1), help=_SPEEDS,
            footer="speed", needs=Can.SPEED),
    Command("faster", "greater_than_sign", "play faster", lambda s: playback.step_speed(s, 1),
            help=_SPEEDS, footer="speed", needs=Can.SPEED),
    Command("back-10s", "left,h", "seek -10 s", lambda s: playback.seek_by(s, -10), help=_SEEKS, needs=Can.SEEK),
    Command("on-10s", "right,l", "seek +10 s", lambda s: playback.seek_by(s, 10), help=_SEEKS, needs=Can.SEEK),
    Command("back-1min", "shift+left", "seek -1 min", lambda s: playback.seek_by(s, -60), needs=Can.SEEK),
    Command("on-1min", "shift+right", "seek +1 min", lambda s: playback.seek_by(s, 60), needs=Can.SEEK),
    Command("replay-cursor-back", "comma", "read all values at an earlier moment", lambda s: s.step_cursor(-1),
            help=_CURSOR, footer="read", needs=Can.SEEK),
    Command("replay-cursor-on", "full_stop", "read all values at a later moment", lambda s: s.step_cursor(1),
            help=_CURSOR, footer="read", needs=Can.SEEK),
    Command("start", "home", "seek to the start", lambda s: s.seek(0), help=_EDGES, needs=Can.SEEK),
    Command("end", "end", "seek to the end", playback.seek_end, help=_EDGES, needs=Can.SEEK),
    Command("next-throttling", "n", "next throttling", lambda s: playback.seek_event(s, 1, playback.THROTTLING),
            help=_THROTTLINGS, footer="throttling", needs=Can.SEEK),
    Command("previous-throttling", "p,N", "previous throttling",
            lambda s: playback.seek_event(s, -1, playback.THROTTLING), help=_THROTTLINGS, footer="throttling",
            needs=Can.SEEK),
    Command("throttling", "T", "first throttling", playback.seek_throttling, needs=Can.SEEK),
    Command("next-event", "right_square_bracket", "next event", lambda s: playback.seek_event(s, 1), help=_EVENTS,
            footer="event", needs=Can.SEEK),
    Command("previous-event", "left_square_bracket", "previous event", lambda s: playback.seek_event(s, -1),
            help=_EVENTS, footer="event", needs=Can.SEEK),
    Command("go-to", "g", "go to a time", playback.open_go_to, footer="go to", needs=Can.SEEK),
    # Anywhere.
    Command("freeze", "space", "freeze the screen; the run continues", lambda s: s.toggle_freeze(),
            footer=lambda s: "resume" if s.is_frozen else "freeze", replaced_with=Can.SPEED),
    Command("zoom-to-cursor", "g", "zoom the timelines to the cursor", _zoom_to_cursor, replaced_with=Can.SEEK),
    Command("closer", "z", "zoom the timelines in", lambda s: playback.zoom(s, 1), help=_ZOOMS,
            footer=playback.zoom_words),
    Command("wider", "Z", "zoom the timelines out", lambda s: playback.zoom(s, -1), help=_ZOOMS,
            footer=playback.zoom_words),
    Command("pan-back", "left_curly_bracket", "move the timelines back", lambda s: playback.pan(s, -1), help=_PANS,
            footer=playback.pan_words),
    Command("pan-on", "right_curly_bracket", "move the timelines forward", lambda s: playback.pan(s, 1), help=_PANS,
            footer=playback.pan_words),
    Command("cursor-back", "left,h,comma", "read all values at an earlier moment", lambda s: s.step_cursor(-1),
            help=_CURSOR, replaced_with=Can.SEEK),
    Command("cursor-on", "right,l,full_stop", "read all values at a later moment", lambda s: s.step_cursor(1),
            help=_CURSOR, replaced_with=Can.SEEK),
    Command("layout", "v", "next layout", lambda s: s.use_next_layout(),
            footer="layout"),
    Command("timeline-whole", "0", "reset the timelines", lambda s: s.use_lens(Lens(columns=s.lens.columns)),
            footer=lambda s: "" if s.lens.is_plain else "reset timeline"),
    Command("window", "w", "window of the percentiles", _step_window, footer=lambda s: s.window_name),
    *(
        Command(f"zoom-{name}", str(i), f"pane {name} alone", partial(MonitorScreen.zoom, name=name),
                help=_ALONE, footer="panes")
        for i, name in enumerate(PANES, 1)
    ),
    Command("back", "escape", "clear the filter, or back", lambda s: s.back()),
    Command("next-pane", "tab", "next pane", lambda s: s.step_pane(1), help=_PANES),
    Command("previous-pane", "shift+tab", "previous pane", lambda s: s.step_pane(-1), help=_PANES),
    Command("order", "s,o", "sort hotspots, sensors", _sort, footer=lambda s: _list_words(s, "sort", "orders")),
    Command("filter", "slash", "filter events, hotspots, sensors", _open_filter,
            footer=lambda s: _list_words(s, "filter", "rows")),
    Command("severity", "exclamation_mark", "events: all, warnings, critical", _step_severity,
            footer=lambda s: "severity" if s.chosen_pane.drawing.rows == "events" and s.chosen_pane.has_focus else ""),
    Command("open", "enter", "open the chosen row; a replay goes to its time", _open_item,
            footer=lambda s: "open" if s.chosen_pane.item else ""),
    Command("process", "K", "show the process that takes the CPU", open_process, replaced_with=Can.SEEK,
            footer=lambda s: "process" if s.chosen_pane.item and s.chosen_pane.item.kind in KINDS else ""),
    Command("copy", "c", "copy the row, the pane or the verdict", _copy,
            footer=lambda s: "copy" if s.chosen_pane.item else ""),
    Command("copy-command", "Y", "copy the command that made this session", _copy_command),
    Command("profile", "p", "profile the operators now", _profile, needs=Can.PROFILE),
    Command("mark", "m", "mark this moment with a note",
            lambda s: open_mark(s, lambda note: s.feed.order(Order("mark", note))), footer="mark", needs=Can.MARK),
    Command("palette", "ctrl+p", "command palette", _open_palette, footer="commands"),
    Command("sessions", "L", "list of sessions: open, replay, compare, rename, delete", _open_sessions,
            footer="sessions"),
    Command("recording", "r", "recording: path, size, pause", _open_recording, footer="recording"),
    Command("export", "e", "export the session", lambda s: s.exports.open(), footer="export"),
    Command("screenshot", "S", "save a screenshot (SVG)", lambda s: s.exports.save_screenshot()),
    Command("stream", "M", "latency of the next model", _choose_stream),
    Command("response", "y", "latency as response or as service time", _switch_response),
    Command("y-closer", "plus,equals_sign", "zoom the latency axis in", lambda s: s.zoom_latency(1), help=_Y_ZOOMS),
    Command("y-wider", "minus", "zoom the latency axis out", lambda s: s.zoom_latency(-1), help=_Y_ZOOMS),
    Command("reset", "x", "reset the statistics, not the recording", _reset, footer="reset",
            asks="resets the statistics on the screen"),
    Command("theme", "t", "choose a theme, with a preview", open_themes, footer="theme"),
    Command("refresh-shorter", "less_than_sign", "refresh more often", lambda s: _step_refresh(s, -1), help=_REFRESH,
            footer=_refresh_words, replaced_with=Can.SPEED),
    Command("refresh-longer", "greater_than_sign", "refresh less often", lambda s: _step_refresh(s, 1), help=_REFRESH,
            footer=_refresh_words, replaced_with=Can.SPEED),
    Command("redraw", "ctrl+l", "redraw the screen", lambda s: s.host.action_redraw()),
    Command("down", "down,j", "next row, or scroll down", lambda s: s.chosen_pane.move(1), help=_ROWS),
    Command("up", "up,k", "previous row, or scroll up", lambda s: s.chosen_pane.move(-1), help=_ROWS),
    Command("page-down", "pagedown", "scroll down by a page", lambda s: s.chosen_pane.move(10), help=_PAGE),
    Command("page-up", "pageup", "scroll up by a page", lambda s: s.chosen_pane.move(-10), help=_PAGE),
    Command("top", "home", "scroll to the top", lambda s: s.chosen_pane.move(-100_000), help=_TOP_END,
            replaced_with=Can.SEEK),
    Command("bottom", "end", "scroll to the end", lambda s: s.chosen_pane.move(100_000), help=_TOP_END,
            replaced_with=Can.SEEK),
    # The app itself binds Ctrl+C, so that it works even if a dialog has the keyboard.
    Command("interrupt", "ctrl+c", "stop and leave", stop_and_leave, replaced_with=Can.VISIT, is_fixed=True),
    Command("interrupt-other", "ctrl+c", _RUN_CONTINUES, _leave, needs=Can.VISIT, is_fixed=True),
)  # fmt: skip
IDS = tuple(command.id for command in COMMANDS if not command.is_fixed)
