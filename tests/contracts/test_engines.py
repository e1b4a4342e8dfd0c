"""What every engine promises its conductor, whatever runs the model and wherever."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from edgetop.engines.engine_protocol import (
    Ended,
    Engine,
    EngineUpdate,
    Failed,
    Loaded,
    LogLine,
    PhaseBegan,
    RecordsLost,
    SlowInference,
    StageMemory,
    Started,
)
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.engines.thread import OutputCapture, ThreadEngine
from edgetop.recording.kept_outputs import outputs_file, read_outputs
from edgetop.session.manifest import TensorInfo
from edgetop.session.records import PHASES
from tests.support import ncnn_models, onnx_models, openvino_models, tflite_models
from tests.support.descriptors import open_files
from tests.support.engine_runs import Heard, hear_batch, hear_out, hear_until_measuring, run_whole, spec_for
from tests.support.environments import environment, find_interpreter

pytestmark = pytest.mark.slow

# The implementations: each runtime, in each place it can run.

HERE = ".".join(map(str, sys.version_info[:2]))


@dataclass(frozen=True)
class Implementation:
    engine: str
    format: str
    isolation: str
    python: str = HERE
    requirements: tuple[str, ...] = ()  # of an environment of its own; none: that of the tests
    version: str = ""  # how the runtime's begins
    like: str = ""  # which of the others is so similar that only the thorough tests run it as well

    def __str__(self) -> str:
        kind = "-ir" if self.format == "openvino" else ""
        return f"{self.engine}{self.version}{kind}-{self.isolation}-{self.python}"

    def interpreter(self) -> str | None:
        """As --engine-python gives it."""
        if not self.requirements:
            return None
        python = find_interpreter(self.python)
        assert python
        return str(environment(python, *self.requirements))

    @contextlib.contextmanager
    def made(self, spec: EngineSpec) -> Iterator[Engine]:
        """An engine, not yet started; closed in the end."""
        with contextlib.ExitStack() as stack:
            if self.isolation == "thread":
                engine: Engine = ThreadEngine(spec, stack.enter_context(OutputCapture()))
            else:
                engine = ProcessEngine(spec, self.interpreter())
            stack.callback(engine.close)
            yield engine


TFLITE_RUNTIME = {"requirements": ("tflite-runtime==2.14.*", "numpy<2"), "version": "2.14."}
ALL = [
    Implementation("onnxruntime", "onnx", "process"),
    Implementation("onnxruntime", "onnx", "thread"),
    Implementation(
        "onnxruntime", "onnx", "process", "3.8", ("onnxruntime==1.19.*", "numpy"), "1.19.", "onnxruntime-process"
    ),
    Implementation("litert", "tflite", "process"),
    Implementation("litert", "tflite", "thread"),
    Implementation("openvino", "onnx", "process"),
    Implementation("openvino", "onnx", "thread", like="openvino-process"),
    Implementation("openvino", "openvino", "process", like="openvino-process"),
    Implementation("openvino", "openvino", "thread", like="openvino-process"),
    Implementation("ncnn", "ncnn", "process"),
    Implementation("ncnn", "ncnn", "thread", like="ncnn-process"),
    Implementation("tflite-runtime", "tflite", "process", "3.11", **TFLITE_RUNTIME, like="tflite-runtime-3.9"),
    Implementation("tflite-runtime", "tflite", "process", "3.9", **TFLITE_RUNTIME),
]
MAKES_AN_ENVIRONMENT = pytest.mark.timeout(600)
IMPLEMENTATIONS = [
    pytest.param(
        implementation,
        id=str(implementation),
        marks=[MAKES_AN_ENVIRONMENT, *([pytest.mark.thorough] if implementation.like else [])],
    )
    for implementation in ALL
    if find_interpreter(implementation.python)
]


# The scenarios: what they are asked to run, all of which ends by itself.


@dataclass(frozen=True)
class Scenario:
    build: Callable[[], bytes | tuple[bytes, bytes]]  # the model's file; or that and the file of its weights
    options: Mapping[str, Any] = field(default_factory=dict)


def cut_short(build: Callable[[], bytes]) -> bytes:
    content = build()
    return content[: len(content) // 2]


def write(path: Path, built: bytes | tuple[bytes, bytes]) -> Path:
    """Write a model to its path, and its weights beside it if it has a file of them."""
    model, weights = built if isinstance(built, tuple) else (built, None)
    path.write_bytes(model)
    if weights is not None:
        path.with_suffix(".bin").write_bytes(weights)
    return path


def arrays(folder: Path, *values: int, dtype: str) -> str:
    """A folder of files that hold an index each."""
    folder.mkdir()
    for number, value in enumerate(values):
        np.save(folder / f"{number:02}.npy", np.array([value], dtype))
    return str(folder)


def files_for(folder: Path, dtype: str, input_name: str, input_shape: tuple[int, ...]) -> dict[str, Scenario]:
    """Scenarios of inputs from files, for a table of 100 rows and for a model of one float input."""
    gather, tiny = (
        (onnx_models.onnx_gather, onnx_models.onnx_tiny)
        if dtype == "int64"
        else (tflite_models.tflite_gather, tflite_models.tflite_tiny)
    )
    np.savez(folder / "inputs.npz", index=np.array([3], dtype), other=np.array([300], dtype))
    np.save(folder / "shape.npy", np.zeros((9, 9), np.float32))
    np.save(folder / "dtype.npy", np.zeros(input_shape, np.float64))
    good, bad = arrays(folder / "good", 3, dtype=dtype), arrays(folder / "bad", 100, dtype=dtype)
    mixed = arrays(folder / "mixed", 5, 100, 7, dtype=dtype)
    worse = arrays(folder / "worse", 5, *[100] * 20, dtype=dtype)
    endless = {"warmup_runs": 0, "runs": None}
    return {
        "a file": Scenario(gather, {"inputs": {"index": f"{good}/00.npy"}}),
        "an archive": Scenario(gather, {"inputs": {"": str(folder / "inputs.npz")}}),
        "a folder": Scenario(gather, {"inputs": {"index": mixed}, "warmup_runs": 0, "runs": 8}),
        "a folder of failures": Scenario(gather, {"inputs": {"index": worse}, **endless}),
        "a first inference that fails": Scenario(gather, {"inputs": {"index": bad}}),
        "a file of another shape": Scenario(tiny, {"inputs": {input_name: str(folder / "shape.npy")}}),
        "a file of another dtype": Scenario(tiny, {"inputs": {input_name: str(folder / "dtype.npy")}}),
        "an input that is unknown": Scenario(tiny, {"inputs": {"picture": "zeros"}}),
    }


PROVIDER = (("NoSuchProvider", {}),)
DELEGATE = (("/no/such/libdelegate.so", {}),)


def onnx_scenarios(folder: Path) -> dict[str, Scenario]:
    m = onnx_models
    return {
        "plain": Scenario(m.onnx_tiny, {"runs": 200, "warmup_runs": 7, "threads": 1}),
        "streams": Scenario(m.onnx_tiny, {"runs": 200, "warmup_runs": 6, "threads": 1, "streams": 3}),
        "paced": Scenario(m.onnx_tiny, {"runs": 20, "rate_hz": 200.0}),
        "inputs of every kind": Scenario(m.onnx_many_inputs),
        "stateful": Scenario(m.onnx_stateful),
        "hostile names": Scenario(m.onnx_hostile_names),
        "free dimensions": Scenario(m.onnx_dynamic),
        "a batch": Scenario(m.onnx_dynamic, {"batch": 2}),
        "a shape": Scenario(m.onnx_dynamic, {"shapes": {"x": (2, 3, 8, 9)}}),
        **files_for(folder, "int64", "x", (1, 4096)),
        "an unknown accelerator": Scenario(m.onnx_tiny, {"providers": PROVIDER}),
        "an accelerator of another kind": Scenario(m.onnx_tiny, {"delegates": DELEGATE}),
        "a shape that is refused": Scenario(partial(m.onnx_needs_width, 7), {"shapes": {"x": (1, 9)}}),
        "an unknown operator": Scenario(m.onnx_unknown_operator),
        "text": Scenario(m.onnx_string_input),
        "cut short": Scenario(partial(cut_short, m.onnx_tiny)),
    }


def tflite_scenarios(folder: Path) -> dict[str, Scenario]:
    m = tflite_models
    return {
        "plain": Scenario(m.tflite_tiny, {"runs": 200, "warmup_runs": 7, "threads": 1}),
        "streams": Scenario(m.tflite_tiny, {"runs": 200, "warmup_runs": 6, "threads": 1, "streams": 3}),
        "paced": Scenario(m.tflite_tiny, {"runs": 20, "rate_hz": 200.0}),
        "two inputs": Scenario(m.tflite_two_inputs),
        "a scalar": Scenario(m.tflite_scalar),
        "bytes": Scenario(m.tflite_uint8),
        "quantised": Scenario(m.tflite_int8),
        "no names": Scenario(m.tflite_nameless),
        "stateful": Scenario(m.tflite_stateful),
        "hostile names": Scenario(m.tflite_hostile_names),
        "free dimensions": Scenario(m.tflite_dynamic_batch),
        "a batch": Scenario(m.tflite_dynamic_batch, {"batch": 2}),
        "a shape": Scenario(m.tflite_dynamic_batch, {"shapes": {"x": (3, 8)}}),
        **files_for(folder, "int32", "x", (1, 16)),
        "an unknown accelerator": Scenario(m.tflite_tiny, {"delegates": DELEGATE}),
        "an accelerator of another kind": Scenario(m.tflite_tiny, {"providers": PROVIDER}),
        "a shape that is refused": Scenario(m.tflite_tiny, {"shapes": {"x": (1, 9)}}),
        "an unknown operator": Scenario(m.tflite_custom_operator),
        "text": Scenario(m.tflite_string_input),
        "cut short": Scenario(partial(cut_short, m.tflite_tiny)),
    }


def ncnn_scenarios(folder: Path) -> dict[str, Scenario]:
    m = ncnn_models
    np.savez(folder / "inputs.npz", x=np.zeros(8, np.float32), other=np.zeros(3, np.float32))
    np.save(folder / "x.npy", np.zeros(8, np.float32))
    np.save(folder / "shape.npy", np.zeros((9, 9), np.float32))
    np.save(folder / "dtype.npy", np.zeros(8, np.float64))
    return {
        "plain": Scenario(m.products, {"runs": 200, "warmup_runs": 7, "threads": 1}),
        "streams": Scenario(m.products, {"runs": 200, "warmup_runs": 6, "threads": 1, "streams": 3}),
        "paced": Scenario(m.products, {"runs": 20, "rate_hz": 200.0}),
        "two inputs": Scenario(m.sum_of_two),
        "hostile names": Scenario(partial(m.in_place, m.HOSTILE_INPUT, 4)),
        "free dimensions": Scenario(m.in_place),
        "a shape": Scenario(m.in_place, {"shapes": {"x": (3, 8, 9)}}),
        "a file": Scenario(m.products, {"inputs": {"x": str(folder / "x.npy")}}),
        "an archive": Scenario(m.products, {"inputs": {"": str(folder / "inputs.npz")}}),
        "a file of another shape": Scenario(m.products, {"inputs": {"x": str(folder / "shape.npy")}}),
        "a file of another dtype": Scenario(m.products, {"inputs": {"x": str(folder / "dtype.npy")}}),
        "an input that is unknown": Scenario(m.products, {"inputs": {"picture": "zeros"}}),
        "an unknown accelerator": Scenario(m.products, {"providers": PROVIDER}),
        "an accelerator of another kind": Scenario(m.products, {"delegates": DELEGATE}),
        "a shape that is refused": Scenario(m.products, {"shapes": {"x": (9,)}}),
        "an unknown operator": Scenario(m.unknown_layer),
        "cut short": Scenario(lambda: (m.products()[0][:-40], b"")),
    }


def ir_scenarios(folder: Path) -> dict[str, Scenario]:
    m = openvino_models
    np.savez(folder / "inputs.npz", x=np.zeros((1, 8), np.float32), other=np.zeros(3, np.float32))
    np.save(folder / "x.npy", np.zeros((1, 8), np.float32))
    np.save(folder / "shape.npy", np.zeros((9, 9), np.float32))
    np.save(folder / "dtype.npy", np.zeros((1, 8), np.float64))
    return {
        "plain": Scenario(m.products, {"runs": 200, "warmup_runs": 7, "threads": 1}),
        "streams": Scenario(m.products, {"runs": 200, "warmup_runs": 6, "threads": 1, "streams": 3}),
        "paced": Scenario(m.products, {"runs": 20, "rate_hz": 200.0}),
        "hostile names": Scenario(m.hostile_names),
        "free dimensions": Scenario(m.open_batch),
        "a batch": Scenario(m.open_batch, {"batch": 2}),
        "a shape": Scenario(m.open_batch, {"shapes": {"x": (3, 8)}}),
        "a file": Scenario(m.products, {"inputs": {"x": str(folder / "x.npy")}}),
        "an archive": Scenario(m.products, {"inputs": {"": str(folder / "inputs.npz")}}),
        "a file of another shape": Scenario(m.products, {"inputs": {"x": str(folder / "shape.npy")}}),
        "a file of another dtype": Scenario(m.products, {"inputs": {"x": str(folder / "dtype.npy")}}),
        "an input that is unknown": Scenario(m.products, {"inputs": {"picture": "zeros"}}),
        "an unknown accelerator": Scenario(m.products, {"providers": PROVIDER}),
        "an accelerator of another kind": Scenario(m.products, {"delegates": DELEGATE}),
        "a shape that is refused": Scenario(m.products, {"shapes": {"x": (1, 9)}}),
        "an unknown operator": Scenario(m.unknown_layer),
        "cut short": Scenario(lambda: (cut_short(lambda: m.products()[0]), b"")),
    }


SUFFIX = {"ncnn": "param", "openvino": "xml"}
SCENARIOS = {"onnx": onnx_scenarios, "tflite": tflite_scenarios, "ncnn": ncnn_scenarios, "openvino": ir_scenarios}

# What an engine cannot be asked, and why.
FAILING = frozenset({"a folder", "a folder of failures", "a first inference that fails"})
ABSENT: dict[str, frozenset[str]] = {
    "openvino": FAILING,  # an index outside of a table gives zeros
    "openvino IR": FAILING | {"text"},
    "ncnn": FAILING | {"text"},  # it has inputs of float32 alone, and no inference of theirs fails
}


def absent(implementation: Implementation) -> frozenset[str]:
    is_ir = implementation.format == "openvino"
    return ABSENT.get("openvino IR" if is_ir else implementation.engine, frozenset())


# What each scenario that runs must say it runs with.
FLOAT = "float32"
INPUTS: dict[str, dict[str, list[tuple[str, tuple[int, ...], str]]]] = {
    "onnx": {
        "plain": [("x", (1, 4096), FLOAT)],
        "inputs of every kind": [
            ("image", (1, 3, 4, 4), FLOAT),
            ("tokens", (8,), "int64"),
            ("mask", (8,), "bool"),
            ("levels", (2, 5), "int8"),
            ("pixels", (1, 6), "uint8"),
            ("step", (), "int64"),
        ],
        "stateful": [("x", (1, 1, 8), FLOAT), ("h", (1, 1, 16), FLOAT), ("c", (1, 1, 16), FLOAT)],
        "hostile names": [(onnx_models.HOSTILE_INPUT, (1, 4), FLOAT)],
        "free dimensions": [("x", (1, 3, 224, 224), FLOAT)],
        "a batch": [("x", (2, 3, 224, 224), FLOAT)],
        "a shape": [("x", (2, 3, 8, 9), FLOAT)],
    },
    "tflite": {
        "plain": [("x", (1, 16), FLOAT)],
        "two inputs": [("counts", (1, 8), "int32"), ("mask", (1, 8), "bool")],
        "a scalar": [("x", (), FLOAT)],
        "bytes": [("pixels", (1, 6), "uint8")],
        "quantised": [("x", (1, 32), "int8")],
        "no names": [("input:0", (1, 4), FLOAT), ("input:1", (1, 2), FLOAT)],
        "stateful": [("x", (1, 4), FLOAT)],
        "hostile names": [(tflite_models.HOSTILE_INPUT, (1, 4), FLOAT)],
        "free dimensions": [("x", (1, 8), FLOAT)],
        "a batch": [("x", (2, 8), FLOAT)],
        "a shape": [("x", (3, 8), FLOAT)],
    },
    "openvino": {
        "plain": [("x", (1, 8), FLOAT)],
        "hostile names": [(openvino_models.HOSTILE_INPUT, (1, 8), FLOAT)],
        "free dimensions": [("x", (1, 8), FLOAT)],
        "a batch": [("x", (2, 8), FLOAT)],
        "a shape": [("x", (3, 8), FLOAT)],
    },
    "ncnn": {
        "plain": [("x", (8,), FLOAT)],
        "two inputs": [("a", (4,), FLOAT), ("b", (4,), FLOAT)],
        "hostile names": [(ncnn_models.HOSTILE_INPUT, (4,), FLOAT)],
        "free dimensions": [("x", (1, 128, 128), FLOAT)],
        "a shape": [("x", (3, 8, 9), FLOAT)],
    },
}


# Those whose outputs are kept, and of how many inferences of three there are inputs.
KEEPING = {"inputs of every kind": 3, "two inputs": 3, "stateful": 3, "quantised": 3, "a file": 1}


@dataclass(frozen=True)
class Told:
    """Everything that one implementation said in every scenario."""

    implementation: Implementation
    heard: Mapping[str, Heard]
    open_before: set[str]
    open_after: set[str]
    folder: Path  # where the outputs of KEEPING are

    def __getitem__(self, scenario: str) -> Heard:
        return self.heard[scenario]


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Told:
    implementation: Implementation = request.param
    folder = tmp_path_factory.mktemp("models") / "of two\nlines"  # a folder may be called so, a message must not
    folder.mkdir()
    specs = {}
    for name, scenario in SCENARIOS[implementation.format](folder).items():
        if name in absent(implementation):
            continue
        model = write(folder / f"{name}.{SUFFIX.get(implementation.format, implementation.format)}", scenario.build())
        keeps = {"keep_outputs": 3, "outputs_file": str(folder / outputs_file(name))} if name in KEEPING else {}
        specs[name] = spec_for(model, engine=implementation.engine, **scenario.options, **keeps)
    if implementation.isolation == "thread":  # what a runtime opens here once for ever is not the engine's
        dict(run_all(implementation, {"plain": specs["plain"]}))
    open_before = open_files()
    python = implementation.interpreter() or sys.executable
    in_thread = implementation.isolation == "thread"
    heard = dict(run_all(implementation, specs) if in_thread else run_most_at_once(implementation, python, specs))
    return Told(implementation, heard, open_before, open_files(), folder)


def run_all(implementation: Implementation, specs: Mapping[str, EngineSpec]) -> Iterator[tuple[str, Heard]]:
    for name, spec in specs.items():
        with implementation.made(spec) as engine:
            engine.start()
            yield name, hear_out(engine)


def run_most_at_once(
    implementation: Implementation, python: str, specs: Mapping[str, EngineSpec]
) -> Iterator[tuple[str, Heard]]:
    """One as a process of its own, and the others in one: most of a short run is the start of an interpreter."""
    yield from run_all(implementation, {"plain": specs["plain"]})
    yield from hear_batch(python, {name: spec for name, spec in specs.items() if name != "plain"})


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    found: Implementation = request.param
    return found


def tiny(implementation: Implementation, folder: Path) -> Path:
    build = {"onnx": onnx_models.onnx_tiny, "tflite": tflite_models.tflite_tiny, "ncnn": ncnn_models.products}
    build["openvino"] = openvino_models.products
    path = folder / f"tiny.{SUFFIX.get(implementation.format, implementation.format)}"
    return write(path, build[implementation.format]())


@pytest.fixture
def endless(implementation: Implementation, tmp_path: Path) -> Iterator[Engine]:
    """A started engine that runs until it is stopped."""
    with implementation.made(spec_for(tiny(implementation, tmp_path), runs=None)) as engine:
        engine.start()
        yield engine


# A run from its start to its end.


def test_messages_are_started_loaded_phases_ended_in_order(told: Told) -> None:
    said = [message for message in told["plain"].said if not isinstance(message, StageMemory | SlowInference)]
    assert [type(message) for message in said] == [Started, Loaded, PhaseBegan, PhaseBegan, PhaseBegan, Ended]
    assert [message.phase for message in told["plain"].all(PhaseBegan)] == list(PHASES)


def test_slow_inferences_come_with_kernel_counters(told: Told) -> None:
    records = told["plain"].records
    found = told["plain"].all(SlowInference)
    assert found
    for slow in found:
        (record,) = records[records["t_ns"] == slow.monotonic_ns]
        assert record["latency_ns"] == slow.latency_ns <= slow.span_ns
        assert min(slow.preempted, slow.major_faults, slow.minor_faults, slow.waited_ns or 0) >= 0


def test_it_says_what_it_holds_at_every_stage(told: Told) -> None:
    stages = [message.stage for message in told["plain"].all(StageMemory)]
    assert stages == ["interpreter", "runtime", "model", "first", "steady"]


def test_it_says_which_python_runs_it(told: Told) -> None:
    started = told["plain"].one(Started)
    assert started.python.startswith(told.implementation.python + ".")
    assert (started.pid == os.getpid()) == (told.implementation.isolation == "thread")


def test_it_says_which_runtime_was_loaded_and_how_long_that_took(told: Told) -> None:
    loaded = told["plain"].one(Loaded)
    assert loaded.runtime == told.implementation.engine
    assert loaded.version[0].isdigit()
    assert loaded.version.startswith(told.implementation.version)
    assert loaded.why == "asked for"
    assert "CPU" in loaded.providers
    assert loaded.dropped_providers == ()
    assert 0 < loaded.init_ns < 30_000_000_000


def test_it_measures_as_many_runs_as_asked_for(told: Told) -> None:
    heard = told["plain"]
    assert [len(heard.in_phase(phase)) for phase in PHASES] == [1, 7, 200]
    assert len(heard.records) == 208
    assert heard.one(Ended).reason == "runs"


def test_streams_share_the_runs_and_run_at_once(told: Told) -> None:
    heard = told["streams"]
    assert [len(heard.in_phase(phase)) for phase in PHASES] == [1, 6, 200]
    records = heard.in_phase("measure")
    assert [int(np.count_nonzero(records["stream"] == stream)) for stream in range(3)] == [67, 67, 66]
    assert (np.diff(heard.records["t_ns"]) >= 0).all()
    assert records["ok"].all()
    for stream in range(3):
        own = records[records["stream"] == stream]
        assert (own["t_ns"][1:] >= own["t_ns"][:-1] + own["latency_ns"][:-1]).all()


def test_under_a_rate_no_inference_begins_before_its_time(told: Told) -> None:
    records = told["paced"].in_phase("measure")
    assert (records["wait_ns"] >= 0).all()
    planned = records["t_ns"] - records["wait_ns"]
    assert np.diff(planned).tolist() == [5_000_000] * 19


def test_records_are_in_order_and_do_not_overlap(told: Told) -> None:
    records = told["plain"].records
    assert (np.diff(records["phase"].astype(int)) >= 0).all()
    assert (records["latency_ns"] > 0).all()
    assert (records["t_ns"][1:] >= (records["t_ns"] + records["latency_ns"])[:-1]).all()
    assert records["ok"].all()
    assert not records["wait_ns"].any()
    assert not records["stream"].any()


def test_records_lie_within_their_phases(told: Told) -> None:
    heard = told["plain"]
    first, warmup, measure = (message.monotonic_ns for message in heard.all(PhaseBegan))
    bounds = [first, warmup, measure, heard.one(Ended).monotonic_ns]
    for phase, start, end in zip(PHASES, bounds, bounds[1:], strict=False):
        records = heard.in_phase(phase)
        assert start <= records["t_ns"][0]
        assert records["t_ns"][-1] + records["latency_ns"][-1] <= end


def test_nothing_is_lost_while_it_is_listened_to(told: Told) -> None:
    assert all(heard.all(RecordsLost) == [] for heard in told.heard.values())


# Its end.


def is_empty(update: EngineUpdate) -> bool:
    return not update.messages and not len(update.records)


def test_a_stop_ends_it_and_then_it_says_nothing_more(endless: Engine) -> None:
    heard = hear_until_measuring(endless)
    endless.stop()
    hear_out(endless, heard)
    assert heard.one(Ended).reason == "stop"
    assert heard.messages[-1] == heard.one(Ended)
    for _ in range(3):
        assert is_empty(endless.poll())


def test_a_duration_ends_it(implementation: Implementation, tmp_path: Path) -> None:
    with implementation.made(spec_for(tiny(implementation, tmp_path), runs=None, duration_ns=50_000_000)) as engine:
        heard = run_whole(engine)
    assert heard.one(Ended).reason == "duration"
    measured = heard.in_phase("measure")
    ends = measured["t_ns"] + measured["latency_ns"]
    began = heard.all(PhaseBegan)[-1].monotonic_ns
    assert ends[-1] >= began + 50_000_000
    assert (measured["t_ns"] < began + 1_000_000_000).all()


def leaves_no_load_behind(engine: Engine) -> bool:
    pid = engine.pid if isinstance(engine, ProcessEngine) else None
    engine.close()
    return not any(thread.name == "engine" for thread in threading.enumerate()) and not (pid and psutil.pid_exists(pid))


def test_closing_leaves_no_load_behind(endless: Engine) -> None:
    hear_until_measuring(endless)
    assert any(is_empty(endless.poll()) for _ in range(20)), "a poll waited for something to tell"
    assert leaves_no_load_behind(endless)
    endless.close()
    assert is_empty(endless.poll())


def test_closing_while_it_loads_leaves_no_load_behind(endless: Engine) -> None:
    assert leaves_no_load_behind(endless)


def test_runs_leave_no_descriptor_open(told: Told) -> None:
    assert told.open_after <= told.open_before  # files of earlier tests may be closed meanwhile


# What it is fed.


def test_it_says_what_it_feeds_and_runs_it(told: Told) -> None:
    for scenario, expected in INPUTS[told.implementation.format].items():
        heard = told[scenario]
        assert heard.messages[-1] == heard.one(Ended), (scenario, heard.messages)
        assert heard.one(Loaded).inputs == tuple(TensorInfo(*tensor) for tensor in expected), scenario
        assert heard.records["ok"].all(), scenario


def test_it_says_what_it_assumed_and_only_that(told: Told) -> None:
    assumed = {name: heard.one(Loaded).assumptions for name, heard in told.heard.items() if heard.all(Loaded)}
    (sentence,) = assumed["free dimensions"]
    assert sentence.startswith("input x is [")
    assert "?" in sentence or "N" in sentence
    assert str(told["free dimensions"].one(Loaded).inputs[0].shape).replace(" ", "")[1:-1] in sentence
    assert assumed["a shape"] == ()
    assert assumed["plain"] == ()
    assert assumed["hostile names"] == ()


@pytest.mark.parametrize("scenario", ["a file", "an archive"])
def test_it_feeds_what_it_was_given(scenario: str, told: Told) -> None:
    """An index that was not would be outside the table."""
    assert told[scenario].one(Ended).reason == "runs"
    assert told[scenario].records["ok"].all()


def test_it_keeps_outputs_of_inputs_that_no_timed_inference_has(told: Told) -> None:
    for name in KEEPING.keys() & told.heard.keys():
        kept = read_outputs(told.folder, name)
        assert kept, told[name].messages
        assert len(kept.inputs) == len(set(kept.inputs)) == KEEPING[name]
        answers = [kept.numbers(inference, 0) for inference in range(len(kept.inputs))]
        assert all(np.isfinite(answer).all() for answer in answers)
        assert len({answer.tobytes() for answer in answers}) == KEEPING[name]
        assert bool(kept.outputs[0].scale) == (name == "quantised")
        assert "outputs-kept" in [line.kind for line in told[name].all(LogLine)]


def test_an_engine_lacks_only_what_it_cannot_be_asked(told: Told) -> None:
    asked = REFUSALS.keys() | {"a folder", "a folder of failures"}
    assert asked - told.heard.keys() == absent(told.implementation)


def test_it_cycles_through_a_folder_and_records_what_failed(told: Told) -> None:
    if "a folder" in absent(told.implementation):
        return
    heard = told["a folder"]
    assert heard.records["ok"].tolist() == [True, False, True] * 3
    assert (heard.records["latency_ns"] > 0).all()
    told_of = [line for line in heard.all(LogLine) if line.kind == "inference-failed"]
    assert len(told_of) == 1
    assert told_of[0].severity == "warning"
    assert "\n" not in told_of[0].message


def test_ten_failures_in_a_row_end_it(told: Told) -> None:
    if "a folder of failures" in absent(told.implementation):
        return
    heard = told["a folder of failures"]
    failed = heard.one(Failed)
    assert (failed.stage, failed.is_input_error) == ("inference", False)
    assert heard.records["ok"].tolist() == [True] + [False] * 10


# What it refuses: the user's mistakes.

REFUSALS: dict[str, tuple[str | Mapping[str, str], str | Mapping[str, str]]] = {
    "a first inference that fails": ("first", {"onnx": "idx=100", "tflite": "gather index out of bounds"}),
    "a file of another shape": (
        {"onnx": "input", "tflite": "model", "ncnn": "input", "openvino": "input"},
        {
            "onnx": "shape.npy: shape [9,9], but input x wants",
            "tflite": "input x as [9,9]",
            "openvino": "shape.npy: shape [9,9], but input x wants",
            "ncnn": "shape.npy: shape [9,9], but input x wants",
        },
    ),
    "a file of another dtype": ("input", "dtype.npy: dtype float64, but input x wants float32"),
    "an input that is unknown": ("input", "--input picture: the model has no such input; it has x"),
    "an unknown accelerator": (
        "input",
        dict.fromkeys(("onnx", "openvino", "ncnn"), "--provider NoSuchProvider")
        | {"tflite": "/no/such/libdelegate.so"},
    ),
    "an accelerator of another kind": (
        "input",
        {"tflite": "--provider"} | dict.fromkeys(("onnx", "openvino", "ncnn"), "--delegate"),
    ),
    "a shape that is refused": (
        {"onnx": "first", "openvino": "input", "tflite": "model", "ncnn": "input"},
        {
            "onnx": "project",
            "openvino": "Incompatible MatMul matrix dimension",
            "openvino IR": "--shape x:1,9 does not fit the model's [1,8]",
            "tflite": "input x as [1,9]",
            "ncnn": "--shape x:9 does not fit the model's [8]",
        },
    ),
    "an unknown operator": ("model", "Frobnicate"),
    "text": ("input", "input words"),
    "cut short": ("model", "cut short."),
}


def of(implementation: Implementation, expected: str | Mapping[str, str]) -> str:
    """What is expected of the engine, or of all engines that run models of its format."""
    if isinstance(expected, str):
        return expected
    of_engine = "openvino IR" if implementation.format == "openvino" else implementation.engine
    return expected.get(of_engine, expected.get(implementation.format, ""))


@pytest.mark.parametrize("scenario", REFUSALS)
def test_it_refuses_in_one_line_that_names_the_culprit(scenario: str, told: Told) -> None:
    if scenario in absent(told.implementation):
        return
    heard = told[scenario]
    stage, culprit = (of(told.implementation, expected) for expected in REFUSALS[scenario])
    failed = heard.one(Failed)
    assert heard.messages[-1] == failed
    assert failed.stage == stage
    assert failed.is_input_error
    assert culprit in failed.message
    assert "\n" not in failed.message + failed.advice
    assert len(heard.records) == 0
