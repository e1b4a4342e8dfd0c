"""Write and read files so that nothing else is harmed.

A folder may be shared with other users (/tmp, a folder of node_exporter). A file may come from somebody else (a theme,
a plan, a session). So there are four rules. A file only appears under its name when it is complete. Writing never
follows a link. Reading never waits for a pipe or a device. The size of what is read is limited.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from edgetop import formatting

PRIVATE = 0o600
MAX_READ_BYTES = 4 * 1024 * 1024
_SHELL_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")  # of `<(command)`, and what is piped in


@contextlib.contextmanager
def replacing(path: Path, mode: int = PRIVATE, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a new file to write to. It replaces the file at `path` at the end of the `with` block.

    Until then, the new file has a name that nobody can guess. If `path` is a link, the link itself is replaced. After
    an error, the earlier file is unchanged and no other file remains. `mode` is the permissions, subject to the umask.
    `durable` says that the file must survive a crash of the machine; use False for a file that is written often or can
    be made again. Raises OSError.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    partial = partial_name(path)
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
        try:
            with os.fdopen(fd, "wb") as file:
                hold(fd)
                yield file
                file.flush()
                if durable:
                    os.fsync(fd)
            os.rename(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=folder)
            raise
    finally:
        os.close(folder)
    if durable:
        sync_folder(path.parent)


def write_file(path: Path, content: str | bytes, mode: int = PRIVATE, *, durable: bool = True) -> None:
    """Replace the file at `path` by one with `content`. Raises OSError.

    `mode` is the permissions, subject to the umask. `durable` says that the file must survive a crash of the machine.
    """
    with replacing(path, mode, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def partial_name(path: Path) -> str:
    """Return a file name, which nobody can guess, for an incomplete version of the file or folder at `path`."""
    return f".{path.name[:200]}.{os.urandom(8).hex()}.partial"


def hold(fd: int) -> bool:
    """Lock an incomplete file or folder until its descriptor `fd` is closed (flock(2)). Return True if that worked.

    Return False if another process holds the lock.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_partials(path: Path) -> None:
    """Remove incomplete versions of the file or folder `path` that killed processes left behind.

    A version that a running process is writing is locked, and stays.
    """
    left = re.compile(rf"\.{re.escape(path.name[:200])}\.[0-9a-f]{{16}}\.partial")
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):  # noqa: PTH208  names are wanted
            if left.fullmatch(name):
                _remove_partial(path.parent / name)


def _remove_partial(partial: Path) -> None:
    """Remove an incomplete file or folder of edgetop, unless a process holds its lock."""
    with contextlib.suppress(OSError):
        fd = os.open(partial, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if status.st_uid != os.geteuid() or not hold(fd):
                return
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(partial, ignore_errors=True)
            elif stat.S_ISREG(status.st_mode):
                partial.unlink()
        finally:
            os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make sure that renames in the folder survive a crash of the machine (fsync(2))."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # a folder that this user may write but not list
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(fd)


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = PRIVATE) -> int:
    """Open a regular file, and return its descriptor. `flags` are those of open(2), for reading or writing.

    To write, prefer `replacing`; use this for a file that cannot be replaced, such as a log or a lock. Raises OSError
    for anything but a regular file. A link would lead elsewhere, and a pipe would block its reader for ever.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    return _regular(fd, path)


def read_file(path: Path, at_most: int = MAX_READ_BYTES) -> bytes:
    """Return the content of a small file. Links are followed, because the user may have made them.

    A pipe is only read if it is already open, as in a shell's `<(command)`. Raises OSError. Its `errno` is EFBIG if the
    file has more than `at_most` bytes.
    """
    if str(path).startswith(_SHELL_PIPES):
        with path.open("rb") as file:
            return _bounded(file, path, at_most)
    fd = _regular(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), path)
    with os.fdopen(fd, "rb") as file:
        return _bounded(file, path, at_most)


def read_text(path: Path, at_most: int = MAX_READ_BYTES) -> str:
    """Return the text of a small file.

    Raises OSError, also if the file has more than `at_most` bytes, or ValueError if the text is not UTF-8.
    """
    return read_file(path, at_most).decode("utf-8-sig")


def read_toml(path: Path, at_most: int = MAX_READ_BYTES) -> Mapping[str, Any]:
    """Return the content of a small TOML file.

    Raises OSError, also if the file has more than `at_most` bytes, or ValueError if it is not TOML.
    """
    if sys.version_info >= (3, 11):  # only who reads TOML pays for it
        import tomllib  # noqa: PLC0415
    else:
        import tomli as tomllib  # noqa: PLC0415

    text = read_text(path, at_most)
    try:
        document: Mapping[str, Any] = tomllib.loads(text)
        return document
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_json(path: Path, at_most: int = MAX_READ_BYTES) -> Any:
    """Return the content of a small JSON file.

    Raises OSError, also if the file has more than `at_most` bytes, or ValueError if it is not JSON.
    """
    return parse_json(read_text(path, at_most))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid or nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def why(error: Exception) -> str:
    """Return the reason of `error` in a few words, such as `No such file or directory`, for a message about a file."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _regular(fd: int, path: Path) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd


def _bounded(file: BinaryIO, path: Path, at_most: int) -> bytes:
    content = file.read(at_most + 1)
    if len(content) > at_most:
        raise OSError(errno.EFBIG, f"larger than {formatting.size(at_most)}", str(path))
    return content
