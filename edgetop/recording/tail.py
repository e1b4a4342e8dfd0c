"""A live session to its end: what its writer appends, and whether anything more will come."""

from edgetop.recording.files import HeldFolder, is_live
from edgetop.recording.journal import FellBehindError, Follower
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Clock

SILENT_NS = 2_000_000_000  # a writer appends twice a second: after this its lock is looked at


class JournalTail:
    def __init__(self, folder: HeldFolder, follower: Follower, clock: Clock) -> None:
        self._folder, self._follower, self._clock = folder, follower, clock
        self.has_ended = False  # the session; its tables may not be complete yet
        self.is_over = False  # and they are: all of the journal was read
        self.last_read_ns = self._last_checked_ns = clock.monotonic_ns()

    @property
    def place(self) -> tuple[int, int]:
        """Behind what was read: the number of a segment, and bytes of it."""
        return self._follower.place

    def read(self, most_inferences: int | None = None) -> Batch | None:
        """What was appended since the last time; of more inferences in a piece than that, the last.

        Raises FellBehindError where the session must be read anew: a part of the journal has become tables, or the
        writer died.
        """
        batches = []
        try:
            for batch in self._follower.read(most_inferences):
                batches.append(batch)  # one by one: what came before an error counts
                self.has_ended |= batch.manifest is not None and batch.manifest.state != "live"
        except OSError:
            if not self.has_ended:
                raise FellBehindError from None
            self.is_over = True
        now_ns = self._clock.monotonic_ns()
        if batches:
            self.last_read_ns = self._last_checked_ns = now_ns
            return merge(batches)
        if not self.is_over and now_ns - self._last_checked_ns > SILENT_NS:
            self._last_checked_ns = now_ns
            if not is_live(self._folder.path):
                raise FellBehindError
        return None
