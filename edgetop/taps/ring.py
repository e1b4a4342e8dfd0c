"""Reads the rings in which programs report their calls (`edgetop/probe/edgetop_probe.py` writes them).

What a program writes is data: sizes and numbers are checked, and nothing of it is trusted beyond them. A writer may
die at any moment, and it overwrites its oldest calls when nobody reads: these are counted.
"""

import mmap
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgetop.probe import edgetop_probe as layout

SLOT = np.dtype([
    ("sequence", "<u8"), ("start_ns", "<i8"), ("end_ns", "<i8"), ("thread", "<u8"), ("name", "<u2"),
    ("kind", "u1"), ("ok", "u1"), ("flags", "<u4"), ("cpu_us", "<u4"), ("number", "<u4"),
])  # fmt: skip
Calls = npt.NDArray[np.void]  # of SLOT
NO_CALLS: Calls = np.empty(0, SLOT)
LONGEST_NS = 3600 * 10**9  # a call with a longer time, or one that ended before it began, is invalid


@dataclass(frozen=True, slots=True)
class CallName:
    """The runtime and model of a call; each field may be empty."""

    runtime: str
    version: str
    providers: tuple[str, ...]
    model: str


class Ring:
    """The ring of one program, read from its first call on.

    Raises ValueError where the file is no ring of this version, OSError where it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        size = layout.HEADER_BYTES + layout.SLOTS * layout.SLOT.size
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                raise ValueError("no ring: another size")
            self._map = mmap.mmap(file, size, access=mmap.ACCESS_READ)
        finally:
            os.close(file)
        fields = layout.HEADER.unpack_from(self._map)
        if fields[:2] != (layout.MAGIC, layout.VERSION):
            raise ValueError("no ring of this version")
        if fields[2:5] != (layout.HEADER_BYTES, layout.SLOT.size, layout.SLOTS):
            raise ValueError("a ring of other sizes")
        self.pid = int(fields[5])
        self.source = layout.SOURCES[fields[6]] if fields[6] < len(layout.SOURCES) else ""
        self._slots = np.frombuffer(self._map, SLOT, layout.SLOTS, layout.HEADER_BYTES)
        self._position = 0  # of calls read or lost
        self._whole = 0  # of calls that were whole at the last `find_whole`
        self.lost = 0  # overwritten before they were read

    @property
    def cost_ns(self) -> int:
        """Return the cost of timing one call, by the program's own measurement; 0: unknown."""
        return int.from_bytes(self._map[layout.COST_AT : layout.COST_AT + 4], "little")

    def name(self, number: int) -> CallName:
        """The name with that number; an empty one where the number was not given out."""
        if number >= layout.NAMES:
            return CallName("", "", (), "")
        at = layout.NAMES_AT + number * layout.NAME_BYTES
        length = min(int.from_bytes(self._map[at : at + 2], "little"), layout.NAME_BYTES - 2)
        text = self._map[at + 2 : at + 2 + length].decode("utf-8", "replace")
        runtime, version, providers, model = (text.split("\t", 3) + [""] * 4)[:4]
        names = tuple(name.removesuffix("ExecutionProvider") for name in providers.split(",") if name)
        return CallName(runtime, version, names, model)

    def find_whole(self) -> None:
        """Find which calls are whole by now; `read` takes them. Between the two a writer's stores become visible."""
        newest = self._slots["sequence"].astype(np.int64)  # one copy: 32,768 numbers
        if newest.max(initial=0) > self._position + layout.SLOTS:
            overwritten = int(newest.max()) - layout.SLOTS - self._position
            self.lost += overwritten
            self._position += overwritten
        expected = self._position + 1 + np.arange(layout.SLOTS)
        is_whole = newest[(expected - 1) % layout.SLOTS] == expected
        count = layout.SLOTS if is_whole.all() else int(is_whole.argmin())
        if not count and is_whole.any():  # its writer died in the middle of it
            missing = int(is_whole.argmax())
            self.lost += missing
            self._position += missing
        self._whole = self._position + count

    def read(self) -> Calls:
        """Take the calls that `find_whole` found and that are valid, in the order in which they ended."""
        count = self._whole - self._position
        if count <= 0:
            return NO_CALLS
        places = (self._position + np.arange(count)) % layout.SLOTS
        calls = self._slots[places]
        intact = calls["sequence"] == self._position + 1 + np.arange(count).astype(np.uint64)
        self.lost += int(np.count_nonzero(~intact))  # overwritten while they were copied
        self._position = self._whole
        took_ns = calls["end_ns"] - calls["start_ns"]
        valid: Calls = calls[intact & (took_ns >= 0) & (took_ns < LONGEST_NS) & (calls["start_ns"] > 0)]
        return valid

    def close(self) -> None:
        del self._slots
        self._map.close()
