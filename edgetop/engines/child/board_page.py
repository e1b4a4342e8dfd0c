"""The effects of a virtual board on an engine: a lower clock, a memory leak, a crash.

The board is simulated in another process and controls the engine through a page of shared memory, a
file that both have mapped. It holds a few 8-byte words, each written by the board alone and each
independent of the others, so that it needs no lock and no order; the engine reads it
after every inference, in less than a microsecond. An engine without a board never runs this.

A lower clock is a stretched one: once the runtime has returned, and still within the timed
call, the engine is busy for as much longer as the inference would have taken. Stopping and
continuing the process, or a CPU quota with its period of 100 ms, slow few inferences by much
and leave the median where it was.
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
SLOWDOWN = 1  # by how much of itself each inference takes longer: fastest clock / clock - 1
LEAK_BYTES = 2  # what each inference leaks
LEAK_LIMIT = 3  # bytes, from which on nothing more leaks
CRASH = 4  # not 0: the engine dies after the inference in hand
WORDS = 5

Call = Callable[[], Any]
Bind = Callable[[Any], Call]


class Page:
    """The words, of doubles and of integers: two views of the same memory."""

    def __init__(self, path: str) -> None:
        """Raises OSError, or ValueError where the file is too short to be one."""
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            memory = memoryview(mmap.mmap(fd, WORDS * 8))
        finally:
            os.close(fd)
        self.doubles = memory.cast("d")
        self.integers = memory.cast("q")


def create(path: str) -> Page:
    """A new page at `path`, which nobody else may open, with nothing wrong in it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, bytes(WORDS * 8))
    finally:
        os.close(fd)
    page = Page(path)
    page.integers[VERSION_WORD] = VERSION
    return page


def on_board(bind: Bind, path: Optional[str]) -> Bind:
    """`bind`, whose calls then run on the virtual board with its page at `path`; without one, `bind` itself.

    Raises OSError or ValueError where the page is none of this version.
    """
    if path is None:
        return bind
    board = VirtualBoard(Page(path))
    return lambda feeds: board.running(bind(feeds))


class VirtualBoard:
    def __init__(self, page: Page, clock: Callable[[], int] = time.monotonic_ns) -> None:
        """`clock` gives nanoseconds."""
        if page.integers[VERSION_WORD] != VERSION:
            raise ValueError(
                "a virtual board of version %d, this engine knows %d" % (page.integers[VERSION_WORD], VERSION)
            )
        self._page = page
        self._clock = clock
        self._leaked: List[bytes] = []
        self._leaked_bytes = 0

    def running(self, call: Call) -> Call:
        """Return the call as it runs on this board."""
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
                # As by a bad pointer in native code, but with no core file on the user's disk.
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                os.kill(os.getpid(), signal.SIGSEGV)
            return outputs

        return run

    def _leak(self, count: int, at_most: int) -> None:
        if self._leaked_bytes + count <= at_most:
            self._leaked.append(b"\x01" * count)  # written to: memory that is only asked for is not held
            self._leaked_bytes += count
