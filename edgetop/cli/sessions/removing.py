"""Deletes sessions that a user named. All sessions are found and listed before the first is deleted."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from edgetop import formatting
from edgetop.cli.output import print_text, table
from edgetop.cli.shell_words import session_word
from edgetop.errors import InputError, OutputError, RecordingError
from edgetop.formatting import UNKNOWN, clean
from edgetop.paths import recordings_home
from edgetop.recording.registry import locate, successor
from edgetop.recording.removal import SessionFiles, remove_session
from edgetop.recording.session_folder import MANIFEST, SUFFIX, is_live, is_real_folder, read_manifest


def remove_sessions(names: Sequence[str], *, asks: bool) -> None:
    """Delete the named sessions. If one cannot be found or is being recorded, delete none, and raise InputError.

    With `asks`, the user is asked first. Raises OutputError if a session could not be deleted.
    """
    folders = list({folder.resolve(): folder for folder in (_found(name, whole=not asks) for name in names)}.values())
    for folder in folders:
        _refuse_recorded(folder)
    if asks:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InputError("rm asks before it deletes, but there is no terminal", "add --yes")
        print_text("\n".join(_listing(folders)), err=True)
        which = "this session" if len(folders) == 1 else f"these {len(folders)} sessions"
        if not click.confirm(f"Delete {which}?", default=False, err=True):
            print_text("Nothing was deleted.", err=True)
            return
    problems = []
    for folder in folders:
        try:
            removed = remove_session(folder)
        except (RecordingError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"{folder}: was not deleted: {why}")
            continue
        left = f"; {', '.join(removed.left)} stay, because edgetop did not write them" if removed.left else ""
        print_text(f"deleted {folder}, {formatting.size(removed.freed_bytes)}{left}")
    if problems:
        raise OutputError("; ".join(problems), "the others were deleted" if len(problems) < len(folders) else "")


def _found(given: str, *, whole: bool) -> Path:
    """Return the folder of the session that the user named. Raises InputError if there is none.

    If `whole` is true, `given` must be a complete name or id. If it is false, the beginning of a name or id suffices.
    """
    home = recordings_home()
    for path in (Path(given), Path(given + SUFFIX), home / given, home / (given + SUFFIX)) if given else ():
        if path.name.endswith(SUFFIX) and _is_half_removed(path):
            return path
    folder = locate(given, home)
    if not is_real_folder(folder):
        raise InputError(f"{given}: is a link", f"name the folder itself: {folder.resolve()}")
    name = folder.name.removesuffix(SUFFIX)
    if whole and Path(given).name.removesuffix(SUFFIX) != name and given != _id_of(folder):
        raise InputError(f"{given}: is only the beginning of {name}", f"edgetop rm {session_word(folder)} --yes")
    return folder


def _is_half_removed(folder: Path) -> bool:
    """Whether a removal of the session was begun and interrupted.

    If so, other commands cannot find the session any more.
    """
    try:
        with contextlib.closing(SessionFiles(folder)) as files:
            return files.is_half_removed
    except (OSError, ValueError):
        return False


def _refuse_recorded(folder: Path) -> None:
    """Raise InputError if a process is recording the session, or a session that continues it."""
    name = folder.name.removesuffix(SUFFIX)
    if is_live(folder):
        raise InputError(f"{name}: is being recorded", f"edgetop stop {session_word(folder)} ends it")
    following = successor(folder) if (folder / MANIFEST).is_file() else None
    if following and is_live(following):
        after = following.name.removesuffix(SUFFIX)
        raise InputError(f"{name}: its run goes on in {after}", f"edgetop stop {session_word(following)} ends the run")


def _listing(folders: Sequence[Path]) -> list[str]:
    rows = []
    for folder in folders:
        began = duration = UNKNOWN
        with contextlib.suppress(InputError):
            manifest = read_manifest(folder)
            began = manifest.began_utc[:16].replace("T", " ")
            duration = UNKNOWN if manifest.duration_ns is None else formatting.clock_time(manifest.duration_ns)
        size = UNKNOWN
        with contextlib.suppress(OSError), contextlib.closing(SessionFiles(folder)) as files:
            size = formatting.size(files.own_bytes)
        rows.append((clean(str(folder)), clean(began), duration, size))
    return list(table(("SESSION", "DATE", "DURATION", "SIZE"), rows, ("SESSION", "DATE")))


def _id_of(folder: Path) -> str | None:
    try:
        return read_manifest(folder).id
    except InputError:
        return None
