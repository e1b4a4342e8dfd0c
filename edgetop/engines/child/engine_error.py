"""The error class of the engine child. An error says at which stage of the run it happened, why, and what may help."""

from __future__ import annotations

import re

# "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : " adds nothing to the rest of the message.
_ORT_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")

# Messages of Python, the dynamic loader, C++ and OpenBLAS when memory is short (ulimit -v, a cgroup).
_NO_MEMORY = re.compile(
    r"MemoryError|failed to map segment|[Cc]annot allocate memory|bad_alloc|Memory allocation still failed"
)


def is_out_of_memory(words: str) -> bool:
    """Whether an error message says that memory ran out.

    >>> is_out_of_memory("onnxruntime.so: failed to map segment from shared object")
    True
    """
    return _NO_MEMORY.search(words) is not None


class EngineError(Exception):
    """Raised if the engine cannot continue.

    `stage` is "runtime", "model", "input" or "first" for errors that the user can mend (exit code 2). It is "inference"
    or "engine" for errors that end a session which ran (exit code 3).
    """

    def __init__(self, stage: str, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.stage = stage
        self.message = " ".join(message.splitlines())  # names of files and inputs may hold line breaks
        self.advice = advice


def one_line(error: object, limit: int = 400) -> str:
    r"""Return an error's message as one line of at most `limit` characters.

    Without a message, return the error's class name. Bytes that are no UTF-8, as in names of files, become escapes.

    >>> one_line(ValueError("a\nb")), one_line(OSError("caf\udce9"))
    ('a b', 'caf\\udce9')
    """
    try:
        words = str(error)
    except Exception:  # an error of a runtime may fail at this too
        words = ""
    text = _ORT_PREFIX.sub("", " ".join(words.split())) or type(error).__name__
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def typed_line(error: BaseException) -> str:
    """Return an error's class and its message as one line.

    >>> typed_line(KeyError("x")), typed_line(KeyboardInterrupt())
    ("KeyError: 'x'", 'KeyboardInterrupt')
    """
    name, words = type(error).__name__, one_line(error)
    return name if words == name else "%s: %s" % (name, words)


# What ONNX Runtime and TensorFlow Lite put around the sentence that explains a failure.
_WRAPPED = re.compile(
    r"(?:.*?running (?P<op>\w+) node\..*?Status Message: )?(?:\S*[/.]\S*:\d+.*? was false\. )?(?P<words>.*)"
)
_SOURCE = re.compile(r"\S+/\S+\.(?:cc|h|cpp):\d+ ")
MOST_ESSENCE = 160


def essence(message: str) -> str:
    """Return the sentence of a runtime's error that says what is wrong, without file names of the runtime's source.

    >>> essence("the first inference failed: returned while running Reshape node. Name:'r' Status Message: a/b.h:9 "
    ...         "f(x) size == wanted was false. The input tensor cannot be reshaped.")
    'Reshape: The input tensor cannot be reshaped.'
    >>> essence("cannot be prepared: tensorflow/lite/kernels/reshape.cc:92 4 != 1 (Node 3 failed)")
    'cannot be prepared: 4 != 1 (Node 3 failed)'
    """
    found = _WRAPPED.fullmatch(message)
    words = _SOURCE.sub("", found["words"] if found else message).strip()
    text = "%s: %s" % (found["op"], words) if found and found["op"] else words
    if len(text) > MOST_ESSENCE or text.endswith("…"):
        whole = text[:MOST_ESSENCE].rpartition(". ")[0]  # leave out the sentence that is cut off
        return whole or text[: MOST_ESSENCE - 1] + "…"
    return text
