"""Removing a session: the files that edgetop wrote into its folder, and nothing else.

A user may have put other files into the folder, and a link or a replaced folder may lead elsewhere. So only fixed names
are removed, links are never followed, and every step uses descriptors of the folder that was examined (openat(2)).

The files are first moved aside, the manifest before the others. If a file cannot be moved (an immutable file), all are
moved back. So a session is removed as a whole or stays as it was. If a removal was killed, the next call continues it.
"""

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from edgetop.errors import RecordingError
from edgetop.frozen import frozen
from edgetop.recording.kept_outputs import OUTPUTS, outputs_file
from edgetop.recording.rows import ALL_TABLES
from edgetop.recording.session_folder import (
    END_NOTE,
    FOLDER_MODE,
    JOURNAL,
    LOCK,
    LOG,
    MANIFEST,
    PROGRAM_LOG,
    SOCKET,
    WriterLock,
)
from edgetop.session.turns import SIDES

OUTCOME = "outcome.json"
PUSHED = "pushed.json"  # written by `edgetop push` when the lake has the whole session
ASIDE = ".removing"
TABLE_FILES = tuple(f"{table}.parquet" for table in ALL_TABLES)
OUTPUT_FILES = (OUTPUTS, *map(outputs_file, SIDES))
DERIVED = (OUTCOME, PUSHED, LOCK, SOCKET, END_NOTE)  # made from the other files, or useless without them
_NAMES = {MANIFEST, LOG, PROGRAM_LOG, *TABLE_FILES, *OUTPUT_FILES, *DERIVED}
_TEMPORARY = re.compile(rf"\.?({'|'.join(map(re.escape, sorted(_NAMES)))})(\.[\w-]+)*\.(tmp|partial)")
_DAMAGED = re.compile(r"(\d{8}\.journal|catalog|closing)\.damaged")
_IN_JOURNAL = re.compile(r"\d{8}\.journal|catalog|closing|[a-z]+-\d{4}\.partial|unwritten-\d+-\d+-\d+")

Stamp = tuple[int, int, int, int]  # device, inode, size in bytes, time of the last change in ns


def stamp_of(status: os.stat_result) -> Stamp:
    """Return a stamp of a file: device, inode, size and time of change.

    A changed or replaced file has another stamp.
    """
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@frozen
class Removed:
    freed_bytes: int  # bytes freed on the disk; a file with another hard link frees nothing
    left: tuple[str, ...]  # names that stay, folders with a slash; empty if the session's folder is gone too


class SessionFiles:
    """The files that edgetop wrote into one session's folder, reached only through descriptors of that folder."""

    def __init__(self, folder: Path) -> None:
        """Open the folder. Raises OSError if that fails, or if `folder` is a link."""
        self._folder = folder.absolute()
        self._open: list[int] = []
        self.fd = self._opened(str(self._folder), None)
        self._journal: int | None = None
        with contextlib.suppress(OSError):
            self._journal = self._opened(JOURNAL, self.fd)

    def close(self) -> None:
        for fd in reversed(self._open):
            os.close(fd)

    def _opened(self, name: str, at: int | None) -> int:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        self._open.append(fd)
        return fd

    def own(self) -> list[tuple[int, str]]:
        """Return edgetop's files as pairs of the folder's descriptor and the file's name. The manifest comes first."""
        found = [(self.fd, name) for name in _names_in(self.fd) if _is_own(name)]
        if self._journal is not None:
            journal = self._journal
            found += [(journal, name) for name in _names_in(journal) if _IN_JOURNAL.fullmatch(name)]
        found = [(at, name) for at, name in found if not _is_folder(at, name)]
        return sorted(found, key=lambda one: one[1] != MANIFEST)

    @property
    def own_bytes(self) -> int:
        """The bytes that edgetop's files take on the disk."""
        return sum(_blocks(at, name) for at, name in self.own())

    @property
    def others(self) -> dict[str, int]:
        """The bytes on the disk of each file and subfolder that edgetop did not write, by name.

        Names of subfolders end with a slash.
        """
        own = {name for at, name in self.own() if at == self.fd} | {ASIDE}
        names = [name for name in _names_in(self.fd) if name not in own and name != JOURNAL]
        return {name + "/" * _is_folder(self.fd, name): _blocks(self.fd, name) for name in sorted(names)}

    @property
    def is_half_removed(self) -> bool:
        """Whether a removal of the session was begun and interrupted."""
        names = _names_in(self.fd)
        return MANIFEST not in names and ASIDE in names

    def remove(self, going: list[tuple[int, str]], expected: Mapping[str, Stamp]) -> int:
        """Remove some of edgetop's files, and return the number of bytes freed.

        `going` has pairs as from `own`. `expected` has the stamps that files must have, by name. Raises OSError if a
        file cannot be removed, or ValueError with a file's name if its stamp differs. In both cases all files stay.
        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(ASIDE, FOLDER_MODE, dir_fd=self.fd)
        aside = self._opened(ASIDE, self.fd)
        moved: list[tuple[int, str, str]] = []
        try:
            for at, name in going:
                there = name if at == self.fd else f"{JOURNAL}.{name}"
                os.rename(name, there, src_dir_fd=at, dst_dir_fd=aside)
                moved.append((at, name, there))
            _require(expected, aside)
        except (OSError, ValueError):
            for at, name, there in reversed(moved):
                os.rename(there, name, src_dir_fd=aside, dst_dir_fd=at)
            with contextlib.suppress(OSError):
                os.rmdir(ASIDE, dir_fd=self.fd)
            raise
        freed = 0
        for name in sorted(_names_in(aside), key=lambda name: name == MANIFEST):
            if _is_own(name) or _IN_JOURNAL.fullmatch(name.removeprefix(f"{JOURNAL}.")):
                size = _blocks(aside, name)
                os.unlink(name, dir_fd=aside)
                freed += size
        for name in (ASIDE, JOURNAL):
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(name, dir_fd=self.fd)
        return freed

    def remove_folder(self) -> None:
        """Remove the folder if it is empty. If another folder took its path, that folder stays."""
        with contextlib.suppress(OSError):
            parent, name = self._opened(str(self._folder.parent), None), self._folder.name
            if os.path.samestat(os.lstat(name, dir_fd=parent), os.fstat(self.fd)):
                os.rmdir(name, dir_fd=parent)


def remove_session(folder: Path, verified: Mapping[str, Stamp] | None = None) -> Removed:
    """Remove a session. Return the number of bytes freed and the names of what remains in the folder.

    If `verified` has stamps (see `stamp_of`) of files with a copy elsewhere, only these files and files that can be
    made from others are removed. Raises RecordingError if a process is writing the session or if a verified file has
    changed, and OSError if a file cannot be removed. In these cases all files stay.
    """
    with contextlib.closing(SessionFiles(folder)) as files, contextlib.ExitStack() as stack:
        try:
            lock = WriterLock(Path(f"/proc/self/fd/{files.fd}"))
        except RecordingError:
            raise RecordingError(f"{folder}: another edgetop is writing it") from None
        stack.callback(lock.release)
        going = files.own()
        if verified is not None:
            going = [(at, name) for at, name in going if at == files.fd and _may_go(name, verified)]
        try:
            freed = files.remove(going, verified or {})
        except ValueError as error:
            raise RecordingError(f"{folder}: {error} has changed since it was pushed; nothing was removed") from None
        left = files.others | {name: 0 for at, name in files.own() if at == files.fd}
        if list(left) == [PUSHED]:
            os.unlink(PUSHED, dir_fd=files.fd)
            left = {}
        left |= {f"{name}/": 0 for name in (JOURNAL, ASIDE) if name in _names_in(files.fd)}
        if not left:
            files.remove_folder()
    return Removed(freed, tuple(sorted(left)))


def _require(expected: Mapping[str, Stamp], folder: int) -> None:
    """Raise ValueError with a file's name if the file is missing, or if its stamp (`stamp_of`) is not as expected.

    `folder` is the descriptor of the files' folder.
    """
    for name, stamp in expected.items():
        try:
            is_same = stamp_of(os.lstat(name, dir_fd=folder)) == stamp
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise ValueError(name)


def _may_go(name: str, verified: Mapping[str, Stamp]) -> bool:
    """Whether the file `name` may be removed: it has a copy, is temporary, or can be made from other files.

    False for the note of `edgetop push` that a lake has a copy of the session.
    """
    return name in verified or (name in DERIVED and name != PUSHED) or _TEMPORARY.fullmatch(name) is not None


def _is_own(name: str) -> bool:
    return name in _NAMES or any(pattern.fullmatch(name) for pattern in (_TEMPORARY, _DAMAGED))


def _names_in(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _blocks(at: int, name: str) -> int:
    """Return how many bytes removing a file frees on the disk. `at` is the descriptor of the file's folder."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(name, dir_fd=at)
        return status.st_blocks * 512 if status.st_nlink == 1 else 0  # stat(2): blocks of 512 bytes
    return 0


def _is_folder(at: int, name: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_ISDIR(os.lstat(name, dir_fd=at).st_mode)
    return False
