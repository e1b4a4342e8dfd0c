"""The environment that tests run in, the same for whoever runs them.

Programs under test inherit it. A variable that a test is about is set by that test.
"""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Mapping

# What tests need of the caller's environment: his tools, caches, package index and options of the test run.
_KEPT = re.compile(
    r"PATH|LD_LIBRARY_PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TZ|XDG_CACHE_HOME"
    r"|(COVERAGE|HYPOTHESIS|PIP|PYENV|PYTEST|REQUESTS|SSL|TESTS|UV)_\w+|QEMU_\w+|\w+_PROXY",
    re.IGNORECASE,
)
_SET = {"LANG": "C.UTF-8", "TERM": "xterm-256color"}
UMASK = 0o022


def plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what tests see of the caller's environment."""
    return {name: value for name, value in environment.items() if _KEPT.fullmatch(name)} | _SET


def enter() -> None:
    """Give this process, and what it starts, the plain environment, and a home that it can write to."""
    found = plain(os.environ)
    os.environ.clear()
    os.environ.update(found)
    os.umask(UMASK)
    if not os.access(found.get("HOME", ""), os.W_OK):
        os.environ["HOME"] = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
