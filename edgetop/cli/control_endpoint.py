"""How other processes find a session and give it orders, from its beginning until its recording is final."""

from pathlib import Path

from edgetop.control.server import ControlServer
from edgetop.control.wire import Answer
from edgetop.feeds.live import LiveFeed
from edgetop.paths import recordings_home
from edgetop.recording.files import FolderHandle
from edgetop.recording.registry import register
from edgetop.runner.conductor import Conductor
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch


class ControlEndpoint:
    """Takes batches in its feed's place, to know of the end."""

    def __init__(self, feed: LiveFeed) -> None:
        self._feed = feed
        self._conductor: Conductor | None = None
        self._server: ControlServer | None = None
        self._folder: FolderHandle | None = None
        self._session_state: SessionState | None = None
        self._known_as: Path | None = None

    def open(self, folder: FolderHandle, conductor: Conductor, session_state: SessionState) -> None:
        """What cannot be had is told as an event: the run does not depend on it."""
        self._conductor, self._folder, self._session_state = conductor, folder, session_state
        self._register(folder.name)
        try:
            self._server = ControlServer(folder.path, conductor)
        except OSError as error:
            text = f"attached screens can only watch, and edgetop stop cannot end this session: {error.strerror}"
            session_state.add_event("no-control", "warning", "edgetop", text)
        else:
            self._server.start()

    def follow(self, folder: FolderHandle) -> None:
        """The session goes on as another, in that folder."""
        assert self._conductor
        assert self._session_state
        if self._server:
            self._server.finish(Answer("", "rotated", 0))
            self._server = None
        self.open(folder, self._conductor, self._session_state)

    def _register(self, name: Path) -> None:
        assert self._session_state
        self._known_as = name
        try:
            register(recordings_home(), name, self._session_state.manifest.id)
        except OSError as error:
            text = f"edgetop attach and stop find this session by its path alone: {error.strerror}"
            self._session_state.add_event("not-registered", "warning", "edgetop", text)

    def put(self, batch: Batch) -> None:
        self._feed.put(batch)
        if self._folder and self._session_state and (name := self._folder.name) != self._known_as:
            self._session_state.add_event(
                "recording-moved", "info", "edgetop", f"the recording is in {name} now", path=str(name)
            )
            self._register(name)

    def close(self) -> None:
        if self._server:
            self._server.finish(self._answer())
        self._feed.close()

    def _answer(self) -> Answer:
        outcome = self._conductor.outcome if self._conductor else None
        if outcome is None:
            return Answer("it did not begin", "input-error", 2)
        error = outcome.error
        return Answer(str(error) if error else "", outcome.end_reason, error.exit_code if error else 0)
