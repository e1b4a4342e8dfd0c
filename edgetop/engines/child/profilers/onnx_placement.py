"""Find out, in ONNX Runtime's own words, why operators do not run on the provider that was requested.

ONNX Runtime logs its reasons only while it makes a session, and at levels at which it would also log in each inference.
So a second session is made at these levels, in a helper process that runs no inference and whose stderr is read.

A line is `DATE TIME [LEVEL:CATEGORY:LOGGER, FILE:LINE FUNCTION] MESSAGE`
(onnxruntime/core/common/logging/sinks/ostream_sink.cc). Messages with reasons, and where they come from:

- `CUDA kernel not found in registries for Op type: Pad node name: Pad_1`: cuda_execution_provider.cc, GetCapability
- `ORT optimization- Force fallback to CPU execution for node: Gather_5 because ...`: fallback_cpu_capability.cc
- `Unsupported nodes in QNN EP: { name: n0, type: DequantizeLinear }`: qnn_execution_provider.cc, GetCapability
- `Node supported: [0] index: [3] name: [n3] Operator type: [Pad] as part of ...`: the same file, GetSupportedNodes
- `[OpenVINO-EP] Choosing Device: XYZ` and `[OpenVINO-EP] Supported subgraphs on OpenVINO: 0`: all that is logged if
  there is no such device; openvino_provider_factory.cc, ParseDeviceType, and ov_versions/capability.cc, Execute
- `... Failed to load library libonnxruntime_providers_cuda.so with error: libcublasLt.so.12: cannot open shared object
  file: No such file or directory`: provider_bridge_ort.cc, where a whole provider is left out
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from ..engine_error import EngineError, one_line
from .onnx_trace import best_home

MOST_REASONS = 8  # reasons that are reported, those of the most operators first
MOST_CHARACTERS = 240  # of a reason
MOST_BYTES = 64 * 2**20  # of the log that are read; a model with thousands of operators logs a few MiB
LONGEST_LINE = 64 * 1024
VERBOSE = 0  # onnxruntime_c_api.h, OrtLoggingLevel

_LINE = re.compile(r"\[[VIWEF]:onnxruntime:[^,\]]*, ([\w.-]+):\d+ ([^\]]*)\] (.*)")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Files in which providers are loaded; words in names of files and functions that divide a model among providers.
_LOADS = re.compile(r"provider_bridge|pybind_state")
_DIVIDES = re.compile(r"capability|get_?supported|prefer+edNodes|is\w*supported", re.IGNORECASE)
_REFUSES = re.compile(
    r"supported: \[0\]|not (?:found|supported|available|fully)|unsupported|fall(?:s|ing)? ?back|fail|cannot|can't"
    r"|unable|invalid|no graph|only supports?|(?:do|does|is|are)(?: not|n't) ",
    re.IGNORECASE,
)
# What stands before the sentence of an error: place in the source, function, code.
_CODE = re.compile(r".*\[ONNXRuntimeError\] : \d+ : \w+ : ")
# What stands before the sentence of an error of OpenVINO's provider: place in the source and signature of the function.
_PLACE = re.compile(r"^\S+\.(?:cc|cpp|h):\d+ [^\[]*(?=\[)")
_NODE = re.compile(r" node name: (?P<last>.+)$| for node: (?P<inner>.+?)(?= because |$)")
_LISTED = re.compile(r"\{ name: (.*?), type: (\w+) \}")
_DEVICE = re.compile(r"\[OpenVINO-EP\] Choosing Device: (\S+)")
_NONE_SUPPORTED = "[OpenVINO-EP] Supported subgraphs on OpenVINO: 0"
_MARKED = re.compile(r"supported: \[0\]")
_TYPE, _NAME = re.compile(r"Operator type: \[(.*?)\]"), re.compile(r"\bname: \[(.*?)\]")


def read_reasons(lines: Iterable[str]) -> Tuple[Dict[str, int], str]:
    """Return `(reasons, left_out)`, read from the log of ONNX Runtime while it makes a session.

    `reasons` has the number of operators by reason, such as {"CUDA kernel not found in registries for Op type: Pad":
    2}. The reason with most operators comes first. The number is 0 for a reason that names no operator. `left_out` is
    the error that kept a provider from being loaded, or "".
    """
    named: Dict[str, set] = {}  # type: ignore[type-arg]  # Python 3.8
    left_out: List[str] = []
    device = ""  # of OpenVINO
    for line in lines:
        found = _LINE.search(_COLOURS.sub("", line))
        if found is None:
            continue
        file, function, message = found.groups()
        message = " ".join(message.split())
        chosen = _DEVICE.match(message)
        if chosen:
            device = chosen.group(1)
        elif message == _NONE_SUPPORTED and device:
            reason = "OpenVINO supports no operator on the device %s, or there is no such device" % device
            named.setdefault(one_line(reason, MOST_CHARACTERS), set())
        elif _LOADS.search(file):
            if _REFUSES.search(message):
                left_out.append(one_line(_PLACE.sub("", _CODE.sub("", message)), MOST_CHARACTERS))
        elif (_DIVIDES.search(function) or _DIVIDES.search(file)) and _REFUSES.search(message):
            for reason, node in _split(message):
                named.setdefault(one_line(reason, MOST_CHARACTERS), set()).update([node] if node else [])
    order = sorted(named, key=lambda reason: -len(named[reason]))[:MOST_REASONS]
    return {reason: len(named[reason]) for reason in order}, (left_out or [""])[0]


def _split(message: str) -> Iterator[Tuple[str, str]]:
    """Yield (reason, name of the operator) for each operator that a message names.

    The reason is the message without the operator's name. If the message names no operator, the name is "".
    """
    listed = _LISTED.findall(message)
    if listed:
        begin = message[: message.index("{")].strip()
        yield from (("%s %s" % (begin, op_type), name) for name, op_type in listed)
        return
    if _MARKED.search(message):
        kind, name = _TYPE.search(message), _NAME.search(message)
        yield "not supported: %s" % (kind.group(1) if kind else message), name.group(1) if name else ""
        return
    found = _NODE.search(message)
    if found is None:
        yield message, ""
        return
    yield message[: found.start()] + message[found.end() :], found["last"] or found["inner"]


# In inference_session.cc: "Node(s) placed on [CPUExecutionProvider]. Number of nodes: 2", and a line "Pad (name)" for
# each. If there is one provider: "All nodes placed on [...]. Number of nodes: 9" without such lines.
_PLACED = re.compile(r"(?:All nodes|Node\(s\)) placed on \[(\w+)\]\. Number of nodes: (\d{1,9})")
_PLACED_NODE = re.compile(r"([\w.]+) \(.*\)$")
_PLACES = re.compile(r"VerifyEachNodeIsAssignedToAnEp")


def read_placement(lines: Iterable[str]) -> Dict[str, Dict[str, int]]:
    """Return the number of operators by provider and type, read from the log of ONNX Runtime while it makes a session.

    For example {"CPUExecutionProvider": {"Pad": 2}}. The type is "" for operators whose types the log does not have.
    Operators that a provider runs as one count as one.
    """
    placed: Dict[str, Dict[str, int]] = {}
    provider = ""
    for line in lines:
        found = _LINE.search(_COLOURS.sub("", line))
        if found is None or not _PLACES.search(found.group(2)):
            continue
        message = found.group(3).strip()
        head, node = _PLACED.match(message), _PLACED_NODE.match(message)
        if head is not None:
            provider = head.group(1)
            placed[provider] = {"": int(head.group(2))}
        elif node is not None and provider:
            types = placed[provider]
            types[node.group(1)] = types.get(node.group(1), 0) + 1
            types[""] -= 1
    return {name: {kind: count for kind, count in types.items() if count > 0} for name, types in placed.items()}


def find(spec: Dict[str, Any], adapter: Any) -> Dict[str, Any]:
    """Load a model with `adapter`, the adapter of ONNX Runtime, and return which provider takes which operators.

    `spec` has the fields of `EngineSpec` by name. The result has "runtime" and "version", "operators" {provider: {type:
    number}}, and "reasons" and "left_out", as `read_reasons` describes both. Raises EngineError if the model cannot be
    loaded.
    """
    with tempfile.TemporaryFile(dir=best_home()) as log:
        with _stderr_to(log.fileno()):
            adapter.open(dict(spec, log_level=VERBOSE, records_placement=True))
        log.seek(0)
        reasons, left_out = read_reasons(_lines_of(log))
        log.seek(0)
        placed = adapter.assigned() or read_placement(_lines_of(log))
    about = adapter.describe()
    return {
        "runtime": about["runtime"],
        "version": about["version"],
        "operators": adapter.by_short_names(placed),
        "reasons": reasons,
        "left_out": adapter.why_absent() or left_out,
    }


class Service:
    """Makes a session that logs why its operators run on which provider, and reads the reasons from this log."""

    way = "the log of a session in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        """Prepare to load a model with `adapter`, the adapter of ONNX Runtime.

        `spec` has the fields of `EngineSpec` by name.
        """
        self._spec = dict(spec, log_level=VERBOSE)
        self._adapter = adapter

    def make_ready(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def burst(self, _allowance: Any) -> Dict[str, Any]:
        """Make the session. Return {"reasons", "left_out"}, as `read_reasons` describes both."""
        with tempfile.TemporaryFile(dir=best_home()) as log:
            with _stderr_to(log.fileno()), contextlib.suppress(EngineError):  # what it has logged is still of use
                self._adapter.open(self._spec)
            log.seek(0)
            reasons, left_out = read_reasons(_lines_of(log))
        return {"reasons": reasons, "left_out": left_out}


@contextlib.contextmanager
def _stderr_to(descriptor: int) -> Iterator[None]:
    """Context manager: what the process writes to stderr goes to `descriptor` instead."""
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _lines_of(log: Any) -> Iterator[str]:
    """Yield the lines of an open file until MOST_BYTES bytes are read. Lines above LONGEST_LINE come in pieces."""
    left = MOST_BYTES
    while left > 0:
        line = log.readline(LONGEST_LINE)
        if not line:
            return
        left -= len(line)
        yield line.decode("utf-8", "backslashreplace")
