"""A terminal and a user like any other, whatever those of the test run are."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="module")
def ordinary_terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """UTF-8, colours, and no settings or themes of the user's own."""
    home: Path = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TERM", "xterm-256color")
        environment.setenv("LANG", "C.UTF-8")
        environment.setenv("XDG_CONFIG_HOME", str(home))
        for name in ("LC_ALL", "LC_CTYPE", "NO_COLOR", "COLORTERM", "TEXTUAL", "COLUMNS", "LINES"):
            environment.delenv(name, raising=False)
        yield
