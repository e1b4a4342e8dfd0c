"""A running session: its thread, its data, its analysis, and the socket through which other processes control it."""

import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.control.control_socket import Answer
from edgetop.control.server import ControlServer
from edgetop.feeds.live import LiveFeed
from edgetop.paths import recordings_home
from edgetop.recording.registry import register
from edgetop.recording.session_folder import FolderHandle
from edgetop.runner.conductor import Conductor
from edgetop.runner.outcome import Outcome
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import AnalysisFailed, HookDone, RecordingMoved, Remark
from edgetop.wording.fault_words import fault_words

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis
    from edgetop.analysis.faults import Fault

OBSERVE_EVERY_S = 1.0

# An observer is called once a second and at the end. The analysis does not change during the call.
Observer = Callable[["Analysis"], None]


class LiveSession:
    """Connects a running session with its data, its analysis and other processes.

    Other processes can find and stop the session from its beginning until its recording is complete.
    """

    conductor: Conductor
    analysis: "Analysis"

    def __init__(self, feed: LiveFeed, session_state: SessionState) -> None:
        self.feed = feed
        self.state = session_state
        self.folder: FolderHandle | None = None  # folder of the recording, if there is one
        self.interrupted = False
        self.hung_up = False  # whether the terminal hung up; the run continues without it
        self.leave_now = False  # whether a signal came, so that the screen must not wait for a key
        self._has_begun = False
        self._early: list[int] = []  # signals that came before the session began
        self._server: ControlServer | None = None
        self._registered_as: Path | None = None
        self._observers: list[Observer] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="observers", daemon=True)

    def begin(self, conductor: Conductor, folder: FolderHandle | None) -> None:
        """Begin the session: connect its data, register its recording, and act on signals that came before.

        `conductor` is the thread that runs the session. `folder` is the folder of the recording; None if there is none.
        """
        self.conductor = conductor
        self.feed.connect(conductor)
        if folder:
            self.follow(folder)
        self._has_begun = True
        for number in self._early:
            self.on_signal(number)

    def follow(self, folder: FolderHandle) -> None:
        """Use this folder for the recording from now on: register it, and accept `edgetop stop` and `attach` there.

        If that fails, an event says so, and the run continues.
        """
        self.folder = folder
        if self._server:
            self._server.finish(Answer("", "rotated", 0))
            self._server = None
        self._register(folder.name)
        try:
            self._server = ControlServer(folder.path, self.conductor)
        except OSError as error:
            text = f"attached screens can only watch, and edgetop stop cannot end this session: {error.strerror}"
            self.state.add_event(Remark("no-control"), "warning", "edgetop", text)
        else:
            self._server.start()

    def _register(self, name: Path) -> None:
        self._registered_as = name
        try:
            register(recordings_home(), name, self.state.manifest.id)
        except OSError as error:
            text = f"edgetop attach and stop find this session only by its path: {error.strerror}"
            self.state.add_event(Remark("not-registered"), "warning", "edgetop", text)

    def put(self, batch: Batch) -> None:
        self.feed.put(batch)
        if self.folder and (name := self.folder.name) != self._registered_as:
            text = f"the recording is now in {name}"
            self.state.add_event(RecordingMoved(str(name)), "info", "edgetop", text)
            self._register(name)

    def close(self) -> None:
        if self._server:
            outcome = self.conductor.outcome
            if outcome is None:
                answer = Answer("it did not begin", "input-error", 2)
            else:
                error = outcome.error
                answer = Answer(str(error) if error else "", outcome.end_reason, error.exit_code if error else 0)
            self._server.finish(answer)
        self.feed.close()

    @property
    def name(self) -> Path:
        """The current path of the recording.

        It changes if the folder is moved, or when `--rotate` begins the next recording.
        """
        assert self.folder
        return self.folder.name

    @property
    def is_running(self) -> bool:
        """Whether the session runs and nobody has asked for its end. False while the recording is being completed."""
        is_over = self.feed.is_over or self.analysis.progress.view().phase == "over"
        return not (is_over or self.conductor.is_stopping or self.conductor.outcome)

    def note_interrupt(self) -> None:
        """Remember that Ctrl+C ended the run. Does nothing if the session is already over."""
        self.interrupted |= self.is_running

    def on_signal(self, number: int) -> None:
        """Handle signal `number`: end the session cleanly. A second SIGINT ends it without waiting.

        SIGHUP (the terminal hung up) does not end a recorded session or a watched program.
        """
        if not self._has_begun:
            self._early.append(number)
            return
        self.leave_now = True
        if number == signal.SIGHUP and self.folder:
            self.hung_up = True
        elif number == signal.SIGHUP:
            self.conductor.let_go("signal")
        else:
            if number == signal.SIGINT and self.conductor.is_stopping:
                self.conductor.hurry()
            self.interrupted |= number == signal.SIGINT
            self.conductor.stop("signal")

    def analyse(self, observers: Sequence[Observer] = ()) -> None:
        """Create the analysis of the session. From now on, pass it to each observer once a second."""
        from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  takes as long as an engine to load a model

        self.analysis, self._observers = Analysis(), list(observers)
        self.analysis.on_fault = self._record_fault
        if observers:
            self._thread.start()

    def stop_observers(self) -> None:
        """Call the observers a last time, then no more."""
        self._stopped.set()
        if self._thread.ident:
            self._thread.join()

    def _observe(self) -> None:
        """Call the observers once a second, on a thread of their own.

        The thread of the screen may be slow or closed, and the thread that runs the session must not wait for
        observers.
        """
        is_last = False
        while not is_last:
            is_last = self._stopped.wait(OBSERVE_EVERY_S)
            with self.analysis.lock:
                self.analysis.catch_up(self.feed)
                for observer in tuple(self._observers):
                    self._call(observer)

    def _call(self, observer: Observer) -> None:
        """Call an observer. If it raises an error, record the error as an event and never call this observer again."""
        try:
            observer(self.analysis)
        except Exception as error:  # noqa: BLE001  a defect of ours must not go unnoticed
            self._observers.remove(observer)
            name = getattr(observer, "__qualname__", "one of them")
            text = f"gates, hooks or metrics ({name}) have stopped: internal error: {type(error).__name__}: {error}"
            self.state.add_event(HookDone("hook-failed"), "warning", "hook", text)

    def _record_fault(self, fault: "Fault") -> None:
        text = f"{fault.name}: {fault_words(fault)}"
        self.state.add_event(AnalysisFailed(fault.traceback), "warning", "edgetop", text)

    def outcome(self) -> Outcome:
        """Wait for the end of the session. Return its reason and its error, if any."""
        outcome = self.conductor.join()
        self.analysis.catch_up(self.feed)
        assert outcome is not None
        return outcome
