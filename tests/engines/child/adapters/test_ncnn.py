"""ncnn runs what its two files say, and what it refuses."""

from pathlib import Path
from typing import Any

import ncnn
import numpy as np
import pytest

from edgetop.comparison.output_agreement import compare_outputs
from edgetop.engines.child.adapters import choose
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.engine_protocol import BurstTaken, Ended, Failed, Loaded, ProfilerChosen
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.recording.kept_outputs import outputs_file, read_outputs
from tests.support.engine_runs import run_until_a_burst, run_whole
from tests.support.ncnn_models import BIAS, WEIGHTS, in_place, write_products
from tests.support.openvino_models import write_products as write_ir


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_products(tmp_path / "net.param")


def opened(path: Path, providers: Any = ()) -> Any:
    adapter, _ = choose("ncnn", "ncnn")
    adapter.open({"model": str(path), "threads": 1, "providers": providers, "delegates": [], "xnnpack": True})
    return adapter


FULL = [("CPU", {"fp16": "0", "bf16": "0"})]


def test_it_computes_what_the_model_says(net: Path) -> None:
    adapter = opened(net, FULL)
    assert [(one.name, one.shape, one.dtype_name) for one in adapter.inputs] == [("x", [8], "float32")]
    x = np.random.default_rng(0).random(8, np.float32)
    ((name, y, _, _),) = adapter.outputs(adapter.bind({"x": x})())
    assert name == "y"
    np.testing.assert_allclose(y, np.maximum(WEIGHTS @ x + BIAS, 0), rtol=1e-4, atol=1e-4)


def test_a_layer_that_computes_in_place_leaves_the_input_alone(tmp_path: Path) -> None:
    """A Mat over an array has no count of references: ncnn crashed there, or wrote into the array."""
    path = tmp_path / "net.param"
    path.write_bytes(in_place("x", 4)[0])
    path.with_suffix(".bin").write_bytes(b"")
    adapter, x = opened(path, FULL), np.array([-1, 2, -3, 4], np.float32)
    run = adapter.bind({"x": x})
    for _ in range(2):
        ((_, y, _, _),) = adapter.outputs(run())
        assert y.tolist() == [0, 2, 0, 4]
    assert x.tolist() == [-1, 2, -3, 4]


def test_profiling_takes_no_memory_from_the_pool_of_the_net(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would leave blobs of many sizes there, and later inferences would be 6 to 12 % slower."""
    made = []

    class Counted(ncnn.UnlockedPoolAllocator):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(ncnn, "UnlockedPoolAllocator", Counted)
    adapter = opened(net, FULL)
    adapter.bind({"x": np.zeros(8, np.float32)})
    _, operators = adapter.profile()
    assert [name for name, *_ in operators] == ["product", "relu", "outside operators"]
    assert len(made) == 1


def test_it_says_which_options_it_uses(net: Path) -> None:
    assert opened(net, FULL).describe()["settings"]["fp16"] == "False"


def test_it_runs_as_an_engine_with_its_layers(net: Path) -> None:
    told = run_until_a_burst(EngineSpec(str(net), "ncnn", threads=1, warmup_runs=2, profile_every_ns=10**10, streams=1))
    assert told.one(Loaded).runtime == "ncnn"
    assert told.one(Ended).reason == "stop"
    burst = told.all(BurstTaken)[0]
    assert [operator.name for operator in burst.operators] == ["product", "relu", "outside operators"]
    assert sum(operator.total_ns for operator in burst.operators) == sum(burst.run_ns)
    assert told.one(ProfilerChosen).way.startswith("estimate (extraction): ")


def test_several_streams_share_the_net(net: Path) -> None:
    told = run_whole(ProcessEngine(EngineSpec(str(net), "ncnn", threads=1, warmup_runs=1, runs=4, streams=2)))
    assert set(told.records["stream"]) == {0, 1}
    assert told.records["ok"].all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: path.with_suffix(".bin").unlink(), "its weights are missing"),
        (lambda path: path.with_suffix(".bin").write_bytes(b"\0" * 8), "does not hold all weights"),
        (lambda path: path.write_text("\n".join(path.read_text().splitlines()[:3])), "names 3 layers and has 1"),
        (lambda path: path.write_text("7767517\nx"), "no complete param file"),
        (lambda path: path.write_text("7767517\n2 2\nInput x 0 1 x\nReLU r 9 1 x y\n"), "no complete param file"),
    ],
)
def test_what_it_refuses_is_one_line(change: Any, words: str, net: Path) -> None:
    change(net)
    failed = run_whole(ProcessEngine(EngineSpec(str(net), "ncnn", warmup_runs=1, runs=3))).one(Failed)
    assert failed.stage == "model"
    assert words in failed.message
    assert "\n" not in failed.message


@pytest.mark.parametrize(
    ("providers", "words"),
    [([("GPU", {})], "ncnn has CPU and Vulkan"), ([("CPU", {"speed": "9"})], "CPU:speed=9: ncnn has fp16=0|1")],
)
def test_unknown_options_are_refused(providers: Any, words: str, net: Path) -> None:
    with pytest.raises(EngineError, match="--provider") as refusal:
        opened(net, providers)
    assert words in refusal.value.message


def test_its_outputs_are_compared_with_those_of_a_batch_of_one(tmp_path: Path) -> None:
    """The same network in ncnn and in OpenVINO, with the same random inputs."""
    kept = []
    for name, path in (("ncnn", write_products(tmp_path / "a.param")), ("openvino", write_ir(tmp_path / "b.xml"))):
        options = {"outputs_file": str(tmp_path / outputs_file(name)), "keep_outputs": 3}
        spec = EngineSpec(str(path), name, threads=1, warmup_runs=1, runs=1, **options)  # type: ignore[arg-type]
        assert run_whole(ProcessEngine(spec)).one(Ended).reason == "runs"
        kept.append(read_outputs(tmp_path, name))
    (agreement,) = compare_outputs(*(one for one in kept if one)).by_output.values()
    assert agreement.max_abs is not None
    assert agreement.max_abs < 0.05  # either may compute with 16 bits
    assert agreement.cosine == pytest.approx(1, abs=1e-3)
