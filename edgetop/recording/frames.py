"""Frames: pieces of an append-only file that say of themselves whether they are whole.

A frame is a header, a payload and one checksum over both, so that a torn end (power loss, a
full disk) and a rotten middle (an SD card) are seen and never believed. A reader may follow a
file while it grows: what is not yet whole is read the next time.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"ETj1"
# Magic, flags, bytes of the payload as stored and as unpacked, a number of the writer's, CRC-32 of all that and the
# payload.
_HEADER = struct.Struct("<4sB3xIIqI")
_CHECKED = _HEADER.size - 4
OPENING = 1  # flag: this frame can be understood without those before it

MAX_STORED_BYTES = MAX_UNPACKED_BYTES = 64 * 1024 * 1024  # more is no frame of ours
_SEARCH_BYTES = 1024 * 1024
_MAX_TRIES = 1_000  # so often the magic does not stand there by chance: whoever wrote it wants us to read for ever


@dataclass(frozen=True, slots=True)
class Frame:
    flags: int
    number: int  # what the writer keeps it under: a time, a place
    unpacked_bytes: int
    payload: bytes

    @property
    def is_opening(self) -> bool:
        return bool(self.flags & OPENING)


def seal(flags: int, number: int, payload: bytes, unpacked_bytes: int = 0) -> bytes:
    """The bytes of a frame."""
    head = _HEADER.pack(MAGIC, flags, len(payload), unpacked_bytes, number, 0)[:_CHECKED]
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


class FrameReader:
    """The sound frames of a file, in order, also while it grows."""

    def __init__(self, fd: int, end: int | None = None) -> None:
        """`fd`: open for reading; it stays the caller's. `end`: read no further."""
        self._fd = fd
        self._end = end
        self.offset = 0  # up to here everything was read or given up
        self.damaged_bytes = 0  # given up: not sound, though sound frames follow

    def read(self) -> Iterator[Frame]:
        """Every frame that is whole by now."""
        while self._end is None or self.offset < self._end:
            frame = self._frame_at(self.offset)
            if frame is None:
                onward = self._next_opening(self.offset + 1)
                if onward is None:
                    return
                self.damaged_bytes += onward - self.offset
                self.offset = onward
                continue
            self.offset += _HEADER.size + len(frame.payload)
            yield frame

    def tail_bytes(self) -> int:
        """How much lies behind the last sound frame: a torn one, or one that is being written."""
        return max(0, os.fstat(self._fd).st_size - self.offset)

    def _frame_at(self, offset: int) -> Frame | None:
        head = os.pread(self._fd, _HEADER.size, offset)
        if len(head) < _HEADER.size:
            return None
        magic, flags, stored, unpacked, number, checksum = _HEADER.unpack(head)
        if magic != MAGIC or stored > MAX_STORED_BYTES or unpacked > MAX_UNPACKED_BYTES:
            return None
        payload = os.pread(self._fd, stored, offset + _HEADER.size)
        if len(payload) < stored or zlib.crc32(payload, zlib.crc32(head[:_CHECKED])) != checksum:
            return None
        return Frame(flags, number, unpacked, payload)

    def _next_opening(self, offset: int) -> int | None:
        """Where the next frame begins with which reading can begin anew."""
        tries = 0
        while block := os.pread(self._fd, _SEARCH_BYTES + len(MAGIC), offset):
            at = block.find(MAGIC)
            while at >= 0 and tries < _MAX_TRIES:
                tries += 1
                frame = self._frame_at(offset + at)
                if frame and frame.is_opening:
                    return offset + at
                at = block.find(MAGIC, at + 1)
            if len(block) <= len(MAGIC):
                break
            offset += max(1, len(block) - len(MAGIC))
        return None
