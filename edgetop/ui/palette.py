"""The command palette: everything that can be done now, found by a few letters of its words.

Not Textual's own, which draws an emoji two cells wide, blocks of ambiguous width and a spinner, and gathers its
commands in batches of a quarter of a second.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from edgetop.formatting import clean
from edgetop.ui.dialogs import Dialog, PlainScrollBar

KEY_CELLS = 12


@dataclass(frozen=True, slots=True)
class Entry:
    words: str  # what it does
    keys: str  # that do the same; "": none
    run: Callable[[], object]


class PaletteDialog(Dialog[Entry]):
    """Gives the entry that was chosen."""

    DEFAULT_CSS = """
    PaletteDialog .box { height: 100%; max-height: 24; }
    PaletteDialog OptionList {
        height: 1fr; border: none; padding: 0; margin-top: 1; background: $surface; color: $foreground;
        scrollbar-size-vertical: 1;
        &:focus { border: none; }
        & > .option-list--option-highlighted { text-style: reverse; color: $foreground; background: $surface; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,ctrl+n", "move(1)", "next", id="palette-next"),
        Binding("up,ctrl+p", "move(-1)", "previous", id="palette-previous"),
        Binding("pagedown", "move(10)", "next page", id="palette-page-down"),
        Binding("pageup", "move(-10)", "previous page", id="palette-page-up"),
    ]

    def __init__(
        self, entries: Sequence[Entry], *, ascii_only: bool, heading: str = "Commands",
        placeholder: str = "what to do: theme, pane heat, throttling ...", first: int = 0,
        seen: Callable[[Entry], object] = id,
    ) -> None:  # fmt: skip
        """`first`: the entry that the cursor is on at first; `seen`: is given each that it comes to."""
        super().__init__()
        self.heading, self._placeholder, self._first, self._seen = heading, placeholder, first, seen
        self._key_cells = KEY_CELLS if any(entry.keys for entry in entries) else 0
        self._entries = entries
        self._found = list(entries)
        self._ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        words = Input(placeholder=self._placeholder, max_length=100, compact=True)
        words.cursor_blink = False
        found = OptionList(compact=True, markup=False)
        found.can_focus = False  # the keyboard is the input's
        found.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # as Textual documents it
        with Vertical(classes="box"):
            yield Static(self.heading, classes="title", markup=False)
            yield words
            yield found

    def on_mount(self) -> None:
        self._list("")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list(event.value)

    def _list(self, asked: str) -> None:
        words = asked.lower().split()
        self._found = [entry for entry in self._entries if all(word in entry.words.lower() for word in words)]
        listed = self.query_one(OptionList)
        listed.clear_options()
        listed.add_options([Option(self._row(command)) for command in self._found] or [_NOTHING])
        listed.highlighted = (0 if asked else self._first) if self._found else None

    def _row(self, entry: Entry) -> Text:
        return Text(f"{entry.keys:<{self._key_cells}}{clean(entry.words, ascii_only=self._ascii_only)}", no_wrap=True)

    def action_move(self, by: int) -> None:
        listed = self.query_one(OptionList)
        if self._found:
            listed.highlighted = min(max((listed.highlighted or 0) + by, 0), len(self._found) - 1)

    def on_input_submitted(self) -> None:
        chosen = self.query_one(OptionList).highlighted
        if chosen is not None and self._found:
            self.dismiss(self._found[chosen])

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self._found:
            self._seen(self._found[event.option_index])

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        if self._found:
            self.dismiss(self._found[event.option_index])


_NOTHING = Option(Text("nothing with these words"), disabled=True)
