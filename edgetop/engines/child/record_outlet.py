"""The outlet of the loop's records and messages: frames on a pipe, or in a queue that another thread empties.

It never makes the loop wait: what cannot be written now is queued, and what finds no room in the queue is counted and
reported.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import time
from collections import deque
from typing import Any, Deque, Dict, List, Tuple

from . import message_frames

MAX_WAITING_BYTES = 32 * 1024 * 1024  # queued for a reader that fell behind: 1.2 million records
PIPE_BYTES = 1024 * 1024  # the kernel's default limit for unprivileged users


class Outlet:
    def __init__(self, fd: int = -1, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        """`fd`: the pipe; -1: there is none, and another thread calls `take`."""
        self._fd = fd
        self._max_waiting = max_waiting_bytes
        self._waiting: Deque[bytes] = deque()
        self._queued = 0  # bytes put into it, by the loop's thread
        self._taken = 0  # bytes taken out, by this thread too where there is a pipe, or else by the reader's
        self._lost = 0
        self._has_backlog = False  # records wait, and the reader is told so
        self.put_count = 0  # records so far, lost ones included
        self.is_over = False  # the last message of the run was sent, or is in the queue
        if fd >= 0:
            os.set_blocking(fd, False)
            os.set_inheritable(fd, False)
            widen(fd)

    def put(self, records: memoryview, count: int, stream: int = 0, next_ns: int = 0) -> None:  # noqa: ARG002
        """Send `count` packed records of a stream; the caller may reuse the buffer.

        `next_ns`: none that comes later of this stream begins before it. That and `stream` are for `streams.Lanes`.
        """
        self._drain()
        self.put_count += count
        if count == 0:
            return
        size = len(records)
        if self._waiting and self._queued - self._taken + size > self._max_waiting:
            self._lost += count
            return
        self._report_loss()
        header = message_frames.HEADER.pack(message_frames.MAGIC, message_frames.VERSION, message_frames.RECORDS, size)
        if self._waiting or self._fd < 0:
            self._enqueue(header + records)
            self._begin_backlog()
            return
        try:
            written = os.writev(self._fd, [header, records])
        except BlockingIOError:
            written = 0
        except OSError:  # the reader is gone; the control pipe will say so
            return
        if written < len(header) + size:
            self._enqueue((header + records)[written:])
            self._begin_backlog()

    def send(self, kind: int, message: Dict[str, Any]) -> None:
        self._drain()
        self._report_loss()
        self.is_over = kind in (message_frames.ENDED, message_frames.FAILED)  # before the reader has it and goes
        self._enqueue(message_frames.pack_message(kind, message))
        self._drain()

    def sleep(self, seconds: float) -> None:
        """Sleep, and meanwhile send what is queued: a rest makes room for what comes after it."""
        if self._waiting and self._fd >= 0:
            end = time.monotonic() + seconds
            while self._waiting and select.select([], [self._fd], [], max(0.0, end - time.monotonic()))[1]:
                self._drain()
            seconds = max(0.0, end - time.monotonic())
        time.sleep(seconds)

    def take(self) -> List[Tuple[int, bytes]]:
        """Every frame that is queued, as (kind, payload). Called by the reader's thread only."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
            self._taken += len(taken[-1])
        return list(message_frames.FrameReader().feed(b"".join(taken)))

    def finish(self) -> None:
        """Wait until all is written or the reader is gone.

        However long: a conductor that was suspended, or waits for a slow disk, still wants it all.
        """
        self._drain()
        while self._waiting:
            select.select([], [self._fd], [])
            self._drain()

    def _report_loss(self) -> None:
        """Report lost records in their order among the others, so before the last message."""
        if self._lost:
            lost, self._lost = self._lost, 0
            self._enqueue(message_frames.pack_message(message_frames.LOST, {"count": lost}))
            self._drain()

    def _begin_backlog(self) -> None:
        if self._fd >= 0 and not self._has_backlog:
            self._has_backlog = True
            self._enqueue(message_frames.pack_message(message_frames.BACKLOG, {"is_over": False}))

    def _enqueue(self, data: bytes) -> None:
        self._queued += len(data)
        self._waiting.append(data)

    def _drain(self) -> None:
        while self._waiting and self._fd >= 0:
            data = self._waiting[0]
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                return
            except OSError:
                self._waiting.clear()
                self._taken = self._queued
                return
            self._taken += written
            if written < len(data):
                self._waiting[0] = data[written:]
                return
            self._waiting.popleft()
            if self._has_backlog and not self._waiting:
                self._has_backlog = False
                self._enqueue(message_frames.pack_message(message_frames.BACKLOG, {"is_over": True}))


def widen(fd: int) -> None:
    """Ask for the largest pipe an ordinary user may have (fcntl(2), F_SETPIPE_SZ)."""
    with contextlib.suppress(OSError):  # a smaller pipe only fills sooner; what waits is queued here
        fcntl.fcntl(fd, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES)


def capacity(fd: int) -> int:
    """Return the size of a pipe in bytes."""
    try:
        return fcntl.fcntl(fd, getattr(fcntl, "F_GETPIPE_SZ", 1032))
    except OSError:  # no pipe of Linux: POSIX's least
        return 4096
