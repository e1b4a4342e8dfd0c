"""The SHA-256 of the model file, taken on a thread of low priority once the model is loaded.

Not before: reading the file first would warm the page cache and make the load look faster
than a user's first one is.
"""

import contextlib
import os
import threading
from importlib import import_module
from typing import Any

CHUNK_BYTES = 64 * 1024  # Python 3.11's own digest holds its lock for the time that this takes
LARGE_BYTES = 64 * 1024 * 1024  # from here on speed counts more than memory
NICENESS = 19


class Fingerprint:
    """Of one file. `take` gives it once, when it is there."""

    def __init__(self) -> None:
        self._path = ""
        self._value: str | None = None
        self._thread = threading.Thread(target=self._work, name="fingerprint", daemon=True)

    def begin(self, path: str) -> None:
        self._path = path
        self._thread.start()

    def take(self) -> str | None:
        """The hexadecimal digest the first time it is known; None before and after."""
        value, self._value = self._value, None
        return value

    def finish(self, timeout_s: float) -> str | None:
        """Wait for it, but not for ever: None where it has been taken or has not come."""
        if self._thread.ident:
            self._thread.join(timeout_s)
        return self.take()

    def _work(self) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)  # of this thread alone, on Linux
        with contextlib.suppress(OSError):  # the file may be gone by now: then it stays unknown
            self._value = _sha256(self._path)


def _sha256(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123  a path from the manifest
        digest = _empty_digest(os.fstat(file.fileno()).st_size)
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return str(digest.hexdigest())


def _empty_digest(file_bytes: int) -> Any:
    """Python's own (3.12, 3.11); for large files that of hashlib, which is faster, and loads 4 MiB of OpenSSL."""
    if file_bytes < LARGE_BYTES:
        for name in ("_sha2", "_sha256"):
            with contextlib.suppress(ImportError):
                return import_module(name).sha256()
    return import_module("hashlib").sha256()
