"""Read the archive of a capture, which may come from anybody: nothing is unpacked to disk, and no link is followed."""

import gzip
import io
import re
import tarfile
import zlib

from edgetop.frozen import frozen
from edgetop.sensors.capture.collect import (
    LOADED,
    LOADED_NOTES,
    MAX_BYTES,
    MAX_FILE_BYTES,
    MAX_FILES,
    NOTES,
    TREE,
    Capture,
)

MAX_ARCHIVE_BYTES = 64 << 20
MAX_DOCUMENT_BYTES = 8 << 20
MAX_UNPACKED_BYTES = 2 * MAX_BYTES + 3 * MAX_DOCUMENT_BYTES + 4 * MAX_FILES * tarfile.BLOCKSIZE
REPORT = "report.json"
_NOTES_OF = {NOTES: TREE, LOADED_NOTES: LOADED}
_PATH = re.compile(r"[A-Za-z0-9_.,:@+=#-]{1,120}(/[A-Za-z0-9_.,:@+=#-]{1,120}){0,30}")


@frozen
class Unpacked:
    """One unpacked archive that `edgetop sensors --capture` or `edgetop board-report` wrote."""

    capture: Capture
    loaded: Capture | None = None  # the board while it was busy; without notes if edgetop 0.1.0 or earlier wrote it
    report: bytes | None = None  # the document of `edgetop board-report`, as JSON


def unpack(packed: bytes) -> Unpacked:
    """Return the contents of an archive, given as its bytes.

    Raises ValueError if the archive is not of a board, is too large, or has a path that leads out of its folder.
    """
    files: dict[str, dict[str, bytes]] = {TREE: {}, LOADED: {}}
    links: dict[str, dict[str, str]] = {TREE: {}, LOADED: {}}
    notes: dict[str, tuple[str, ...]] = {}
    report = None
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as compressed:
            plain = compressed.read(MAX_UNPACKED_BYTES + 1)
        if len(plain) > MAX_UNPACKED_BYTES:
            raise ValueError("larger than an archive of a board can be")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for member in archive:
                tree, _, path = member.name.partition("/")
                if member.isdir() and tree in files:
                    continue
                if member.name in (*_NOTES_OF, REPORT) and member.isreg() and member.size <= MAX_DOCUMENT_BYTES:
                    content = _content(archive, member)
                    if member.name == REPORT:
                        report = content
                    else:
                        lines = content.decode("utf-8", "replace").splitlines()
                        notes[_NOTES_OF[member.name]] = tuple(line[2:] for line in lines if line.startswith("- "))
                elif tree not in files or not _is_plain(path):
                    raise ValueError(f"{member.name[:80]!r} is no path of a board")
                elif member.isreg() and member.size <= MAX_FILE_BYTES:
                    files[tree][path] = _content(archive, member)
                elif member.issym() and _stays_inside(path, member.linkname):
                    links[tree][path] = member.linkname
                else:
                    raise ValueError(f"{member.name[:80]!r} is no file that a capture has")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"not an archive of a board: {error}") from None
    capture, loaded = (Capture(files[tree], links[tree], notes.get(tree, ())) for tree in (TREE, LOADED))
    return Unpacked(capture, loaded if loaded.files else None, report)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    return file.read() if file else b""


def _is_plain(path: str) -> bool:
    return bool(_PATH.fullmatch(path)) and not {".", ".."} & set(path.split("/"))


def _stays_inside(path: str, target: str) -> bool:
    """Return whether a link in an archive leads to a place below the archive's root.

    `path` is the link's own path relative to the root. `target` is where the link points, relative to the link's
    folder.
    """
    depth = path.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return False
    return not target.startswith("/")
