"""The options of commands that show a session, on the screen or as lines."""

from pathlib import Path

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Given, needs, not_beside, option, rings
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint

NO_SCREEN = ("headless", "detach")


def theme(name: str) -> str:
    """Return `name` if a theme has this name, else raise InputError. Textual is not loaded for this check."""
    names = completion.theme_names()
    if name not in names:
        raise InputError(f"--theme {name}: unknown", nearest_hint(name, names))
    return name


REFRESH = option(
    "--refresh", type=text.duration, metavar="TIME",
    help="Draw the screen every TIME, and the clock at least every second. Default: 2s (--live: 1s).",
    rules=[not_beside(*NO_SCREEN, unless="live", advice="--headless --live prints a line at each refresh")],
)  # fmt: skip
THEME = option(
    "--theme", type=theme, metavar="NAME", shell_complete=completion.themes,
    help="Colour theme: dark, light, paper, contrast, 16 ... (edgetop help themes).",
    rules=[not_beside(*NO_SCREEN, advice="there is no screen to colour")],
)  # fmt: skip
ASCII = option(
    "--ascii/--no-ascii", "ascii_only", default=None, help="Draw with ASCII characters only.",
    rules=[not_beside("detach", advice="nothing is drawn here")],
)  # fmt: skip
CONFIG = option(
    "--config", "config_file", type=PATH, metavar="FILE",
    help="Settings file that takes precedence over edgetop.toml in the config folder (edgetop help keys).",
)  # fmt: skip
LIVE = option(
    "--live", is_flag=True, help="With --headless: print a sentence at each refresh, for screen readers.",
    rules=[needs("headless", advice="it prints lines in place of the screen")],
)  # fmt: skip
NOTIFY = option(
    "--notify", is_flag=True, help="Ring the terminal's bell and send a desktop notification at alerts.",
    rules=[rings],
)  # fmt: skip
ALERT = option(
    "--alert", "alerts", type=text.alert_rule, multiple=True, metavar="RULE",
    help="Alert when this condition begins to hold: 'temp>80C for=30s' (edgetop help alerts). Repeatable.",
)  # fmt: skip


@frozen
class ScreenChoices:
    """The options on the command line for the screen and for the lines of `--live`. None means an absent option."""

    refresh_ns: int | None = None
    theme: str | None = None
    ascii_only: bool | None = None
    config_file: Path | None = None
    notify: bool = False

    @classmethod
    def of(cls, given: Given) -> "ScreenChoices":
        """Return the screen options, taken from `given`, all parsed options by name."""
        return cls(
            given["refresh"], given["theme"], given["ascii_only"], given["config_file"], given.get("notify", False)
        )
