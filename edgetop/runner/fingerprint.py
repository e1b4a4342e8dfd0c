"""The SHA-256 of the model file, taken on a thread of low priority once the model is loaded.

Not before: reading the file first would warm the page cache and make the load look faster
than a user's first one is.
"""

import contextlib
import hashlib
import os
import threading

CHUNK_BYTES = 1024 * 1024
NICENESS = 19


class Fingerprint:
    """Of one file. `take` gives it once, when it is there."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._value: str | None = None
        self._thread = threading.Thread(target=self._work, name="fingerprint", daemon=True)

    def begin(self) -> None:
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
    digest = hashlib.sha256()
    with open(path, "rb") as file:  # noqa: PTH123  a path from the manifest
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
