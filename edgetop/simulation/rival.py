"""Starts, steers and ends the competing process."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PROGRAM = Path(__file__).with_name("competitor.py")
PATIENCE_S = 2.0


class Rival:
    """At rest until `compete(True)`."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._is_busy = False
        self._process = subprocess.Popen(  # noqa: S603  our own program in our own interpreter
            [sys.executable, "-I", "-S", str(PROGRAM), ",".join(map(str, cpus))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def compete(self, is_busy: bool) -> None:
        if is_busy == self._is_busy:
            return
        self._is_busy = is_busy
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # somebody ended it: then there is nobody to compete
            self._process.stdin.write(b"+" if is_busy else b"-")
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
