"""Store the outputs of a few extra inferences, made before the warm-up so that they do not delay a timed one.

Each inference has another input: the next file, or the next random numbers. The random numbers do not depend on the
form in which a model takes them. A quantised input gets the same values as a float input, and an image with its
channels last is the same image. A hash of the numbers shows later whether two models were given the same inputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zipfile
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from . import message_frames
from .engine_error import EngineError, one_line
from .inputs import InputSet, source_of
from .literals import random_count
from .tensor_values import TEXT, Tensor, below_one, random_array

VERSION = 1
MAX_BYTES = 256 * 1024 * 1024
CHANNELS = (1, 3, 4)


def keep_outputs(
    spec: Dict[str, Any],
    adapter: Any,
    inputs: InputSet,
    shapes: Dict[str, List[int]],
    send: Callable[[int, Dict[str, Any]], None],
    is_over: Callable[[], bool],
) -> None:
    """Run `spec["keep_outputs"]` inferences and write their outputs to the file `spec["outputs_file"]`.

    `adapter` runs the model with `inputs`. `shapes` are the inputs' shapes by name. `send` sends a message to edgetop's
    main process. `is_over` returns whether the run was stopped. Afterwards the first input is bound again. Raises
    EngineError("input") if the outputs are too large. Any other failure is sent as a warning.
    """
    if not spec.get("keep_outputs") or not spec.get("outputs_file"):
        return
    try:
        store(spec, adapter, _feeds(spec, adapter, inputs, shapes), send, is_over)
    finally:
        adapter.bind(inputs.first())


def store(
    spec: Dict[str, Any],
    adapter: Any,
    feeds: Iterator[Tuple[Any, str]],
    send: Callable[[int, Dict[str, Any]], None],
    is_over: Callable[[], bool],
) -> None:
    """Run an inference with each of `feeds` and write the outputs to the file `spec["outputs_file"]`.

    `feeds` yields pairs: the inputs of an inference, as `adapter.bind` takes them, and a hash of these inputs. The
    other parameters and the errors are those of `keep_outputs`.
    """
    path = spec["outputs_file"]
    try:
        counts = _Finite()
        size = _write(path + ".partial", spec, adapter, feeds, is_over, counts)
        os.replace(path + ".partial", path)
        text = "outputs of the inferences before the warm-up are kept: {:,} bytes".format(size)
        message = {"severity": "info", "kind": "outputs-kept", "message": text, "data": counts.data()}
        if counts.non_finite:
            warning = {"severity": "warning", "kind": "non-finite-outputs", "message": counts.sentence()}
            send(message_frames.LOG, warning)
    except EngineError:
        raise
    except Exception as error:  # of the disk, or of the runtime, which may be of any type
        text = "outputs are not kept: %s" % one_line(error)
        message = {"severity": "warning", "kind": "outputs-not-kept", "message": text}
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ".partial")
    send(message_frames.LOG, message)


class _Finite:
    """Counts the numbers of all stored outputs, and how many of them are NaN or infinite."""

    def __init__(self) -> None:
        self.elements = self.non_finite = 0
        self._of: Dict[str, List[int]] = {}  # by output: its numbers, and how many of them are not finite

    def add(self, name: str, array: Any) -> None:
        bad = array.size - int(np.isfinite(array).sum())
        self.elements, self.non_finite = self.elements + array.size, self.non_finite + bad
        of = self._of.setdefault(name, [0, 0])
        of[0], of[1] = of[0] + array.size, of[1] + bad

    def data(self) -> Dict[str, int]:
        return {"elements": self.elements, "non_finite": self.non_finite}

    def sentence(self) -> str:
        name, (elements, bad) = max(self._of.items(), key=lambda one: one[1][1] / max(1, one[1][0]))
        share = "all numbers" if bad == elements else "%.2g %% of the numbers" % max(0.01, 100.0 * bad / elements)
        return "%s in output %s are NaN or infinite" % (share, name)


def _write(
    path: str,
    spec: Dict[str, Any],
    adapter: Any,
    feeds: Iterator[Tuple[Any, str]],
    is_over: Any,
    counts: _Finite,
) -> int:
    """Run the inferences whose outputs are kept, and write the outputs to the `.npz` file `path`.

    Return its size in bytes. `spec` has the fields of `EngineSpec` by name. `adapter` runs the model. `feeds` yields
    the inputs of each inference and a hash of their numbers. `counts` counts the outputs that are NaN or infinite. The
    file has the arrays `about` (a description) and `inputs` (the hashes), and `NNNNN-K` for output K of inference
    NNNNN. Raises EngineError("input") if the outputs are too large, and InterruptedError when `is_over` returns True.
    """
    wanted, size = spec["keep_outputs"], 0
    hashes: List[str] = []
    about: Dict[str, Any] = {}
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        for feed, digest in feeds:
            if is_over():
                raise InterruptedError("the run was stopped")
            outputs = adapter.outputs(adapter.bind(feed)())
            arrays = [(name, np.asarray(array), scale, zero) for name, array, scale, zero in outputs]
            numeric = [output for output in arrays if output[1].dtype.kind in "fiub"]
            size += sum(output[1].nbytes for output in numeric)
            expected = size if hashes else size * wanted
            if expected > MAX_BYTES:
                fitting = len(hashes) or int(wanted * MAX_BYTES / expected)
                text = "--keep-outputs %d: they take %s bytes or more, and %s is the most"
                text = text % (wanted, format(expected, ","), format(MAX_BYTES, ","))
                advice = (
                    "keep fewer: --keep-outputs %d" % fitting if fitting else "those of one inference are too large"
                )
                raise EngineError("input", text, advice)
            if not hashes:
                others = [output[0] for output in arrays if output[1].dtype.kind not in "fiub"]
                about = _about(spec, adapter, numeric, others)
            for place, output in enumerate(numeric):
                _add(archive, "%05d-%d" % (len(hashes), place), output[1])
                counts.add(output[0], output[1])
            hashes.append(digest)
        _add(archive, "inputs", np.array(hashes))
        _add(archive, "about", np.array(json.dumps(about)))
    return int(size)


def _about(spec: Dict[str, Any], adapter: Any, numeric: List[Any], left_out: List[str]) -> Dict[str, Any]:
    if not numeric:
        raise EngineError("input", "--keep-outputs: the model has no output that is an array of numbers")
    return {
        "version": VERSION,
        "outputs": [
            {"name": name, "scale": float(scale), "zero_point": int(zero)} for name, _, scale, zero in numeric
        ],
        "left_out": left_out,  # sequences, maps and texts
        "inputs": [dict(tensor.describe(), source=source_of(tensor, spec["inputs"])) for tensor in adapter.inputs],
        "seed": spec["seed"],
    }  # fmt: skip


def _add(archive: Any, name: str, array: Any) -> None:
    with archive.open(name + ".npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


def _feeds(
    spec: Dict[str, Any], adapter: Any, inputs: InputSet, shapes: Dict[str, List[int]]
) -> Iterator[Tuple[Dict[str, Any], str]]:
    """Yield, for each inference whose outputs are kept, its inputs by name and a hash of their numbers.

    `spec` has the fields of `EngineSpec` by name. `shapes` are the inputs' shapes by name. If no input is random, each
    set of inputs is used once, so there may be fewer inferences than the user wants.
    """
    rng = np.random.RandomState(spec["seed"])
    drawn = [tensor for tensor in adapter.inputs if random_count(source_of(tensor, spec["inputs"]))]
    count = spec["keep_outputs"] if drawn else min(spec["keep_outputs"], inputs.length)
    for position in range(count):
        feed, digests = {}, []
        for tensor in adapter.inputs:
            if tensor in drawn:
                feed[tensor.name], numbers = draw(rng, tensor, shapes[tensor.name])
            else:
                array = feed[tensor.name] = inputs.at(tensor.name, position)
                scale, zero = tensor.quantisation
                if tensor.dtype == TEXT:
                    array = np.frombuffer("\0".join(map(str, array.ravel())).encode(), np.uint8)
                numbers = (np.asarray(array, np.float64) - zero) * scale if scale else np.asarray(array)
                numbers = numbers.transpose(0, 3, 1, 2) if _channels_last(array.shape) else numbers
            numbers = np.ascontiguousarray(numbers, np.complex128 if numbers.dtype.kind == "c" else np.float64)
            # A runtime without a batch dimension takes the same input as others do in a batch of one.
            shape = (1, *numbers.shape) if getattr(adapter, "lacks_batch", False) else numbers.shape
            digests.append(hashlib.sha256(repr(shape).encode() + numbers.tobytes()).hexdigest())
        yield feed, hashlib.sha256("".join(sorted(digests)).encode()).hexdigest()


def draw(rng: Any, tensor: Tensor, shape: List[int]) -> Tuple[Any, Any]:
    """Return a random input twice: as the array that the model takes, and as plain numbers.

    `rng` draws the numbers. The plain numbers are not quantised, and the channels of an image come first.
    """
    is_last = _channels_last(shape)
    first = [shape[0], shape[3], shape[1], shape[2]] if is_last else shape
    scale, zero = tensor.quantisation
    if scale:
        numbers, limits = rng.random_sample(first), np.iinfo(tensor.dtype)
        array = np.clip(np.round(numbers / scale) + zero, limits.min, limits.max).astype(tensor.dtype)
    elif tensor.dtype.kind == "f":
        numbers = rng.random_sample(first)
        array = below_one(numbers.astype(tensor.dtype))
    else:
        array = numbers = random_array(rng, first, tensor.dtype, tensor.ids_below)
    # `ascontiguousarray` would make a scalar one-dimensional.
    return np.asarray(array.transpose(0, 2, 3, 1) if is_last else array, order="C"), numbers


def _channels_last(shape: Any) -> bool:
    """Whether a shape is an image's in TFLite's order: [batch, height, width, channels]."""
    return len(shape) == 4 and shape[3] in CHANNELS and shape[1] not in CHANNELS
