"""Map a model file into memory, so that only the used parts are read from the disk."""

import mmap
from pathlib import Path

from edgetop.errors import InputError


def map_file(path: Path) -> memoryview:
    """Return a view of a file's bytes, mapped into memory. Nothing is read until it is used.

    Raises InputError if the file is empty or cannot be opened.
    """
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:
        raise InputError(f"{path}: is empty") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
