"""What a user can choose about the screen, and what its caller provides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from edgetop.frozen import frozen

# Of the percentiles, the shortest first, by what they are called. None: all since the start.
WINDOWS_NS: Mapping[str, int | None] = {"10s": 10 * 10**9, "1m": 60 * 10**9, "10m": 600 * 10**9, "all": None}


class Export(Protocol):
    """An export that runs in a process of its own and continues when the screen is closed."""

    def result(self) -> tuple[bool, str] | None:
        """None: not over yet. Otherwise whether it was done, and a line that says where it is, or what failed."""


class Exporter(Protocol):
    @property
    def forms(self) -> Mapping[str, str]: ...  # the names of the export formats with a description of each

    def begin(self, recording: Path, form: str) -> Export:
        """Raises OSError where it cannot begin."""


@dataclass(slots=True)
class FleetListing:
    """How the fleet's screen sorts and filters boards; it stays when a board is opened and closed."""

    order: str = "worst"
    words: str = ""  # only boards with these
    cursor: str = ""  # the name of the board under it; "": the first one, whichever that is
    note: str = ""  # to be shown for a while
    opened: str = ""  # the name of the board whose screen is wanted; "": none, the user leaves


@frozen
class ScreenSettings:
    refresh_s: float = 1.0
    theme: str | None = None  # None: what suits the terminal
    ascii_only: bool = False  # True: also where the locale is UTF-8
    recording: Path | None = None  # where the session is recorded, if it is: as it was when the screen opened
    recorded_in: Callable[[], Path] | None = None  # where the same folder is now, if it can be followed
    recording_host: str = ""  # the machine on which that is, where it is not this one
    is_visited: bool = False  # opened from a screen of many boards, to which Esc goes back
    notify: bool = False  # report alerts by the terminal's bell and a desktop notification
    exporter: Exporter | None = None
    window_ns: int | None = WINDOWS_NS["10s"]  # of the percentiles, at first; one of WINDOWS_NS
    layout: str | None = None  # at first; None: the first of them
    orders: Mapping[str, str] = field(default_factory=dict)  # in which panes list at first, by the name of the pane
    # Is given what the user changed of theme, window, layout and orders, by these names.
    remember: Callable[[Mapping[str, Any]], None] | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # of bindings, by id, where they are not the built-in ones

    @property
    def recording_now(self) -> Path | None:
        return self.recorded_in() if self.recorded_in else self.recording
