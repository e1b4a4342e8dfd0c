"""The effects of a virtual board on an engine: a lower clock, a memory leak, a crash.

The board is simulated in another process. It controls the engine through a page of shared memory: a file that both
processes map. The page has a few 8-byte words. Only the board writes them. They are independent of each other, so
neither a lock nor an order of writes is needed. The engine reads the page after every inference, in less than a
microsecond. An engine without a virtual board does not run this code.

A lower clock is simulated by waiting within the timed call: after the runtime has returned, the engine stays busy for
the time by which the inference would have been longer. Stopping and continuing the process would not do, nor would a
CPU quota with a period of 100 ms: both slow down a few inferences by much and leave the median as it is.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import time
from typing import Any, Callable, List, Optional

VERSION = 1

# The words of the page, in this order. SLOWDOWN is a double, the others are int64.
VERSION_WORD = 0
SLOWDOWN = 1  # additional share of its time that each inference takes: fastest clock / clock - 1
LEAK_BYTES = 2  # bytes that each inference leaks
LEAK_LIMIT = 3  # most bytes that leak in all
CRASH = 4  # if not 0, the engine dies after the running inference
WORDS = 5

Call = Callable[[], Any]
Bind = Callable[[Any], Call]


class Page:
    """The shared memory of one virtual board. `doubles` and `integers` are two views of the same 8-byte words."""

    def __init__(self, path: str) -> None:
        """Map the file at `path` as shared memory. Raises OSError, or ValueError if the file is too short."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = memoryview(mmap.mmap(fd, WORDS * 8))
        finally:
            os.close(fd)
        self.doubles = memory.cast("d")
        self.integers = memory.cast("q")


def create(path: str) -> Page:
    """Create the shared memory file of a virtual board at `path`, and map it. Only this user may open it.

    At first the file demands no slowdown, no leak and no crash.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, bytes(WORDS * 8))
    finally:
        os.close(fd)
    page = Page(path)
    page.integers[VERSION_WORD] = VERSION
    return page


def on_board(bind: Bind, path: Optional[str]) -> Bind:
    """Return a changed `bind`: the calls that it returns run as slowly as on the virtual board.

    `bind` takes an inference's inputs and returns a call without arguments that runs the inference. `path` is the
    board's shared memory file. If `path` is None, `bind` itself is returned. Raises OSError if the file cannot be
    opened, and ValueError if the file is of another version.
    """
    if path is None:
        return bind
    board = VirtualBoard(Page(path))
    return lambda feeds: board.running(bind(feeds))


class VirtualBoard:
    def __init__(self, page: Page, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """Prepare to apply the effects that a virtual board writes into `page`. `clock` returns ns.

        Raises ValueError if the page is of another version.
        """
        if page.integers[VERSION_WORD] != VERSION:
            raise ValueError(
                "a virtual board of version %d, this engine knows %d" % (page.integers[VERSION_WORD], VERSION)
            )
        self._page = page
        self._clock = clock
        self._leaked: List[bytes] = []
        self._leaked_bytes = 0

    def running(self, call: Call) -> Call:
        """Return a function that makes `call` and then does what the page demands: slow down, leak memory or crash."""
        now, doubles, integers = self._clock, self._page.doubles, self._page.integers

        def run() -> Any:
            begin = now()
            outputs = call()
            slowdown = doubles[SLOWDOWN]
            if slowdown > 0:
                end = now()
                until = end + int((end - begin) * slowdown)
                while now() < until:
                    pass
            if integers[LEAK_BYTES]:
                self._leak(integers[LEAK_BYTES], integers[LEAK_LIMIT])
            if integers[CRASH]:
                # Dies as if by a bad pointer in native code, but leaves no core file on the user's disk.
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.kill(os.getpid(), signal.SIGSEGV)
            return outputs

        return run

    def _leak(self, count: int, at_most: int) -> None:
        if self._leaked_bytes + count <= at_most:
            self._leaked.append(b"\x01" * count)  # not zeros: memory that is not written to takes no space
            self._leaked_bytes += count
