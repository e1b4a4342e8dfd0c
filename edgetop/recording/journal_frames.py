"""Frames: the parts of an append-only file, each with a checksum.

A frame is a header, a payload and one checksum over both. So a reader detects an incomplete end (power loss, a full
disk) and damage in the middle (an SD card). If the file still grows, a frame that is incomplete now is read by a later
call.
"""

import os
import struct
import zlib
from collections.abc import Iterator

from edgetop.frozen import frozen

MAGIC = b"ETj1"
# Magic, flags, number of the run, size of the payload as stored and as unpacked, the writer's key (`Frame.number`),
# CRC-32 of all these fields and the payload.
_HEADER = struct.Struct("<4sB3sIIqI")
_CHECKED = _HEADER.size - 4
# Flags. OPENING: needs no other frame. REFERENCE: the other frames of its run need this one. ALONE: needs only the
# reference of its run. DEFLATED: the payload is deflated.
OPENING, REFERENCE, ALONE, DEFLATED = 1, 2, 4, 8

MAX_STORED_BYTES = MAX_UNPACKED_BYTES = 64 * 1024 * 1024  # no writer makes larger frames
_SEARCH_BYTES = 1024 * 1024
_MAX_TRIES = 1_000  # bounds the search in a hostile file; by chance the magic does not occur this often


@frozen
class Frame:
    flags: int
    number: int  # the writer's key: a time or a position
    unpacked_bytes: int
    payload: bytes
    run: int = 0  # number of the run to which the frame belongs, modulo 2^24

    def has(self, flag: int) -> bool:
        return bool(self.flags & flag)


def varint(number: int) -> bytes:
    r"""Return a number >= 0 as bytes. Each byte has seven bits of the number, and the first byte has the lowest bits.

    All bytes except the last have their highest bit set.

    >>> varint(300)
    b'\xac\x02'
    """
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def seal(flags: int, number: int, payload: bytes, unpacked_bytes: int = 0, run: int = 0) -> bytes:
    """Return the bytes of a frame with this payload.

    `flags` are bits such as DEFLATED. `number` is a session time or a position, as the writer chooses. `unpacked_bytes`
    is the size of the payload before compression. `run` is the number of the deflate dictionary.
    """
    head = _HEADER.pack(MAGIC, flags, run.to_bytes(3, "little"), len(payload), unpacked_bytes, number, 0)[:_CHECKED]
    return head + struct.pack("<I", zlib.crc32(payload, zlib.crc32(head))) + payload


class FrameReader:
    """Reads the valid frames of a file in order. The file may still be growing."""

    def __init__(self, fd: int, end: int | None = None, offset: int = 0) -> None:
        """Read frames from byte `offset` up to byte `end` (None: the end of the file). The caller closes `fd`."""
        self._fd = fd
        self._end = end
        self.offset = offset  # everything before this offset was read or skipped
        self.damaged_bytes = 0  # number of invalid bytes that were skipped because valid frames follow
        self.longest = 0  # size of the longest frame in bytes

    def read(self) -> Iterator[Frame]:
        """Yield every valid frame that is complete by now. Damaged bytes between frames are skipped."""
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
        """Return the number of bytes after the last valid frame, which are damaged or still being written."""
        return max(0, os.fstat(self._fd).st_size - self.offset)

    def is_torn(self) -> bool:
        """Whether the file ends with a part of a frame: the writer died, or is still writing."""
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
        """Return the next frame with the deflate dictionary number `run`, or None if there is no such frame.

        The reader's position does not change.
        """
        onward = FrameReader(self._fd, self._end, self.offset)
        return next((frame for frame in onward.read() if frame.has(REFERENCE) and frame.run == run), None)

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
