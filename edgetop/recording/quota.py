"""How much room the sessions of a folder may take together: `--sessions-quota`.

Those that are in a lake (`edgetop push`) go first, then the others, the oldest first. One that is being written never
goes, and neither does anything that is not a session.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from edgetop import formatting
from edgetop.errors import InputError
from edgetop.paths import bytes_below
from edgetop.recording.files import SUFFIX, is_live, is_real_folder, read_manifest

PUSHED = "pushed.json"  # in the folder of a session, written by `edgetop push` when the lake has all of it


def keep_within(home: Path, quota_bytes: int, told: Callable[[str], None], spared: Collection[Path] = ()) -> None:
    """Remove sessions in `home` until the rest fits, or nothing more can go. `told` hears of each, in words."""
    sizes = {folder: bytes_below(folder) for folder in home.glob(f"*{SUFFIX}") if is_real_folder(folder)}
    left = sum(sizes.values())
    if left <= quota_bytes:
        return
    kept = {os.path.realpath(folder) for folder in spared}
    for folder in _dispensable(sizes):
        if left <= quota_bytes:
            return
        if os.path.realpath(folder) in kept or is_live(folder):
            continue
        is_pushed = (folder / PUSHED).exists()
        shutil.rmtree(folder, ignore_errors=True)
        left -= sizes[folder] - bytes_below(folder)
        size, which = formatting.size(sizes[folder]), "pushed" if is_pushed else "oldest"
        told(f"removed {folder.name}, the {which} one, {size}: the sessions took more than --sessions-quota")


def _dispensable(folders: Collection[Path]) -> list[Path]:
    """In the order in which they may go; without those of which nothing can be read."""
    found = []
    for folder in folders:
        with contextlib.suppress(InputError):
            found.append((not (folder / PUSHED).is_file(), read_manifest(folder).created_utc, folder))
    return [folder for _, _, folder in sorted(found)]
