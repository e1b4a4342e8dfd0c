"""Settings of the screen: choices of the user, and functions that the caller provides."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from edgetop.frozen import frozen

# Windows of the percentiles by name, the shortest first. None: everything since the start.
WINDOWS_NS: Mapping[str, int | None] = {"10s": 10 * 10**9, "1m": 60 * 10**9, "10m": 600 * 10**9, "all": None}


class Export(Protocol):
    """An export in its own process, which continues when the screen is closed."""

    def result(self) -> tuple[bool, str] | None:
        """Return whether the export succeeded, and a line with its path or its error. Return None while it runs."""


class Exporter(Protocol):
    @property
    def forms(self) -> Mapping[str, str]: ...  # descriptions of the export formats by name

    def begin(self, recording: Path, form: str) -> Export:
        """Start an export. Raises OSError if it cannot start."""


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
        """Return the busiest process with this name, or None if there is none."""

    def lower_priority(self, of: OtherProcess) -> str:
        """Lower the priority of a process. Return in words what was done, or why it could not be done."""

    def end(self, of: OtherProcess) -> str:
        """Ask a process to end. Return in words what was done, or why it could not be done."""


@frozen
class StoredSession:
    """A session in the list of sessions, described in words."""

    name: str
    path: Path  # its folder
    is_running: bool
    verdict: str
    figures: str  # time of the beginning, duration, p50 and p99


ResultT_co = TypeVar("ResultT_co", covariant=True)


class Work(Protocol[ResultT_co]):
    """Work of another process, so that a run has the priority."""

    def result(self) -> ResultT_co | str | None:
        """Return the result, or the reason of a failure as a text. Return None while the work goes on."""

    def cancel(self) -> None:
        """End the work. Do nothing if it is over."""


class Sessions(Protocol):
    """Finds the sessions of this machine, and opens, compares, renames and deletes them."""

    def listed(self) -> Work[Sequence[StoredSession]]:
        """List the sessions, those that run first, then the newest first."""

    def compared(self, first: StoredSession, second: StoredSession, columns: int) -> Work[Sequence[str]]:
        """Compare two sessions in lines of at most `columns` cells, if possible."""

    def deleted(self, session: StoredSession) -> Work[Sequence[str]]:
        """Delete a session, unless it is being recorded. The result says in lines what was deleted."""

    def rename(self, session: StoredSession, name: str) -> None:
        """Rename a session. Raises ValueError with the reason if that is not possible."""

    def show(self, session: StoredSession, gives_up: Callable[[], bool]) -> str:
        """Show a session on the terminal, which must be free, until the user leaves it.

        Return the reason of a failure, or "". It is ended as soon as `gives_up` returns True.
        """


@dataclass(slots=True)
class FleetListing:
    """How the screen of the fleet sorts and filters boards. It is kept while a board is open."""

    order: str = "worst"
    words: str = ""  # show only boards with these words
    cursor: str = ""  # name of the board under the cursor; "" for the first board
    note: str = ""  # message to show for some seconds
    opened: str = ""  # name of the board to open; "" if the user leaves


@frozen
class ScreenSettings:
    refresh_s: float = 1.0
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
