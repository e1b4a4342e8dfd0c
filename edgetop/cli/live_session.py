"""A session on its way: who conducts it, what it gives, and the one analysis that all who watch it share."""

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgetop.feeds.live import LiveFeed
from edgetop.recording.files import FolderHandle
from edgetop.runner.conductor import Conductor, Outcome
from edgetop.runner.session_state import SessionState

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis

LOOK_EVERY_S = 1.0


class Observer(Protocol):
    def look(self, analysis: "Analysis") -> None:
        """Called once a second, and when the session is over. Nothing is folded meanwhile."""


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
        self.hung_up = False  # the terminal: the run is to go on without
        self.leave_now = False  # a signal: the screen must not wait for a key
        self._observers: Sequence[Observer] = ()
        self._is_left = threading.Event()
        self._thread = threading.Thread(target=self._observe, name="observers", daemon=True)

    @property
    def name(self) -> Path:
        """Where it is recorded now: it may be moved, and another session may follow it."""
        assert self.folder
        return self.folder.name

    @property
    def goes_on(self) -> bool:
        """Nobody has asked for its end, nor has it come: what is over but not yet written is waited for."""
        is_over = self.feed.is_over or self.analysis.progress.view().phase == "over"
        return not (is_over or self.conductor.is_stopping or self.conductor.outcome)

    def heed(self, number: int) -> None:
        """End in order at a signal; but what is recorded goes on when the terminal hangs up."""
        self.leave_now = True
        if number == signal.SIGHUP and self.folder:
            self.hung_up = True
        else:
            self.interrupted |= number == signal.SIGINT
            self.conductor.stop("signal")

    def analyse(self, observers: Sequence[Observer] = ()) -> None:
        """Begin to understand what comes; `observers` look at it whether or not there is a screen."""
        from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  takes as long as an engine to load a model

        self.analysis, self._observers = Analysis(), observers
        if observers:
            self._thread.start()

    def leave(self) -> None:
        """Let the observers look for the last time."""
        self._is_left.set()
        if self._thread.ident:
            self._thread.join()

    def _observe(self) -> None:
        """On a thread of its own: a screen may be slow, stand still or be closed, and the conductor must not wait."""
        is_left = False
        while not is_left:
            is_left = self._is_left.wait(LOOK_EVERY_S)
            try:
                with self.analysis.lock:
                    self.analysis.catch_up(self.feed)
                    for observer in self._observers:
                        observer.look(self.analysis)
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
