"""Settings of the screen, and the interfaces of what it can start, such as exports and lists of sessions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from edgetop.frozen import frozen

FIRST_LINE_S = 1.0  # longest interval at which the first line is drawn, so that the elapsed time never seems to stop
# Windows of the percentiles by name, the shortest first. None: everything since the start.
WINDOWS_NS: Mapping[str, int | None] = {"10s": 10 * 10**9, "1m": 60 * 10**9, "10m": 600 * 10**9, "all": None}


class Export(Protocol):
    """An export that runs in its own process. It continues when the screen is closed."""

    def result(self) -> tuple[bool, str] | None:
        """Return (succeeded, text), where the text is the path of the file or the error; None while the export runs."""


class Exporter(Protocol):
    @property
    def forms(self) -> Mapping[str, str]: ...  # descriptions of the export formats by name

    def begin(self, recording: Path, form: str) -> Export:
        """Start to export a recording in a format, such as `csv`. Raises OSError if the process cannot start."""


@frozen
class OtherProcess:
    """A process of this machine that takes the CPU from the run."""

    pid: int
    name: str
    command: str  # its command line
    user: str
    cpu_pct: float  # mean CPU use since its start, in percent of a core
    cpu_s: float  # CPU time since its start, in s
    age_s: float  # time since its start, in s
    niceness: int
    may_control: bool  # whether this user may change its priority and end it


class Processes(Protocol):
    """Finds and controls the processes of this machine."""

    def find(self, name: str) -> OtherProcess | None:
        """Return the process with this name that uses the most CPU time, or None if none has this name."""

    def lower_priority(self, of: OtherProcess) -> str:
        """Lower the priority of a process. Return a sentence on what was done, or why it was not possible."""

    def end(self, of: OtherProcess) -> str:
        """Ask a process to end, with SIGTERM. Return a sentence on what was done, or why it was not possible."""


@frozen
class StoredSession:
    """A recorded session as the list of sessions shows it."""

    name: str
    path: Path  # its folder
    is_running: bool
    verdict: str
    figures: str  # time of the beginning, duration, p50 and p99


ResultT_co = TypeVar("ResultT_co", covariant=True)


class Work(Protocol[ResultT_co]):
    """Work that another process does for the screen, so that the work does not slow down a run."""

    def result(self) -> ResultT_co | str | None:
        """Return the result, or a text with the reason of a failure. Return None while the work goes on."""

    def cancel(self) -> None:
        """Stop the work. Do nothing if it has ended."""


class Sessions(Protocol):
    """Finds the sessions of this machine, and opens, compares, renames and deletes them."""

    def listed(self) -> Work[Sequence[StoredSession]]:
        """Start to list the sessions. Running sessions come first, then the others, each part newest first."""

    def compared(self, first: StoredSession, second: StoredSession, columns: int) -> Work[Sequence[str]]:
        """Start to compare two sessions. The result is lines, each at most `columns` cells wide where possible."""

    def deleted(self, session: StoredSession) -> Work[Sequence[str]]:
        """Start to delete a session. The result is lines that say what was deleted, or why nothing was."""

    def rename(self, session: StoredSession, name: str) -> None:
        """Give a session another name. Raises ValueError with the reason if that is not possible."""

    def show(self, session: StoredSession, gives_up: Callable[[], bool]) -> str:
        """Show a session on the terminal until the user leaves it. Return "", or the reason of a failure.

        The terminal must be free: suspend the present screen first. The new screen closes when `gives_up` returns True.
        """


@dataclass(slots=True)
class FleetListing:
    """The sort order, the filter and the cursor of the screen of many boards. They are kept while a board is open."""

    order: str = "worst"
    words: str = ""  # show only boards with these words
    cursor: str = ""  # name of the board under the cursor; "" for the first board
    note: str = ""  # message to show for some seconds
    opened: str = ""  # name of the board to open; "" if the user leaves


@frozen
class ScreenSettings:
    refresh_s: float = 2.0  # interval at which everything is drawn
    first_line_s: float = FIRST_LINE_S  # longest interval at which the first line is drawn
    theme: str | None = None  # None: chosen by the terminal
    ascii_only: bool = False  # use ASCII even in a UTF-8 locale
    recording: Path | None = None  # folder of the recording when the screen opened, or None
    recorded_in: Callable[[], Path] | None = None  # returns the current folder of the recording, if it can be followed
    recording_host: str = ""  # machine with the recording; "" for this one
    is_visited: bool = False  # opened from the screen of a fleet, to which Esc returns
    notify: bool = False  # report alerts by the bell and by a desktop notification
    exporter: Exporter | None = None
    sessions: Sessions | None = None  # the sessions of this machine; None if they cannot be listed
    processes: Processes | None = None  # processes of this machine; None for a replay or another machine
    window_ns: int | None = WINDOWS_NS["10s"]  # initial window of the percentiles; one of WINDOWS_NS
    reset_theme: str | None = None  # theme without remembered choices; None: chosen by the terminal
    reset_window_ns: int | None = WINDOWS_NS["10s"]  # window of the percentiles without remembered choices
    layout: str | None = None  # initial layout; None: the first one
    orders: Mapping[str, str] = field(default_factory=dict)  # initial orders of lists by pane
    # Called with the changed choices of the user, by the names theme, window, layout and orders.
    remember: Callable[[Mapping[str, Any]], None] | None = None
    keys: Mapping[str, str] = field(
        default_factory=dict
    )  # keys that differ from the built-in ones, by id of the binding

    @property
    def recording_now(self) -> Path | None:
        return self.recorded_in() if self.recorded_in else self.recording
