"""The few questions the screen asks, and what it shows on request. Text in them is never markup."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.scrollbar import ScrollBarRender
from textual.widgets import Input, Static

from edgetop.formatting import clean, clock_time, parse_clock_time, size
from edgetop.paths import bytes_below
from edgetop.ui.look import Look

T = TypeVar("T")


class Dialog(ModalScreen[T], Generic[T]):
    """A box in the middle with a title; Esc closes it without an answer."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: transparent; }
    Dialog .box {
        width: 64; max-width: 96%; height: auto; max-height: 100%;
        background: $surface; color: $foreground; padding: 1 2; scrollbar-size-vertical: 1;
        &:ansi { border: ascii ansi_default; padding: 0 1; }
    }
    Dialog Static { width: 100%; height: auto; }
    Dialog .title { text-style: bold; padding-bottom: 1; }
    Dialog Input { background: $background; & > .input--placeholder { color: $secondary; } }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", id="close"),
        Binding("ctrl+l", "app.redraw", "draw the screen anew", id="redraw-dialog"),
    ]


class LeaveDialog(Dialog[str]):
    """What becomes of the run when the screen goes: "stop", "go on", or None to stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,Q,ctrl+c", "dismiss('stop')", "stop", id="leave-stop"),
        Binding("g,d", "dismiss('go on')", "go on", id="leave-go-on"),
        Binding("q", "dismiss(None)", "stay", id="leave-stay"),
    ]

    def __init__(self, *, can_detach: bool) -> None:
        super().__init__()
        self._can_detach = can_detach

    def compose(self) -> ComposeResult:
        stop = "s    stop the run, finish its recording" if self._can_detach else "s    stop the run"
        detached = "d    let the run go on; edgetop attach comes back"
        go_on = detached if self._can_detach else "g    let the run go on here, with progress lines"
        with Vertical(classes="box"):
            yield Static("Leave the screen", classes="title", markup=False)
            yield Static(f"{stop}\n{go_on}\nEsc  stay", markup=False)


class StopDialog(Dialog[bool]):
    """Whether to stop a run that is only watched here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "dismiss(True)", "stop", id="stop-yes"),
        Binding("q,Q,ctrl+c", "dismiss(None)", "let it go on", id="stop-no"),
    ]

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("Stop the run", classes="title", markup=False)
            yield Static("s    stop it, finish its recording\nEsc  let it go on", markup=False)


class NoteDialog(Dialog[str]):
    """A note that becomes a mark in the session."""

    def compose(self) -> ComposeResult:
        note = Input(placeholder="what happened: fan on, door closed ...", max_length=500, compact=True)
        note.cursor_blink = False  # a timer that redraws twice a second
        with Vertical(classes="box"):
            yield Static("Mark this moment", classes="title", markup=False)
            yield note
            yield Static("\nEnter marks, Esc does not", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or "mark")


class GoToDialog(Dialog[int]):
    """A time of the session, in ns."""

    def __init__(self, end_ns: int) -> None:
        super().__init__()
        self._end_ns = end_ns

    def compose(self) -> ComposeResult:
        time = Input(placeholder="01:02:05, 90s, 1h02m ...", max_length=40, compact=True)
        time.cursor_blink = False
        with Vertical(classes="box"):
            yield Static(f"Go to a time up to {clock_time(self._end_ns)}", classes="title", markup=False)
            yield time
            yield Static("\nEnter goes there, Esc does not", id="advice", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(parse_clock_time(event.value))
        except ValueError as error:
            self.query_one("#advice", Static).update(f"\n{clean(str(error))}")


class FilterDialog(Dialog[str]):
    """The words that a list is to be narrowed down to; none for all of it."""

    def __init__(self, rows: str, words: str) -> None:
        """`rows`: what it lists."""
        super().__init__()
        self._rows = rows
        self._words = words

    def compose(self) -> ComposeResult:
        words = Input(self._words, placeholder=EXAMPLE_WORDS.get(self._rows, ""), max_length=100, compact=True)
        words.cursor_blink = False
        with Vertical(classes="box"):
            yield Static(f"Show the {self._rows} with these words", classes="title", markup=False)
            yield words
            yield Static("\nEnter shows them, of no words all; Esc leaves it as it is", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


EXAMPLE_WORDS = {"operators": "conv 3x3 ...", "events": "warning sensor ...", "sensors": "temp ..."}


class ExportDialog(Dialog[str]):
    """What to make of the session, as `edgetop export --to` calls it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *[Binding(str(i), f"choose({i})", "choose", id=f"export-{i}") for i in range(1, 10)],
        Binding("e,q", "dismiss(None)", "close", id="export-close"),
    ]

    def __init__(self, forms: Mapping[str, str], where: str) -> None:
        super().__init__()
        self._forms = forms
        self._where = where

    def compose(self) -> ComposeResult:
        lines = [f"{i}    {name:<10}{what}" for i, (name, what) in enumerate(self._forms.items(), 1)]
        with Vertical(classes="box"):
            yield Static("Export the session, as far as it has come", classes="title", markup=False)
            yield Static("\n".join(lines), markup=False)
            yield Static(f"\ninto {self._where}; Esc does not", markup=False)

    def action_choose(self, number: int) -> None:
        if number <= len(self._forms):
            self.dismiss(list(self._forms)[number - 1])


class RecordingDialog(Dialog[bool]):
    """Where the session is recorded and how large it is; gives whether to pause."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "pause", id="recording-pause"),
        Binding("r,q", "dismiss(None)", "close", id="recording-close"),
    ]

    def __init__(self, folder: Path | None, host: str, look: Look, *, paused: bool, can_pause: bool) -> None:
        """`host`: the machine that it is on; "": this one."""
        super().__init__()
        self._host = host
        self._look = look
        self._folder = folder
        self._paused = paused
        self._can_pause = can_pause

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static("Recording", classes="title", markup=False)
            yield Static(self._words(), markup=False)

    def _words(self) -> str:
        if self._folder is None:
            return "This session is not recorded (--no-record)."
        pause = "\n\np    go on recording" if self._paused else "\n\np    pause: leaves a gap, the run goes on"
        state = "paused" if self._paused else "going on" if self._can_pause else "finished"
        where = clean(f"{self._host}:{self._folder}".removeprefix(":"), ascii_only=self._look.ascii_only)
        size_words = "" if self._host else f"{size(bytes_below(self._folder))} on the disk, "
        return f"{where}\n{size_words}{state}{pause if self._can_pause else ''}"

    def action_pause(self) -> None:
        if self._can_pause:
            self.dismiss(not self._paused)


class PlainScrollBar(ScrollBarRender):
    """Whole cells only: the glyphs for parts of one are two cells wide in some terminals."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]


class HelpDialog(Dialog[None]):
    """Every key, from the real key map, so that nothing here goes stale."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,question_mark,f1", "dismiss(None)", "close", id="help-close")]

    def __init__(self, keys: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # as Textual documents it
            yield Static("Keys", classes="title", markup=False)
            cells = max(len(keys) for keys, _ in self._keys) + 1
            yield Static("\n".join(f"{keys:<{cells}}{does}" for keys, does in self._keys), markup=False)
            yield Static(EXPLANATION, markup=False)


EXPLANATION = """
Percentiles are nearest-rank. A "?" behind one says that too few inferences \
stand behind it. The charts show p50 filled and p99 as the line above it; \
every chart has the same time axis.

More: edgetop help"""
