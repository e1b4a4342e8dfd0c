"""Every session that can be found, and which of them a user means: by path, by name, or by enough of its id.

A session elsewhere leaves a link under its id in `sessions/` at home, when it begins or is moved. A link
that leads to no session any more is removed.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.nearest import nearest_hint
from edgetop.recording.files import FOLDER_MODE, MANIFEST, SUFFIX, is_live, read_manifest
from edgetop.session.manifest import Manifest

REGISTER = "sessions"


def register(home: Path, folder: Path, session_id: str) -> None:
    """Have a session found. Raises OSError."""
    folder = folder.absolute()
    if folder.parent.resolve() == home.resolve() and folder.name.endswith(SUFFIX):
        return
    place = home / REGISTER
    place.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    (place / session_id).unlink(missing_ok=True)  # it was moved
    (place / session_id).symlink_to(folder)


def known(home: Path, here: Path | None = None) -> list[Path]:
    """The folders of all sessions at home, registered there, and in `here`; each once."""
    at_home = sorted(path.parent for path in home.glob(f"*{SUFFIX}/{MANIFEST}"))
    near = sorted(path.parent for path in here.glob(f"*{SUFFIX}/{MANIFEST}")) if here else []
    found: dict[Path, Path] = {}
    for folder in (*at_home, *_registered(home), *near):
        found.setdefault(folder.resolve(), folder)
    return list(found.values())


def _registered(home: Path) -> list[Path]:
    folders = []
    try:
        links = sorted((home / REGISTER).iterdir())
    except OSError:
        return []
    for link in links:
        with contextlib.suppress(InputError, OSError):
            folder = link.readlink()
            if read_manifest(folder).id == link.name:
                folders.append(folder)
                continue
        with contextlib.suppress(OSError):  # another has done it, or it may not be
            link.unlink()
    return folders


def live(home: Path, here: Path | None = None) -> list[tuple[Path, Manifest]]:
    """The sessions that run now, the newest first."""
    return newest_first(folder for folder in known(home, here) if is_live(folder))


def newest_first(folders: Iterable[Path]) -> list[tuple[Path, Manifest]]:
    """With their manifests; a folder without one that can be read is left out."""
    found = []
    for folder in folders:
        with contextlib.suppress(InputError):
            found.append((folder, read_manifest(folder)))
    return sorted(found, key=lambda one: one[1].created_utc, reverse=True)


def successor(folder: Path) -> Path | None:
    """The session in which the engine of this one runs on, or ran on: it lies beside it. None: there is none."""
    with contextlib.suppress(InputError):
        if following := read_manifest(folder).followed_by:
            for other in folder.parent.glob(f"*{SUFFIX}"):
                with contextlib.suppress(InputError):
                    if read_manifest(other).id == following:
                        return other
    return None


def locate(given: str, home: Path) -> Path:
    """The session's folder. `home` is where recordings lie unless told otherwise.

    Raises InputError where none or several fit.
    """
    if not given:  # as of a variable that is not set; it begins every name
        raise InputError("an empty name is no session", "give a path, a name, or enough of an id")
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
        raise InputError(f"{given}: fits {len(found)} recordings", _distinct_names(found))
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
            raise InputError(f"{len(running)} sessions run now", f"name one: {_distinct_names(running)}")
        return running[0]
    if "/" not in given and len(found := fitting(given, running)) == 1:
        return found[0]
    return locate(given, home)


def _distinct_names(folders: Sequence[Path]) -> str:
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
