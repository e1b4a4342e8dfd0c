"""Outputs that are kept: of a few inferences of their own before the warm-up, so that no timed one pays for them.

Each is fed with an input of its own: the next file, or the next draw of the seed. Draws do not depend on how a model
takes its numbers: an input that is quantised is given the numbers that another has as floats, and images whose
channels come last are the same images. A hash of them tells later whether two models were given the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from . import frames
from .errors import EngineError, one_line
from .inputs import InputSet, Tensor, random_array, source_of

VERSION = 1
MAX_BYTES = 256 * 1024 * 1024
CHANNELS = (1, 3, 4)


def keep_outputs(
    spec: Dict[str, Any],
    adapter: Any,
    inputs: InputSet,
    shapes: Dict[str, List[int]],
    say: Callable[[int, Dict[str, Any]], None],
    is_over: Callable[[], bool],
) -> None:
    """Write the outputs of `spec["keep_outputs"]` inferences to `spec["outputs_file"]`, and bind the first input again.

    Raises EngineError("input") where they are too large. What else fails is said in a line; the run goes on.
    """
    if not spec.get("keep_outputs") or not spec.get("outputs_file"):
        return
    path = spec["outputs_file"]
    try:
        size = _write(path + ".partial", spec, adapter, _feeds(spec, adapter, inputs, shapes), is_over)
        os.replace(path + ".partial", path)
        text, kind = "outputs of the inferences before the warm-up are kept: {:,} bytes".format(size), "outputs-kept"
    except EngineError:
        _remove(path + ".partial")
        raise
    except Exception as error:  # of the runtime, any type it likes; of the disk
        _remove(path + ".partial")
        text, kind = "outputs are not kept: %s" % one_line(error), "outputs-not-kept"
    finally:
        adapter.bind(inputs.first())
    severity = "info" if kind == "outputs-kept" else "warning"
    say(frames.LOG, {"severity": severity, "kind": kind, "message": text})


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)


def _write(
    path: str, spec: Dict[str, Any], adapter: Any, feeds: Iterator[Tuple[Dict[str, Any], str]], is_over: Any
) -> int:
    """The bytes of all outputs. A file of numpy's: `about`, `inputs`, and `NNNNN-OUTPUT` for each array."""
    asked, size = spec["keep_outputs"], 0
    hashes: List[str] = []
    about: Dict[str, Any] = {}
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for feed, digest in feeds:
            if is_over():
                raise InterruptedError("the run was stopped")
            outputs = adapter.outputs(adapter.bind(feed)())
            arrays = [(name, np.asarray(array), scale, zero) for name, array, scale, zero in outputs]
            kept = [one for one in arrays if one[1].dtype.kind in "fiub"]
            size += sum(one[1].nbytes for one in kept)
            _refuse_too_large(asked, size if hashes else size * asked, len(hashes))
            if not hashes:
                about = _about(spec, adapter, kept, [one[0] for one in arrays if one[1].dtype.kind not in "fiub"])
            for place, one in enumerate(kept):
                _add(archive, "%05d-%d" % (len(hashes), place), one[1])
            hashes.append(digest)
        _add(archive, "inputs", np.array(hashes))
        _add(archive, "about", np.array(json.dumps(about)))
    return int(size)


def _about(spec: Dict[str, Any], adapter: Any, kept: List[Any], left_out: List[str]) -> Dict[str, Any]:
    if not kept:
        raise EngineError("input", "--keep-outputs: the model has no output that is an array of numbers")
    return {
        "version": VERSION,
        "outputs": [
            {"name": name, "scale": float(scale), "zero_point": int(zero)} for name, _, scale, zero in kept
        ],
        "left_out": left_out,  # sequences, maps and texts
        "inputs": [dict(one.describe(), source=source_of(one, spec["inputs"])) for one in adapter.inputs],
        "seed": spec["seed"],
    }  # fmt: skip


def _add(archive: Any, name: str, array: Any) -> None:
    with archive.open(name + ".npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


def _refuse_too_large(asked: int, size: int, done: int) -> None:
    if size > MAX_BYTES:
        fitting = max(1, done or int(asked * MAX_BYTES / size))
        text = "--keep-outputs %d: they take {:,} bytes or more, and {:,} is the most".format(size, MAX_BYTES) % asked
        raise EngineError("input", text, "keep fewer: --keep-outputs %d" % fitting)


def _feeds(
    spec: Dict[str, Any], adapter: Any, inputs: InputSet, shapes: Dict[str, List[int]]
) -> Iterator[Tuple[Dict[str, Any], str]]:
    """Of each inference what it is fed, and a hash of the numbers in it. Files and zeros are not given twice."""
    rng = np.random.RandomState(spec["seed"])
    drawn = [one for one in adapter.inputs if source_of(one, spec["inputs"]) == "random"]
    count = spec["keep_outputs"] if drawn else min(spec["keep_outputs"], inputs.length)
    for position in range(count):
        feed, digests = {}, []
        for tensor in adapter.inputs:
            if tensor in drawn:
                feed[tensor.name], numbers = draw(rng, tensor, shapes[tensor.name])
            else:
                array = feed[tensor.name] = inputs.at(tensor.name, position)
                numbers = dequantised(array, *tensor.quantisation)
                numbers = numbers.transpose(0, 3, 1, 2) if _channels_last(array.shape) else numbers
            numbers = np.ascontiguousarray(numbers, np.complex128 if numbers.dtype.kind == "c" else np.float64)
            digests.append(hashlib.sha256(repr(numbers.shape).encode() + numbers.tobytes()).hexdigest())
        yield feed, hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def draw(rng: Any, tensor: Tensor, shape: List[int]) -> Tuple[Any, Any]:
    """A random input as the model takes it, and its numbers with the channels of an image first."""
    is_last = _channels_last(shape)
    first = [shape[0], shape[3], shape[1], shape[2]] if is_last else shape
    scale, zero = tensor.quantisation
    if scale or tensor.dtype.kind == "f":
        numbers = rng.random_sample(first)
        whole = np.iinfo(tensor.dtype) if scale else None
        array = numbers if whole is None else np.clip(np.round(numbers / scale) + zero, whole.min, whole.max)
        array = array.astype(tensor.dtype)
        if whole is None:  # a double just below 1 becomes 1 when it is rounded to fewer bits
            array = np.minimum(array, np.nextafter(tensor.dtype.type(1), tensor.dtype.type(0)))
    else:
        array = numbers = random_array(rng, first, tensor.dtype)
    # `ascontiguousarray` would make a scalar one-dimensional.
    return np.asarray(array.transpose(0, 2, 3, 1) if is_last else array, order="C"), numbers


def dequantised(array: Any, scale: float, zero: int) -> Any:
    return (np.asarray(array, np.float64) - zero) * scale if scale else np.asarray(array)


def _channels_last(shape: Any) -> bool:
    """An image as TFLite has it: [batch, height, width, channels]."""
    return len(shape) == 4 and shape[3] in CHANNELS and shape[1] not in CHANNELS
