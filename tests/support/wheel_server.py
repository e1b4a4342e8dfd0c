"""llama-server, as the wheel of xllamacpp has it: a process of its own on a free port of the loopback.

As a program, `python -m tests.support.wheel_server MODEL THREADS PARALLEL [TOKENS ...]` asks for answers of TOKENS
tokens one after another, prints the server's own counts and times of each as JSON, and ends. Without TOKENS it serves
until its standard input ends.
"""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[2]


def order(model, *, threads=1, parallel=1, tokens=()):
    return [sys.executable, "-m", "tests.support.wheel_server", *map(str, (model, threads, parallel, *tokens))]


def ask(url, tokens, prompt="w1 w2 w3", *, reuses=False):
    """Ask the server for an answer of `tokens` tokens, and return its own counts and times (`timings`)."""
    content = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": reuses}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/completion", json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())["timings"]


class WheelServer:
    """Serves as a context manager; `url` is where, `pid` its process."""

    def __init__(self, model, *, threads=1, parallel=1):
        self._order = order(model, threads=threads, parallel=parallel)

    def __enter__(self):
        self._process = subprocess.Popen(
            self._order, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.pid, self.url = self._process.pid, self._process.stdout.readline().strip()
        assert self.url.startswith("http://"), "the server has not begun"
        return self

    def __exit__(self, *_):
        self._process.communicate()


def serve(model, threads, parallel, tokens):
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.warmup = model, 512 * parallel, parallel, False
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
    options.endpoint_metrics = options.endpoint_slots = True
    server = xllamacpp.Server(options)
    if not tokens:
        print(server.listening_address, flush=True)
        sys.stdin.read()
    for group in tokens:  # such as 5+7, for two answers at the same time
        said = [None] * len(each := [int(one) for one in group.split("+")])

        def one(place, count, said=said):
            said[place] = ask(server.listening_address, count, f"w{place} w2 w3 w4"[: 11 if place else 8])

        threads_ = [threading.Thread(target=one, args=pair) for pair in enumerate(each)]
        for thread in threads_:
            thread.start()
        for thread in threads_:
            thread.join()
        for timings in said:
            print(f"\n{json.dumps(timings)}", flush=True)  # the server's log may have begun a line
    os._exit(0)  # its threads may outlive its module


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
