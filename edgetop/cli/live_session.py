"""A session while it runs: its conductor, its feed, the one analysis that all observers share, and its socket."""

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.control.server import ControlServer
from edgetop.control.wire import Answer
from edgetop.feeds.live import LiveFeed
from edgetop.paths import recordings_home
from edgetop.recording.files import FolderHandle
from edgetop.recording.registry import register
from edgetop.runner.conductor import Conductor, Outcome
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis

OBSERVE_EVERY_S = 1.0

Observer = Callable[["Analysis"], None]  # called once a second, and at the end; nothing is folded meanwhile


class LiveSession:
    analysis: "Analysis"

    def __init__(
        self, conductor: Conductor, feed: LiveFeed, folder: FolderHandle | None, session_state: SessionState
    ) -> None:
        """`folder`: where it is recorded, or None."""
        self.conductor = conductor
        self.feed = feed
        self.folder = folder
        self.state = session_state
        self.interrupted = False
        self.hung_up = False  # the terminal did; the run continues without it
        self.leave_now = False  # a signal came: the screen must not wait for a key
        self._observers: Sequence[Observer] = ()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="observers", daemon=True)

    @property
    def name(self) -> Path:
        """The path of the recording now: it may be moved, and with `--rotate` another one follows."""
        assert self.folder
        return self.folder.name

    @property
    def is_running(self) -> bool:
        """False as well once the end was ordered, and while what is over is still being written."""
        is_over = self.feed.is_over or self.analysis.progress.view().phase == "over"
        return not (is_over or self.conductor.is_stopping or self.conductor.outcome)

    def on_signal(self, number: int) -> None:
        """End in order. A recorded session continues when the terminal hangs up."""
        self.leave_now = True
        if number == signal.SIGHUP and self.folder:
            self.hung_up = True
        else:
            self.interrupted |= number == signal.SIGINT
            self.conductor.stop("signal")

    def analyse(self, observers: Sequence[Observer] = ()) -> None:
        """Start the analysis. `observers` are called whether or not there is a screen."""
        from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  takes as long as an engine to load a model

        self.analysis, self._observers = Analysis(), observers
        if observers:
            self._thread.start()

    def stop_observers(self) -> None:
        """Call the observers for the last time."""
        self._stopped.set()
        if self._thread.ident:
            self._thread.join()

    def _observe(self) -> None:
        """Call the observers once a second, on a thread of their own.

        A screen may be slow, stand still or be closed, and the conductor must not wait for gates and event hooks.
        """
        is_last = False
        while not is_last:
            is_last = self._stopped.wait(OBSERVE_EVERY_S)
            try:
                with self.analysis.lock:
                    self.analysis.catch_up(self.feed)
                    for observer in self._observers:
                        observer(self.analysis)
            except Exception as error:  # noqa: BLE001  a defect of ours must not go unnoticed
                text = f"gates and event hooks are judged no more: internal error: {type(error).__name__}: {error}"
                self.state.add_event("hook-failed", "warning", "hook", text)
                return

    def outcome(self) -> Outcome:
        """Wait for the end."""
        outcome = self.conductor.join()
        self.analysis.catch_up(self.feed)
        assert outcome is not None
        return outcome


class ControlEndpoint:
    """Lets other processes find the session and send it orders, from its beginning until its recording is final.

    It stands between the conductor and the feed, so that it sees the end of the session.
    """

    def __init__(self, feed: LiveFeed) -> None:
        self._feed = feed
        self._conductor: Conductor | None = None
        self._server: ControlServer | None = None
        self._folder: FolderHandle | None = None
        self._session_state: SessionState | None = None
        self._registered_as: Path | None = None

    def open(self, folder: FolderHandle, conductor: Conductor, session_state: SessionState) -> None:
        """Register the session and listen for orders. What fails is an event: the run does not depend on it."""
        self._conductor, self._folder, self._session_state = conductor, folder, session_state
        self._register(folder.name, session_state)
        try:
            self._server = ControlServer(folder.path, conductor)
        except OSError as error:
            text = f"attached screens can only watch, and edgetop stop cannot end this session: {error.strerror}"
            session_state.add_event("no-control", "warning", "edgetop", text)
        else:
            self._server.start()

    def follow(self, folder: FolderHandle) -> None:
        """The session continues as another one, in that folder."""
        assert self._conductor
        assert self._session_state
        if self._server:
            self._server.finish(Answer("", "rotated", 0))
            self._server = None
        self.open(folder, self._conductor, self._session_state)

    def _register(self, name: Path, session_state: SessionState) -> None:
        self._registered_as = name
        try:
            register(recordings_home(), name, session_state.manifest.id)
        except OSError as error:
            text = f"edgetop attach and stop find this session by its path alone: {error.strerror}"
            session_state.add_event("not-registered", "warning", "edgetop", text)

    def put(self, batch: Batch) -> None:
        self._feed.put(batch)
        if self._folder and self._session_state and (name := self._folder.name) != self._registered_as:
            text = f"the recording is in {name} now"
            self._session_state.add_event("recording-moved", "info", "edgetop", text, path=str(name))
            self._register(name, self._session_state)

    def close(self) -> None:
        if self._server:
            outcome = self._conductor.outcome if self._conductor else None
            if outcome is None:
                answer = Answer("it did not begin", "input-error", 2)
            else:
                error = outcome.error
                answer = Answer(str(error) if error else "", outcome.end_reason, error.exit_code if error else 0)
            self._server.finish(answer)
        self._feed.close()
