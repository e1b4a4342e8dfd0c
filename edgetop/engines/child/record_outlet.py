"""The outlet sends the loop's records and messages as frames: into a pipe, or into a queue that another thread empties.

It never makes the loop wait. Data that cannot be written at once is queued. If the queue has no room, records are
dropped, and their number is reported.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import deque
from typing import Any, Deque, Dict, List, Tuple

from . import message_frames
from .descriptors import until_writable

MAX_WAITING_BYTES = 32 * 1024 * 1024  # size of the queue for a reader that fell behind: 1.2 million records
PIPE_BYTES = 1024 * 1024  # the kernel's default limit for unprivileged users


class Outlet:
    def __init__(self, fd: int = -1, max_waiting_bytes: int = MAX_WAITING_BYTES) -> None:
        """Send frames to the pipe `fd`. With -1, queue them for another thread, which calls `take`.

        The queue holds at most `max_waiting_bytes` bytes.
        """
        self._fd = fd
        self._max_waiting = max_waiting_bytes
        self._waiting: Deque[bytes] = deque()
        self._queued = 0  # bytes put into the queue, by the loop's thread
        self._taken = 0  # bytes taken out of the queue, by the loop's thread for a pipe, else by the reader's
        self._lost = 0
        self._has_backlog = False  # whether records wait, of which the reader is told
        self.put_count = 0  # records so far, lost ones included
        self.is_over = False  # whether the last message of the run was sent or queued
        if fd >= 0:
            os.set_blocking(fd, False)
            os.set_inheritable(fd, False)
            widen(fd)

    def put(self, records: memoryview, count: int, stream: int = 0, next_ns: int = 0) -> None:  # noqa: ARG002
        """Send `count` packed records of inferences. The caller may reuse the buffer `records` afterwards.

        `stream` and `next_ns` have no effect here. They exist because `parallel_streams.Lanes` has the same method.
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
        # Set before the reader can get the message and leave.
        self.is_over = kind in (message_frames.ENDED, message_frames.FAILED)
        self._enqueue(message_frames.pack_message(kind, message))
        self._drain()

    def send_packed(self, kind: int, payload: bytes) -> None:
        """Send a frame of packed structs. `kind` is a constant of `message_frames`, such as TOKENS."""
        self._drain()
        header = message_frames.HEADER.pack(message_frames.MAGIC, message_frames.VERSION, kind, len(payload))
        self._enqueue(header + payload)
        self._drain()

    def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`, and write queued data meanwhile."""
        if self._waiting and self._fd >= 0:
            end = time.monotonic() + seconds
            while self._waiting and until_writable(self._fd, max(0.0, end - time.monotonic())):
                self._drain()
            seconds = max(0.0, end - time.monotonic())
        time.sleep(seconds)

    def take(self) -> List[Tuple[int, bytes]]:
        """Remove all queued frames and return them as (kind, payload). Only the reader's thread may call this."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
            self._taken += len(taken[-1])
        return list(message_frames.FrameReader().feed(b"".join(taken)))

    def finish(self) -> None:
        """Wait until everything is written, or until the reader is gone.

        There is no time limit: a reader that was suspended, or that waits for a slow disk, still needs all data.
        """
        self._drain()
        while self._waiting:
            until_writable(self._fd, None)
            self._drain()

    def _report_loss(self) -> None:
        """Send a message with the number of dropped records, if there are any.

        Call this before the next frame is sent, so that the message comes where the records are missing.
        """
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
    """Enlarge a pipe to the largest size that an ordinary user may set (fcntl(2), F_SETPIPE_SZ)."""
    with contextlib.suppress(OSError):  # a smaller pipe also works, but fills sooner
        fcntl.fcntl(fd, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES)


def capacity(fd: int) -> int:
    """Return the size of a pipe in bytes."""
    try:
        return fcntl.fcntl(fd, getattr(fcntl, "F_GETPIPE_SZ", 1032))
    except OSError:  # not a Linux pipe; the smallest size that POSIX allows
        return 4096
