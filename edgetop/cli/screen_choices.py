"""The user's choices on the screen, stored for the next one beside the recordings: theme, window, layout and sort.

The command line and edgetop.toml win over it. A theme is remembered for terminals of the same kind, for a
palette that suits one with many colours cannot be drawn on another.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetop.cli.output import print_text
from edgetop.errors import InputError
from edgetop.ui.characters import choose_theme
from edgetop.ui.layout import LAYOUTS
from edgetop.ui.settings import WINDOWS_NS

NAME = "screen.json"
MODE = 0o600
MAX_BYTES = 64 * 1024


def load_choices(home: Path) -> dict[str, Any]:
    """Fields of the screen's settings. A file that cannot be read is ignored, with a line on stderr."""
    document = _document(home / NAME)
    theme, window, layout, orders = (document.get(key) for key in (_theme_key(), "window", "layout", "orders"))
    choices: dict[str, Any] = {}
    with contextlib.suppress(InputError):  # the user's own, removed or edited since
        if isinstance(theme, str):
            from edgetop.ui.themes import load_theme  # noqa: PLC0415  loads Textual

            choices["theme"] = load_theme(theme).name
    if isinstance(window, str) and window in WINDOWS_NS:
        choices["window_ns"] = WINDOWS_NS[window]
    if isinstance(layout, str) and layout in LAYOUTS:
        choices["layout"] = layout
    if isinstance(orders, dict):
        from edgetop.ui.panes import DRAWINGS  # noqa: PLC0415  as above

        choices["orders"] = {
            pane: order for pane, order in orders.items() if pane in DRAWINGS and order in DRAWINGS[pane].orders
        }
    return choices


def save_choices(home: Path, changed: Mapping[str, Any]) -> None:
    """Beside what is remembered already. Where nothing can be written, nothing is."""
    named = {_theme_key() if key == "theme" else key: value for key, value in changed.items()}
    text = json.dumps({**_document(home / NAME, warns=False), **named}, indent=1)
    with contextlib.suppress(OSError):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = home / f"{NAME}.{os.getpid()}"
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, MODE), "w") as file:
            file.write(text)
        new.replace(home / NAME)


def _theme_key() -> str:
    return f"theme-{choose_theme()}"


def _document(path: Path, *, warns: bool = True) -> dict[str, Any]:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            document = json.loads(file.read(MAX_BYTES))
        if isinstance(document, dict):
            return document
        why = "is no JSON object"
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        why = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    if warns:
        print_text(f"edgetop: {path}: {why}: what you chose last on the screen is ignored", err=True)
    return {}
