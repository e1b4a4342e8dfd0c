"""Operators cut out of a file: each runs by itself as it does in the model, and what cannot is told."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child.adapters.tflite import LiteRt
from edgetop.engines.child.profilers import Allowance, ProfilingError
from edgetop.engines.child.profilers.tflite_slices import ENOUGH_RUNS, RUNS, Service, TfliteFile, parts, run_with
from edgetop.engines.spec import EngineSpec
from tests.support import tflite_models


def service(folder: Path, content: bytes, **options: Any) -> Service:
    model = folder / "model.tflite"
    model.write_bytes(content)
    return Service(EngineSpec(str(model), "tflite", engine="litert", threads=1, **options).to_json(), LiteRt())


def described(service: Service) -> dict[str, Any]:
    service.make_ready()
    return service.burst(Allowance(10**9, lambda: False))


def test_operators_one_after_the_other_give_what_the_model_gives() -> None:
    content = tflite_models.tflite_mixed()
    file = TfliteFile(content)
    x = np.random.default_rng(0).random((1, 16, 16, 4), np.float32)
    whole = Interpreter(model_content=content)
    run_with(whole, [x])
    tensors = {file.inputs[0]: x}
    for part in parts(file):
        alone = Interpreter(model_content=file.cut(part.operators, part.inputs, part.outputs))
        run_with(alone, [tensors[tensor] for tensor in part.inputs])
        detail = alone.get_output_details()[0]
        tensors[part.outputs[0]] = alone.get_tensor(detail["index"])
    np.testing.assert_allclose(
        tensors[part.outputs[0]], whole.get_tensor(whole.get_output_details()[0]["index"]), rtol=1e-4, atol=1e-5
    )


def test_constant_operators_belong_to_their_users() -> None:
    """The model's first operator makes floats of a bias, which both convolutions have."""
    assert [part.operators for part in parts(TfliteFile(tflite_models.tflite_mixed()))] == [
        [0, 1],
        [2],
        [0, 3],
        [4],
        [5],
    ]


def test_every_operator_has_the_models_own_name_and_who_runs_it(tmp_path: Path) -> None:
    found = described(service(tmp_path, tflite_models.tflite_mixed()))
    assert [row[:3] for row in found["operators"]] == [
        ["a", "CONV_2D", "CPU"],
        ["b", "CUMSUM", "CPU"],
        ["c", "CONV_2D", "CPU"],
        ["d", "TANH", "XNNPACK"],
        ["y", "ADD", "XNNPACK"],
    ]
    runs = found["run_ns"]
    assert ENOUGH_RUNS <= len(runs) <= RUNS
    assert {row[3] for row in found["operators"]} == {len(runs)}
    assert sum(runs) == sum(row[4] for row in found["operators"])


def test_it_is_called_an_estimate(tmp_path: Path) -> None:
    assert service(tmp_path, tflite_models.tflite_tiny()).way.startswith("estimate (isolated): ")


def test_what_cannot_run_by_itself_is_left_out_and_named(tmp_path: Path) -> None:
    """Without the graph that gives a variable its value, it cannot be read."""
    found = service(tmp_path, tflite_models.tflite_stateful())
    assert "cannot be run so and are left out (" in found.way
    assert "before: " in found.way
    assert [row[1] for row in described(found)["operators"]] == ["ADD"]


def test_shapes_that_the_file_has_not_are_those_of_the_session(tmp_path: Path) -> None:
    found = service(tmp_path, tflite_models.tflite_dynamic_batch(), batch=3)
    assert [list(array.shape) for array in found._parts[0].arrays] == [[3, 8]]
    assert described(found)["operators"]


def test_inputs_are_those_of_the_engine(tmp_path: Path) -> None:
    np.save(tmp_path / "index.npy", np.array([3], np.int32))
    found = service(tmp_path, tflite_models.tflite_gather(), inputs={"index": str(tmp_path / "index.npy")})
    assert found._parts[0].arrays[0].tolist() == [3]


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=64), st.integers(0, 400), st.integers(0, 2**32 - 1))
def test_a_file_that_is_damaged_is_refused_or_cut_and_never_more(junk: bytes, place: int, word: int) -> None:
    content = bytearray(tflite_models.tflite_tiny())
    place = min(place * 4, len(content) - 4)
    content[place : place + 4] = word.to_bytes(4, "little")
    for damaged in (junk, bytes(content), bytes(content[:place])):
        with contextlib.suppress(ProfilingError):
            file = TfliteFile(damaged)
            for part in parts(file):
                file.cut(part.operators, part.inputs, part.outputs)
