"""A capture as a compressed tar file that carries no owner, no time and no way out of its folder."""

import gzip
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from edgetop import __version__
from edgetop.sensors.capture.collect import Capture

TREE = "tree"
NOTES = "notes.txt"
MODE = 0o600


def write_archive(capture: Capture, path: Path, *, force: bool) -> None:
    """Readable for its owner alone. Raises FileExistsError without `force`, and other OSErrors; leaves nothing half."""
    content = pack(capture)
    target = path.with_name(f".{path.name}.{os.getpid()}.partial") if force else path
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target != path:
            target.replace(path)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def pack(capture: Capture) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for member, content in _members(capture):
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _members(capture: Capture) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    notes = notes_text(capture).encode()
    yield _member(NOTES, tarfile.REGTYPE, size=len(notes)), notes
    made: set[str] = set()
    for path in sorted([*capture.files, *capture.links]):
        inside = f"{TREE}/{path}"
        for folder in _folders(inside):
            if folder not in made:
                made.add(folder)
                yield _member(folder, tarfile.DIRTYPE, mode=0o755), b""
        if path in capture.files:
            yield _member(inside, tarfile.REGTYPE, size=len(capture.files[path])), capture.files[path]
        else:
            yield _member(inside, tarfile.SYMTYPE, target=capture.links[path]), b""


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _member(name: str, kind: bytes, *, size: int = 0, mode: int = 0o644, target: str = "") -> tarfile.TarInfo:
    """An entry without time, user or group: TarInfo's own defaults are 0 and empty."""
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.linkname = kind, size, mode, target
    return info


def notes_text(capture: Capture) -> str:
    head = f"Captured by edgetop {__version__}. The board is in {TREE}/: edgetop sensors --sysroot {TREE}\n"
    lines = "".join(f"- {note}\n" for note in capture.notes) or "- nothing: every file found could be read\n"
    return f"{head}\nWhat could not be taken:\n{lines}"
