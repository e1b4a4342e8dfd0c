"""Check the files beside an ONNX model that hold its weights: a file may be missing or too short.

Only the sizes of the files are read. A model may come from anybody, so a name that leads out of the model's folder is
not followed. ONNX Runtime refuses such a name too.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Literal

from edgetop.frozen import frozen
from edgetop.models.graph import External

MAX_FILES = 1000  # more than any model has

Problem = Literal["missing", "short", "outside", "no-file"]


@frozen
class ExternalFile:
    name: str  # as the model gives it: a path in the model's folder
    tensors: int  # number of tensors in it
    needed_bytes: int  # size that it must have at least
    size_bytes: int | None  # None if it is not there
    problem: Problem | None


def external_files(external: Mapping[str, External], folder: Path) -> tuple[ExternalFile, ...]:
    """Return the files with weights that a model needs, with their sizes and problems; at most MAX_FILES files.

    `external` has what the model needs of each file, by file name. `folder` is the folder of the model.
    """
    return tuple(_file(name, needs, folder) for name, needs in list(external.items())[:MAX_FILES])


def _file(name: str, needs: External, folder: Path) -> ExternalFile:
    size, problem = _size(name, needs, folder)
    return ExternalFile(name, needs.tensors, needs.needed_bytes, size, problem)


def _size(name: str, needs: External, folder: Path) -> tuple[int | None, Problem | None]:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        return None, "outside"
    try:
        about = os.stat(folder / path)  # noqa: PTH116  a link is followed, as the runtime does
    except OSError:
        return None, "missing"
    if not stat.S_ISREG(about.st_mode):
        return None, "no-file"
    return about.st_size, "short" if about.st_size < needs.needed_bytes else None
