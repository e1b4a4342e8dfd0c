"""Which recording a user means: by path, by name, or by enough of its id."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.nearest import nearest_hint
from edgetop.recording.files import MANIFEST, SUFFIX, read_manifest
from edgetop.recording.registry import known, live


def locate(given: str, home: Path) -> Path:
    """The session's folder. `home` is where recordings lie unless told otherwise.

    Raises InputError where none or several fit.
    """
    for path in (Path(given), Path(given + SUFFIX), home / given, home / (given + SUFFIX)):
        if _is_recording(path):
            return path
    owners = (_other_owner(Path(path)) for path in (given, given + SUFFIX))
    if (owner := next((uid for uid in owners if uid is not None), None)) is not None:
        raise InputError(f"{given}: belongs to another user (uid {owner})", "ask as that user, or as root")
    if os.path.lexists(given):
        raise InputError(f"{given}: not a recorded session (no {MANIFEST})")
    recorded = known(home)
    found = fitting(given, recorded)
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{given}: fits {len(found)} recordings", _told_apart(found))
    names = [path.name.removesuffix(SUFFIX) for path in recorded]
    hint = nearest_hint(given, names) if names else f"none is recorded in {home}"
    raise InputError(f"{given}: no such recording", hint)


def fitting(given: str, folders: Sequence[Path]) -> list[Path]:
    """Those with that name; if none has, those whose name or id begins so."""
    named = [path for path in folders if given in (path.name, path.name.removesuffix(SUFFIX))]
    return named or [path for path in folders if path.name.startswith(given) or _has_id(path, given)]


def locate_live(given: str | None, home: Path) -> Path:
    """The session's folder, of those that run where several fit; of None, the only one that runs.

    Raises InputError where none or several fit. One that is named need not run.
    """
    running = [folder for folder, _ in live(home, Path.cwd())]
    if given is None:
        if not running:
            raise InputError("no session runs now", "edgetop sessions lists what was recorded")
        if len(running) > 1:
            raise InputError(f"{len(running)} sessions run now", f"name one: {_told_apart(running)}")
        return running[0]
    if "/" not in given and len(found := fitting(given, running)) == 1:
        return found[0]
    return locate(given, home)


def _told_apart(folders: Sequence[Path]) -> str:
    """The first few, by their names where these differ."""
    names = [path.name for path in folders]
    return ", ".join(names[:5] if len(set(names)) == len(names) else map(str, folders[:5]))


def _other_owner(folder: Path) -> int | None:
    """Whose folder it is that this user may not enter."""
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return None
    denied = stat.S_ISDIR(status.st_mode) and not os.access(folder, os.X_OK)
    return status.st_uid if denied and status.st_uid != os.geteuid() else None


def _is_recording(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).is_file()
    except OSError:  # no file can have that name
        return False


def _has_id(folder: Path, given: str) -> bool:
    try:
        return len(given) >= 4 and read_manifest(folder).id.startswith(given)
    except InputError:
        return False
