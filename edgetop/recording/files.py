"""The folder of a session: its place, its manifest, its lock, and who may read it (nobody else)."""

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetop import formatting
from edgetop.errors import InputError, RecordingError
from edgetop.session.manifest import FORMAT_VERSION, Manifest, from_json, to_json

FSYNC_INTERVAL_NS = 5_000_000_000  # SD cards wear with each


@dataclass(frozen=True, slots=True)
class Retention:
    raw: bool = True  # single inferences
    max_bytes: int | None = None  # of the folder: beyond it the oldest single inferences go
    fsync_interval_ns: int = FSYNC_INTERVAL_NS


SUFFIX = ".edgetop"
MANIFEST = "session.json"
LOCK = "session.json.lock"
JOURNAL = "journal"
SOCKET = "control.sock"  # of a live session, where it takes orders
DAMAGED = ".damaged"  # behind the name of a file of the journal of which not all could be read
LOG = "run.log"  # what a run said that went on without a terminal
MAX_MANIFEST_BYTES = 64 * 1024 * 1024
MIN_FREE_BYTES = 16 * 1024 * 1024
FOLDER_MODE, FILE_MODE = 0o700, 0o600


def session_folder(output: Path) -> Path:
    """The folder that `-o PATH` names: `.edgetop` is appended where it is missing."""
    return output if output.name.endswith(SUFFIX) else output.parent / (output.name + SUFFIX)


def create_folder(folder: Path, min_free_bytes: int = MIN_FREE_BYTES) -> None:
    """A new session's folder. Raises InputError where it exists or cannot be, or the disk is full."""
    try:
        folder.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        folder.mkdir(mode=FOLDER_MODE)
        (folder / JOURNAL).mkdir(mode=FOLDER_MODE)
        free = shutil.disk_usage(folder).free
    except FileExistsError:
        what = "exists already" if os.path.lexists(folder) else f"cannot be made: {folder.parent} is not a folder"
        raise InputError(f"{folder}: {what}", "name another place with -o") from None
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}", "name another place with -o, or --no-record"
        ) from None
    if free < min_free_bytes:
        shutil.rmtree(folder, ignore_errors=True)
        left, wanted = formatting.size(free), formatting.size(min_free_bytes)
        raise InputError(f"{folder}: the disk is full: {left} left, {wanted} wanted", "record elsewhere with -o")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Atomically: a reader sees the old one or the new one, whole. Raises OSError."""
    temporary = folder / f"{MANIFEST}.tmp"
    fd = open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(to_json(manifest), file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(folder / MANIFEST)
    sync_folder(folder)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file. Raises OSError for whatever else lies there.

    Sessions come from other people too: a link would lead reads and writes out of the session,
    and a pipe would make its reader wait for ever.
    """
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd


class Descriptor:
    """A file descriptor that is closed with the last one who uses it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


def set_aside(folder: Path, name: str) -> None:
    """Keep a file of the journal, of which not all could be read, beside the tables. Raises OSError."""
    (folder / JOURNAL / name).replace(folder / f"{name}{DAMAGED}")


class HeldFolder:
    """A folder, held by its descriptor: it stays this one wherever it is moved, and whatever takes its place."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._file = Descriptor(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        self._name = folder.absolute()

    @property
    def fd(self) -> int:
        """For a process that is to have it too."""
        return self._file.fd

    @property
    def path(self) -> Path:
        """What this process finds its files by (proc_pid_fd(5)); nothing that a person should read."""
        return Path(f"/proc/self/fd/{self._file.fd}")

    @property
    def name(self) -> Path:
        """Where it is now; where it was last, if it is nowhere any more."""
        self._locate()
        return self._name

    @property
    def fate(self) -> str:
        """Why no name leads to it any more, in words; "": one does."""
        return self._locate()

    def _locate(self) -> str:
        if self._is_at(self._name):
            return ""
        try:
            now = self.path.readlink()
        except OSError:  # without /proc nothing is known
            return ""
        if self._is_at(now):
            self._name = now
            return ""
        if str(now).endswith(" (deleted)"):
            return "it was deleted, or moved to another file system"
        return "its file system is not mounted any more"

    def _is_at(self, name: Path) -> bool:
        try:
            return os.path.samestat(name.stat(), os.fstat(self._file.fd))
        except OSError:
            return False

    def in_words(self, text: str) -> str:
        """With its name in place of the path."""
        return text.replace(str(self.path), str(self.name))


def held(folder: Path) -> HeldFolder:
    """Raises InputError where there is none."""
    try:
        return HeldFolder(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None


def names_in(folder: Path) -> set[str]:
    """Raises OSError where it cannot be listed."""
    return {path.name for path in folder.iterdir()}


def has_journal(folder: Path) -> bool:
    """Whether something was left to be done: a writer lives, or died. One that has not locked it yet is none."""
    return is_real_folder(folder / JOURNAL) and os.path.lexists(folder / MANIFEST)


def is_real_folder(path: Path) -> bool:
    """A folder, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Raises OSError where not all of it was taken: near the end of a disk, write(2) takes a part."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        offset += written
        view = view[written:]


def sync_folder(folder: Path) -> None:
    """Make renames in it last (fsync(2): a file's name is the folder's data)."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot sync folders
            raise
    finally:
        os.close(fd)


def read_manifest(folder: Path) -> Manifest:
    """Raises InputError where there is none, or it is garbage or of a newer format."""
    path = folder / MANIFEST
    try:
        with os.fdopen(open_regular(path), encoding="utf-8") as file:
            text = file.read(MAX_MANIFEST_BYTES)
        document: Any = json.loads(text)
    except FileNotFoundError:
        raise InputError(f"{folder}: not a recorded session (no {MANIFEST})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a manifest: {error}") from None
    version = document.get("format_version") if isinstance(document, Mapping) else None
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise InputError(
            f"{path}: format {version} is newer than this edgetop reads ({FORMAT_VERSION})", "update edgetop"
        )
    try:
        return from_json(document)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: not a manifest: {error}") from None


class WriterLock:
    """Held while a writer lives: the kernel lets go of it however the writer ends.

    The descriptor is close-on-exec, so no child has it (flock(2)) but the one that writes the tables.
    Raises RecordingError where another lives.
    """

    def __init__(self, folder: Path) -> None:
        self.fd = open_regular(folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            self._take(self.fd)
        except BlockingIOError:
            os.close(self.fd)
            raise RecordingError(f"{folder}: another edgetop is writing it") from None
        except OSError:
            os.close(self.fd)
            raise

    def _take(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class RecoveryLock(WriterLock):
    """Held by who completes what a dead writer left. Others who would do that are waited for.

    A byte in the file tells its holders apart: it is written while the lock is shared, which it can be only where
    no writer holds it, and before it is held alone. No session gets a second writer, so it stays.
    """

    def _take(self, fd: int) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            os.pwrite(fd, b"\n", 0)
        except BlockingIOError:
            if not _is_left(fd):
                raise
        fcntl.flock(fd, fcntl.LOCK_EX)


def is_live(folder: Path) -> bool:
    """Whether a writer lives. Looks at its lock alone: nothing is read, nothing recovered."""
    if not has_journal(folder):
        return False
    try:
        fd = open_regular(folder / LOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return not _is_left(fd)
    finally:
        os.close(fd)
    return False


def _is_left(fd: int) -> bool:
    """Whether its writer is known to be dead."""
    return os.fstat(fd).st_size > 0
