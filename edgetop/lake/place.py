"""Access to a lake: a folder, or a bucket through `pyarrow.fs` or fsspec. Files appear only when they are complete.

Several boards may push at once. The files in a lake are not trusted: nothing is written through a link, and no pipe is
waited for. Failed transfers are repeated after growing pauses.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa
from pyarrow import fs

from edgetop import formatting
from edgetop.errors import DISK_FULL, InputError, OutputError
from edgetop.files import sync_folder
from edgetop.installation import install_command
from edgetop.recording.session_folder import MIN_FREE_BYTES

T = TypeVar("T")
BLOCK_BYTES = 1024 * 1024
PARTIAL = ".partial"  # suffix of a file that is being written; engines only read names that end with .parquet
TRIES, FIRST_PAUSE_S, LONGEST_PAUSE_S = 7, 1.0, 60.0
PATIENCE_S, POLL_S = 60.0, 0.02  # how long, and how often, to wait for another push of the same file
TRIES_OF_READER = 2  # fewer, since a user waits for the answer
ATOMIC = ("s3", "gcs", "gs", "abfs", "az")  # object stores
HOPELESS = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS, *DISK_FULL)
REFUSED = re.compile(
    r"ACCESS_DENIED|Access ?Denied|InvalidAccessKeyId|SignatureDoesNotMatch|NoSuchBucket|HTTP status 40[13]"
    r"|OAuth2 access token"
)
PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
DATE = re.compile(r"date=(\d{4}-\d\d-\d\d)")


class Place:
    """Reads and writes the files of one lake, a folder or a bucket. Paths are relative to the lake."""

    def __init__(self, target: str, *, tries: int = TRIES, pause: Callable[[float], None] = time.sleep) -> None:
        """Open the lake at `target`, a folder or a URI such as "s3://bucket/path".

        A failing step is tried `tries` times. `pause` is a function that waits for a number of seconds. Raises
        InputError if the kind of URI is unknown.
        """
        self.fs, self.root = _resolved(target)
        self.target = without_password(target) if "://" in target else self.root
        self.is_local = self.fs.type_name == "local"
        self._is_atomic = self.fs.type_name.rpartition("+")[2] in ATOMIC
        self._tries = tries
        self._pause = pause

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, or None if there is no such file.

        Raises OutputError if the lake fails.
        """
        info = self.retry(lambda: self.fs.get_file_info(self.at(path)))
        return int(info.size) if info.type == fs.FileType.File else None

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder, or [] if the folder does not exist.

        Raises OutputError if the lake fails.
        """
        selector = fs.FileSelector(self.at(path), allow_not_found=True)
        return sorted(info.base_name for info in self.retry(lambda: self.fs.get_file_info(selector)))

    def refuse_none(self) -> None:
        """Raise InputError if this folder or bucket contains no lake, and OutputError if the lake cannot be read."""
        if not self.names("sessions"):
            raise InputError(f"{self.target}: no lake (no table of sessions)", "edgetop push makes one")

    def files(self, table: str, since: str = "") -> list[str]:
        """Return the sorted paths of a table's files. Raises OutputError if the lake fails.

        `since` is a day, YYYY-MM-DD. Sessions that began before this day are left out.
        """
        found: list[str] = []
        for day in self.names(table):
            if (match := DATE.fullmatch(day)) and match[1] >= since:
                found += self.below(f"{table}/{day}")
        return sorted(found)

    def below(self, path: str) -> list[str]:
        """Return the paths of all Parquet files in a folder and its subfolders.

        Raises OutputError if the lake fails.
        """
        selector = fs.FileSelector(self.at(path), recursive=True, allow_not_found=True)
        infos = self.retry(lambda: self.fs.get_file_info(selector))
        start = len(self.root) + 1
        return [i.path[start:] for i in infos if i.path.endswith(".parquet") and i.type == fs.FileType.File]

    def at(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def read(self, path: str, sink: Callable[[bytes], object], size: int) -> str:
        """Pass the content of the file `path` to `sink` in blocks. Return the SHA-256 as a hexadecimal text.

        The result is "" if the file's size is not `size` bytes. Raises OutputError if the lake fails.
        """
        if self.size(path) != size:  # a pipe, which would block for ever, has no size
            return ""
        with self.retry(lambda: self.fs.open_input_stream(self.at(path))) as file:
            return self.retry(lambda: digest_of(file, sink, size), tries=1)

    def put(self, path: str, source: Callable[[], BinaryIO], size: int, sha256: str) -> bool:
        """Write the file `path`, and read it back to verify it.

        Return False if the lake already had the file, else True. `source` returns an open file with the content. `size`
        (in bytes) and `sha256` describe the content. Raises OutputError if the lake fails, or if the file reads back
        differently.
        """
        if self.retry(lambda: self.read(path, _nowhere, size)) == sha256:
            return False
        self.retry(lambda: self._write(path, source, size))
        if self.retry(lambda: self.read(path, _nowhere, size)) != sha256:
            raise OutputError(f"{self.target}/{path}: what was written reads back otherwise", "push it again")
        return True

    def _write(self, path: str, source: Callable[[], BinaryIO], size: int) -> None:
        place = self.at(path)
        if not self._is_atomic:
            self.fs.create_dir(place.rpartition("/")[0], recursive=True)
        if self.is_local:
            refuse_full(Path(place).parent, size)
            write_locally(Path(place), source)
            return
        # The random name keeps two concurrent pushes apart. Engines ignore such a file if it is left over.
        partial = place if self._is_atomic else f"{place}.{secrets.token_hex(4)}{PARTIAL}"
        with source() as file, self.fs.open_output_stream(partial) as output:
            while block := file.read(BLOCK_BYTES):
                output.write(block)
        if not self._is_atomic:
            self.fs.move(partial, place)

    def delete(self, path: str) -> None:
        self.retry(lambda: self.fs.delete_file(self.at(path)))

    def retry(self, step: Callable[[], T], tries: int = 0) -> T:
        """Call `step` until it succeeds, and return its result.

        `tries` is how often to try; 0 for the usual number of this lake. Raises OutputError when all tries have failed,
        and at once after an error that will not go away, such as a denied access.
        """
        pause_s = FIRST_PAUSE_S
        for left in range((tries or self._tries) - 1, -1, -1):
            try:
                return step()
            except (OSError, pa.ArrowException) as error:
                is_hopeless = getattr(error, "errno", None) in HOPELESS or REFUSED.search(str(error))
                if is_hopeless or not left:
                    raise OutputError(f"{self.target}: {_words(error)}") from None
            self._pause(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        raise AssertionError


def _nowhere(_: bytes) -> None:
    """Do nothing with a block of bytes, if only the checksum of a file is wanted."""


def digest_of(file: Any, sink: Callable[[bytes], object] = _nowhere, most: int | None = None) -> str:
    """Return the SHA-256 of an open binary file as a hexadecimal text, or "" for a file of more than `most` bytes.

    If `most` is None, there is no limit. `sink` is called with each block of bytes.
    """
    digest, length = hashlib.sha256(), 0
    while block := file.read(BLOCK_BYTES):
        length += len(block)
        if most is not None and length > most:
            return ""
        digest.update(block)
        sink(block)
    return digest.hexdigest()


def write_locally(place: Path, source: Callable[[], BinaryIO]) -> None:
    """Write a file that appears at `place` only when it is complete. `source` returns an open file with the content.

    If another push is writing the same file, wait for that push. Raises OSError if writing fails, and OutputError if
    the other push does not finish.
    """
    partial = place.with_name(place.name + PARTIAL)
    fd = _held(partial)
    with os.fdopen(fd, "wb") as output, source() as file:
        output.truncate(0)
        while block := file.read(BLOCK_BYTES):
            output.write(block)
        output.flush()
        os.fsync(fd)
        partial.replace(place)
    sync_folder(place.parent)


def _held(partial: Path) -> int:
    """Open the file `partial` for writing and lock it. Return its file descriptor.

    A link, or a file of another user, at this path is removed. Raises OSError if opening or locking fails, and
    OutputError if another push keeps the file locked.
    """
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(partial, flags, 0o666)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link, or a socket
                raise
            partial.unlink(missing_ok=True)
            continue
        try:
            if _is_held(fd, partial):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(POLL_S)
    raise OutputError(f"{partial}: another push has been writing it for {PATIENCE_S:g} s", "wait for it, or end it")


def _is_held(fd: int, partial: Path) -> bool:
    """Lock the open file `fd` with flock(2). Return True if it is locked, this user's, and still at `partial`.

    Any other file at the path `partial` is removed.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        pass
    status = os.fstat(fd)
    try:
        if not os.path.samestat(partial.lstat(), status):
            return False
    except FileNotFoundError:  # the other push has finished with it
        return False
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid == os.geteuid():
        return True
    # In a folder that other users can write to, this may be a link, or a second name of a file elsewhere.
    partial.unlink()
    return False


def refuse_full(folder: Path, size: int) -> None:
    """Raise OutputError if a file of `size` bytes would fill the disk of `folder`."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.exists())).free
        if free < size + MIN_FREE_BYTES:
            raise OutputError(
                f"{folder}: the disk is full: {formatting.size(free)} left, {formatting.size(size)} wanted",
                "free space, or name another place",
            )


def without_password(target: str) -> str:
    return re.sub(r"//[^/@]*@", "//", target)


def _words(error: Exception) -> str:
    """Return an error's message as one line of at most 300 characters."""
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else " ".join(str(error).split())
    return formatting.clean(text)[:300]


def _resolved(target: str) -> tuple[Any, str]:
    scheme, is_uri, _ = target.partition("://")
    if not is_uri:
        return fs.LocalFileSystem(), str(Path(target).absolute())
    try:
        found, path = fs.FileSystem.from_uri(uri_of(target))
    except (pa.ArrowException, OSError, ValueError) as error:
        if "Unrecognized filesystem type" not in str(error):
            raise InputError(f"{without_password(target)}: {_words(error)}") from None
        found, path = _by_fsspec(target, scheme, error)
    if not path and scheme in ATOMIC:
        raise InputError(f"{target}: names no bucket", f"{scheme}://BUCKET/PATH")
    return found, path.rstrip("/")


def uri_of(target: str) -> str:
    """Return the URI of a lake in the form that Arrow understands.

    >>> uri_of("az://c@a.example/x"), uri_of("gs://bucket/x")
    ('abfs://c@a.example/x', 'gs://bucket/x?retry_limit_seconds=5')
    """
    if target.startswith("az:"):
        return f"abfs{target[2:]}"
    # The library's own retries would last 15 minutes.
    if target.startswith(("gs:", "gcs:")) and "retry_limit_seconds" not in target:
        return f"{target}{'&' if '?' in target else '?'}retry_limit_seconds=5"
    return target


def _by_fsspec(target: str, scheme: str, error: Exception) -> tuple[Any, str]:
    packages = ["fsspec", *([PACKAGES[scheme]] if scheme in PACKAGES else [])]
    advice = f"a folder, s3://, gs:// or az://; others by fsspec: {install_command(*packages)}"
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415  an extra

        found, path = url_to_fs(target)
    except (ImportError, ValueError, OSError):
        raise InputError(f"{without_password(target)}: {_words(error)}", advice) from None
    return fs.PyFileSystem(fs.FSSpecHandler(found)), path
