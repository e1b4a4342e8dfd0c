"""Every command, in the help by its key and in the palette by its words."""

from functools import partial
from typing import TYPE_CHECKING

from textual.binding import Binding

from edgetop.ui.dialogs import HelpDialog
from edgetop.ui.keys import key_lines, key_words
from edgetop.ui.lists import ListsScreen
from edgetop.ui.palette import Command, PaletteDialog
from edgetop.ui.settings import WINDOWS_NS

if TYPE_CHECKING:  # which imports the screen
    from edgetop.ui.app import EdgetopApp


class CommandsScreen(ListsScreen):
    def use_window(self, window: int) -> None:
        """Of the percentiles, by its place."""
        raise NotImplementedError

    def action_help(self) -> None:
        self.app.push_screen(HelpDialog(key_lines(self.present([*self._bound.values(), *self.app.BINDINGS]))))

    def action_palette(self) -> None:
        dialog = PaletteDialog(self._commands(), ascii_only=self._look.ascii_only)
        self.app.push_screen(dialog, lambda command: command.run() if command else None)

    def _commands(self) -> list[Command]:
        """What the keys do, and what they go round."""
        alike: dict[str, list[Binding]] = {}
        for binding in self.present(self._bound.values()):
            alike.setdefault(binding.tooltip or binding.description, []).append(binding)
        commands = [
            Command(
                words, " ".join(word for b in bound for word in key_words(b)), partial(self.run_action, bound[0].action)
            )
            for words, bound in alike.items()
        ]
        commands += [
            Command(f"window of the percentiles: {name}", "", partial(self.use_window, i))
            for i, name in enumerate(WINDOWS_NS)
        ]
        app: EdgetopApp = self.app  # type: ignore[assignment]
        commands += [Command(f"theme {name}", "", partial(app.use_theme, name)) for name in app.theme_names]
        commands += [
            Command(f"export to {form}: {what}", "", partial(self.export_to, form))
            for form, what in self.export_forms.items()
        ]
        return commands
