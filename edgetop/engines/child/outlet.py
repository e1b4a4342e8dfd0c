"""Outlets of the loop's records: a pipe that never blocks, or a queue within one process.

Both offer the same `buffer` to pack into, `flush(count)` to send its first records, `put` to
send those of another buffer, and `send(kind, message)`. Neither ever makes the loop wait: what
cannot be written now is queued, and what finds no room in the queue is counted and reported.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
from collections import deque
from typing import Any, Deque, Dict, Tuple

from . import frames

CAPACITY = 4096  # records packed between two flushes
MAX_WAITING_BYTES = 32 * 1024 * 1024  # queued for a reader that fell behind: 1.2 million records
PIPE_BYTES = 1024 * 1024  # the kernel's default limit for unprivileged users


class PipeOutlet:
    """Frames on a non-blocking pipe."""

    def __init__(self, fd: int, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self.buffer = bytearray(CAPACITY * frames.RECORD.size)
        self.capacity = CAPACITY
        self._view = memoryview(self.buffer)
        self._fd = fd
        self._max_waiting = max_waiting_bytes
        self._waiting: Deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        os.set_blocking(fd, False)
        os.set_inheritable(fd, False)
        widen(fd)

    def flush(self, count: int, next_ns: int = 0) -> None:  # noqa: ARG002  for lanes alone
        """Send the first `count` records of the buffer, which is free again on return.

        `next_ns`: none that comes later begins before it.
        """
        self.put(self._view[: count * frames.RECORD.size], count)

    def put(self, records: memoryview, count: int) -> None:
        """Send `count` packed records; the caller may reuse the buffer."""
        self._drain()
        if count == 0:
            return
        size = len(records)
        if self._waiting and self._waiting_bytes + size > self._max_waiting:
            self._lost += count
            return
        self._report_loss()
        header = frames.HEADER.pack(frames.MAGIC, frames.VERSION, frames.RECORDS, size)
        if self._waiting:
            self._enqueue(header + records)
            return
        try:
            written = os.writev(self._fd, [header, records])
        except BlockingIOError:
            written = 0
        except OSError:  # the reader is gone; the control pipe will say so
            return
        if written < len(header) + size:
            self._enqueue((header + records)[written:])

    def send(self, kind: int, message: Dict[str, Any]) -> None:
        self._drain()
        self._report_loss()
        self._enqueue(frames.pack_message(kind, message))
        self._drain()

    def finish(self) -> None:
        """Wait until all is written or the reader is gone.

        However long: a conductor that was suspended, or waits for a slow disk, still wants it all.
        """
        self._drain()
        while self._waiting:
            select.select([], [self._fd], [])
            self._drain()

    def _report_loss(self) -> None:
        """Report lost records at their place among the others, and so before the end, after which nobody reads."""
        if self._lost:
            lost, self._lost = self._lost, 0
            self._enqueue(frames.pack_message(frames.LOST, {"count": lost}))
            self._drain()

    def _enqueue(self, data: bytes) -> None:
        self._waiting.append(data)
        self._waiting_bytes += len(data)

    def _drain(self) -> None:
        while self._waiting:
            data = self._waiting[0]
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                return
            except OSError:
                self._waiting.clear()
                self._waiting_bytes = 0
                return
            self._waiting_bytes -= written
            if written < len(data):
                self._waiting[0] = data[written:]
                return
            self._waiting.popleft()


class QueueOutlet:
    """The same within one process: frames in a queue that another thread empties."""

    def __init__(self, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        self.buffer = bytearray(CAPACITY * frames.RECORD.size)
        self.capacity = CAPACITY
        self._view = memoryview(self.buffer)
        self._max_waiting = max_waiting_bytes
        self._queue: Deque[Tuple[int, bytes]] = deque()
        self._queued = 0  # bytes put in, by the loop's thread
        self._taken = 0  # bytes taken out, by the reader's thread
        self._lost = 0

    def flush(self, count: int, next_ns: int = 0) -> None:  # noqa: ARG002  as the other one has it
        self.put(self._view[: count * frames.RECORD.size], count)

    def put(self, records: memoryview, count: int) -> None:
        size = len(records)
        if count == 0:
            return
        if self._queued - self._taken + size > self._max_waiting:
            self._lost += count
            return
        self._report_loss()
        self._append(frames.RECORDS, bytes(records))

    def send(self, kind: int, message: Dict[str, Any]) -> None:
        self._report_loss()
        self._append(kind, json.dumps(message).encode())

    def _report_loss(self) -> None:
        if self._lost:
            lost, self._lost = self._lost, 0
            self._append(frames.LOST, json.dumps({"count": lost}).encode())

    def _append(self, kind: int, payload: bytes) -> None:
        self._queued += len(payload)
        self._queue.append((kind, payload))

    def take(self) -> Deque[Tuple[int, bytes]]:
        """Everything queued so far. Called by the reader's thread only."""
        taken: Deque[Tuple[int, bytes]] = deque()
        while self._queue:
            kind, payload = self._queue.popleft()
            self._taken += len(payload)
            taken.append((kind, payload))
        return taken


def widen(fd: int) -> None:
    """Ask for the largest pipe an ordinary user may have (fcntl(2), F_SETPIPE_SZ)."""
    with contextlib.suppress(OSError):  # a smaller pipe only fills sooner; what waits is queued here
        fcntl.fcntl(fd, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES)
