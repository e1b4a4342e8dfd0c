"""Rotation of sessions (`--rotate`): a new session begins while the engine runs on without a pause.

Two steps may have to wait for a disk, so threads do them: creating a session's recording before the previous session
ends, and completing a recording after the next session has begun.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from edgetop.errors import EdgetopError
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.manifest import Lost, Manifest

RETRY_NS = 60_000_000_000


class Recorder(Protocol):
    def write(self, batch: Batch) -> tuple[Event, ...]:
        """Store a batch. Return events about the recording, such as a full disk. A failing disk raises no error."""

    def prepare_end(self) -> None:
        """Prepare for the end of the recording, because `finish` is called soon."""

    def finish(self, manifest: Manifest) -> Lost | None:
        """Finish the recording of the session that `manifest` describes.

        Return what the recording lacks, or None if it is complete. Raises RecordingError if something could not be
        written.
        """

    def discard(self) -> None: ...


@frozen
class Following:
    """The recording of the next session: created, and still empty."""

    name: str  # of the session
    session_id: str
    recorder: Recorder
    taken: Callable[[], None]  # called when the next session has begun


class Rotation:
    def __init__(self, every_ns: int, make: Callable[[Manifest], Following], report: Callable[[str], None]) -> None:
        """Prepare to begin a new session whenever a session has lasted `every_ns`.

        `make` creates the next recording from the present manifest, and may raise EdgetopError or OSError. `report`
        gets a sentence about what went wrong.
        """
        self._every_ns = every_ns
        self._make = make
        self._report = report
        self._due_ns = every_ns
        self._making: threading.Thread | None = None
        self._made: Following | None = None
        self._finishing: list[threading.Thread] = []

    def ready(self, now_ns: int, manifest: Manifest) -> Following | None:
        """Return the next session's recording if the next session is due and the recording exists, else None.

        Call this often. `now_ns` is the time of the current session. If the recording cannot be created, the next
        attempt is a minute later.
        """
        if self._making is None and now_ns >= self._due_ns:
            self._making = threading.Thread(target=self._prepare, args=(manifest,), name="rotation", daemon=True)
            self._making.start()
        elif self._making and not self._making.is_alive():
            self._making, made, self._made = None, self._made, None
            self._due_ns = self._every_ns if made else now_ns + RETRY_NS
            return made
        return None

    def _prepare(self, manifest: Manifest) -> None:
        try:
            self._made = self._make(manifest)
        except (EdgetopError, OSError) as error:
            self._report(f"no new session can begin, the recording goes on in this one: {error}")

    def finish(self, recorder: Recorder, manifest: Manifest) -> None:
        """Start a thread that completes the recording of an ended session. `manifest` describes that session."""
        thread = threading.Thread(target=self._complete, args=(recorder, manifest), name="rotation", daemon=True)
        thread.start()
        self._finishing = [*(thread for thread in self._finishing if thread.is_alive()), thread]

    def _complete(self, recorder: Recorder, manifest: Manifest) -> None:
        try:
            recorder.finish(manifest)
        except EdgetopError as error:
            self._report(str(error))
        except Exception as error:  # noqa: BLE001  a defect is reported, and the next session goes on
            self._report(f"{manifest.name}: internal error: {type(error).__name__}: {error}")

    def close(self) -> None:
        """Wait until the recordings of all ended sessions are complete.

        A recording for a session that never began is discarded.
        """
        for thread in (*self._finishing, *filter(None, [self._making])):
            thread.join()
        if self._made:
            self._made.recorder.discard()
