"""Dialogs: questions, texts to read and lists to choose from. Their text is never interpreted as markup."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingsMap, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.events import Click, Key
from textual.screen import ModalScreen
from textual.scrollbar import ScrollBarRender
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.ui.keys import Entry, follow_key, parse_key

T = TypeVar("T")


class PlainScrollBar(ScrollBarRender):
    """A scroll bar of whole cells. Some terminals draw the glyphs for parts of a cell two cells wide."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "]


_KEY = re.compile(r"(?:(?<=[,;] )|(?<= {3})|^)(Esc|Enter|\S)(?= )")  # in a text that names keys and what they do


class KeyWords(Static):
    """Text that names keys, such as `Enter open   Esc close`. A click on a key or on its words presses the key."""

    def __init__(self, text: str, *, key: str = "", **options: str) -> None:
        """Show `text`. `key` is the key that a click anywhere on the text presses, by Textual's name for it.

        With "", a click presses the key that the text names at the clicked place.
        """
        super().__init__(text, markup=False, **options)  # type: ignore[arg-type]
        self._key = key

    def on_click(self, event: Click) -> None:
        row = self.render_line(event.y).text.rstrip()
        named = [found[1] for found in _KEY.finditer(row) if found.start() <= event.x < len(row)]
        key = self._key or (parse_key({"Esc": "escape"}.get(named[-1], named[-1])) if named else None)
        if key:
            self.app.simulate_key(key)


class Dialog(ModalScreen[T], Generic[T]):
    """A box in the middle of the screen, with a title. Esc, or a click beside the box, closes it without an answer.

    A column is kept free for the scroll bar even while it is hidden. Otherwise a bar that appears would make the text
    too wide, disappear with the longer text, and appear again, without end.
    """

    DEFAULT_CSS = """
    Dialog { align: center middle; background: transparent; }
    Dialog .box {
        width: 64; max-width: 96%; height: auto; max-height: 100%;
        background: $surface; color: $foreground; padding: 1 2; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        &:ansi { border: ascii ansi_default; padding: 0 1; }
    }
    Dialog.bottom { align: center bottom; & .box { padding: 0 2; } }
    Dialog.right { align: right middle; & .box { width: 30; } }
    Dialog Static { width: 100%; height: auto; }
    Dialog .title { text-style: bold; padding-bottom: 1; }
    Dialog .above { padding-bottom: 1; }
    Dialog Input { background: $background; & > .input--placeholder { color: $secondary; } }
    """
    heading: str  # the title
    closes_beside: ClassVar[bool] = True  # whether a click beside the box closes the dialog
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "close", id="close"),
        Binding("ctrl+l", "app.redraw", "redraw the screen", id="redraw-dialog"),
    ]

    def on_click(self, event: Click) -> None:
        if self.closes_beside and self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss(None)


@frozen
class Choice(Generic[T]):
    keys: str  # names of keys in Textual, separated by commas; the first one is shown
    words: str  # description of the choice; "" hides it, as for a second key that closes the dialog
    answer: T | None


class ChoiceDialog(Dialog[T], Generic[T]):
    """A dialog with a title, an explanation and a line for each choice. It returns the `answer` of the chosen line."""

    def __init__(self, title: str, choices: Sequence[Choice[T]], *, above: str = "", below: str = "") -> None:
        super().__init__()
        self.heading = title
        self._choices, self._above, self._below = choices, above, below.removeprefix("\n")
        choose = [Binding(choice.keys, f"choose({i})", choice.words) for i, choice in enumerate(choices)]
        self._keys = BindingsMap(choose)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:  # has the focus, so that the arrow and page keys scroll a long text
            box.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # as Textual documents it
            yield Static(self.heading, classes="title", markup=False)
            listed = [choice for choice in self._choices if choice.words]
            if self._above:
                yield Static(self._above, classes="above" if listed else "", markup=False)
            for choice in listed:
                key = choice.keys.split(",")[0]
                yield KeyWords(f"{key:<4} {choice.words}", key=key)
            if self._below:
                yield KeyWords(self._below)

    async def on_key(self, event: Key) -> None:
        await follow_key(event, self, self._keys)

    def action_choose(self, number: int) -> None:
        self.dismiss(self._choices[number].answer)


class InputDialog(Dialog[T], Generic[T]):
    """A dialog in which the user types a text. The dialog returns `parse(text)`.

    If `parse` raises ValueError, its message is shown and the dialog stays open.
    """

    closes_beside = False  # a click would discard what was typed

    def __init__(
        self, title: str, parse: Callable[[str], T], below: str, *, placeholder: str, text: str = "", length: int = 100,
        changed: Callable[[str], object] = str,
    ) -> None:  # fmt: skip
        """Ask for a text. `parse` turns the typed text into the result. `below` is a hint under the input field.

        `text` is in the input field at first, and `placeholder` is shown while it is empty. `length` is the greatest
        number of characters. `changed` is called with the text after each change.
        """
        super().__init__()
        self._changed = changed
        self.heading = title
        self._parse = parse
        self._below = below
        self._input = Input(text, placeholder=placeholder, max_length=length, compact=True)
        self._input.cursor_blink = False  # blinking would redraw twice a second

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self.heading, classes="title", markup=False)
            yield self._input
            yield KeyWords(f"\n{self._below}", id="below")

    def on_input_changed(self, event: Input.Changed) -> None:
        self._changed(event.value.strip())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(self._parse(event.value.strip()))
        except ValueError as error:
            self.query_one("#below", Static).update(f"\n{clean(str(error))}")


def export_dialog(forms: Mapping[str, str], where: str) -> ChoiceDialog[str]:
    """Return a dialog that asks for the format of an export, such as `csv`; it returns the name of the format.

    `forms` has the description of each format by its name. `where` is the folder of the new file, for display.
    """
    choices = [Choice(str(i), f"{name:<10}{what}", name) for i, (name, what) in enumerate(forms.items(), 1)]
    closing: Choice[str] = Choice("e,q", "", None)
    title = "Export the session up to now"
    return ChoiceDialog(title, [*choices, closing], below=f"\n\ninto {where}\nEsc  no export")


class TextDialog(Dialog[None]):
    """Lines to read. The / key searches them, c copies them, and the last line tells how many more are below."""

    AUTO_FOCUS = ""  # the search gets the keyboard only on request

    DEFAULT_CSS = """
    TextDialog .box { width: 100; }
    TextDialog #more { color: $secondary; }
    TextDialog VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    TextDialog Input { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,enter,question_mark,f1", "dismiss(None)", "close", id="text-close"),
        Binding("slash", "search", "search", id="text-search"),
        Binding("c", "copy", "copy", id="text-copy"),
        *(
            Binding(keys, f"move({by})", "scroll", id=f"text-{by}")
            for keys, by in (
                ("down,j", 1), ("up,k", -1), ("pagedown,space", 10), ("pageup", -10), ("home", -999), ("end", 999)
            )
        ),
    ]  # fmt: skip

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self.heading = title
        self.lines = lines
        self._found = lines
        self._said = ""  # the last line

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self.heading, classes="title", markup=False)
            words = Input(placeholder="show only lines with these words", compact=True)
            words.cursor_blink = False
            yield words
            with VerticalScroll() as body:
                body.can_focus = False
                body.vertical_scrollbar.renderer = PlainScrollBar  # type: ignore[misc]  # as Textual documents it
                yield Static("\n".join(self.lines), id="text", markup=False)
            yield KeyWords("", id="more")

    def on_mount(self) -> None:
        body = self.query_one(VerticalScroll)
        self.watch(body, "scroll_y", self._say_more)
        self.watch(body, "virtual_size", self._say_more)

    def on_resize(self) -> None:
        """Limit the height of the text to the space between the title and the last line of the dialog."""
        self.query_one(VerticalScroll).styles.max_height = max(1, self.size.height - 7)
        self.call_after_refresh(self._say_more)

    def _say_more(self) -> None:
        body = self.query_one(VerticalScroll)
        below = body.max_scroll_y - round(body.scroll_y)
        more = f"{below} more below" if below > 0 else "the end" if body.max_scroll_y else ""
        said = "   ".join(part for part in (more, "/ search", "c copy", "Esc close") if part)
        if said != self._said:  # an update arranges the dialog anew, which calls this method
            self._said = said
            self.query_one("#more", Static).update(said)

    def action_move(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_search(self) -> None:
        words = self.query_one(Input)
        words.display = True
        words.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        words = event.value.lower().split()
        self._found = [text for text in self.lines if all(word in text.lower() for word in words)]
        self.query_one("#text", Static).update("\n".join(self._found) or "no line with these words")

    def on_input_submitted(self) -> None:
        self.set_focus(None)

    def action_copy(self) -> None:
        self.app.copy_to_clipboard("\n".join(self._found))
        self.notify("copied", timeout=2)


def help_dialog(keys: Sequence[tuple[str, str]], explanation: str) -> TextDialog:
    """Return the help: a line for each of `keys`, which are (key, description) pairs, and then `explanation`."""
    cells = max(len(names) for names, _ in keys) + 1
    return TextDialog("Keys", [*(f"{names:<{cells}}{does}" for names, does in keys), "", *explanation.split("\n")])


KEY_CELLS = 12


class PaletteDialog(Dialog[Entry]):
    """A list that shrinks to the entries that contain all words that the user types. It returns the chosen entry.

    Textual's own command palette is not used: it draws an emoji two cells wide, blocks of ambiguous width and a
    spinner, and it collects its commands in steps of a quarter of a second.
    """

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
        placeholder: str = "what to do: theme, heat, window ...", first: int = 0,
        seen: Callable[[Entry], object] = id,
    ) -> None:  # fmt: skip
        """Offer `entries` to choose from. `first` is the index of the entry under the cursor at first.

        `ascii_only` limits the drawing to ASCII characters. `heading` is the title. `placeholder` is shown while the
        input is empty. `seen` is called with an entry whenever the cursor moves to that entry, for a preview.
        """
        super().__init__()
        self.heading, self._placeholder, self._first, self._seen = heading, placeholder, first, seen
        self._entries = entries
        self._found = list(entries)
        self._ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        words = Input(placeholder=self._placeholder, max_length=100, compact=True)
        words.cursor_blink = False
        found = OptionList(compact=True, markup=False)
        found.can_focus = False  # the input keeps the keyboard
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
        found = [entry for entry in self._entries if all(word in entry.words.lower() for word in words)]
        # Entries with words that begin so come first; otherwise entries keep their order.
        self._found = sorted(
            found, key=lambda entry: not all(f" {word}" in f" {entry.words.lower()}" for word in words)
        )
        listed = self.query_one(OptionList)
        listed.clear_options()
        cells = KEY_CELLS if any(entry.keys for entry in self._entries) else 0
        rows = [f"{of.keys:<{cells}}{clean(of.words, ascii_only=self._ascii_only)}" for of in self._found]
        nothing = Option(Text("nothing has these words"), disabled=True)
        listed.add_options([Option(Text(row, no_wrap=True)) for row in rows] or [nothing])
        listed.highlighted = (0 if asked else self._first) if self._found else None

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
