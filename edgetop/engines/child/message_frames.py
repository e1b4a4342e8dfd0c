"""The format of messages from an engine to edgetop's main process: typed, versioned, length-prefixed frames.

Both sides import this file, so it only has the layout:

    magic "ET" | version u8 | kind u8 | payload length u32, little-endian | payload

A `RECORDS` frame has packed inferences, and `TOKENS` and `REQUESTS` have packed structs. Every other kind has one JSON
object. A reader ignores unknown kinds, so a newer engine can send more to an older edgetop.

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
LOADED = 3  # the runtime, the model's inputs, providers, ...: see engine_protocol.Loaded
PHASE = 4  # {"phase", "t_ns", ...}: a phase of the run begins
LOG = 5  # {"severity", "message"}: a message of the child itself
FAILED = 6  # {"stage", "message", "advice"}: why the engine could not go on
ENDED = 7  # {"reason", "t_ns"}: the loop is over; `t_ns` is when this is sent, not the last inference's end
LOST = 8  # {"count"}: records were dropped because the reader fell too far behind
MEMORY = 9  # {"stage", "t_ns", "rss_kib", ...}: resident memory of the process at a stage of the run
# {"way", "reason", "operators", "fallback"}: how operators are timed, who runs them, and why others than was requested;
# with way "", why they are not timed
PROFILER = 10
BURST = 11  # {"t_ns", "duration_ns", "run_ns", "operators", ...}: results of a burst of instrumented inferences
BURST_BEGINS = 12  # {"t_ns"}: no inferences are measured for a while; sent only before a long burst
REACHED = 13  # {"t_ns"}: no stream will report an inference that began before this time
SLOW = 14  # {"t_ns", "latency_ns", "span_ns", "preempted", ...}: the kernel's counters around a slow inference

BACKLOG = 15  # {"is_over"}: later frames had to wait in the engine before they were sent; if `is_over`, no longer
TOKENS = 16  # packed TOKEN structs, of a language model
REQUESTS = 17  # packed REQUEST structs, of a language model

# start (CLOCK_MONOTONIC in ns), latency in ns, wait in ns, stream, phase, ok, and a byte that the reader fills in.
RECORD = struct.Struct("<qqqBB?x")

# A token: when it was there (CLOCK_MONOTONIC in ns), the time since the one before it (of the first token: since its
# request was due), tokens before it in the context, whether it is a later token than the first, phase, number of
# requests that generated tokens at the same time (0 if unknown, or if prompts were processed meanwhile). If the last
# field is true, it is no token but the end of a prefill: when, how long it took, tokens of the prompt.
TOKEN = struct.Struct("<qqi?BB?")
# A request: start, wait, end-to-end time, time to first token with the wait, time to divide the prompt into tokens,
# prefill, decode (first to last token), sampling, all in ns; tokens of the prompt, those of them found in a cache,
# generated tokens, tokens in the context at the end, number of the prompt; phase, reason of the end.
REQUEST = struct.Struct("<8q5iBB2x")

PHASE_FIRST, PHASE_WARMUP, PHASE_MEASURE = 0, 1, 2


class FrameError(Exception):
    """Raised if bytes are not frames of this version."""


def pack_message(kind: int, message: Dict[str, Any]) -> bytes:
    payload = json.dumps(message).encode()
    return HEADER.pack(MAGIC, VERSION, kind, len(payload)) + payload


class FrameReader:
    """Reads frames from bytes that arrive in pieces of any size."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Tuple[int, bytes]]:
        """Yield (kind, payload) of each frame that `data` completes.

        `data` is the next piece of the bytes. An incomplete frame is kept for the next call. Raises FrameError if the
        bytes are not frames of this version.
        """
        # One buffer is extended in place: adding each small piece to a copy would take quadratic time for a long frame.
        pending = self._pending
        pending += data
        position, last, size = 0, len(pending) - HEADER.size, HEADER.size
        try:
            while position <= last:
                magic, version, kind, length = HEADER.unpack_from(pending, position)
                if magic != MAGIC:
                    raise FrameError("not an engine's frame: %r" % bytes(pending[position : position + 8]))
                if version != VERSION:
                    raise FrameError("engine frames of version %d, this edgetop reads %d" % (version, VERSION))
                if length > MAX_PAYLOAD:
                    raise FrameError("a frame of %d bytes is too long to be true" % length)
                end = position + size + length
                if end > len(pending):
                    break
                yield kind, bytes(pending[position + size : end])
                position = end
        finally:
            del pending[:position]
