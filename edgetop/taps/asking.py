"""Run a program for its output without waiting for it. Its time and the size of its output are limited."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from edgetop.engines.child.descriptors import until_readable

MOST_SAID = 1 << 16


class Asked:
    """A running program whose output is the answer to a question.

    `close` ends it and the processes that it has started.
    """

    def __init__(self, order: Sequence[str], within_s: float, **settings: Any) -> None:
        """Start the program with the command line `order`. Raises OSError if it cannot be started.

        `within_s` is how many seconds it may take. `settings` are further arguments of Popen.
        """
        self._said, self._until_s = b"", time.monotonic() + within_s
        self._process = subprocess.Popen(  # noqa: S603  the callers' own programs
            order,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **settings,
        )

    def poll(self) -> tuple[int, bytes] | None:
        """Return (exit status, output), or None while the program runs.

        Raises TimeoutError if it takes too long or prints too much.
        """
        assert self._process.stdout
        out = self._process.stdout.fileno()
        while len(self._said) <= MOST_SAID and until_readable(out, 0):
            if not (data := os.read(out, 4096)):
                if (status := self._process.poll()) is not None:
                    return status, self._said
                break  # the program ends soon
            self._said += data
        if len(self._said) > MOST_SAID or time.monotonic() > self._until_s:
            raise TimeoutError("no answer")
        return None

    def wait(self) -> tuple[int, bytes]:
        """Wait until the program has ended, and return (exit status, output). Raises what `poll` raises."""
        while (answer := self.poll()) is None:
            time.sleep(0.01)
        return answer

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        assert self._process.stdout
        self._process.stdout.close()
