"""The one error of the child, with what its reader needs: where it happened and what to do."""

from __future__ import annotations

import re

# "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : " says nothing that the rest does not.
_ORT_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")

# What Python, the dynamic loader, C++ and OpenBLAS say where memory is short (ulimit -v, a cgroup).
_NO_MEMORY = re.compile(
    r"MemoryError|failed to map segment|[Cc]annot allocate memory|bad_alloc|Memory allocation still failed"
)


def is_out_of_memory(words: str) -> bool:
    """
    >>> is_out_of_memory("onnxruntime.so: failed to map segment from shared object")
    True
    """
    return _NO_MEMORY.search(words) is not None


class EngineError(Exception):
    """Why the engine cannot continue.

    stage: "runtime", "model", "input" and "first" are the user's to mend (exit code 2);
    "inference" and "engine" end a session that ran (exit code 3).
    """

    def __init__(self, stage: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.message = " ".join(message.splitlines())  # names of files and inputs may hold line breaks
        self.advice = advice


def one_line(error: object, limit: int = 400) -> str:
    """A runtime's words folded into one line of at most `limit` characters."""
    text = _ORT_PREFIX.sub("", " ".join(str(error).split())) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
