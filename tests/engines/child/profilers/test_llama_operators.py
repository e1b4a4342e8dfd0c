"""Times of a language model's operators: where llama.cpp keeps its callback, and when a slow token is given up."""

import ctypes
import struct

import numpy as np
import pytest

from edgetop.engines.child import generation, message_frames
from edgetop.engines.child.adapters.llama_cpp import LlamaCpp
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.llama_library import _callback_place
from edgetop.engines.child.loop import Control
from edgetop.engines.child.profilers import Allowance, ProfilingError, llama_operators
from edgetop.engines.child.profilers.llama_operators import LlamaOperators
from edgetop.engines.decode import decode
from tests.support.gguf_models import language_model


def parameters(padding=0, minus_one=-1.0, types=(1, 1), copies=1):
    """Bytes like those of `llama_context_params`: numbers, `defrag_thold`, the callback, types, another callback."""
    one = struct.pack("<f", minus_one) + bytes(padding)
    one = one.rjust(24, b"\7") + bytes(16) + struct.pack("<2i", *types) + bytes(16)
    return one * copies + b"\7" * 64


@pytest.mark.parametrize("padding", [0, 4])
def test_the_callback_is_found_by_its_neighbours(padding):
    assert _callback_place(parameters(padding)) == 24


@pytest.mark.parametrize(
    "content", [parameters(minus_one=0.0), parameters(types=(1, 0)), parameters(copies=2), bytes(200), b""]
)
def test_an_unknown_layout_is_refused(content):
    with pytest.raises(EngineError, match="does not know where"):
        _callback_place(content)


@pytest.fixture
def adapter(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(language_model())
    generation = {"context": 512, "gpu_layers": None, "parallel": 1, "temperature": 0.0}
    spec = {"model": str(path), "threads": 1, "seed": 0, "batch": None, "generation": generation}
    adapter = LlamaCpp()
    adapter.open(spec)
    return adapter, spec


def feed(adapter, count):
    tokens = (ctypes.c_int32 * count)(*([5] * count))
    adapter.library.llama_memory_clear(adapter.memory, False)
    for batch in adapter.library.batches(tokens):
        assert adapter.library.llama_decode(adapter.context, batch) == 0


@pytest.mark.parametrize(("used", "position"), [(0, 0), (100, 100), (512, 492)])
def test_a_burst_continues_the_last_request(adapter, used, position):
    """A request that fills the context is cut off so that a burst has room."""
    model, spec = adapter
    feed(model, used) if used else None
    profiler = LlamaOperators(model, spec)
    described = profiler.burst(Allowance(10**9, lambda: False, max_runs=3))
    library = model.library
    ends = [library.llama_memory_seq_pos_max(memory, 0) for memory in (profiler._memory, model.memory)]
    assert ends == [position + 2] * 2
    runs = len(described["run_ns"]) + len(described["left_out_ns"])
    assert runs == 3
    assert described["plain_ns"] > 0
    assert {calls for *_, calls, _ in described["operators"]} == {len(described["run_ns"])}
    profiler.close()
    profiler.close()


def test_a_burst_longer_than_the_context_begins_again(adapter):
    model, spec = adapter
    feed(model, 512)
    profiler = LlamaOperators(model, spec)
    described = profiler.burst(Allowance(10**10, lambda: False, max_runs=30))
    assert len(described["run_ns"]) + len(described["left_out_ns"]) == 30


def test_a_token_that_takes_too_long_ends_the_profile(adapter, monkeypatch):
    monkeypatch.setattr(llama_operators, "MOST_NS", 0)
    monkeypatch.setattr(llama_operators, "MOST_RATIO", 0)
    profiler = LlamaOperators(*adapter)
    with pytest.raises(ProfilingError, match="more threads than free CPUs"):
        profiler.burst(Allowance(0, lambda: False))


def test_the_batch_size_of_the_requests_stays(adapter):
    model, spec = adapter
    before = model.library.batch_size
    LlamaOperators(model, spec)
    assert model.library.batch_size == before == 512


class Frames:
    """An outlet that keeps what an engine sends."""

    def __init__(self):
        self.sent, self.packed = [], []

    def send(self, kind, message):
        self.sent.append((kind, message))

    def send_packed(self, kind, payload):
        self.packed.append((kind, payload))

    def put(self, *_):
        pass

    def sleep(self, _):
        pass


def test_tokens_that_are_profiled_are_neither_tokens_nor_requests(adapter):
    _, spec = adapter
    lengths = {"prompts": [], "prompt_tokens": 24, "max_tokens": 12}
    spec |= {"engine": "llama.cpp", "format": "gguf", "profile_every_ns": 10**10}
    spec["generation"] |= lengths
    outlet, control = Frames(), Control()
    loop, profile, _ = generation.prepared(spec, outlet, control)
    profile()
    control.profile_requested = True
    assert loop.repeat(message_frames.PHASE_MEASURE, runs=5) == "runs"
    (burst,) = (message for kind, message in outlet.sent if kind == message_frames.BURST)
    assert burst["plain_ns"] > 0
    assert "MUL_MAT" in {row[1] for row in burst["operators"]}
    (chosen,) = (message for kind, message in outlet.sent if kind == message_frames.PROFILER)
    assert chosen["way"] == LlamaOperators.way
    update = decode(outlet.packed)
    assert len(update.requests) == 5
    assert set(update.requests["position"]) == {24 + 12 - 1}
    assert np.count_nonzero(~update.tokens["is_prompt"]) == 5 * 12
