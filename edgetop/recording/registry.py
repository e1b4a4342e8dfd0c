"""Finding sessions by path, by name or by the beginning of their id, and storing short results of them.

Home is the default folder of recordings. A session elsewhere has a link in `sessions/` at home, named by the session's
id. A link that no longer leads to a session is removed.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetop import __version__
from edgetop.errors import InputError
from edgetop.files import read_json, write_file
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint
from edgetop.paths import component, is_there
from edgetop.recording.removal import OUTCOME
from edgetop.recording.session_folder import (
    FOLDER_MODE,
    MANIFEST,
    SUFFIX,
    is_live,
    read_manifest,
)
from edgetop.session.manifest import Manifest, built

REGISTER = "sessions"
_MOST_NAMED = 10  # most names listed in the message about an unknown name


def register(home: Path, folder: Path, session_id: str) -> None:
    """Make a link in `home`, so that the session in `folder` can be found by its name or id.

    If `folder` is in `home`, nothing is done. Raises OSError, or InputError if the id cannot be a file name.
    """
    folder = folder.absolute()
    if folder.parent.resolve() == home.resolve() and folder.name.endswith(SUFFIX):
        return
    place = home / REGISTER
    place.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    link = place / component(session_id, "the id")
    if link.is_symlink():  # the session was moved
        link.unlink()
    link.symlink_to(folder)


def all_sessions(home: Path, here: Path | None = None) -> list[Path]:
    """Return the folders of all known sessions: those in `home`, those with a link there, and those in `here`.

    `home` is the default folder of recordings. Each session is returned once. Raises InputError if `home` exists and
    cannot be read.
    """
    near: list[Path] = []
    try:
        at_home = _sessions_in(home)
    except OSError as error:
        advice = "XDG_STATE_HOME names another place for recordings"
        raise InputError(f"{home}: cannot be read: {error.strerror}", advice) from None
    if here:
        with contextlib.suppress(OSError):
            near = _sessions_in(here)
    folders: dict[Path, Path] = {}
    for folder in (*at_home, *_registered(home), *near):
        folders.setdefault(folder.resolve(), folder)
    return list(folders.values())


def _sessions_in(folder: Path) -> list[Path]:
    """Return the session folders in a folder, or [] if the folder does not exist.

    Raises OSError if the folder cannot be read.
    """
    try:
        entries = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in entries if is_there(path / MANIFEST)]


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
        with contextlib.suppress(OSError):  # another process has removed it, or this one may not
            if link.is_symlink():
                link.unlink()
    return folders


def live_sessions(home: Path, here: Path | None = None) -> list[tuple[Path, Manifest]]:
    """Return folder and manifest of each session that runs now, the newest first.

    `home` is the default folder of recordings, and `here` another folder or None.
    """
    return newest_first(folder for folder in all_sessions(home, here) if is_live(folder))


def newest_first(folders: Iterable[Path]) -> list[tuple[Path, Manifest]]:
    """Return folder and manifest of each session with a readable manifest, the newest first."""
    sessions = [(folder, manifest) for folder in folders if (manifest := _manifest_of(folder))]
    return sorted(sessions, key=lambda session: session[1].began_utc, reverse=True)


def _manifest_of(folder: Path) -> Manifest | None:
    try:
        return read_manifest(folder)
    except InputError:
        return None


def successor(folder: Path) -> Path | None:
    """Return the folder of the session that continues this session (`--rotate`), or None if there is none.

    Only the same parent folder is searched.
    """
    manifest = _manifest_of(folder)
    if manifest is None or not manifest.followed_by:
        return None
    others = ((other, _manifest_of(other)) for other in folder.parent.glob(f"*{SUFFIX}"))
    # A successor must have begun later on the same clock, so a chain of successors always ends.
    return next(
        (
            other for other, found in others
            if found and found.id == manifest.followed_by
            and found.clock.origin_monotonic_ns > manifest.clock.origin_monotonic_ns
        ),
        None,
    )  # fmt: skip


def locate(given: str, home: Path) -> Path:
    """Return the folder of the session that a user named.

    `given` is a path, a name, or the beginning of a name or id. `home` is the default folder of recordings. Raises
    InputError if no session matches, or several do.
    """
    if not given:  # such as an unset variable of the shell; every name begins with ""
        raise InputError("an empty name is no session", "give a path, a name, or enough of an id")
    for path in (Path(given), Path(given + SUFFIX), home / given, home / (given + SUFFIX)):
        with contextlib.suppress(OSError):  # no file can have that name
            if (path / MANIFEST).is_file():
                return path
    owners = (_other_owner(Path(path)) for path in (given, given + SUFFIX))
    if (owner := next((uid for uid in owners if uid is not None), None)) is not None:
        raise InputError(f"{given}: belongs to another user (uid {owner})", "ask as that user, or as root")
    if os.path.lexists(given):
        raise InputError(f"{given}: not a recorded session (no {MANIFEST})")
    recorded = all_sessions(home)
    matches = matching(given, recorded)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f"{given}: fits {len(matches)} recordings", _distinct_names(matches))
    names = [path.name.removesuffix(SUFFIX) for path in recorded]
    many = f"edgetop sessions lists the {len(names)} that are known" if len(names) > _MOST_NAMED else ""
    hint = nearest_hint(given, names, many) if names else f"none is recorded in {home}"
    raise InputError(f"{given}: no such recording", hint)


def matching(given: str, folders: Sequence[Path]) -> list[Path]:
    """Return the folders of the sessions whose name is `given`, or else of those whose name or id begins with `given`.

    For an id, `given` needs at least four characters.
    """
    named = [path for path in folders if given in (path.name, path.name.removesuffix(SUFFIX))]
    if named:
        return named
    has_id = len(given) >= 4
    return [
        path for path in folders
        if path.name.startswith(given) or (has_id and (found := _manifest_of(path)) and found.id.startswith(given))
    ]  # fmt: skip


def locate_live(given: str | None, home: Path) -> Path:
    """Return the folder of the session that a user named. Of several that match, the only one that runs now is taken.

    `given` is a path, a name, or the beginning of a name or id; None means the only session that runs. `home` is the
    default folder of recordings. Raises InputError if no session matches, or several do.
    """
    running = [folder for folder, _ in live_sessions(home, Path.cwd())]
    if given is None:
        if not running:
            raise InputError("no session runs now", "edgetop sessions lists what was recorded")
        if len(running) > 1:
            raise InputError(f"{len(running)} sessions run now", f"name one: {_distinct_names(running)}")
        return running[0]
    if "/" not in given and len(matches := matching(given, running)) == 1:
        return matches[0]
    return locate(given, home)


def _distinct_names(folders: Sequence[Path]) -> str:
    """Return the names of the first five folders as text, or their paths if two names are equal."""
    names = [path.name for path in folders]
    return ", ".join(names[:5] if len(set(names)) == len(names) else map(str, folders[:5]))


def _other_owner(folder: Path) -> int | None:
    """Return the uid of the other user who owns `folder`, if this user may not enter the folder, else None."""
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return None
    denied = stat.S_ISDIR(status.st_mode) and not os.access(folder, os.X_OK)
    return status.st_uid if denied and status.st_uid != os.geteuid() else None


MAX_OUTCOME_BYTES = 4096


@frozen
class Outcome:
    """The short result of one session, stored beside the tables to make `edgetop sessions` fast.

    The stored file may be deleted at any time. The file is valid only for the manifest and the version of edgetop from
    which it was made.
    """

    verdict: str  # in a few words: "throttled 6x, 22 %"
    p50_ms: float | None = None  # None if nothing was measured
    p99_ms: float | None = None


def read_outcome(folder: Path) -> Outcome | None:
    """Return the stored short result of the session in `folder`, or None without a valid one."""
    try:
        document: Any = read_json(folder / OUTCOME, MAX_OUTCOME_BYTES)
        return built(Outcome, document, OUTCOME) if document.pop("of") == _basis(folder) else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Store a short result beside the session's tables. Errors are ignored."""
    with contextlib.suppress(OSError):
        write_file(folder / OUTCOME, json.dumps(asdict(outcome) | {"of": _basis(folder)}), durable=False)


def _basis(folder: Path) -> list[Any]:
    status = (folder / MANIFEST).stat()
    return [__version__, status.st_size, status.st_mtime_ns]
