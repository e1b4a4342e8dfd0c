"""What this process has open, to see that something left nothing behind."""

import contextlib
from pathlib import Path


def open_files() -> set[str]:
    """The file descriptors of this process, each with what it is open on."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one by which this folder was listed
            found.add(f"{entry.name} {entry.readlink()}")
    return found
