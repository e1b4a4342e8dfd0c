"""The folder of a sweep: how it is made, and how it is locked so that only one process runs the sweep."""

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from edgetop.cli.shell_words import path_word
from edgetop.errors import InputError, OutputError
from edgetop.files import why
from edgetop.paths import recordings_home
from edgetop.sweep_plan import hold


def new_folder(output: Path | None, name: str, suffix: str = "", advice: str = "") -> Path:
    """Create the folder of a sweep or a soak, and return its path.

    `output` is the path that the user gave. Without `output`, the folder is in the recordings folder and is called
    `name` and the time. `suffix` is appended, such as `.sweep`. Raises InputError with `advice` if the folder exists;
    {} in the advice stands for the folder. Raises OutputError if it cannot be created.
    """
    path = output or recordings_home() / f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    path = Path(os.path.abspath(path))  # noqa: PTH100  links are kept
    folder = path if path.suffix == suffix else path.with_name(path.name + suffix)
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise InputError(f"{folder}: already exists", advice.format(path_word(folder))) from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be created: {error.strerror}") from None
    return folder


@contextlib.contextmanager
def held_folder(folder: Path) -> Iterator[None]:
    """Lock the sweep in `folder` during the `with` statement, so that only one process runs it.

    Raises InputError if another process holds the lock.
    """
    try:
        fd = hold(folder)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be locked: {why(error)}") from None
    if fd is None:
        raise InputError(f"{folder}: this sweep is already running", f"edgetop stop {path_word(folder)} ends it")
    try:
        yield
    finally:
        os.close(fd)
