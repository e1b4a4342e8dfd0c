"""`edgetop run model.gguf` as a user types it: real models with random weights, real tokens."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support import onnx_models
from tests.support.commands import edgetop, environment, start_edgetop
from tests.support.gguf_models import gguf, language_model
from tests.support.processes import engine_of
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

MODELS = [("llama", "F32"), ("llama", "Q8_0"), ("qwen2", "Q4_0")]
SHORT = ("--prompt-tokens", 24, "--max-tokens", 16, "--threads", 1, "--headless")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llm")
    for architecture, kind in MODELS:
        (folder / f"{architecture}-{kind}.gguf").write_bytes(language_model(architecture, kind))
    unknown = language_model().replace(b"llama", b"lxxxx")
    (folder / "unknown.gguf").write_bytes(unknown)
    (folder / "mute.gguf").write_bytes(language_model(tokenizer__ggml__model="no_vocab", llama__vocab_size=300))
    (folder / "cut.gguf").write_bytes(language_model()[:90_000])
    (folder / "no-weights.gguf").write_bytes(gguf({"general.architecture": "llama"}, {}))
    (folder / "huge.gguf").write_bytes(language_model(context=2**24, layers=2))
    (folder / "model.onnx").write_bytes(onnx_models.onnx_tiny())
    (folder / "prompts.jsonl").write_text('{"prompt": "one"}\n"two words"\n\n{"text": "three"}\n')
    (folder / "broken.jsonl").write_text('{"prompt": 3}\n')
    return folder


def table(folder, session, name):
    return pq.read_table(folder / f"{session}.edgetop" / f"{name}.parquet").to_pydict()


def report(folder, session):
    return json.loads(edgetop("report", session, "--json", home=folder).stdout)


@pytest.mark.parametrize(("architecture", "kind"), MODELS)
def test_requests_and_tokens_are_recorded_and_reported(folder, architecture, kind):
    name = f"{architecture}-{kind}"
    done = edgetop("run", f"{name}.gguf", *SHORT, "--runs", 12, "-o", name, home=folder)
    assert done.returncode == 0, done.stderr
    assert "tok/s" in done.stdout
    requests = table(folder, name, "requests")
    measured = [place for place, phase in enumerate(requests["phase"]) if phase == "measure"]
    assert len(measured) == 12
    assert {requests["finish"][place] for place in measured} == {"length"}
    for key, value in (("tokens_in", 24), ("tokens_out", 16), ("tokens_cached", 0), ("position", 39)):
        assert {requests[key][place] for place in measured} == {value}
    for place in measured:
        one = {key: values[place] for key, values in requests.items()}
        assert 0 < one["prefill_ns"] <= one["ttft_ns"] < one["latency_ns"]
        assert one["ttft_ns"] + one["decode_ns"] == pytest.approx(one["latency_ns"], abs=1)
        assert 0 < one["sample_ns"] < one["latency_ns"]
    latencies = table(folder, name, "inferences")["latency_ns"][-12:]
    assert latencies == [requests["latency_ns"][place] for place in measured]
    seconds = table(folder, name, "seconds")
    assert sum(seconds["requests"]) == sum(seconds["count"]) == sum(seconds["ttft_count"]) == 12
    assert sum(seconds["tokens_out"]) == 12 * 16
    assert sum(seconds["itl_count"]) == sum(map(sum, seconds["itl_bucket_count"])) == 12 * 15
    whole = report(folder, name)
    figures = whole["generation"]
    assert "short-warmup" not in {warning["code"] for warning in whole["warnings"]}
    assert (figures["requests"], figures["tokens_in"], figures["tokens_out"]) == (12, 12 * 24, 12 * 16)
    assert figures["context"] == {"size": 512, "used_max": 39}
    for key, column in (("ttft", "ttft_ns"),):
        exact = np.sort([requests[column][place] for place in measured])
        assert figures[key]["p50_ms"] == pytest.approx(exact[5] / 1e6, rel=0.01)
    decode_ns = sum(requests["decode_ns"][place] for place in measured)
    assert figures["decode_tok_s"] == pytest.approx(12 * 15 / decode_ns * 1e9, rel=1e-3)
    prefill = sum(requests["prefill_ns"][place] for place in measured)
    assert figures["prefill_tok_s"] == pytest.approx(12 * 24 / prefill * 1e9, rel=1e-3)


def test_texts_are_taken_in_turn_and_the_models_end_ends_a_request(folder):
    done = edgetop(
        "run", "llama-F32.gguf", "--prompts", "prompts.jsonl", "--max-tokens", 4, "--headless", "--runs", 6, "-o", "t",
        home=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    requests = table(folder, "t", "requests")
    assert requests["prompt"][-6:] == [2, 0, 1, 2, 0, 1]  # after the first and the warm-up request
    assert len(set(requests["tokens_in"])) == 3
    assert report(folder, "t")["session"]["generation"]["prompts"] == 3


def test_a_text_is_put_into_the_models_chat_template(folder):
    template = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>{% endfor %}"
    (folder / "chat.gguf").write_bytes(language_model(tokenizer__chat_template=template))
    counts = {}
    for name in ("llama-F32", "chat"):
        words = ("--prompt", "hello", "--max-tokens", 2, "--headless", "--runs", 1)
        edgetop("run", f"{name}.gguf", *words, "-o", f"{name}-said", home=folder)
        counts[name] = table(folder, f"{name}-said", "requests")["tokens_in"][-1]
    around = len("<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n")  # this vocabulary has a token for each byte
    assert counts["chat"] == counts["llama-F32"] + around


def test_gates_judge_tokens(folder):
    gates = ["ttft.p99>10s", "itl.p99>10s", "decode<1tok/s", "prefill<1tok/s", "decode<1000000tok/s", "energy>1J/token"]
    given = [word for gate in gates for word in ("--fail-if", gate)]
    done = edgetop("run", "llama-F32.gguf", *SHORT, "--runs", 50, *given, "--json", "--no-record", home=folder)
    assert done.returncode == 1
    assert [gate["ok"] for gate in json.loads(done.stdout)["gates"]] == [True, True, True, True, False, False]


def test_a_gate_on_tokens_fails_for_other_models(folder):
    done = edgetop(
        "run", "model.onnx", "--headless", "--runs", 20, "--no-record", "--fail-if", "itl.p99>1s", home=folder
    )
    assert done.returncode == 1
    assert "no token of a language model was measured" in done.stderr


def test_a_schedule_counts_its_wait_in_the_time_to_the_first_token(folder):
    load = ("--rate", 100_000, "--duration", "300ms", "--warmup-runs", 0)
    done = edgetop("run", "llama-F32.gguf", *SHORT, *load, "-o", "paced", home=folder)
    assert done.returncode == 0, done.stderr
    requests = table(folder, "paced", "requests")
    measured = [i for i, phase in enumerate(requests["phase"]) if phase == "measure"]
    waits = [requests["wait_ns"][i] for i in measured]
    assert waits == sorted(waits)
    assert waits[-1] > 1_000_000
    assert all(requests["ttft_ns"][i] > requests["wait_ns"][i] for i in measured)


@pytest.mark.thorough
def test_the_end_cuts_a_request_off(folder):
    words = ("--prompt-tokens", 8, "--max-tokens", 400, "--headless", "--threads", 1)
    edgetop("run", "llama-F32.gguf", *words, "--duration", "1s", "-o", "cut-off", home=folder)
    requests, whole = table(folder, "cut-off", "requests"), report(folder, "cut-off")
    assert requests["finish"][-1] in ("cancelled", "length")
    counted = sum(phase == "measure" for phase in requests["phase"]) - (requests["finish"][-1] == "cancelled")
    assert whole["generation"]["requests"] == whole["latency"]["count"] == counted


def test_parallel_requests_share_batches_and_are_recorded_one_by_one(folder):
    load = ("--parallel", 3, "--runs", 20, "--warmup-runs", 2)
    done = edgetop("run", "llama-F32.gguf", *SHORT, *load, "-o", "parallel", home=folder)
    assert done.returncode == 0, done.stderr
    assert "up to 3 requests at a time" in done.stdout
    requests, seconds = table(folder, "parallel", "requests"), table(folder, "parallel", "seconds")
    whole = report(folder, "parallel")
    figures = whole["generation"]
    assert whole["session"]["generation"]["parallel"] == 3
    assert (figures["requests"], figures["tokens_in"], figures["tokens_out"]) == (20, 20 * 24, 20 * 16)
    measured = [place for place, phase in enumerate(requests["phase"]) if phase == "measure"]
    assert sorted(requests["position"][place] for place in measured) == [39] * 20
    spans = [(requests["t_ns"][i], requests["t_ns"][i] + requests["latency_ns"][i]) for i in measured]
    at_once = [sum(begin <= start < end for begin, end in spans) for start, _ in spans]
    assert max(at_once) == 3
    assert all(
        requests["ttft_ns"][i] + requests["decode_ns"][i] == pytest.approx(requests["latency_ns"][i], abs=1)
        for i in measured
    )
    starts = table(folder, "parallel", "inferences")["t_ns"]
    assert starts == sorted(starts)
    assert set(seconds["active"]) <= {0, 1, 2, 3}
    assert max(seconds["active"]) > 0
    lasted_ns = max(end for _, end in spans) - min(begin for begin, _ in spans)
    assert figures["total_tok_s"] == pytest.approx(20 * 16 / lasted_ns * 1e9, rel=0.05)
    assert figures["total_tok_s"] > figures["decode_tok_s"]


@pytest.mark.thorough
def test_parallel_requests_have_the_tokens_of_single_ones(folder):
    """Each sequence has its own context and position, so greedy tokens are those of a request that runs alone."""
    texts = ["one", "two words", "three"]
    (folder / "three.jsonl").write_text("\n".join(map(json.dumps, texts)))
    finished = {}
    for parallel in (1, 3):
        words = ("--prompts", "three.jsonl", "--max-tokens", 400, "--parallel", parallel, "--runs", 9, "--headless")
        edgetop("run", "llama-F32.gguf", *words, "--threads", 1, "-o", f"same-{parallel}", home=folder)
        rows = table(folder, f"same-{parallel}", "requests")
        ran = [i for i, phase in enumerate(rows["phase"]) if phase == "measure"]
        finished[parallel] = {(rows["prompt"][i], rows["tokens_in"][i], rows["tokens_out"][i]) for i in ran}
    assert finished[1] == finished[3]


@pytest.mark.thorough
def test_parallel_requests_wait_in_one_queue(folder):
    load = ("--parallel", 2, "--rate", 100_000, "--duration", "300ms", "--warmup-runs", 0)
    done = edgetop("run", "llama-F32.gguf", *SHORT, *load, "-o", "queued", home=folder)
    assert done.returncode == 0, done.stderr
    requests = table(folder, "queued", "requests")
    measured = sorted((requests["t_ns"][i], i) for i, phase in enumerate(requests["phase"]) if phase == "measure")
    due = [t_ns - requests["wait_ns"][i] for t_ns, i in measured]
    assert due == sorted(due)
    assert np.diff(due).max() < 20_000  # every 10 us one was due, and none was left out


def test_the_most_probable_tokens_and_the_perplexity_of_two_quantisations_are_compared(folder):
    (folder / "text.txt").write_text("Some words that repeat, and some that do not. " * 6)
    for name in ("llama-F32", "llama-Q8_0"):
        words = ("--prompt", "text.txt", "--max-tokens", 2, "--runs", 2, "--keep-outputs", 2, "--headless")
        done = edgetop("run", f"{name}.gguf", *words, "-o", f"said-{name}", home=folder)
        assert done.returncode == 0, done.stderr
    given = ("--fail-if", "same-top<101%", "--fail-if", "same-top<1%", "--fail-if", "perplexity>+900%")
    done = edgetop("compare", "said-llama-F32", "said-llama-Q8_0", *given, "--json", home=folder)
    document = json.loads(done.stdout)
    rows = {row["key"]: row["values"] for row in document["rows"]}
    assert rows["output/next token/same_top"][0] is None
    assert 0.3 < rows["output/next token/same_top"][1] <= 1
    likely = [np.load(folder / f"said-{name}.edgetop" / "outputs.npz") for name in ("llama-F32", "llama-Q8_0")]
    exact = [np.exp(-np.concatenate([kept[f"0000{n}-1"].ravel() for n in range(2)]).mean()) for kept in likely]
    assert rows["output/log-likelihood/perplexity"] == pytest.approx(exact, rel=1e-6)
    assert 50 < exact[0] < 100_000  # a model with random weights and 300 words
    assert likely[0]["00000-0"].shape == (16, 300)
    assert likely[0]["00000-1"].shape == (128, 1)
    assert [gate["ok"] for gate in document["gates"]] == [False, True, True]
    assert done.returncode == 1


@pytest.mark.thorough
def test_outputs_that_are_kept_do_not_depend_on_the_batch(folder):
    (folder / "text.txt").write_text("Some words that repeat, and some that do not. " * 6)
    scores = []
    for batch in (512, 48):
        words = ("--prompt", "text.txt", "--max-tokens", 2, "--runs", 1, "--keep-outputs", 1, "--batch", batch)
        edgetop("run", "llama-F32.gguf", *words, "--headless", "-o", f"batch-{batch}", home=folder)
        scores.append(np.load(folder / f"batch-{batch}.edgetop" / "outputs.npz")["00000-0"])
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


def test_a_text_of_more_tokens_than_bytes_is_a_prompt(folder):
    done = edgetop(
        "run", "llama-F32.gguf", "--prompt", "a b c d e f g h i j k l m n o p q r s t", "--max-tokens", 2, "--runs", 1,
        "--headless", "--no-record", home=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_two_prompt_lengths_are_recorded_with_their_times(folder):
    (folder / "lengths.jsonl").write_text('"short"\n' + json.dumps("a longer prompt of many words " * 8) + "\n")
    words = ("--prompts", "lengths.jsonl", "--max-tokens", 2, "--runs", 12, "--headless", "-o", "lengths")
    done = edgetop("run", "llama-F32.gguf", *words, home=folder)
    assert done.returncode == 0, done.stderr
    session = json.loads((folder / "lengths.edgetop" / "session.json").read_text())
    ids = [sensor["id"] for sensor in session["sensors"]]
    readings, requests = table(folder, "lengths", "readings"), table(folder, "lengths", "requests")
    values = {
        name: [v for s, v in zip(readings["sensor"], readings["value"], strict=True) if s in (ids.index(name), name)]
        for name in ("input/1-size", "call/1-sized")
    }
    measured = [i for i, phase in enumerate(requests["phase"]) if phase == "measure"]
    assert set(values["input/1-size"]) <= {requests["tokens_in"][i] for i in measured}
    assert len(set(values["input/1-size"])) == 2
    exact = {round(requests["prefill_ns"][i] / 1e6, 5) for i in measured}
    assert {round(ms, 5) for ms in values["call/1-sized"]} <= exact


BAD = {
    "a text for another model": (("model.onnx", "--prompt", "x"), "is for language models"),
    "an input": (("llama-F32.gguf", "--input", "zeros"), "--input is not for language models"),
    "streams": (("llama-F32.gguf", "--streams", 2), "write --parallel N"),
    "parallel requests to another model": (("model.onnx", "--parallel", 2), "is for language models"),
    "a long prompt": (("llama-F32.gguf", "--prompt-tokens", 600), "does not fit into a context of 512"),
    "a large context": (("llama-F32.gguf", "--context", 4096), "was trained with 512 tokens"),
    "too little memory": (("huge.gguf", "--context", 2**24, "--limit", "memory=256M"), "the model needs"),
    "an unknown architecture": (("unknown.gguf",), "unknown model architecture"),
    "no tokenizer": (("mute.gguf", "--prompt", "x"), "has no tokenizer"),
    "a cut file": (("cut.gguf",), "is cut short: 90000 of at least"),
    "no weights": (("no-weights.gguf",), "llama.cpp cannot load it"),
    "an empty prompt": (("llama-F32.gguf", "--prompt", " "), "--prompt: is empty"),
    "a file of other things": (("llama-F32.gguf", "--prompts", "broken.jsonl"), "line 1 has no prompt"),
    "no file": (("llama-F32.gguf", "--prompts", "nowhere.jsonl"), "nowhere.jsonl: cannot be read"),
    "layers on a GPU": (("llama-F32.gguf", "--gpu-layers", 4), "runs on the CPU only"),
    "two kinds of prompts": (("llama-F32.gguf", "--prompt", "x", "--prompt-tokens", 3), "contradict each other"),
    "another runtime": (("llama-F32.gguf", "--engine", "litert"), "does not run gguf models"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_line_and_exit_code_2(folder, case):
    words, said = BAD[case]
    done = edgetop("run", *words, "--headless", "--no-record", "--runs", 2, home=folder)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert said in " ".join(done.stderr.split()), done.stderr
    assert last.startswith("edgetop: ") or said in last


def test_the_operators_of_a_token_are_timed(folder):
    done = edgetop("ops", "llama-F32.gguf", "--threads", 1, "--runs", 30, "--json", home=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    by_type = {row["op_type"]: row["calls"] for row in document["by_type"]}
    assert by_type["MUL_MAT"] == 7 * 2 + 1  # of each layer q, k, v, output, gate, up, down; then the scores
    assert by_type["RMS_NORM"] == 2 * 2 + 1
    assert not {"VIEW", "RESHAPE", "PERMUTE"} & set(by_type)
    assert [row["name"] for row in document["operators"] if row["name"].startswith("ffn_out")] == [
        "ffn_out-0", "ffn_out-1",
    ]  # fmt: skip
    assert 0 < sum(row["mean_us"] for row in document["by_type"]) < document["instrumented_us"]


def test_operators_of_parallel_requests_are_refused_with_the_reason(folder):
    words = (*SHORT, "--parallel", 2, "--runs", 4, "--profile-every", "1s", "-o", "no-operators")
    assert edgetop("run", "llama-F32.gguf", *words, home=folder).returncode == 0
    said = [m for m in table(folder, "no-operators", "events")["message"] if "operators are not profiled" in m]
    assert len(said) == 1
    assert "with --parallel" in said[0]


def test_without_the_runtime_the_package_is_named(folder):
    hiding = "import sys; sys.modules['xllamacpp'] = None; from edgetop.cli.main import main; main()"
    words = ["run", "llama-F32.gguf", "--headless", "--runs", "1"]
    done = subprocess.run(
        [sys.executable, "-c", hiding, *words], cwd=folder, capture_output=True, text=True, env=environment(folder),
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "no runtime for gguf models is installed" in done.stderr
    assert "xllamacpp" in done.stderr or "extra llm" in done.stderr  # as this edgetop was installed
    assert "Traceback" not in done.stderr


def test_a_context_of_the_users_choice_or_as_large_as_fits(folder):
    for given, size in (("auto", 512), ("300", 300)):
        done = edgetop("run", "llama-F32.gguf", *SHORT, "--context", given, "--runs", 1, "--json", home=folder)
        assert json.loads(done.stdout)["generation"]["context"]["size"] == size, done.stderr


@pytest.mark.thorough
def test_two_quantisations_are_compared_in_turns(folder):
    lengths = ("--prompt-tokens", 8, "--max-tokens", 4, "--threads", 1)
    words = ("--headless", "--max-duration", "8s", "--until", "50%", "--json", "-o", "turns")
    done = edgetop("ab", "llama-F32.gguf", "llama-Q8_0.gguf", *lengths, *words, home=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [variant["name"] for variant in document["ab"]["variants"]] == ["llama-F32.gguf", "llama-Q8_0.gguf"]
    assert "p50" in document["ab"]["ratios"]
    assert document["session"]["load"]["input"] == "8 random tokens in, 4 tokens out"
    assert len(set(table(folder, "turns", "inferences")["variant"])) == 2


def test_a_prompt_is_processed_in_pieces_of_the_batch_size(folder):
    done = edgetop("run", "llama-F32.gguf", *SHORT, "--batch", 4, "--runs", 2, "--json", home=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["generation"]["tokens_in"] == 2 * 24
    assert document["latency"]["items_per_s"] == pytest.approx(document["latency"]["throughput_hz"])


def sockets_of(pid: int) -> list[str]:
    """The internet and Unix sockets that a process has open, listening or not."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
            target = str(entry.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6", "unix"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9 if name != "unix" else 6] in inodes:
                found.append(f"{name} {line}")
    return found


@pytest.mark.thorough
def test_the_engine_opens_no_socket(folder):
    process = start_edgetop("run", "llama-F32.gguf", *map(str, SHORT), "-o", "quiet", home=folder)
    try:
        engine = engine_of(process)
        wait_until(lambda: "xllamacpp" in Path(f"/proc/{engine}/maps").read_text())
        journal = folder / "quiet.edgetop" / "journal"
        wait_until(lambda: any(path.stat().st_size > 20_000 for path in journal.glob("*.journal")))
        assert sockets_of(engine) == []
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)


@pytest.mark.thorough
def test_a_killed_run_keeps_its_requests_and_tokens(folder):
    process = start_edgetop("run", "llama-F32.gguf", *map(str, SHORT), "-o", "killed", home=folder)
    journal = folder / "killed.edgetop" / "journal"
    wait_until(lambda: any(path.stat().st_size > 60_000 for path in journal.glob("*.journal")))
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    whole = report(folder, "killed")
    assert whole["session"]["state"] == "recovered"
    requests = table(folder, "killed", "requests")
    measured = sum(phase == "measure" for phase in requests["phase"])
    assert whole["latency"]["count"] == measured > 100
    assert whole["generation"]["tokens_out"] >= 16 * (whole["generation"]["requests"] - 1) > 0
