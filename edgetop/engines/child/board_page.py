"""The effects of a virtual board on an engine: a lower clock, a memory leak, a crash.

The board is simulated in another process and controls the engine through a page of shared memory, a file that both
processes map. The page has a few 8-byte words. Only the board writes them, and they are independent of each other, so
no lock and no order of writes is needed. The engine reads the page after every inference, in less than a microsecond.
An engine without a virtual board does not run this code.

A lower clock is simulated by waiting: after the runtime has returned, but still within the timed call, the engine is
busy for as long as the inference would have taken longer. Stopping and continuing the process, or a CPU quota with a
period of 100 ms, would slow down a few inferences by much and not change the median.
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
    """The words of a page, as two views of the same memory: of doubles and of integers."""

    def __init__(self, path: str) -> None:
        """Map the page at `path`. Raises OSError, or ValueError if the file is too short."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = memoryview(mmap.mmap(fd, WORDS * 8))
        finally:
            os.close(fd)
        self.doubles = memory.cast("d")
        self.integers = memory.cast("q")


def create(path: str) -> Page:
    """Create a page at `path` that only this user may open, with all words 0: no slowdown, leak or crash."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, bytes(WORDS * 8))
    finally:
        os.close(fd)
    page = Page(path)
    page.integers[VERSION_WORD] = VERSION
    return page


def on_board(bind: Bind, path: Optional[str]) -> Bind:
    """Return `bind`, changed so that its calls run on the virtual board that has its page at `path`.

    Without a path, return `bind` itself. Raises OSError, or ValueError if the page is of another version.
    """
    if path is None:
        return bind
    board = VirtualBoard(Page(path))
    return lambda feeds: board.running(bind(feeds))


class VirtualBoard:
    def __init__(self, page: Page, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """Run on the board with this page. `clock` returns nanoseconds."""
        if page.integers[VERSION_WORD] != VERSION:
            raise ValueError(
                "a virtual board of version %d, this engine knows %d" % (page.integers[VERSION_WORD], VERSION)
            )
        self._page = page
        self._clock = clock
        self._leaked: List[bytes] = []
        self._leaked_bytes = 0

    def running(self, call: Call) -> Call:
        """Return a function that makes `call` with the slowdown, the leak and the crash of this board."""
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
