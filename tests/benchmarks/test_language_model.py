"""The figures of a language model against an independent loop over the same runtime, interleaved in one run.

The loop has its own clock, its own prompts and tokens, and exact quantiles of its lists. It takes turns with edgetop's
engine request by request, so that heat and other programs affect both alike. The figures of the engine go the whole
way: frames, seconds with histograms, and the fold that the report reads.
"""

import ctypes
import time

import numpy as np
import pytest

from edgetop.analysis.token_figures import GenerationFold
from edgetop.engines.child import message_frames
from edgetop.engines.child.adapters.llama_cpp import LlamaCpp
from edgetop.engines.child.generation import Requests
from edgetop.engines.child.loop import Control
from edgetop.engines.child.pace import NEVER
from edgetop.engines.decode import decode
from edgetop.session.records import INFERENCE, MEASURE
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import concatenate
from edgetop.session.token_aggregator import TokenAggregator
from tests.support.gguf_models import language_model

pytestmark = pytest.mark.benchmark

TURNS, PROMPT, OUT = 200, 64, 64


class Frames:
    """An outlet that keeps what an engine sends."""

    def __init__(self):
        self.pairs = []

    def send_packed(self, kind, payload):
        self.pairs.append((kind, payload))


def one_request(adapter, number):
    """Times in ms to the first token and between tokens, by a loop of its own."""
    llama, context = adapter.library, adapter.context
    tokens = (ctypes.c_int32 * PROMPT)(*np.random.default_rng(number).integers(0, 300, PROMPT))
    begin = time.perf_counter()
    llama.llama_memory_clear(adapter.memory, False)
    llama.llama_decode(context, llama.llama_batch_get_one(ctypes.addressof(tokens), PROMPT))
    slot = (ctypes.c_int32 * 1)(llama.llama_sampler_sample(adapter.sampler, context, -1))
    times = [time.perf_counter()]
    for _ in range(OUT - 1):
        llama.llama_decode(context, llama.llama_batch_get_one(ctypes.addressof(slot), 1))
        slot[0] = llama.llama_sampler_sample(adapter.sampler, context, -1)
        times.append(time.perf_counter())
    return 1000 * (times[0] - begin), 1000 * np.diff(times)


@pytest.mark.timeout(900)
def test_ttft_itl_and_rate_agree_with_an_independent_loop(tmp_path, say):
    """p50 within 1 %, p99 within 5 %. Medians are compared turn by turn, because other programs disturb whole turns."""
    path = tmp_path / "model.gguf"
    path.write_bytes(language_model(layers=4, width=256, heads=8, kv_heads=8))
    options = {"context": 512, "max_tokens": OUT, "prompt_tokens": PROMPT, "prompts": [], "temperature": 0.0}
    spec = {
        "model": str(path),
        "threads": 1,
        "seed": 0,
        "batch": None,
        "generation": {**options, "gpu_layers": None, "parallel": 1},
    }
    adapter, frames = LlamaCpp(), Frames()
    adapter.open(spec)
    requests = Requests(adapter, spec, frames, Control())
    runs, firsts, gaps = np.zeros(TURNS, INFERENCE), [], []
    for turn in range(-2, TURNS):
        for is_loop in (turn % 2 == 0, turn % 2 == 1):
            if is_loop:
                first_ms, gaps_ms = one_request(adapter, turn + 2)
                if turn >= 0:
                    firsts.append(first_ms)
                    gaps.append(gaps_ms)
            else:
                start, end, _ = requests.run(message_frames.PHASE_MEASURE if turn >= 0 else 1, NEVER, NEVER)
                if turn >= 0:
                    runs[turn] = (start, end - start, 0, 0, MEASURE, True, 0)
    update = decode(frames.pairs)
    origin_ns = int(runs["t_ns"][0])
    tokens, records = update.tokens.copy(), update.requests.copy()
    for rows in (runs, tokens, records):
        rows["t_ns"] -= origin_ns
    aggregator, fold = TokenAggregator(SecondAggregator()), GenerationFold()
    fold.fold(concatenate([aggregator.add(runs, tokens, records), aggregator.close()]))
    view, between = fold.view(), np.concatenate(gaps)
    assert view.itl.count == len(between) == TURNS * (OUT - 1)
    tokens = tokens[~tokens["is_prompt"]]
    is_later = tokens["is_later"]
    own_gaps = tokens["gap_ns"][is_later & (tokens["phase"] == MEASURE)] / 1e6
    own_firsts = tokens["gap_ns"][~is_later & (tokens["phase"] == MEASURE)] / 1e6
    for of, own in ((view.ttft, own_firsts), (view.itl, own_gaps)):
        for share in (0.5, 0.99):  # the histograms of the report against exact quantiles
            exact = np.quantile(own, share, method="inverted_cdf")
            assert of.percentile_ns(share) / 1e6 == pytest.approx(exact, rel=0.01)
    of_turns = np.median(own_gaps.reshape(TURNS, -1), axis=1) / np.median(between.reshape(TURNS, -1), axis=1)
    found = {
        "ttft p50": np.median(own_firsts / firsts),
        "itl p50": np.median(of_turns),
        "tok/s": view.decode_per_s * between.mean() / 1000,
        "ttft p99": np.quantile(own_firsts, 0.99) / np.quantile(firsts, 0.99),
        "itl p99": np.quantile(own_gaps, 0.99) / np.quantile(between, 0.99),
    }
    say(", ".join(f"{name} x {ratio:.4f}" for name, ratio in found.items()))
    for name, ratio in found.items():
        assert ratio == pytest.approx(1, abs=0.05 if "p99" in name else 0.01), name
