"""`edgetop watch -- COMMAND` of a program with llama.cpp: its tokens against those that it counts itself."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support import wheel_server
from tests.support.commands import edgetop
from tests.support.gguf_models import language_model

pytestmark = pytest.mark.slow


def watched(folder, *tokens, parallel=1):
    """Watch the wheel's server while it answers. Returns its own counts and times, the report, and the requests."""
    (folder / "model.gguf").write_bytes(language_model(layers=4, width=256, heads=8, kv_heads=8))
    program = (sys.executable, Path(wheel_server.__file__), "model.gguf", 1, parallel, *tokens)
    done = edgetop("watch", "--headless", "-o", "seen", "--app-output", "said.txt", "--", *program, home=folder)
    assert done.returncode == 0, done.stderr
    lines = (folder / "said.txt").read_text().splitlines()
    own = [json.loads(line) for line in lines if line.startswith('{"')]
    report = json.loads(edgetop("report", "seen", "--json", home=folder).stdout)
    return own, report, pq.read_table(folder / "seen.edgetop" / "requests.parquet").to_pylist()


def test_tokens_and_rates_of_a_program_are_those_that_it_counts_itself(tmp_path):
    own, report, requests = watched(tmp_path, *[60] * 12)
    figures = report["generation"]
    assert (figures["requests"], figures["seen_by"]) == (12, "batches")
    assert figures["tokens_out"] == sum(one["predicted_n"] for one in own) == 12 * 60
    assert figures["tokens_in"] - figures["tokens_cached"] == sum(one["prompt_n"] for one in own)
    rate = sum(one["predicted_n"] - 1 for one in own) / sum(one["predicted_ms"] for one in own) * 1000
    assert figures["decode_tok_s"] == pytest.approx(rate, rel=0.1)
    assert figures["itl"]["count"] == 12 * 59
    assert figures["ttft"]["count"] == 12
    assert [row["tokens_out"] for row in requests] == [60] * 12
    assert figures["context"] == {"size": 512, "used_max": requests[0]["tokens_in"] + 59}
    assert report["latency"]["count"] + report["phases"]["warmup"]["runs"] >= 12 * 60  # inferences are batches
    text = " ".join(edgetop("report", "seen", home=tmp_path).stdout.split())
    assert "720 out" in text
    assert "an inference is a batch" in text


def test_requests_at_the_same_time_are_told_apart(tmp_path):
    own, report, requests = watched(tmp_path, "40+50", "30+30", parallel=2)
    assert sorted(row["tokens_out"] for row in requests) == [30, 30, 40, 50]
    assert report["generation"]["tokens_out"] == sum(one["predicted_n"] for one in own) == 150
    assert report["generation"]["requests"] == 4


def test_another_program_has_no_generation(tmp_path):
    done = edgetop("watch", "--headless", "-o", "seen", "--", sys.executable, "-c", "pass", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(edgetop("report", "seen", "--json", home=tmp_path).stdout).get("generation") is None
