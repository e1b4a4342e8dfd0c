"""What an Ollama server tells, and where the llama-server is that runs a model for it.

Ollama's server has no figures of the requests of others. `/api/ps` lists the models that are loaded (PsHandler in
server/routes.go), each answer has its own times and counts, and there is no `/metrics` (issue 3144 of ollama/ollama).
Since version 0.30 it runs each GGUF model in a llama-server of its own, on a port of the loopback (startLlamaServer in
llm/llama_server.go). That one has `/slots`, which is on by default (`endpoint_slots` in common/common.h of llama.cpp).
It has `/metrics` if Ollama was started with LLAMA_ARG_ENDPOINT_METRICS=1 in its environment, which it hands on.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, List, Optional, Tuple

from .engine_error import EngineError, one_line
from .http_client import HttpClient, HttpError, StoppedError

MOST_NAMED, MOST_NAME = 3, 60  # models that are named in a line, and characters of each name
MOST_LISTED = 1000
LOCAL = ("localhost", "::1", "0.0.0.0", "::")  # noqa: S104  addresses of this machine, not bound here
PROGRAM, RUNNER = "ollama", "llama-server"  # names of the processes


def loaded_models(server: HttpClient, is_over: Callable[[], bool] = lambda: False) -> Optional[List[str]]:
    """Return the names of the models that an Ollama server has loaded, or None if the server is no Ollama.

    `is_over` says whether to stop waiting.
    """
    document = _document(server, "/api/ps", is_over)
    listed = document.get("models") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        return None
    names = [one.get("name") for one in listed[:MOST_LISTED] if isinstance(one, dict)]
    return [name[:200] for name in names if isinstance(name, str) and name]


def refusal(server: HttpClient, is_over: Callable[[], bool] = lambda: False) -> Optional[EngineError]:
    """Return an error which says what an Ollama server shows of others' requests, and how to see them.

    Returns None if the server is no Ollama. `is_over` says whether to stop waiting.
    """
    names = loaded_models(server, is_over)
    if names is None:
        return None
    version = _document(server, "/api/version", is_over)
    number = version.get("version") if isinstance(version, dict) else None
    called = "Ollama %s" % one_line(number, 20) if isinstance(number, str) and number else "Ollama"
    shown = [one_line(name, MOST_NAME) for name in names[:MOST_NAMED]] + ["..."] * (len(names) > MOST_NAMED)
    models = ", ".join(shown) or "none now"
    text = "--url %s: %s shows which models are loaded (%s), but no requests and no tokens" % (
        server.url, called, models,
    )  # fmt: skip
    is_local = server.host in LOCAL or server.host.startswith("127.")
    ports = runner_ports() if is_local else []
    if ports:
        urls = " or ".join("--url http://127.0.0.1:%d" % port for port in ports[:MOST_NAMED])
        return EngineError("input", text, "read its llama-server: %s; or send requests: --prompt TEXT" % urls)
    advice = "send requests: --prompt TEXT; or see all: edgetop watch --follow-children -- ollama serve"
    return EngineError("input", text, advice)


def _document(server: HttpClient, path: str, is_over: Callable[[], bool]) -> Any:
    base = HttpClient(server.url)
    base.path = base.path.partition("/v1")[0]
    try:
        return base.document(path, is_over)
    except (HttpError, StoppedError, OSError):
        return None


def runners(proc: str = "/proc") -> List[Tuple[int, int, int]]:
    """Return (process id, process id of Ollama, port) of each llama-server that an Ollama on this machine has started.

    `proc` is the folder of proc(5).
    """
    found = []
    for name in sorted(filter(str.isdigit, os.listdir(proc)), key=int):
        with contextlib.suppress(OSError, ValueError, IndexError):
            command, parent = _stat("%s/%s" % (proc, name))
            if command != RUNNER or _stat("%s/%d" % (proc, parent))[0] != PROGRAM:
                continue
            with open("%s/%s/cmdline" % (proc, name), "rb") as file:
                words = file.read(65_536).decode("utf-8", "replace").split("\0")
            port = int(words[words.index("--port") + 1])
            if 0 < port < 65_536:
                found.append((int(name), parent, port))
    return found


def runner_of(ollama: int, proc: str = "/proc") -> Optional[int]:
    """Return the id of the llama-server that the Ollama with this process id runs, or None unless it is exactly one."""
    own = [runner for runner, parent, _ in runners(proc) if parent == ollama]
    return own[0] if len(own) == 1 else None


def runner_ports(proc: str = "/proc") -> List[int]:
    """Return the ports of `runners`."""
    return [port for _, _, port in runners(proc)]


def _stat(folder: str) -> Tuple[str, int]:
    """Return the name of a process and the id of its parent. Raises OSError if it has ended."""
    with open("%s/stat" % folder, "rb") as file:
        text = file.read(4096).decode("utf-8", "replace")
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, int(rest.split()[1])
