"""The figures of a language model against an independent loop over the same runtime, interleaved in one run.

The loop is a program of its own with another clock, its own loop over prompts and tokens, and exact quantiles of its
lists. Both take turns, so that heat and other programs affect them alike.
"""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.gguf_models import language_model

pytestmark = pytest.mark.benchmark

TURNS, RUNS, PROMPT, OUT = 7, 40, 64, 64

LOOP = """
import ctypes, json, sys, time
sys.path.insert(0, sys.argv[1])
from edgetop.engines.child.llama_library import Llama
llama = Llama()
model = llama.load(sys.argv[2], None)
context = llama.context(model, 512, 1)
memory, sampler = llama.llama_get_memory(context), llama.sampler(0, 0)
ttft, itl = [], []
PROMPT, OUT = int(sys.argv[4]), int(sys.argv[5])
for number in range(int(sys.argv[3]) + 2):
    tokens = (ctypes.c_int32 * PROMPT)(*[(7 * number + 13 * place) % 300 for place in range(PROMPT)])
    llama.llama_memory_clear(memory, False)
    begin = time.perf_counter()
    llama.llama_decode(context, llama.llama_batch_get_one(ctypes.addressof(tokens), PROMPT))
    slot = (ctypes.c_int32 * 1)(llama.llama_sampler_sample(sampler, context, -1))
    last = time.perf_counter()
    first = last - begin
    gaps = []
    for _ in range(OUT - 1):
        llama.llama_decode(context, llama.llama_batch_get_one(ctypes.addressof(slot), 1))
        slot[0] = llama.llama_sampler_sample(sampler, context, -1)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    if number >= 2:
        ttft.append(first)
        itl += gaps
print(json.dumps({"ttft": ttft, "itl": itl}))
"""
ROOT = Path(__file__).parents[2]


def of_loop(model):
    done = subprocess.run(
        [sys.executable, "-c", LOOP, ROOT, model, *map(str, (RUNS, PROMPT, OUT))],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name: [1000 * value for value in values] for name, values in json.loads(done.stdout).items()}


def of_edgetop(model, folder):
    lengths = ("--runs", RUNS, "--prompt-tokens", PROMPT, "--max-tokens", OUT, "--context", 512)
    words = (model, "--headless", "--json", "--threads", 1, "-o", folder, *lengths)
    order = [sys.executable, "-m", "edgetop", "run", *map(str, words)]
    done = subprocess.run(order, capture_output=True, text=True, check=True)
    requests = pq.read_table(f"{folder}.edgetop/requests.parquet").to_pandas()
    assert (requests.phase == "measure").sum() == RUNS
    return json.loads(done.stdout)["generation"]


@pytest.mark.timeout(900)
def test_ttft_itl_and_rate_agree_with_an_independent_loop(tmp_path):
    """p50 within 1 % and p99 within 5 %: medians over turns."""
    model = tmp_path / "model.gguf"
    model.write_bytes(language_model(layers=4, width=256, heads=8, kv_heads=8))
    found = []
    for turn in range(TURNS):
        both = {}
        for is_loop in (turn % 2 == 0, turn % 2 == 1):
            if is_loop:
                loop = of_loop(model)
                both["loop"] = [np.quantile(loop[kind], q) for kind in ("ttft", "itl") for q in (0.5, 0.99)]
                both["loop"].append(1000 / np.mean(loop["itl"]))
            else:
                own = of_edgetop(model, tmp_path / f"s{turn}")
                both["own"] = [own[kind][f"p{q}_ms"] for kind in ("ttft", "itl") for q in (50, 99)]
                both["own"].append(own["decode_tok_s"])
        found.append([one / other for one, other in zip(both["own"], both["loop"], strict=True)])
    ratios = [statistics.median(each) for each in zip(*found, strict=True)]
    names = ("ttft p50", "ttft p99", "itl p50", "itl p99", "decode tok/s")
    print("; ".join(f"{name} x{ratio:.4f}" for name, ratio in zip(names, ratios, strict=True)))
    for name, ratio in zip(names, ratios, strict=True):
        assert ratio == pytest.approx(1, abs=0.05 if "p99" in name else 0.01), name
