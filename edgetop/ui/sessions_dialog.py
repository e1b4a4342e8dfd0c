"""The list of sessions: open, compare, rename and delete. Another process does the work, so the screen never waits."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click
from textual.timer import Timer
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from edgetop.formatting import clean
from edgetop.ui.dialogs import Choice, ChoiceDialog, Dialog, InputDialog, KeyWords, PlainScrollBar, TextDialog
from edgetop.ui.screen_settings import Sessions, StoredSession, Work
from edgetop.ui.text import cells_of

if TYPE_CHECKING:
    from edgetop.ui.monitor_screen import MonitorScreen

T = TypeVar("T")
POLL_S = 0.1
MARK, RUNNING, GAP = "+ ", "* ", "  "
KEYS = "Enter open   c compare   r rename   d delete   / search   Esc close"
BOX_CELLS = 6  # width that the box needs beside its text: margins, scroll bar
TEXT_CELLS = 94  # width of the text of a comparison


def open_sessions(screen: "MonitorScreen") -> None:
    """Show the list of sessions. If the user chooses one, show it."""
    if screen.settings.sessions is None:
        screen.report("this screen cannot list sessions", seconds=3)
        return
    dialog = SessionsDialog(screen.settings.sessions, screen.settings.recording_now, ascii_only=screen.is_ascii)
    screen.app.push_screen(dialog, lambda chosen: screen.show_session(chosen) if chosen else None)


class SessionsDialog(Dialog[StoredSession]):
    """A dialog that lists all sessions with their names in full. It returns the session to open."""

    DEFAULT_CSS = """
    SessionsDialog .box { width: 120; height: 100%; }
    SessionsDialog Input { display: none; }
    SessionsDialog OptionList {
        height: 1fr; border: none; padding: 0; background: $surface; color: $foreground; scrollbar-size-vertical: 1;
        &:focus { border: none; }
        & > .option-list--option-highlighted { text-style: reverse; color: $foreground; background: $surface; }
    }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,L", "dismiss(None)", "close", id="sessions-close"),
        Binding("down,j", "move(1)", "next", id="sessions-next"),
        Binding("up,k", "move(-1)", "previous", id="sessions-previous"),
        Binding("pagedown", "move(10)", "next page", id="sessions-page-down"),
        Binding("pageup", "move(-10)", "previous page", id="sessions-page-up"),
        Binding("home", "move(-100000)", "first", id="sessions-first"),
        Binding("end", "move(100000)", "last", id="sessions-last"),
        Binding("enter", "open", "open", id="sessions-open"),
        Binding("c", "compare", "compare two", id="sessions-compare"),
        Binding("r", "rename", "rename", id="sessions-rename"),
        Binding("d,delete", "delete", "delete", id="sessions-delete"),
        Binding("slash", "search", "search", id="sessions-search"),
    ]

    def __init__(self, sessions: Sessions, shown: object, *, ascii_only: bool) -> None:
        """Show the list of `sessions`. `ascii_only` limits the drawing to ASCII characters.

        `shown` is the folder of the session on the screen, or None. That session can be neither renamed nor deleted.
        """
        super().__init__()
        self.heading = "Sessions"
        self._source, self._shown, self._ascii_only = sessions, shown, ascii_only
        self._all: Sequence[StoredSession] = ()
        self._found: Sequence[StoredSession] = ()
        self._marked: StoredSession | None = None  # the first session of a comparison
        self._work: Work[object] | None = None
        self._timer: Timer | None = None
        self._is_deleting = False

    def compose(self) -> ComposeResult:
        words = Input(placeholder="show only sessions with these words", compact=True)
        words.cursor_blink = False
        found = OptionList(compact=True, markup=False)
        found.can_focus = False
        found.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # as Textual documents it
        with Vertical(classes="box"):
            yield Static(self.heading, classes="title", markup=False)
            yield words
            yield found
            yield KeyWords(KEYS, id="keys")

    def on_mount(self) -> None:
        self._read()

    def on_unmount(self) -> None:
        if self._work and not self._is_deleting:
            self._work.cancel()

    def on_resize(self) -> None:
        self._list()

    # Work of other processes.

    def _begin(self, begin: Callable[[], Work[T]], words: str, done: Callable[[T], object]) -> None:
        """Start work in another process, and show `words` until it ends. Then call `done` with its result.

        If the work fails, show the reason instead. If other work goes on, only ask the user to wait.
        """
        if self._work:
            self._say("wait: other work goes on")
            return
        try:
            work = self._work = begin()
        except OSError as error:
            self._say(f"cannot be started: {error.strerror}")
            return
        self._say(words)

        def poll() -> None:
            result = work.result()
            if result is None or self._timer is None:
                return
            self._timer.stop()
            self._work = self._timer = None
            self._is_deleting = False
            self._say(KEYS)
            if isinstance(result, str):
                self._fail(result)
            else:
                done(result)

        self._timer = self.set_interval(POLL_S, poll)

    def _say(self, words: str) -> None:
        self.query_one("#keys", Static).update(self._clean(words))

    def _fail(self, reason: str) -> None:
        self.notify(self._clean(reason), severity="error", timeout=8, markup=False)

    def _clean(self, text: str) -> str:
        return clean(text, ascii_only=self._ascii_only)

    def _read(self) -> None:
        self._begin(self._source.listed, "reading the sessions", self._take)

    def _take(self, sessions: Sequence[StoredSession]) -> None:
        self._all = sessions
        self._list()

    # The list.

    def _list(self) -> None:
        """Show the sessions that have all words of the search. The cursor stays at its session."""
        words = self.query_one(Input).value.lower().split()
        before = self._chosen
        texts = [(one, f"{one.name} {one.verdict} {one.figures}".lower()) for one in self._all]
        self._found = [one for one, text in texts if all(word in text for word in words)]
        listed = self.query_one(OptionList)
        listed.clear_options()
        nothing = "nothing has these words" if words else "no sessions" if self._all else ""
        listed.add_options([Option(text) for text in self._rows()] or [Option(Text(nothing), disabled=True)])
        places = [place for place, one in enumerate(self._found) if before and one.path == before.path]
        listed.highlighted = (places or [0])[0] if self._found else None

    def _rows(self) -> list[Text]:
        """Return the text of each session: name, verdict and figures.

        Each text is one line if all texts fit so, else each is two lines. Names are never cut.
        """
        heads = [self._clean(f"{self._mark(one)}{one.name}") for one in self._found]
        verdicts = [self._clean(one.verdict) for one in self._found]
        wide, cells = max(map(cells_of, heads), default=0), max(map(cells_of, verdicts), default=0)
        rows = []
        room = min(120, self.size.width * 96 // 100) - BOX_CELLS
        figures_cells = max((cells_of(one.figures) for one in self._found), default=0)
        is_wide = wide + cells + figures_cells + 2 * len(GAP) <= room
        for head, verdict, one in zip(heads, verdicts, self._found, strict=True):
            gap = " " * (wide - cells_of(head)) + GAP if is_wide else f"\n{GAP * 2}"
            padded = verdict + " " * (cells - cells_of(verdict) if is_wide else 0)
            figures = self._clean(one.figures)
            rest = f"{padded}{GAP}{figures}" if is_wide else f"{figures}{GAP}{padded}"
            rows.append(Text(f"{head}{gap}{rest}", overflow="fold"))
        return rows

    def _mark(self, one: StoredSession) -> str:
        is_marked = self._marked is not None and one.path == self._marked.path
        return MARK if is_marked else RUNNING if one.is_running else GAP

    @property
    def _chosen(self) -> StoredSession | None:
        place = self.query_one(OptionList).highlighted
        return self._found[place] if self._found and place is not None and place < len(self._found) else None

    def action_move(self, by: int) -> None:
        listed = self.query_one(OptionList)
        if self._found:
            listed.highlighted = min(max((listed.highlighted or 0) + by, 0), len(self._found) - 1)

    def action_search(self) -> None:
        words = self.query_one(Input)
        words.display = True
        words.focus()

    def on_input_changed(self) -> None:
        self._list()

    def on_input_submitted(self) -> None:
        self.set_focus(None)

    def on_click(self, event: Click) -> None:
        """Open a session at a double click. The list itself moves its cursor to the clicked session."""
        place = event.screen_x, event.screen_y
        is_listed = self.get_widget_at(*place)[0] is self.query_one(OptionList)
        # "option": the row of a list at that place, as OptionList marks it; none below the last row
        if event.chain == 2 and is_listed and "option" in self.get_style_at(*place).meta:
            self.action_open()

    # What can be done with a session.

    def action_open(self) -> None:
        if self._chosen:
            self.dismiss(self._chosen)

    def action_compare(self) -> None:
        """Mark the session under the cursor as the first of a comparison, or compare it with the marked session.

        If the cursor is on the marked session, remove its mark.
        """
        first, second = self._marked, self._chosen
        if second is None:
            return
        if first is None or first.path == second.path:
            self._marked = second if first is None else None
            self._list()
            self._say(f"{second.name}: now choose the session to compare with, and press c" if first is None else KEYS)
            return
        cells = min(TEXT_CELLS, self.size.width * 96 // 100 - BOX_CELLS)
        self._begin(
            lambda: self._source.compared(first, second, cells), "comparing; Esc cancels",
            lambda lines: self._show_comparison(first, second, lines),
        )  # fmt: skip

    def _show_comparison(self, first: StoredSession, second: StoredSession, lines: Sequence[str]) -> None:
        self._marked = None
        self._list()
        heading = self._clean(f"{second.name} compared with {first.name}")
        self.app.push_screen(TextDialog(heading, [self._clean(text) for text in lines]))

    def _may_change(self, one: StoredSession) -> bool:
        """Whether a session may be renamed or deleted. If not, a message says why."""
        if one.is_running:
            self._fail(f"{one.name}: is being recorded; Enter shows it, Q there stops it")
        elif one.path == self._shown:
            self._fail(f"{one.name}: is open on this screen")
        else:
            return True
        return False

    def action_rename(self) -> None:
        one = self._chosen
        if one is None or not self._may_change(one):
            return

        def rename(name: str) -> bool:
            if name != one.name:
                self._source.rename(one, name)
            return True

        dialog = InputDialog(
            "Rename the session", rename, "Enter renames, Esc cancels", placeholder="new name", text=one.name
        )
        self.app.push_screen(dialog, lambda done: self._read() if done else None)

    def action_delete(self) -> None:
        one = self._chosen
        if one is None or not self._may_change(one):
            return
        choices = [Choice("y", "delete it; this cannot be undone", True), Choice("n,q,enter", "", None)]
        dialog = ChoiceDialog(self._clean(f"Delete {one.name}?"), choices, below="\nEsc  keep it")
        self.app.push_screen(dialog, lambda sure: self._delete(one) if sure else None)

    def _delete(self, one: StoredSession) -> None:
        def tell(lines: Sequence[str]) -> None:
            self.notify(self._clean("\n".join(lines)), timeout=5, markup=False)
            self._read()

        self._begin(lambda: self._source.deleted(one), f"deleting {one.name}", tell)
        self._is_deleting = True
