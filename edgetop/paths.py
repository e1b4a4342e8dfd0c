"""The folders of edgetop (XDG Base Directory Specification), safe file names, and free space.

A name from a manifest, a lake, a model or a board is foreign text. Only `component` and `as_component` may make it a
part of a path.
"""

import contextlib
import os
import re
from pathlib import Path

from edgetop.errors import InputError

MAX_COMPONENT_BYTES = 200  # a suffix must fit too: most file systems allow 255 (NAME_MAX, limits.h)


def recordings_home() -> Path:
    """Return the default folder for recordings: `$XDG_STATE_HOME/edgetop`, or else `~/.local/state/edgetop`."""
    return _base("XDG_STATE_HOME", ".local/state") / "edgetop"


def config_home() -> Path:
    """Return the folder of the user's settings and themes: `$XDG_CONFIG_HOME/edgetop`, or else `~/.config/edgetop`."""
    return _base("XDG_CONFIG_HOME", ".config") / "edgetop"


def cache_home() -> Path:
    """Return the folder of files that edgetop can make again: `$XDG_CACHE_HOME/edgetop`, or else `~/.cache/edgetop`."""
    return _base("XDG_CACHE_HOME", ".cache") / "edgetop"


def home() -> Path:
    """Return the user's home folder. Raises InputError if it is not known."""
    try:
        return Path.home()
    except RuntimeError:  # HOME is not set, and the user has no entry in /etc/passwd, as in a container
        raise InputError("the home folder of this user is not known", "set HOME to a folder") from None


def _base(variable: str, default: str) -> Path:
    value = os.environ.get(variable, "")
    # The specification: a relative path there is invalid and is ignored.
    return Path(value) if value.startswith("/") else home() / default


def component(text: str, what: str) -> str:
    """Return `text` unchanged if it can be the name of one file, else raise InputError.

    `what` is what the error calls the text, such as `session name`.
    """
    if as_component(text) != text:
        shown = text.encode("ascii", "backslashreplace").decode()[:60]
        raise InputError(f"{what} {shown!r} cannot be a part of a path", "no / or control characters, no - or . first")
    return text


def as_component(text: str, default: str = "unnamed") -> str:
    """Return a text changed so that it can be the name of one file. Forbidden characters are replaced.

    The name is cut to a length that all disks accept. If nothing is left, the result is `default`.

    >>> as_component("net v2.onnx"), as_component("../a/b"), as_component("-rf"), as_component("..")
    ('net v2.onnx', '_a_b', 'rf', 'unnamed')
    """
    name = re.sub(r"[\x00-\x1f\x7f-\x9f/\\\ud800-\udfff\u2028-\u202e\u2066-\u2069]", "_", text).lstrip("-. ").rstrip()
    return name.encode()[:MAX_COMPONENT_BYTES].decode(errors="ignore").rstrip() or default


def is_there(path: Path) -> bool:
    """Whether a path exists. False if this user is not allowed to look there (`Path.exists` would raise OSError)."""
    with contextlib.suppress(OSError):
        return path.exists()
    return False


def has_room(folder: str | Path, room_bytes: int) -> bool:
    """Whether this user can write `room_bytes` bytes in `folder`. In a container, shared memory may be very small."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(folder)
        return os.access(folder, os.W_OK | os.X_OK) and disk.f_bavail * disk.f_frsize >= room_bytes
    return False


def bytes_below(folder: Path) -> int:
    """Return the total size in bytes of all files in a folder and the folders in it.

    Files that are renamed or removed meanwhile do not count.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(parent, name).lstat().st_size
    return total
