"""A feed of a session that another process runs: reads the session's recording, then follows what is appended.

Commands, such as a stop, go through the session's socket. A separate thread sends them, so the screen does not wait for
the answer.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from edgetop import formatting
from edgetop.control.control_socket import give
from edgetop.errors import EdgetopError, InputError
from edgetop.feeds.feed_protocol import Can, Refusal
from edgetop.recording.by_time import RecordingByTime
from edgetop.recording.journal import FellBehindError, JournalTail
from edgetop.recording.reader import Recording
from edgetop.recording.registry import successor
from edgetop.recording.rows import sound_batch
from edgetop.recording.session_folder import SOCKET, open_folder
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock
from edgetop.session.events import Order

LATE_NS = 5_000_000_000  # a longer silence is shown to the user


class AttachFeed:
    player = None
    waiting: Sequence[Batch] = ()  # only reading tells

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Read what the session in `folder` has recorded so far. Raises InputError if there is no session."""
        self.folder = open_folder(folder)
        self._clock = clock
        self._tail: JournalTail | None = None  # None if nothing more will come
        self._refusal = Refusal(clock)
        self._lost = ""  # why the session can no longer be followed
        self._orders: list[threading.Thread] = []
        self._waiting: Batch | None = self._opened()

    def _opened(self) -> Batch:
        try:
            recording = Recording(self.folder.path)
        except InputError as error:
            raise InputError(self.folder.with_name(str(error)), self.folder.why_gone) from None
        with recording:
            batch = RecordingByTime(recording).whole()
            self._tail = JournalTail(self.folder, recording.follow(), self._clock) if recording.is_live else None
        return batch

    @property
    def name(self) -> Path:
        """The session's present path. It changes if the folder is moved, or if the run continues as a new session."""
        return self.folder.name

    @property
    def can(self) -> Can:
        if self._tail is None:
            return Can.NOTHING
        takes_orders = not self._tail.has_ended and (self.folder.path / SOCKET).exists()
        return Can.VISIT | Can.ORDERS if takes_orders else Can.VISIT

    @property
    def is_over(self) -> bool:
        return self._tail is None and self._waiting is None

    @property
    def trouble(self) -> str:
        if self._lost:
            return self._lost
        now_ns = self._clock.monotonic_ns()
        if refusal := str(self._refusal):
            return refusal
        if self._tail and (silent_ns := now_ns - self._tail.last_read_ns) > LATE_NS:
            return f"no data for {formatting.duration(silent_ns)}"
        return ""

    def read(self) -> Batch | None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None or self._tail is None:
            return waiting
        try:
            batch = self._tail.read()
        except FellBehindError:
            return self._anew()
        if self._tail.is_over:
            self._tail = None
            if following := successor(self.folder.name):
                self.folder = open_folder(following)
                return self._anew()
        return sound_batch(batch) if batch else None

    def _anew(self) -> Batch | None:
        try:
            return self._opened()
        except EdgetopError as error:  # the recording was removed
            self._tail, self._lost = None, str(error)
            return None

    def order(self, order: Order) -> None:
        if self._tail is None:
            return
        thread = threading.Thread(target=self._give, args=(order,), name="order", daemon=True)
        self._orders = [*(thread for thread in self._orders if thread.is_alive()), thread]
        thread.start()

    def _give(self, order: Order) -> None:
        try:
            give(self.folder.name, order)
        except (EdgetopError, ValueError) as error:
            self._refusal.set(order.do, str(error))

    def close(self, timeout_s: float) -> None:
        """Close the feed. Wait at most `timeout_s` seconds for the answer to each command, such as a stop."""
        for thread in self._orders:
            thread.join(timeout_s)
