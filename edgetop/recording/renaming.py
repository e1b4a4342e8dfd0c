"""Renaming a recorded session: its folder, and the name in its manifest."""

import contextlib
import json
import os
from pathlib import Path

from edgetop.errors import InputError, RecordingError
from edgetop.files import read_json, why, write_file
from edgetop.paths import component
from edgetop.recording.registry import register
from edgetop.recording.session_folder import (
    FILE_MODE,
    MANIFEST,
    MAX_MANIFEST_BYTES,
    SUFFIX,
    WriterLock,
    is_real_folder,
    read_manifest,
)


def rename_session(folder: Path, name: str, home: Path) -> Path:
    """Rename the session in `folder`, within the same parent folder. Return its new folder.

    A link to the session in `home`, the default folder of recordings, is updated. Raises InputError if `name` cannot be
    used, or RecordingError if a process is writing the session or the folder cannot be renamed.
    """
    if not is_real_folder(folder):
        raise InputError(f"{folder}: is a link", f"name the folder itself: {folder.resolve()}")
    target = folder.with_name(component(name.removesuffix(SUFFIX), "the name") + SUFFIX)
    if os.path.lexists(target):
        raise InputError(f"{target.name}: exists already", "choose another name")
    manifest = read_manifest(folder)
    try:
        lock = WriterLock(folder)
        try:
            document = read_json(folder / MANIFEST, MAX_MANIFEST_BYTES)  # not the Manifest, which may know fewer keys
            _write(folder, {**document, "name": target.name.removesuffix(SUFFIX)})
            try:
                folder.rename(target)
            except OSError:
                _write(folder, document)
                raise
        finally:
            lock.release()
    except (OSError, ValueError) as error:
        raise RecordingError(f"{folder}: cannot be renamed: {why(error)}") from None
    with contextlib.suppress(OSError, InputError):  # it is found where it is
        register(home, target, manifest.id)
    return target


def _write(folder: Path, document: object) -> None:
    write_file(folder / MANIFEST, json.dumps(document, indent=1), FILE_MODE)
