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
# Magic, flags, number of the run, bytes of the payload as stored and as unpacked, a number of the writer's, CRC-32 of
# all that and the payload.
_HEADER = struct.Struct("<4sB3sIIqI")
_CHECKED = _HEADER.size - 4
# Flags: this frame can be understood without those before it; the others of its run are understood with this one; it
# needs no other but the one of its run that has the second flag; its payload is deflated.
OPENING, REFERENCE, ALONE, DEFLATED = 1, 2, 4, 8

MAX_STORED_BYTES = MAX_UNPACKED_BYTES = 64 * 1024 * 1024  # more is no frame of ours
_SEARCH_BYTES = 1024 * 1024
_MAX_TRIES = 1_000  # so often the magic does not stand there by chance: whoever wrote it wants us to read for ever


@dataclass(frozen=True, slots=True)
class Frame:
    flags: int
    number: int  # what the writer keeps it under: a time, a place
    unpacked_bytes: int
    payload: bytes
    run: int = 0  # of which run of frames it is, of 2^24

    @property
    def is_opening(self) -> bool:
        return bool(self.flags & OPENING)

    @property
    def is_reference(self) -> bool:
        return bool(self.flags & REFERENCE)

    @property
    def is_alone(self) -> bool:
        return bool(self.flags & ALONE)

    @property
    def is_deflated(self) -> bool:
        """Else it is of an earlier version, and compressed by Zstandard."""
        return bool(self.flags & DEFLATED)


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte, the least first; all bytes but the last have the eighth bit set.

    >>> varint(300)
    b'\\xac\\x02'
    """
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def seal(flags: int, number: int, payload: bytes, unpacked_bytes: int = 0, run: int = 0) -> bytes:
    """The bytes of a frame."""
    head = _HEADER.pack(MAGIC, flags, run.to_bytes(3, "little"), len(payload), unpacked_bytes, number, 0)[:_CHECKED]
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


class FrameReader:
    """The sound frames of a file, in order, also while it grows."""

    def __init__(self, fd: int, end: int | None = None, offset: int = 0) -> None:
        """`fd`: open for reading; it stays the caller's. `end`: read no further."""
        self._fd = fd
        self._end = end
        self.offset = offset  # up to here everything was read or given up
        self.damaged_bytes = 0  # given up: not sound, though sound frames follow
        self.longest = 0  # of the frames, in bytes

    def read(self) -> Iterator[Frame]:
        """Every frame that is whole by now."""
        while self._end is None or self.offset < self._end:
            frame = self._frame_at(self.offset)
            if frame is None:
                onward = self._next_frame(self.offset + 1)
                if onward is None:
                    return
                self.damaged_bytes += onward - self.offset
                self.offset = onward
                continue
            size = _HEADER.size + len(frame.payload)
            self.offset += size
            self.longest = max(self.longest, size)
            yield frame

    def tail_bytes(self) -> int:
        """How much lies behind the last sound frame: a torn one, or one that is being written."""
        return max(0, os.fstat(self._fd).st_size - self.offset)

    def is_torn(self) -> bool:
        """Whether what lies there is the beginning of a frame, of which the rest was never written."""
        size, head = self.tail_bytes(), os.pread(self._fd, _HEADER.size, self.offset)
        if len(head) < _HEADER.size:
            return bool(head) and MAGIC.startswith(head[:4])
        magic, _, _, stored, *_ = _HEADER.unpack(head)
        return bool(magic == MAGIC and size < _HEADER.size + stored <= _HEADER.size + MAX_STORED_BYTES)

    def _frame_at(self, offset: int) -> Frame | None:
        head = os.pread(self._fd, _HEADER.size, offset)
        if len(head) < _HEADER.size:
            return None
        magic, flags, run, stored, unpacked, number, checksum = _HEADER.unpack(head)
        if magic != MAGIC or stored > MAX_STORED_BYTES or unpacked > MAX_UNPACKED_BYTES:
            return None
        payload = os.pread(self._fd, stored, offset + _HEADER.size)
        if len(payload) < stored or zlib.crc32(payload, zlib.crc32(head[:_CHECKED])) != checksum:
            return None
        return Frame(flags, number, unpacked, payload, int.from_bytes(run, "little"))

    def next_reference(self, run: int) -> Frame | None:
        """The next one of a run from here on; reading stays where it is."""
        onward = FrameReader(self._fd, self._end, self.offset)
        return next((frame for frame in onward.read() if frame.is_reference and frame.run == run), None)

    def _next_frame(self, offset: int) -> int | None:
        tries = 0
        while block := os.pread(self._fd, _SEARCH_BYTES + len(MAGIC), offset):
            at = block.find(MAGIC)
            while at >= 0 and tries < _MAX_TRIES:
                tries += 1
                if self._frame_at(offset + at):
                    return offset + at
                at = block.find(MAGIC, at + 1)
            if len(block) <= len(MAGIC):
                break
            offset += max(1, len(block) - len(MAGIC))
        return None
