"""llama-bench and AIPerf: their repetitions and requests become those of a language model."""

import json

import numpy as np
import pytest

from edgetop.errors import InputError
from edgetop.imports.measured import Generated, Summary
from edgetop.imports.read import read
from tests.imports.test_session import imported, reported

PP = [74_601_900, 71_632_900, 71_745_200]
TG = [1_075_361_300, 1_065_089_400, 1_071_761_200]


def bench(n_prompt, n_gen, samples, **other):
    return {
        "build_commit": "8cf427ff", "build_number": 5163, "model_filename": "models/q.gguf", "n_threads": 8,
        "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": 0, "avg_ts": 1.0, "samples_ns": samples, **other,
    }  # fmt: skip


def line(number, **other):
    metrics = {
        "input_sequence_length": {"value": 20, "unit": "tokens"}, "request_latency": {"value": 0.5, "unit": "s"},
        "output_sequence_length": {"value": 31, "unit": "tokens"}, "time_to_first_token": {"value": 200, "unit": "ms"},
        "inter_token_latency": {"value": 10, "unit": "ms"},
    }  # fmt: skip
    metadata = {"request_start_ns": 10**18 + number * 10**9, "benchmark_phase": "profiling", "was_cancelled": False}
    return {"metadata": metadata, "metrics": metrics, "error": None, **other}


def written(folder, content, *, lines=False):
    path = folder / "export.json"
    path.write_text("\n".join(map(json.dumps, content)) if lines else json.dumps(content))
    return path


def test_the_report_has_the_tools_figures(tmp_path):
    tests = json.dumps([bench(512, 0, PP), bench(0, 128, TG)])
    figures = reported(imported(tmp_path, tests))["generation"]
    assert figures["prefill_tok_s"] == pytest.approx(3 * 512 / sum(PP) * 1e9, rel=1e-3)
    assert figures["decode_tok_s"] == pytest.approx(3 * 128 / sum(TG) * 1e9, rel=1e-3)
    assert (figures["requests"], figures["tokens_in"], figures["tokens_out"]) == (3, 1536, 384)
    assert (figures["ttft"], figures["itl"]["settled"], figures["seen_by"]) == (None, False, "tool")


@pytest.mark.parametrize("lines", [False, True])
def test_llama_bench_gives_the_rates_of_prompt_and_generation(tmp_path, lines):
    path = written(tmp_path, [bench(512, 0, PP), bench(0, 128, TG)], lines=lines)
    reading = read(path)
    (found,) = reading.found
    assert isinstance(found, Generated)
    assert (reading.origin.tool, found.threads, found.version) == ("llama-bench", 8, "8cf427ff 5163")
    assert (found.requests["latency_ns"] == np.array(PP) + TG).all()
    assert (found.gap_ns == np.array(TG) // 128).all()


def test_several_lengths_are_requests_of_their_own(tmp_path):
    (found,) = read(written(tmp_path, [bench(512, 0, PP), bench(1024, 0, PP), bench(0, 128, TG)])).found
    assert found.requests["tokens_in"].tolist() == [512] * 3 + [1024] * 3 + [0] * 3
    assert found.requests["tokens_out"].tolist() == [0] * 6 + [128] * 3


BAD = {
    "two models": [bench(512, 0, PP), bench(512, 0, PP, model_filename="other.gguf")],
    "no time": [bench(512, 0, [0])],
    "no number": [bench(512, 0, ["x"])],
    "nothing": [bench(512, 0, [])],
    "both at once": [bench(512, 128, PP)],
    "many tokens": [bench(10**9, 0, PP)],
    "an age": [bench(512, 0, [10**15])],
}


@pytest.mark.parametrize("case", BAD)
def test_what_llama_bench_cannot_have_written_is_refused(tmp_path, case):
    with pytest.raises(InputError):
        read(written(tmp_path, BAD[case]))


def test_aiperfs_requests_are_requests(tmp_path):
    lines = [line(1), line(0), line(2, error={"message": "x"}), line(3)]
    reading = read(written(tmp_path, lines, lines=True))
    (found,) = reading.found
    assert isinstance(found, Generated)
    assert found.requests["t_ns"].tolist() == [0, 10**9, 3 * 10**9]
    assert set(found.requests["ttft_ns"]) == {200_000_000}
    assert set(found.gap_ns) == {10_000_000}
    assert "left out as failed, cancelled or without a latency: 1 request" in reading.notes[-1]


def test_aiperfs_summary_is_a_summary(tmp_path):
    latency = {"unit": "ms", "avg": 2413.5, "p50": 2431.75, "p99": 2439.45, "min": 2358.58, "max": 2439.55}
    document = {"aiperf_version": "0.10.0", "request_latency": latency, "request_count": {"avg": 10.0}}
    (found,) = read(written(tmp_path, document | {"time_to_first_token": {"unit": "ms", "p50": 175.05}})).found
    assert isinstance(found, Summary)
    assert (found.count, found.figures["p50_ms"], found.more["ttft_p50_ms"]) == (10, 2431.75, 175.05)
    with pytest.raises(InputError):
        read(written(tmp_path, document | {"request_latency": {**latency, "min": 1e6}}))
