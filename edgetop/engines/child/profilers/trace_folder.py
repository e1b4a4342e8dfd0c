"""Where ONNX Runtime writes the trace of a burst: in memory where there is such a place, and nobody else's to read."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import time

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a private folder is made in it
OLD_S = 60.0  # a process whose number is not known here may run in another container that shares the memory


def make_folder(home: str | None = None) -> str:
    """`home`: below which; None: the best there is. What engines that were killed in a burst left there is removed."""
    if home is None:
        home = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else tempfile.gettempdir()
    _sweep(home)
    return tempfile.mkdtemp(prefix="edgetop-%d-" % os.getpid(), dir=home)


@functools.lru_cache(maxsize=None)
def _sweep(home: str) -> None:
    for name in os.listdir(home):
        made_by = re.match(r"edgetop-(\d+)-", name)
        if made_by and not os.path.exists("/proc/" + made_by.group(1)) and _is_old(os.path.join(home, name)):
            shutil.rmtree(os.path.join(home, name), ignore_errors=True)


def _is_old(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime > OLD_S
    except OSError:
        return False
