"""The format of messages between an engine and its conductor: typed, versioned, length-prefixed frames.

Both sides import this file, so it holds no policy, only the layout:

    magic "ET" | version u8 | kind u8 | payload length u32, little-endian | payload

`RECORDS` carries packed inferences; every other kind carries one JSON object. A reader
ignores kinds it does not know, so that a later engine can send more to an older conductor.

History of VERSION: 1, the first.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Iterator, Tuple

VERSION = 1
MAGIC = b"ET"
HEADER = struct.Struct("<2sBBI")
MAX_PAYLOAD = 64 * 1024 * 1024

RECORDS = 1  # packed RECORD structs
HELLO = 2  # {"pid", "python", "numpy"}: the child is up
LOADED = 3  # what was loaded, by which runtime, with what it can do
PHASE = 4  # {"phase", "t_ns", ...}: a phase of the run begins
LOG = 5  # {"severity", "message"}: the child's own words
FAILED = 6  # {"stage", "message", "advice"}: why it could not go on
ENDED = 7  # {"reason", "t_ns"}: the loop is over; `t_ns` is when this is sent, not the last inference's end
LOST = 8  # {"count"}: records dropped because the reader fell too far behind
MEMORY = 9  # {"stage", "t_ns", "rss_kib", ...}: what the process holds at a step of the run
PROFILER = 10  # {"way", "reason", "operators"}: how operators are timed, and who runs them; (way "") why they cannot be
BURST = 11  # {"t_ns", "duration_ns", "run_ns", "operators", ...}: what a burst of instrumented inferences showed
BURST_BEGINS = 12  # {"t_ns"}: inferences stop being measured for a while; only where that is long
REACHED = 13  # {"t_ns"}: of several streams, none has an inference to report that began before
SLOW = 14  # {"t_ns", "latency_ns", "span_ns", "preempted", ...}: what the kernel counted around a slow inference

BACKLOG = 15  # {"is_over"}: from here on frames waited in the engine before they were sent; or they do so no more

# start (CLOCK_MONOTONIC ns), latency ns, wait ns, stream, phase, ok, a byte that the reader fills in.
RECORD = struct.Struct("<qqqBB?x")

PHASE_FIRST, PHASE_WARMUP, PHASE_MEASURE = 0, 1, 2


class FrameError(Exception):
    """The byte stream is not a stream of frames of this version."""


def pack_message(kind: int, message: Dict[str, Any]) -> bytes:
    payload = json.dumps(message).encode()
    return HEADER.pack(MAGIC, VERSION, kind, len(payload)) + payload


class FrameReader:
    """Cuts frames out of a byte stream that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[int, bytes]]:
        """Yield (kind, payload) of every frame completed by `data`.

        Raises FrameError where the stream is not ours or of another version.
        """
        self._pending += data
        position = 0
        try:
            while len(self._pending) - position >= HEADER.size:
                magic, version, kind, length = HEADER.unpack_from(self._pending, position)
                if magic != MAGIC:
                    raise FrameError("not an engine's frame: %r" % bytes(self._pending[position : position + 8]))
                if version != VERSION:
                    raise FrameError("engine frames of version %d, this edgetop reads %d" % (version, VERSION))
                if length > MAX_PAYLOAD:
                    raise FrameError("a frame of %d bytes is too long to be true" % length)
                end = position + HEADER.size + length
                if end > len(self._pending):
                    break
                yield kind, bytes(self._pending[position + HEADER.size : end])
                position = end
        finally:
            del self._pending[:position]
