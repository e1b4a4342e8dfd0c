"""Rotation of sessions (`--rotate`): one session follows another without a pause of the engine.

Work that may wait for a disk is done on threads: the next recording is made before the present one ends, which is
completed while the next one runs.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgetop.errors import EdgetopError
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.manifest import Lost, Manifest

RETRY_NS = 60_000_000_000


class Recorder(Protocol):
    def write(self, batch: Batch) -> tuple[Event, ...]:
        """Store it, or continue without. Returns events about the recording itself."""

    def prepare_end(self) -> None:
        """`finish` will be called soon."""

    def finish(self, manifest: Manifest) -> Lost | None:
        """Finish the recording and return what it lacks. Raises RecordingError where something could not be stored."""

    def discard(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Following:
    """The next recording: created, and still empty."""

    name: str  # of the session
    session_id: str
    recorder: Recorder
    taken: Callable[[], None]  # called when the session goes on in it


class Rotation:
    def __init__(self, every_ns: int, make: Callable[[Manifest], Following], report: Callable[[str], None]) -> None:
        """`make`: of the manifest until now; raises EdgetopError. `report` is called with what went wrong, in words."""
        self._every_ns = every_ns
        self._make = make
        self._report = report
        self._due_ns = every_ns
        self._making: threading.Thread | None = None
        self._made: Following | None = None
        self._finishing: list[threading.Thread] = []

    def ready(self, now_ns: int, manifest: Manifest) -> Following | None:
        """The next recording, where it is time for it and it has been made. To be asked at every step.

        `now_ns` is the time of the session until now. Where one cannot be made, it is tried again a minute later.
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
        """Complete a recording while the next goes on."""
        thread = threading.Thread(target=self._complete, args=(recorder, manifest), name="rotation", daemon=True)
        thread.start()
        self._finishing = [*(thread for thread in self._finishing if thread.is_alive()), thread]

    def _complete(self, recorder: Recorder, manifest: Manifest) -> None:
        try:
            recorder.finish(manifest)
        except EdgetopError as error:
            self._report(str(error))
        except Exception as error:  # noqa: BLE001  a defect of ours is reported, and the next session goes on
            self._report(f"{manifest.name}: internal error: {type(error).__name__}: {error}")

    def close(self) -> None:
        """The last session is over: wait for those before it; what was made for a next one is not needed."""
        for thread in (*self._finishing, *filter(None, [self._making])):
            thread.join()
        if self._made:
            self._made.recorder.discard()
