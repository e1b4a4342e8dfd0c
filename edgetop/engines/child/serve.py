"""The helper process (profilers/helper.py starts it): it prepares a profiler, and answers each request with a profile.

Each request and each answer is a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import signal
import threading
import time
from typing import Any, Dict

from . import memory
from .adapters import choose
from .errors import one_line
from .profilers import Allowance

# The kernel's OOM killer takes the helper before the engine (proc(5): -1000..1000; the engine has 500).
OOM_SCORE_ADJ = "900"


def main(control_fd: int, data_fd: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # beside a thread of the app, the terminal's reaches it too
    os.set_inheritable(control_fd, False)
    os.set_inheritable(data_fd, False)
    requests: "queue.Queue[Dict[str, Any]]" = queue.Queue()
    threading.Thread(target=_listen, args=(control_fd, requests), daemon=True).start()
    memory.yield_to_the_oom_killer(OOM_SCORE_ADJ)
    first = requests.get()
    try:
        adapter, _ = choose(first["spec"]["engine"], first["spec"]["format"])
        module = importlib.import_module(".profilers." + first["service"], __package__)
        service = module.Service(first["spec"], adapter)
        _send(data_fd, {"way": service.way})
        while True:
            request = requests.get()
            begin = time.monotonic_ns()
            service.make_ready()
            # Preparation makes the pause long in any case: as much time again for runs adds little to it.
            budget_ns = max(request["budget_ns"], time.monotonic_ns() - begin)
            _send(data_fd, service.burst(Allowance(budget_ns, lambda: False, request["max_runs"])).describe())
    except Exception as error:  # a runtime's own, whatever it is
        _send(data_fd, {"refused": one_line(error)})
    return 0


def _listen(control_fd: int, requests: Any) -> None:
    """Queue the engine's requests; when the engine is gone, exit, even within a long inference."""
    with os.fdopen(control_fd, encoding="utf-8") as lines:
        for line in lines:
            requests.put(json.loads(line))
    os._exit(0)


def _send(data_fd: int, message: Dict[str, Any]) -> None:
    left = json.dumps(message).encode() + b"\n"
    while left:
        left = left[os.write(data_fd, left) :]
