"""How much `edgetop watch --url` slows a llama-server, and how exact its figures are. The server is the wheel's own.

Run it on a quiet machine:

    pytest -q -m benchmark tests/benchmarks/test_watch_server.py
"""

import contextlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tests.support.commands import edgetop, environment
from tests.support.gguf_models import language_model
from tests.support.processes import engine_of
from tests.support.waiting import wait_until
from tests.support.wheel_server import WheelServer, ask

pytestmark = pytest.mark.benchmark

QUADS, TURN_S, TOKENS = 40, 1.5, 48
MOST_ERROR = 0.012  # of the ratio; on a quiet machine it is 0.009 to 0.010
LONGEST_S = 1800


@pytest.fixture(scope="module", name="model")
def fixture_model(tmp_path_factory):
    """Some ms for a token, as a small real model on a board."""
    path = tmp_path_factory.mktemp("models") / "model.gguf"
    path.write_bytes(language_model(kind="Q8_0", layers=8, width=512, heads=8, kv_heads=8))
    return path


@contextlib.contextmanager
def watching(url, folder):
    """A headless `edgetop watch --url` that reads the server: its main process, and the one that reads."""
    words = [sys.executable, "-m", "edgetop", "watch", "--url", url, "--headless", "-o", "seen"]
    process = subprocess.Popen(
        words, cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    reader = process
    try:
        wait_until(lambda: list((folder / "seen.edgetop" / "journal").glob("*.journal")), 30)
        time.sleep(3)  # its start is no part of what it costs
        reader = psutil.Process(engine_of(process))
        yield process, reader
    finally:
        for one in (process, reader):
            one.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def turn(url):
    """The mean time of a token in ns by the server's own clock, over a turn of requests."""
    until, tokens, took_ms = time.monotonic() + TURN_S, 0, 0.0
    while time.monotonic() < until:
        own = ask(url, TOKENS)
        tokens, took_ms = tokens + own["predicted_n"] - 1, took_ms + own["predicted_ms"]
    return took_ms / tokens


@pytest.mark.timeout(LONGEST_S)
@pytest.mark.parametrize(
    ("threads", "reader_alone"),
    [(1, False), (os.cpu_count(), False), (os.cpu_count(), True)],
    ids=["one thread", "all CPUs", "all CPUs, reads alone"],
)
def test_a_server_is_slowed_by_less_than_a_hundredth(model, tmp_path, say, threads, reader_alone):
    """Turns with and without edgetop, in the order ABBA BAAB ... Without it, its processes are stopped.

    `reader_alone` stops only the process that reads the server, so that the cost of its reads is seen apart from that
    of sensors and recording.
    """
    ratios = []
    with WheelServer(model, threads=threads) as server, watching(server.url, tmp_path) as (whole, reader):
        turn(server.url)
        for number in range(QUADS):
            logs = {True: 0.0, False: 0.0}
            for runs in (False, True, True, False) if number % 2 else (True, False, False, True):
                for process in [reader] if reader_alone else [whole, reader]:
                    process.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)
                logs[runs] += math.log(turn(server.url)) / 2
            ratios.append(logs[False] - logs[True])
    speed, error = math.exp(statistics.mean(ratios)), statistics.stdev(ratios) / math.sqrt(len(ratios))
    middle, what = math.exp(statistics.median(ratios)), "the reads" if reader_alone else "edgetop"
    say(f"{threads} threads, speed with {what}: x {speed:.4f} +- {error:.4f} (median x {middle:.4f})")
    assert error <= MOST_ERROR, "too noisy to tell"
    assert speed + 2 * error >= 0.99


@pytest.mark.timeout(LONGEST_S)
@pytest.mark.parametrize("tokens", [16, 400])
def test_rates_over_a_minute_are_those_of_the_server(model, tmp_path, say, tokens):
    """Within 2 %. The first tokens of requests that are shorter than the interval of the reads may count, too.

    Only requests in the time of the session count, because the start of edgetop slows the server.
    """
    over, own = threading.Event(), []
    with WheelServer(model) as server:

        def load():
            while not over.is_set():
                own.append((time.monotonic_ns(), ask(server.url, tokens), time.monotonic_ns()))

        thread = threading.Thread(target=load)
        thread.start()
        done = edgetop(
            "watch", "--url", server.url, "--headless", "--duration", "60s", "-o", "seen", home=tmp_path, timeout=120
        )
        over.set()
        thread.join()
    assert done.returncode == 0, done.stderr
    report = json.loads(edgetop("report", "seen", "--json", home=tmp_path).stdout)
    seen, begin_ns = report["generation"], report["session"]["clock"]["origin_monotonic_ns"]
    inside = [one for start, one, end in own if begin_ns <= start and end <= begin_ns + 60 * 10**9]
    rate = 1000 * sum(one["predicted_n"] - 1 for one in inside) / sum(one["predicted_ms"] for one in inside)
    say(f"{tokens} tokens: decode {seen['decode_tok_s']:.1f} tok/s, the server's own {rate:.1f}")
    assert 0.98 * rate <= seen["decode_tok_s"] <= 1.02 * rate * tokens / (tokens - 1)
