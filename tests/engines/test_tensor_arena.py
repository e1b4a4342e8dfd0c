"""The arena of a real interpreter, by the places of its tensors or by the growth of its memory."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.child.adapters.tflite import LiteRt
from edgetop.engines.child.tensor_arena import covered_bytes, placed_bytes
from tests.support.built_models.tflite_file import TfliteFile, table

SIDE = 256
BYTES = 4 * SIDE * SIDE


def three_steps(path: Path) -> str:
    """Three activations one after the other, each of 256 KiB, so that two of them live at a time, and a weight."""
    file = TfliteFile("steps")
    graph = file.add_graph("main")
    tensors = [graph.add_tensor(f"t{number}", (SIDE, SIDE)) for number in range(5)]
    weight = graph.add_tensor("weight", (SIDE, SIDE), data=np.ones((SIDE, SIDE), np.float32))
    graph.add_operator("ADD", table("AddOptions"), [tensors[0], weight], [tensors[1]])
    for source, target in itertools.pairwise(tensors[1:]):
        graph.add_operator("LOGISTIC", None, [source], [target])
    graph.set_signature([tensors[0]], [tensors[4]])
    path.write_bytes(file.serialise())
    return str(path)


def opened(path: str, *, xnnpack: bool) -> LiteRt:
    adapter = LiteRt()
    adapter.open({"model": path, "threads": 1, "providers": [], "delegates": [], "xnnpack": xnnpack})
    adapter.reshape({"t0": [SIDE, SIDE]})
    return adapter


def test_without_a_delegate_the_places_of_tensors_tell_the_arena(tmp_path: Path) -> None:
    adapter = opened(three_steps(tmp_path / "steps.tflite"), xnnpack=False)
    arena = adapter.arena()
    assert arena
    assert arena[1] == "tensors"
    assert 2 * BYTES <= arena[0] <= 5 * BYTES  # the weight is in the file
    adapter.interpreter.invoke()  # no tensor is held


def test_with_a_delegate_it_is_the_growth_of_memory(tmp_path: Path) -> None:
    arena = opened(three_steps(tmp_path / "steps.tflite"), xnnpack=True).arena()
    assert arena
    assert arena[1] == "growth"


@pytest.mark.parametrize("maps", ["/nowhere", "/dev/null"])
def test_if_weights_cannot_be_told_from_the_rest_the_places_do_not_count(maps: str, tmp_path: Path) -> None:
    adapter = opened(three_steps(tmp_path / "steps.tflite"), xnnpack=False)
    assert placed_bytes(adapter.interpreter, maps) is None


def test_a_byte_of_several_tensors_counts_once() -> None:
    assert covered_bytes([]) == 0
    assert covered_bytes([(100, 50), (120, 10), (140, 20), (300, 1)]) == 61
