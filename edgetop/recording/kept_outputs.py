"""Reading and copying of the model outputs that `run --keep-outputs` stores as a numpy file (`edgetop help format`)."""

import contextlib
import json
import os
import shutil
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgetop.errors import InputError
from edgetop.files import open_regular
from edgetop.formatting import clean
from edgetop.session.outputs import Array, KeptOutputs, Output
from edgetop.session.turns import SIDES

OUTPUTS = "outputs.npz"
MAX_BYTES, MAX_INFERENCES, MAX_OUTPUTS = 512 * 1024 * 1024, 100_000, 1_000


def outputs_file(side: str = "") -> str:
    """Return the name of the file with a session's stored model outputs.

    `side` is "A" or "B" in an A/B session, and "" in any other session.

    >>> outputs_file(), outputs_file("A")
    ('outputs.npz', 'outputs-a.npz')
    """
    return f"outputs-{side.lower()}.npz" if side else OUTPUTS


_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, MemoryError)


def read_outputs(folder: Path, side: str = "") -> KeptOutputs | None:
    """Return the stored model outputs of the session in `folder`, or None if there are none.

    `side` is "A" or "B" in an A/B session, and "" in any other session. Raises InputError if the file is damaged.
    """
    path = folder / outputs_file(side)
    try:
        return _opened(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except _UNREADABLE as error:
        raise InputError(f"{path}: no outputs that a run kept: {clean(str(error))}") from None


def copy_outputs(folder: Path, into: Path) -> list[str]:
    """Copy the stored model outputs of a session from `folder` to `into`, for all variants of an A/B session.

    Return a sentence for each file that cannot be read. Raises OSError if a copy cannot be written.
    """
    problems = []
    for name in map(outputs_file, ("", *SIDES)):
        try:
            fd = open_regular(folder / name)
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{folder / name}: cannot be read: {error.strerror or error}")
            continue
        with os.fdopen(fd, "rb") as source, (into / name).open("xb") as copy:
            shutil.copyfileobj(source, copy)
    return problems


def _opened(path: Path) -> KeptOutputs:
    with contextlib.ExitStack() as stack:
        handle = stack.enter_context(os.fdopen(open_regular(path), "rb"))
        file = np.load(handle, allow_pickle=False)
        if sum(member.file_size for member in file.zip.infolist()) > MAX_BYTES:
            raise ValueError("it is too large")
        about = json.loads(str(file["about"]))
        outputs = tuple(
            Output(str(one["name"]), float(one["scale"]), int(one["zero_point"])) for one in about["outputs"]
        )
        inputs = tuple(map(str, file["inputs"].tolist()))
        if not outputs or not inputs or len(outputs) > MAX_OUTPUTS or len(inputs) > MAX_INFERENCES:
            raise ValueError("it holds no outputs, or too many")
        # x [1,3,224,224] float32 random; seed 0
        fed = [f"{i['name']} {str(i['shape']).replace(' ', '')} {i['dtype']} {i['source']}" for i in about["inputs"]]
        text = clean(f"{', '.join(fed)}; seed {about['seed']}")
        left_out = tuple(map(str, about.get("left_out", ())))[:MAX_OUTPUTS]
        kept = KeptOutputs(outputs, inputs, text, partial(_array, file, path), left_out)
        file.fid = handle  # closing `file` now closes the handle too
        stack.pop_all()
        return kept


def _array(file: Any, path: Path, inference: int, place: int) -> Array:
    try:
        array: Array = file[f"{inference:05}-{place}"]
    except (OSError, *_UNREADABLE) as error:
        raise InputError(f"{path}: damaged: {clean(str(error))}") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{path}: damaged: {clean(f'{array.dtype} is no number')}")
    return array
