"""Read the rings in which programs report their calls. `edgetop/probe/edgetop_probe.py` writes them.

A ring is a file in shared memory with the newest calls of a process. A ring is not trusted. It is read with pread(2)
and never mapped, because SIGBUS would kill the reader if the file became shorter. Sizes and sequence numbers are
checked, because the program that writes the calls may die at any moment. If nobody reads the calls, the program
overwrites the oldest. Overwritten calls are counted.
"""

import fcntl
import os
import signal
import stat
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.probe import edgetop_probe as layout

SLOT = np.dtype([
    ("sequence", "<u8"), ("start_ns", "<i8"), ("end_ns", "<i8"), ("thread", "<u8"), ("name", "<u2"),
    ("kind", "u1"), ("ok", "u1"), ("flags", "<u4"), ("cpu_us", "<u4"), ("number", "<u4"),
])  # fmt: skip
Calls = npt.NDArray[np.void]  # array of SLOT
Sequences = npt.NDArray[np.uint64]
NO_CALLS: Calls = np.empty(0, SLOT)
LONGEST_NS = 3600 * 10**9  # a call with a longer time, or one that ended before it began, is invalid
CHUNK = 512  # number of slots to read at once
MOST_SKIPPED = 2**24  # most sequence numbers to skip: more than a second of a writer of 10 million calls per second
LOOK_EVERY = 8  # after this many reads without a new call, all slots are examined
MOST_HOLES = 64  # most successive missing calls to skip at the end
_numbers = count(1).__next__
_room = bytearray(layout.SLOTS * SLOT.itemsize)  # buffer for the slots of a ring, shared by all rings


@frozen
class CallName:
    """The model and the runtime of a call. Fields that are unknown are empty."""

    runtime: str
    version: str
    providers: tuple[str, ...]
    model: str


class Ring:
    """A ring: the file in shared memory in which a program writes its calls. Reading begins with its first call.

    Raises ValueError if the file is not a ring of this version, and OSError if it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = _numbers()  # unique among all rings
        self.is_cut = False  # whether the file became shorter; it is then no longer read
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.fcntl(self._file, fcntl.F_SETSIG, signal.SIGURG)  # an ignored signal, for the lease of `is_abandoned`
            fields = self._read_header()
        except BaseException:
            self.close()
            raise
        self.pid = int(fields[5])
        self.source = layout.SOURCES[fields[6]] if fields[6] < len(layout.SOURCES) else ""
        self.created_ns = int(fields[7])
        self._position = 0  # number of calls that were read or lost
        self._whole = 0  # number of calls that were complete at the last `find_whole`
        self._idle = 0  # number of successive reads without a new call
        self._hole = -1  # position of a missing call that later calls follow
        self._jump = (-1, 0)  # the last long jump over missing calls, as (from, to) positions
        self.lost = 0  # number of calls that were overwritten before they were read
        self.is_damaged = False  # whether it has impossible sequence numbers

    def _read_header(self) -> tuple[Any, ...]:
        """Return the fields of the file's header. Raises ValueError if the file is not a ring of this version."""
        status, size = os.fstat(self._file), layout.HEADER_BYTES + layout.SLOTS * layout.SLOT.size
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            raise ValueError("not a ring: another size")
        fields = layout.HEADER.unpack(self._bytes(0, layout.HEADER.size))
        if fields[:2] != (layout.MAGIC, layout.VERSION):
            raise ValueError("not a ring of this version")
        if fields[2:5] != (layout.HEADER_BYTES, layout.SLOT.size, layout.SLOTS):
            raise ValueError("a ring of other sizes")
        return fields

    def _bytes(self, at: int, size: int) -> bytes:
        """Return `size` bytes from the position `at` of the file. Bytes beyond the end of the file are zero."""
        read = os.pread(self._file, size, at)
        if len(read) < size:
            self.is_cut = True
        return read.ljust(size, b"\0")

    def _read_slots(self, position: int, number: int) -> Calls:
        """Return the slots (one call each) of the sequence numbers `position` + 1 to `position` + `number`.

        Their content is not checked.
        """
        place = position % layout.SLOTS
        parts = [(place, min(number, layout.SLOTS - place)), (0, number - min(number, layout.SLOTS - place))]
        read = [
            np.frombuffer(self._bytes(layout.HEADER_BYTES + at * SLOT.itemsize, length * SLOT.itemsize), SLOT)
            for at, length in parts
            if length
        ]
        return read[0] if len(read) == 1 else np.concatenate(read)

    def _all_sequences(self) -> Sequences:
        """Return the sequence numbers in all slots, beginning with the slot that is read next."""
        read = os.preadv(self._file, [_room], layout.HEADER_BYTES)
        if read < len(_room):
            self.is_cut = True
            _room[read:] = bytes(len(_room) - read)
        sequences = np.frombuffer(_room, SLOT)["sequence"]
        place = self._position % layout.SLOTS
        return np.concatenate([sequences[place:], sequences[:place]])

    @property
    def cost_ns(self) -> int:
        """How many ns it takes to time one call, as the program measured it, or 0 if unknown."""
        return int.from_bytes(self._bytes(layout.COST_AT, 4), "little")

    def name(self, number: int) -> CallName:
        """Return the model and the runtime in entry `number` of the ring's table of names.

        All fields are empty if the entry is not in use.
        """
        if number >= layout.NAMES:
            return CallName("", "", (), "")
        entry = self._bytes(layout.NAMES_AT + number * layout.NAME_BYTES, layout.NAME_BYTES)
        length = min(int.from_bytes(entry[:2], "little"), layout.NAME_BYTES - 2)
        text = entry[2 : 2 + length].decode("utf-8", "replace")
        runtime, version, providers, model = (clean(part) for part in (text.split("\t", 3) + [""] * 4)[:4])
        names = tuple(name.removesuffix("ExecutionProvider") for name in providers.split(",") if name)
        return CallName(runtime, version, names, model)

    def find_whole(self, *, is_last: bool = False) -> None:
        """Find the calls that are complete. The next `read` returns these calls.

        `is_last` says that no process writes to the file any more. Call this some time before `read`: everything that
        the writer has stored for these calls must be visible by then.
        """
        before, after = self._jump
        if before >= 0 and int(self._read_slots(before, 1)["sequence"][0]) == before + 1:
            # The skipped calls arrive after all, so the number far ahead was not from the writer.
            self.lost -= after - before
            self.is_damaged, self._position, self._jump = True, before, (-1, 0)
        self._whole = self._position + self._count_whole()
        self._idle = 0 if self._whole > self._position else self._idle + 1
        if self._idle and (is_last or self._idle % LOOK_EVERY in (1, 2)):
            self._look_ahead(is_last=is_last)

    def _count_whole(self) -> int:
        """Return how many successive calls are complete, from the one that is read next."""
        found = 0
        while found < layout.SLOTS:
            sequences = self._read_slots(self._position + found, CHUNK)["sequence"]
            is_whole = sequences == _expected(self._position + found, CHUNK)
            if not is_whole.all():
                return found + int(is_whole.argmin())
            found += CHUNK
        return found

    def _look_ahead(self, *, is_last: bool) -> None:
        """Skip calls that will never be complete, because they were overwritten or their writer died.

        `is_last` says that no process writes to the file any more.
        """
        sequences, places = self._all_sequences(), np.arange(layout.SLOTS)
        is_newer = sequences > self._position
        if not is_newer.any():
            return
        ahead = np.where(is_newer, sequences - np.uint64(self._position + 1), np.uint64(0))
        is_valid = is_newer & (ahead < MOST_SKIPPED) & (ahead % np.uint64(layout.SLOTS) == places.astype(np.uint64))
        self.is_damaged |= bool((is_newer & ~is_valid).any())  # a sequence number in a wrong slot
        newer = np.sort(ahead[is_valid]).astype(np.int64)
        if not len(newer):
            return
        nearest = int(newer[0])
        if len(newer) > layout.SLOTS // 2 and nearest:  # most slots belong to a later lap
            newest = int(newer[newer < newer[len(newer) // 2] + layout.SLOTS][-1])
            skipped = max(nearest, newest + 1 - layout.SLOTS)
        elif nearest >= layout.SLOTS and nearest + 1 not in newer[1:2]:  # a single number far ahead
            self.is_damaged = True
            return
        elif not is_last and self._hole != self._position:  # another thread may be about to write it
            self._hole = self._position
            return
        else:
            skipped = nearest
        if skipped >= CHUNK:
            self._jump = self._position, self._position + skipped
        self.lost += skipped
        self._position += skipped
        is_whole = ahead[(skipped + places) % layout.SLOTS] == (skipped + places).astype(np.uint64)
        self._whole = self._position + (layout.SLOTS if is_whole.all() else int(is_whole.argmin()))

    def read(self) -> Calls:
        """Return the valid calls that `find_whole` found, in the order in which they ended.

        Each call is returned once.
        """
        number = self._whole - self._position
        if number <= 0:
            return NO_CALLS
        calls, expected = self._read_slots(self._position, number), _expected(self._position, number)
        intact = calls["sequence"] == expected
        if number > layout.SLOTS // 2:  # the writer may soon overtake the reader
            intact &= self._read_slots(self._position, number)["sequence"] == expected
        self.lost += int(np.count_nonzero(~intact))  # overwritten while they were copied
        self._position = self._whole
        # Compare the values instead of their difference, which may overflow.
        is_possible = (calls["start_ns"] > 0) & (calls["end_ns"] >= calls["start_ns"])
        calls = calls[intact & is_possible]
        valid: Calls = calls[calls["end_ns"] - calls["start_ns"] < LONGEST_NS]
        return valid

    def read_to_end(self) -> Calls:
        """Return all remaining calls. Call this only when no process writes to the ring any more."""
        parts = []
        for _ in range(MOST_HOLES):
            self.find_whole(is_last=True)
            if self._whole == self._position:
                break
            parts.append(self.read())
        return np.concatenate(parts) if parts else NO_CALLS

    def is_abandoned(self) -> bool:
        """Whether it is certain that no process can write to the file any more.

        The kernel grants a read lease only if no process has the file open for writing, and a shared mapping keeps it
        open (fcntl(2), "Leases"; check_conflicting_open in the kernel's fs/locks.c). Unlike a check of the process
        number, this works across PID namespaces, and for children that share the mapping.
        """
        try:
            fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError:
            return False
        return True

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _expected(position: int, number: int) -> Sequences:
    """Return the sequence numbers `position` + 1 to `position` + `number`.

    >>> _expected(5, 2).tolist()
    [6, 7]
    """
    return np.arange(position + 1, position + 1 + number, dtype=np.uint64)
