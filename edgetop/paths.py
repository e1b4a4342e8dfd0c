"""The folders of edgetop (XDG Base Directory Specification), and what folders have."""

import contextlib
import os
from pathlib import Path


def recordings_home() -> Path:
    """Recordings that were not given a place: `$XDG_STATE_HOME/edgetop`."""
    return _base("XDG_STATE_HOME", ".local/state") / "edgetop"


def config_home() -> Path:
    """The user's settings and themes: `$XDG_CONFIG_HOME/edgetop`."""
    return _base("XDG_CONFIG_HOME", ".config") / "edgetop"


def cache_home() -> Path:
    """Return the folder of what can be made again: `$XDG_CACHE_HOME/edgetop`."""
    return _base("XDG_CACHE_HOME", ".cache") / "edgetop"


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    # The specification: a relative path there is invalid and is ignored.
    return Path(value) if value.startswith("/") else Path.home() / default


def is_there(path: Path) -> bool:
    """Whether a path exists; False also where this user may not look, for which `Path.exists` raises an OSError."""
    with contextlib.suppress(OSError):
        return path.exists()
    return False


def has_room(folder: str | Path, room_bytes: int) -> bool:
    """Whether this user can write so many bytes there; in a container, shared memory is as small as it was made."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        return os.access(folder, os.W_OK | os.X_OK) and disk.f_bavail * disk.f_frsize >= room_bytes
    return False


def bytes_below(folder: Path) -> int:
    """Bytes of all files in a folder now; one that is being renamed or removed meanwhile does not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total
