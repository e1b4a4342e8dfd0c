"""Every session that can be found: those at home, and those that were recorded elsewhere.

A session elsewhere leaves a link under its id in `sessions/` at home, when it begins or is moved. A link
that leads to no session any more is removed.
"""

import contextlib
from collections.abc import Iterable
from pathlib import Path

from edgetop.errors import InputError
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
        try:
            folder = link.readlink()
            if read_manifest(folder).id == link.name:
                folders.append(folder)
                continue
        except (InputError, OSError):
            pass
        _forget(link)
    return folders


def _forget(link: Path) -> None:
    try:
        link.unlink()
    except OSError:  # another has done it, or it may not be
        return


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
