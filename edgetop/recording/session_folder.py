"""The folder of a session: its place, its manifest and its lock. Only the owner may read the folder."""

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetop import formatting
from edgetop.errors import InputError, RecordingError
from edgetop.files import open_regular, write_file
from edgetop.frozen import frozen
from edgetop.session.manifest import FORMAT_VERSION, Manifest
from edgetop.session.manifest_codec import from_json, to_json


@frozen
class Retention:
    raw: bool = True  # whether single inferences are recorded
    max_bytes: int | None = None  # size of the folder above which the oldest single inferences are dropped
    fsync_interval_ns: int = 5_000_000_000  # not shorter, since SD cards wear with each fsync


SUFFIX = ".edgetop"
MANIFEST = "session.json"
LOCK = "session.json.lock"
JOURNAL = "journal"
SOCKET = "control.sock"  # takes orders for a live session
DAMAGED = ".damaged"  # suffix of a journal file that could not be read completely
LOG = "run.log"  # output of a run that went on without a terminal
END_NOTE = "engine-end.json"  # written by an engine if its edgetop was killed
PROGRAM_LOG = "program.log"  # output of a watched program
MAX_MANIFEST_BYTES = 4 * 1024 * 1024  # a parsed manifest takes some 25 times as much memory
MIN_FREE_BYTES = 16 * 1024 * 1024
FOLDER_MODE, FILE_MODE = 0o700, 0o600


def session_folder(output: Path) -> Path:
    """Return the folder that `-o PATH` means: `output`, with `.edgetop` appended if it is missing.

    Raises InputError if `output` names no session, as `.` and `..` do.

    >>> session_folder(Path("runs/net")).as_posix()
    'runs/net.edgetop'
    """
    if output.name.removesuffix(SUFFIX) in ("", ".", ".."):
        raise InputError(f"-o {output}: a folder, and no name of a session", "write one, such as -o soak-1")
    return output if output.name.endswith(SUFFIX) else output.parent / (output.name + SUFFIX)


def refuse_folder(folder: Path) -> None:
    """Raise InputError if the folder of a new session exists already, or if a part of its path is a file."""
    if os.path.lexists(folder):
        raise InputError(f"{folder}: exists already", "name another place with -o")
    above = next(place for place in folder.parents if os.path.lexists(place))
    if not above.is_dir():
        raise InputError(f"{folder}: cannot be made: {above} is not a folder", "name another place with -o")


def create_folder(folder: Path, min_free_bytes: int = MIN_FREE_BYTES) -> None:
    """Create the folder of a new session.

    Raises InputError if the folder exists, if it cannot be created, or if less than `min_free_bytes` are free on the
    disk.
    """
    try:
        folder.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        folder.mkdir(mode=FOLDER_MODE)
        (folder / JOURNAL).mkdir(mode=FOLDER_MODE)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        if isinstance(error, FileExistsError):
            refuse_folder(folder)
        raise InputError(
            f"{folder}: cannot be written: {error.strerror}", "name another place with -o, or --no-record"
        ) from None
    if free < min_free_bytes:
        shutil.rmtree(folder, ignore_errors=True)
        left, wanted = formatting.size(free), formatting.size(min_free_bytes)
        raise InputError(f"{folder}: the disk is full: {left} left, {wanted} wanted", "record elsewhere with -o")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of the session in `folder` atomically: readers see either the old or the new one.

    The manifest of a session that is over has indented lines. Raises OSError.
    """
    # Indenting takes five times as long, beside the model.
    indent = None if manifest.state == "live" else 1
    write_file(folder / MANIFEST, json.dumps(to_json(manifest), indent=indent), FILE_MODE)


class Descriptor:
    """A file descriptor that is closed by `close`, or else when this object is no longer used."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor. A second call does nothing."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def set_aside(folder: Path, name: str) -> None:
    """Move the damaged journal file `name` out of the journal, to the session's tables in `folder`. Raises OSError."""
    (folder / JOURNAL / name).replace(folder / f"{name}{DAMAGED}")


class FolderHandle:
    """A folder that a descriptor holds open, even if it is moved or another folder takes its path."""

    def __init__(self, folder: Path) -> None:
        """Open the folder. Raises OSError."""
        self._file = Descriptor(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        self.fd = self._file.fd
        self._stat = os.fstat(self.fd)  # says which folder it is, which never changes
        self.path = Path(f"/proc/self/fd/{self.fd}")  # path for this process (proc_pid_fd(5))
        self._name = folder.absolute()

    @property
    def name(self) -> Path:
        """The folder's current path, for messages, or its last known path if no path leads to the folder any more."""
        _ = self.why_gone
        return self._name

    @property
    def why_gone(self) -> str:
        """Why no path leads to the folder any more, in words; "" if a path does."""
        if self._is_at(self._name):
            return ""
        try:
            now = self.path.readlink()
        except OSError:  # without /proc it cannot be determined
            return ""
        if self._is_at(now):
            self._name = now
            return ""
        if str(now).endswith(" (deleted)"):
            return "it was deleted, or moved to another file system"
        return "its file system is not mounted any more"

    def _is_at(self, name: Path) -> bool:
        try:
            return os.path.samestat(os.stat(name), self._stat)  # noqa: PTH116  asked in every step of a run
        except OSError:
            return False

    def with_name(self, text: str) -> str:
        """Return the text with the folder's current path in place of the handle's `/proc/self/fd/...` path."""
        return text.replace(str(self.path), str(self.name))


def open_folder(folder: Path) -> FolderHandle:
    """Return a handle of the folder, which keeps it open. Raises InputError if the folder cannot be opened."""
    try:
        return FolderHandle(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None


def names_in(folder: Path) -> set[str]:
    """Return the names of all files in a folder. Raises OSError if the folder cannot be listed."""
    return {path.name for path in folder.iterdir()}


def has_journal(folder: Path) -> bool:
    """Whether the session is unfinished: its writer is running or has died.

    False also if the writer has not written the session's manifest yet.
    """
    return is_real_folder(folder / JOURNAL) and os.path.lexists(folder / MANIFEST)


def is_real_folder(path: Path) -> bool:
    """Whether `path` is a folder, and not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of `data` at the byte offset `offset`. Raises OSError if only a part could be written."""
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        offset += written
        view = view[written:]


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the session in `folder`.

    Raises InputError if the manifest is missing, damaged or of a newer format.
    """
    path = folder / MANIFEST
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(MAX_MANIFEST_BYTES + 1)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{folder}: not a recorded session (no {MANIFEST})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path}: not a manifest: {error}") from None
    return parsed_manifest(path, text)


def parsed_manifest(path: Path, text: str) -> Manifest:
    """Return the manifest from `text`, the content of the `session.json` at `path`.

    Raises InputError if the text is not a valid manifest.
    """
    if len(text) > MAX_MANIFEST_BYTES:
        raise InputError(f"{path}: not a manifest: larger than {formatting.size(MAX_MANIFEST_BYTES)}")
    try:
        document: Any = json.loads(text)
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
    """The lock on a session's folder, which the session's writer holds until it ends.

    Only one child process inherits the lock (flock(2)): the process that writes the tables.
    """

    def __init__(self, folder: Path, *, for_recovery: bool = False) -> None:
        """Take the lock of the session in `folder`. Raises RecordingError if a writer holds the lock, or OSError.

        `for_recovery` says that this process completes the session of a dead writer. If other processes complete the
        same session, this call waits for them.
        """
        self.fd = open_regular(folder / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            # The shared lock is free only if no writer runs. The byte in the file then tells a recovery from a writer.
            # A session never gets a second writer, so the byte stays.
            if for_recovery:
                try:
                    fcntl.flock(self.fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    os.pwrite(self.fd, b"\n", 0)
                except BlockingIOError:
                    if not _is_recovery(self.fd):
                        raise
            fcntl.flock(self.fd, fcntl.LOCK_EX | (0 if for_recovery else fcntl.LOCK_NB))
        except BlockingIOError:
            self.release()
            raise RecordingError(f"{folder}: another edgetop is writing it") from None
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def is_live(folder: Path) -> bool:
    """Whether the session's writer is running and holds the lock."""
    if not has_journal(folder):
        return False
    try:
        fd = open_regular(folder / LOCK)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return not _is_recovery(fd)
    finally:
        os.close(fd)
    return False


def _is_recovery(fd: int) -> bool:
    """Whether a process that completes a dead writer's session took the lock. `fd` is the open lock file."""
    return os.fstat(fd).st_size > 0
