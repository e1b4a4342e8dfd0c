"""Collect the files of a board for a capture, with a time limit for each file and limits of time and size for all.

A link is stored as a link to its final target, so that it leads to the same file as on the board. A file is stored at
its real path.
"""

import errno
import fnmatch
import gzip
import io
import os
import queue
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from edgetop import __version__
from edgetop.files import write_file
from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.sensors.capture.private import ONE_WIRE, Private, filter_of
from edgetop.sensors.capture.since_boot import without_boot
from edgetop.sensors.capture.wanted import COMMANDS, paths
from edgetop.sensors.root import COMMAND_FOLDER, UNREADABLE, Root, file_name, run_command
from edgetop.sensors.sensor_protocol import begin_call

MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 32 << 20
MAX_FILES = 20_000
FILE_DEADLINE_S = 1.0
DEADLINE_S = 60.0

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.,:@+=#-]{1,120}")  # names that the kernel gives to files
CUT = ": what would have come after is missing"
_OF_A_VERSION = re.compile(r"(?:osrelease|version|bios_vendor)$")  # 5.15.153.1 is not an address there
_OF_A_PROCESS = re.compile(r"proc/\d+/")


@frozen
class Capture:
    """One captured board: contents of files and targets of links, each by its path relative to the board's root."""

    files: Mapping[str, bytes]
    links: Mapping[str, str]  # target relative to the link's folder
    notes: tuple[str, ...]  # a line for each thing that could not be taken, with the reason

    @property
    def is_cut(self) -> bool:
        """Whether collecting ended at a limit of time or size, so that files are missing."""
        return any(note.endswith(CUT) for note in self.notes)


class _Enough(Exception):  # noqa: N818  not an error: it ends the walk
    """Raised to end the collecting, because the capture has reached its limit of time or size."""


def collect(
    root: Root,
    wanted: Iterable[tuple[str, ...]] | None = None,
    *,
    file_deadline_s: float = FILE_DEADLINE_S,
    deadline_s: float = DEADLINE_S,
) -> Capture:
    """Return the contents of every wanted file that exists. Never raises; the result's notes say what is missing.

    Each element of `wanted` is a path pattern as a tuple of names, such as `("etc", "*-release")`. By default
    `wanted.py` gives the patterns. `file_deadline_s` is the longest time in seconds for one file, and `deadline_s` for
    all of them.
    """
    walk = _Walk(root, file_deadline_s, deadline_s)
    try:
        for path in paths() if wanted is None else wanted:
            walk.take("", path)
    except _Enough as enough:
        walk.notes.append(f"{enough}{CUT}")
    walk.take_commands()
    return walk.finished()


class _Walk:
    """Goes through a board's folders, and keeps the contents of the wanted files."""

    def __init__(self, root: Root, file_deadline_s: float, deadline_s: float) -> None:
        self._root = root
        self._private = Private(root)
        # Finding out which names are private takes many seconds on a slow board, so it does not count.
        self._file_deadline_s, self._until_s = file_deadline_s, time.monotonic() + deadline_s
        self._files: dict[str, bytes] = {}
        self._links: dict[str, str] = {}  # target relative to the root
        self._refused: dict[str, str] = {}  # name of the error by path
        self._private_paths: set[str] = set()
        self.notes: list[str] = []

    def take(self, folder: str, rest: tuple[str, ...]) -> None:
        """Collect the files below `folder` whose paths match `rest`. `folder` is a path without links; "" is the root.

        `rest` has one name pattern for each level of folders, such as `("hwmon*", "name")`.
        """
        (pattern, *deeper), root = rest, self._root
        names = fnmatch.filter(root.names(folder or "."), pattern) if any(c in pattern for c in "*?") else [pattern]
        for name in names:
            path = f"{folder}/{name}" if folder else name
            real = root.resolve(path)
            if real is None:
                continue
            if _OF_A_PROCESS.match(f"{real}/"):  # /proc/net leads through /proc/self: no process number is stored
                real = path
            if not all(_PLAIN_NAME.fullmatch(part) for part in real.split("/")):
                self.notes.append(f"{folder}: a name in it is not one the kernel gives, and was left out")
            elif self._private.is_in_path(f"{path} {real}"):
                self._private_paths.add(path)
            else:
                if real != path:
                    self._links[path] = real
                if deeper:
                    self.take(real, tuple(deeper))
                else:
                    self._take_file(real)

    def _take_file(self, path: str) -> None:
        if path in self._files:
            return
        if not self._root.is_file(path):
            self.notes.append(f"{path}: not a regular file")
            return
        if len(self._files) >= MAX_FILES or sum(map(len, self._files.values())) >= MAX_BYTES:
            raise _Enough("the capture is as large as it may be")
        try:
            content = self._read(path)
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "EIO")
            self._refused[path] = name
            self._files[path] = b""
            self.notes.append(f"{path}: {name}, {error.strerror or error}")
            return
        if plain := filter_of(path):
            content = plain(content.decode("utf-8", "replace")).encode()
        content = without_boot(path, content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        self._files[path] = self._private.scrub(content, has_addresses=not _OF_A_VERSION.search(path))

    def _read(self, path: str) -> bytes:
        """Read a file on another thread, and return its contents. If the read blocks, the thread is abandoned.

        Raises OSError if the file cannot be read, TimeoutError if the read blocks, and _Enough if the time for the
        whole capture is over.
        """
        if time.monotonic() > self._until_s:
            raise _Enough("the board took as long to read as it may")
        try:
            answer = begin_call(partial(_content, self._root, path), "capture").get(timeout=self._file_deadline_s)
        except queue.Empty:
            why = f"blocked for {self._file_deadline_s:g} s and was left out"
            raise TimeoutError(errno.ETIMEDOUT, why) from None
        if isinstance(answer, OSError):
            raise answer
        return answer

    def take_commands(self) -> None:
        for argv in COMMANDS:
            path = f"{COMMAND_FOLDER}/{file_name(argv)}"
            if self._root.is_host and shutil.which(argv[0]) is None:
                continue
            try:
                output = run_command(self._root, *argv)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                self.notes.append(f"{' '.join(argv)}: {error}")
                continue
            self._files[path] = self._private.scrub((output.text + "\n").encode())
            if output.exit_status:
                self._files[f"{path}.exit"] = f"{output.exit_status}\n".encode()

    def finished(self) -> Capture:
        plain = _without_probes([*self._files, *self._links])
        files, notes = {plain(path): content for path, content in self._files.items()}, list(map(plain, self.notes))
        taken = {plain(path): plain(real) for path, real in self._links.items()}
        if self._refused:
            lines = sorted((plain(path), name) for path, name in self._refused.items())
            files[UNREADABLE] = "".join(f"{name} {path}\n" for path, name in lines).encode()
        if count := len(self._private_paths):
            notes = [*notes, f"{quantity(count, 'path')} left out: an address or a serial number is in the name"]
        # Leave out links whose target was not taken. The target may be a folder that has only links.
        there = {parent for path in files for parent in _and_parents(path)}
        leading: dict[str, str] = {}
        while found := {path: real for path, real in taken.items() if real in there and path not in leading}:
            leading |= found
            there |= {parent for path in found for parent in _and_parents(path)}
        links = {path: os.path.relpath(real, Path(path).parent) for path, real in leading.items()}
        scrubbed = [self._private.scrub(note.encode(errors="replace")).decode() for note in notes]
        return Capture(dict(sorted(files.items())), dict(sorted(links.items())), tuple(dict.fromkeys(scrubbed)))


def _without_probes(paths: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces the serial numbers of probes on 1-wire in a path by 1, 2 and so on."""
    probes = sorted({(match[1], match[2]) for path in paths for match in ONE_WIRE.finditer(path)})
    numbers = {probe: f"{probe[0]}-{number:012d}" for number, probe in enumerate(probes, 1)}
    return lambda text: ONE_WIRE.sub(lambda match: numbers.get((match[1], match[2]), match[0]), text)


def _content(root: Root, path: str) -> bytes | OSError:
    try:
        return root.read_bytes(path, MAX_FILE_BYTES)
    except OSError as error:
        return error


def _and_parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


# A capture is written as a compressed tar file without owners and times, and without paths that leave its folder.

TREE, LOADED = "tree", "tree-loaded"
NOTES, LOADED_NOTES = "notes.txt", "notes-loaded.txt"
MODE = 0o600


def write_archive(packed: bytes, path: Path, *, force: bool) -> None:
    """Write the archive `packed`, as `pack` returns it, to a file that only the file's owner is allowed to read.

    The file appears whole or not at all. Raises FileExistsError if `path` exists and `force` is False, and other
    OSErrors.
    """
    if os.path.lexists(path) and not force:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    write_file(path, packed, MODE)


def pack(
    capture: Capture, loaded: Capture | None = None, documents: Mapping[str, bytes] = MappingProxyType({})
) -> bytes:
    """Return a captured board as the bytes of a compressed tar archive.

    `loaded` is a second capture of the same board, made while it was busy. `documents` has the contents of further
    files for the archive, by file name.
    """
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        members = [*_plain_members(documents), *_members(capture, TREE, NOTES)]
        members += _members(loaded, LOADED, LOADED_NOTES) if loaded else ()
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _members(capture: Capture, tree: str, notes: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    yield from _plain_members({notes: notes_text(capture, tree).encode()})
    yield from _tree_members(capture, tree)


def _plain_members(documents: Mapping[str, bytes]) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    for name, content in documents.items():
        yield _member(name, tarfile.REGTYPE, size=len(content)), content


def _tree_members(capture: Capture, tree: str) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    made: set[str] = set()
    for path in sorted([*capture.files, *capture.links]):
        inside = f"{tree}/{path}"
        for folder in _and_parents(inside)[:-1]:
            if folder not in made:
                made.add(folder)
                yield _member(folder, tarfile.DIRTYPE, mode=0o755), b""
        if path in capture.files:
            yield _member(inside, tarfile.REGTYPE, size=len(capture.files[path])), capture.files[path]
        else:
            yield _member(inside, tarfile.SYMTYPE, target=capture.links[path]), b""


def _member(name: str, kind: bytes, *, size: int = 0, mode: int = 0o644, target: str = "") -> tarfile.TarInfo:
    """Return the tar entry of a file or link, without time, user and group.

    `name` is the path in the archive, `kind` is the entry's type, such as `tarfile.REGTYPE`, `size` is its size in
    bytes, and `mode` its permission bits. `target` is where a link points.
    """
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname = kind, size, mode, target
    return info


def notes_text(capture: Capture, tree: str = TREE) -> str:
    """Return the text of the archive's file about what could not be captured. `tree` is the folder with the board's
    files.
    """
    head = f"Captured by edgetop {__version__}. The board is in {tree}/: edgetop sensors --sysroot {tree}\n"
    lines = "".join(f"- {note}\n" for note in capture.notes) or "- nothing: every file found could be read\n"
    return f"{head}\nWhat could not be taken:\n{lines}"
