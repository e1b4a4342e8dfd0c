"""`edgetop watch --url`: a server of language models is read, or gets requests from edgetop as a client."""

import json
import threading
import time

import pyarrow.parquet as pq
import pytest

from edgetop.engines.child.ollama import runner_of, runners
from tests.support.commands import edgetop
from tests.support.llama_server import LlamaServer
from tests.support.thorough import mostly_thorough
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


def generation(folder, session):
    return json.loads(edgetop("report", session, "--json", home=folder).stdout)["generation"]


def own_figures(folder, session):
    events = pq.read_table(folder / f"{session}.edgetop" / "events.parquet").to_pylist()
    return next(json.loads(event["data"]) for event in events if event["kind"] == "server-figures")


def test_a_client_sends_prompts_and_agrees_with_the_servers_own_figures(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('"one"\n{"prompt": "two"}\n')
    with LlamaServer() as server:
        words = ("--prompts", "prompts.jsonl", "--max-tokens", 20, "--runs", 12, "--headless", "-o", "load")
        done = edgetop("watch", "--url", server.url, *words, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [each["messages"][0]["content"] for each in server.requests[-12:]] == ["one", "two"] * 6
    figures, own = generation(tmp_path, "load"), own_figures(tmp_path, "load")
    assert (figures["requests"], figures["tokens_in"], figures["tokens_out"]) == (12, 12 * 33, 12 * 20)
    assert (figures["tokens_cached"], figures["seen_by"], figures["context"]["size"]) == (12 * 24, "client", 1024)
    assert figures["itl"]["count"] == 12 * 19
    assert figures["decode_tok_s"] == pytest.approx(own["decode_tok_s"], rel=0.05)
    assert figures["prefill_tok_s"] == pytest.approx(own["prefill_tok_s"], rel=0.01)
    assert figures["ttft"]["p50_ms"] >= 20
    assert "edgetop is a client" in " ".join(done.stdout.split())


def test_parallel_clients_send_requests_at_the_same_time(tmp_path):
    (tmp_path / "prompts.jsonl").write_text('"one"\n"two"\n"three"\n')
    with LlamaServer(gap_s=0.01) as server:
        words = ("--prompts", "prompts.jsonl", "--max-tokens", 20, "--parallel", 3, "--runs", 12)
        done = edgetop("watch", "--url", server.url, *words, "--headless", "-o", "load", home=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = generation(tmp_path, "load")
    assert (figures["requests"], figures["tokens_out"]) == (12, 12 * 20)
    requests = pq.read_table(tmp_path / "load.edgetop" / "requests.parquet").to_pylist()
    spans = [(row["t_ns"], row["t_ns"] + row["latency_ns"]) for row in requests if row["phase"] == "measure"]
    assert max(sum(begin <= start < end for begin, end in spans) for start, _ in spans) == 3
    texts = [each["messages"][0]["content"] for each in server.requests[-12:]]
    assert {text: texts.count(text) for text in texts} == {"one": 4, "two": 4, "three": 4}


@pytest.mark.parametrize(
    "shown",
    [{}, *(pytest.param({lacks: False}, marks=pytest.mark.thorough) for lacks in ("has_slots", "has_metrics"))],
)
def test_a_server_that_others_use_is_read_without_a_request(tmp_path, shown):
    for attempt in range(4):  # where other programs keep edgetop from reading, two requests may be seen as one
        server, figures = read_beside_others(tmp_path, f"seen-{attempt}", shown)
        tokens = server.totals["tokens_predicted"]
        usual_ms = 1000 * server.totals["tokens_predicted_seconds"] / (tokens * 29 / 30)
        found = {"itl": figures["itl"]["mean_ms"], "context": figures["context"]["used_max"]}
        expected = {"itl": pytest.approx(usual_ms, rel=0.35), "context": pytest.approx(33 + 30, abs=8)}
        if shown.get("has_metrics", True):
            own = own_figures(tmp_path, f"seen-{attempt}")
            assert figures["tokens_out"] >= 3 * 30
            assert shown == {} or figures["tokens_out"] % 30 == 0  # slots also show a request that has not ended
            # Requests under way at the beginning or the end count in one of the two figures only.
            found["rate"], expected["rate"] = figures["decode_tok_s"], pytest.approx(own["decode_tok_s"], rel=0.3)
        if found == expected:
            break
    assert found == expected


def read_beside_others(tmp_path, name, shown):
    """A server with another client, and the figures of the session that watched it."""
    with LlamaServer(gap_s=0.02, prefill_s=0.1, **shown) as server:
        over = threading.Event()

        def load():
            while not over.is_set():
                for _ in server.generate(30):
                    pass
                time.sleep(0.4)

        thread = threading.Thread(target=load)
        words = ("--headless", "--runs", 4, "-o", name)
        thread.start()
        done = edgetop("watch", "--url", server.url, *words, home=tmp_path)
        over.set()
        thread.join()
    assert done.returncode == 0, done.stderr
    assert server.requests == []
    figures = generation(tmp_path, name)
    assert figures["seen_by"] == "server"
    assert figures["requests"] >= 3  # the one that ran at the start has no beginning
    return server, figures


def test_a_server_that_goes_away_is_one_line_and_the_recording_is_whole(tmp_path):
    server = LlamaServer()
    server.__enter__()
    # Not after a time: on a busy machine, edgetop may take longer to start.
    threading.Thread(target=lambda: (wait_until(lambda: len(server.requests) > 8), server.stop()), daemon=True).start()
    words = ("--prompt", "hello", "--max-tokens", 10, "--headless", "-o", "gone")
    done = edgetop("watch", "--url", server.url, *words, home=tmp_path)
    assert done.returncode == 3
    assert len([line for line in done.stderr.splitlines() if line.startswith("edgetop:")]) == 1
    assert "is gone" in done.stderr
    assert "Traceback" not in done.stderr
    assert generation(tmp_path, "gone")["tokens_out"] > 20


HOSTILE = {
    "no HTTP": b"SSH-2.0-x\r\n",
    "a line without an end": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
    "headers without an end": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 10_000,
    "a chunk of a negative size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    "a chunk that is too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n",
    "a length that is too long": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\n\r\ndata: {\n\n",
    "deep JSON": b"HTTP/1.1 200 OK\r\n\r\ndata: " + b"[" * 100_000 + b"\n\n",
    "more tokens than were asked for": b"HTTP/1.1 200 OK\r\n\r\n"
    + b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' * 5_000,
    "no text": b"HTTP/1.1 200 OK\r\n\r\ndata: [DONE]\n\n",
    "an error with escapes": b'HTTP/1.1 500 X\r\n\r\n{"error": {"message": "\\u001b[31mred\\nline"}}',
}


@pytest.mark.parametrize(
    "case", mostly_thorough(HOSTILE, "a length that is too long", "deep JSON", "no text", "an error with escapes")
)
def test_a_hostile_answer_is_one_line(tmp_path, case):
    with LlamaServer(bodies={"/v1/chat/completions": HOSTILE[case]}) as server:
        words = ("--prompt", "hello", "--headless", "--no-record", "--runs", 2)
        done = edgetop("watch", "--url", server.url, *words, home=tmp_path)
    assert done.returncode in (2, 3), done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("edgetop:")]) == 1


def test_what_is_no_server_is_refused_in_a_line(tmp_path):
    for url, said in (("http://127.0.0.1:1", "Connection refused"), ("ftp://x", "is not a URL of HTTP")):
        done = edgetop("watch", "--url", url, "--headless", "--no-record", home=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    with LlamaServer(has_slots=False, has_metrics=False) as server:
        done = edgetop("watch", "--url", server.url, "--headless", "--no-record", home=tmp_path)
    assert done.returncode == 2
    assert "neither /metrics (HTTP status 404: not " in done.stderr
    assert "\x1b" not in done.stderr


LOADED = {
    "name": "gemma3:latest", "model": "gemma3:latest", "size": 6591830464, "size_vram": 0, "context_length": 4096,
    "digest": "a2af6cc3eb7fa8be8504abaf9b04e88f17a119ec3f04a3addf55f92841195f5a",
    "details": {"format": "gguf", "family": "gemma3", "parameter_size": "4.3B", "quantization_level": "Q4_K_M"},
    "expires_at": "2026-11-28T20:33:48Z",
}  # fmt: skip


def answer(document):
    return b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(document).encode()


def ollama(*names, version="0.30.2"):
    """Answers of Ollama, as its server/routes.go has them: it lists all models of its store, and those loaded."""
    stored = [{"id": name, "object": "model", "owned_by": "library"} for name in ("newest:latest", *names)]
    return {
        "/v1/models": answer({"object": "list", "data": stored}),
        "/api/ps": answer({"models": [{**LOADED, "name": name, "model": name} for name in names]}),
        "/api/version": answer({"version": version}),
        **dict.fromkeys(("/metrics", "/slots", "/props"), b"HTTP/1.1 404 Not Found\r\n\r\n404 page not found"),
    }


def refused(tmp_path, bodies):
    with LlamaServer(bodies=bodies) as server:
        done = edgetop("watch", "--url", server.url, "--headless", "--no-record", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("edgetop:")]
    assert "\x1b" not in done.stderr
    return " ".join(done.stderr.split()), said


def test_of_ollama_a_line_says_what_it_shows_and_how_to_see_tokens(tmp_path):
    whole, _ = refused(tmp_path, ollama("gemma3:latest"))
    assert "Ollama 0.30.2 shows which models are loaded (gemma3:latest), but no requests and no tokens" in whole
    assert "--prompt TEXT" in whole
    assert "edgetop watch --follow-children -- ollama serve" in whole
    assert "(none now)" in refused(tmp_path, ollama())[0]
    hostile, _ = refused(tmp_path, ollama("\x1b[31mred\n" + "x" * 500, *"abcd", version="9\x1b[2J" + "9" * 300))
    assert len(hostile) < 500


def test_the_llama_server_that_runs_ollamas_model_is_named(tmp_path):
    for pid, name, parent, words in (
        (10, "ollama", 1, ["ollama", "serve"]),
        (20, "llama-server", 10, ["/usr/lib/ollama/llama-server", "--model", "/m/blobs/sha256-1", "--port", "41813"]),
        (21, "llama-server", 10, ["llama-server", "--port"]),
        (22, "llama-server", 10, ["llama-server", "--port", "99999"]),
        (30, "llama-server", 1, ["llama-server", "--port", "8080"]),
        (40, "bash) x", 10, ["bash"]),
    ):
        (folder := tmp_path / str(pid)).mkdir()
        (folder / "stat").write_text(f"{pid} ({name}) S {parent} 0 0 0\n")
        (folder / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    assert runners(str(tmp_path)) == [(20, 10, 41813)]
    assert runner_of(10, str(tmp_path)) == 20
    (tmp_path / "22/cmdline").write_bytes(b"llama-server\0--port\00041814\0")
    assert runner_of(10, str(tmp_path)) is None  # which of the two answers is not known


def test_ollama_is_asked_for_the_model_that_is_loaded(tmp_path):
    with LlamaServer(bodies=ollama("gemma3:latest", "other:latest")) as server:
        words = ("--prompt", "hello", "--max-tokens", 5, "--runs", 2, "--headless", "-o", "asked")
        done = edgetop("watch", "--url", server.url, *words, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {request["model"] for request in server.requests} == {"gemma3:latest"}
