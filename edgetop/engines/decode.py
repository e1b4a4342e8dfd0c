"""Decode the engine's frames, from a pipe or a queue, into records and messages."""

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from edgetop.engines.child import message_frames
from edgetop.engines.child.engine_error import one_line
from edgetop.engines.engine_protocol import (
    Backlog,
    BurstBegan,
    BurstTaken,
    Died,
    Ended,
    EngineUpdate,
    Failed,
    Loaded,
    LogLine,
    Message,
    PhaseBegan,
    ProfilerChosen,
    Reached,
    RecordsLost,
    SlowInference,
    StageMemory,
    Started,
)
from edgetop.formatting import quantity
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.manifest import built
from edgetop.session.operators import EventCounts, Operator, counts_of
from edgetop.session.records import INFERENCE, NO_INFERENCES, REQUEST, TOKEN, Inferences, join

MAX_REASONS, MAX_REASON = 8, 240  # reasons of a fallback that are kept, and the characters of each


def decode(pairs: Iterable[tuple[int, bytes]]) -> EngineUpdate:
    """Decode the engine's frames, given as (kind, payload) pairs, into one update. Unknown kinds are ignored.

    If a frame is invalid, the last message of the update is `Failed`. Records and messages before it are kept.
    """
    packed: dict[int, list[bytes]] = {kind: [] for kind in _ROWS}
    messages: list[Message] = []
    try:
        for kind, payload in pairs:
            if kind in packed:
                packed[kind].append(_whole(payload, _ROWS[kind].itemsize))
            elif kind in _MESSAGES:
                messages.append(_MESSAGES[kind](json.loads(payload)))
    except (message_frames.FrameError, ValueError, KeyError, TypeError) as error:
        messages.append(Failed("engine", f"invalid data from the engine: {one_line(error)}"))
    # An engine flushes 50 times a second; joining bytes takes a fifth of the time that joining arrays takes.
    records, tokens, requests = (np.frombuffer(b"".join(pieces), _ROWS[kind]) for kind, pieces in packed.items())
    return EngineUpdate(records, tuple(messages), tokens=tokens, requests=requests)


# The rows of the frames that hold no JSON.
_ROWS = {message_frames.RECORDS: INFERENCE, message_frames.TOKENS: TOKEN, message_frames.REQUESTS: REQUEST}


def _whole(payload: bytes, row_bytes: int) -> bytes:
    if len(payload) % row_bytes:
        raise ValueError("a record is cut short")
    return payload


def _timed(message: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the message that has its time twice: as "t_ns" and as "monotonic_ns"."""
    return {**message, "monotonic_ns": message["t_ns"]}


def _burst(message: dict[str, Any]) -> Message:
    if not message["run_ns"]:
        raise ValueError("a burst without a run")
    first_run = tuple((int(place), int(ns)) for place, ns in message.get("first_run", ()))
    if any(not 0 <= place < len(message["operators"]) for place, _ in first_run):
        raise ValueError("a run of an operator that is none of the burst's")
    begins = tuple((int(ns), int(thread)) for ns, thread in message.get("first_begins", ()))
    if begins and len(begins) != len(first_run):
        raise ValueError("begins of other operators than those of the first run")
    whole = {**_timed(message), "operators": [], "first_run": [], "first_begins": [], "counts": []}
    operators = _operators(message["operators"])
    return replace(
        built(BurstTaken, whole, "a burst"), operators=operators, first_run=first_run, first_begins=begins,
        counts=_counts(message.get("counts", {}), len(operators)),
    )  # fmt: skip


def _counts(message: dict[str, Any], operators: int) -> tuple[EventCounts, ...]:
    """Return how often each event occurred in each operator. Raises ValueError if `message` is malformed.

    `message` is what `Counts.describe` of `noted_events` returns. `operators` is the number of operators.
    """
    found = [(name, *of) for name, of in message.items()]
    counts = counts_of(json.dumps(found))
    if len(counts) != len(found) or any(row[0] >= operators for of in counts for row in of.rows):
        raise ValueError("counts of other operators than those of the burst")
    return counts


def _operators(rows: list[Any]) -> tuple[Operator, ...]:
    return tuple(
        Operator(str(name), str(op_type), str(provider), int(calls), int(total_ns))
        for name, op_type, provider, calls, total_ns in rows
    )


def fallback_of(told: dict[str, Any] | None) -> FallbackReasons | None:
    """Return why operators do not run on the requested providers, with every text shortened to one line.

    `told` is the runtime's report as JSON, or None. For None, the result is None.
    """
    if told is None:
        return None
    reasons = [(one_line(text, MAX_REASON), int(count)) for text, count in told["reasons"].items()]
    return FallbackReasons(
        one_line(told["left_out"], MAX_REASON) if told["left_out"] else "", dict(reasons[:MAX_REASONS])
    )


_MESSAGES: dict[int, Callable[[dict[str, Any]], Message]] = {
    message_frames.HELLO: lambda m: Started(m["pid"], m["python"]),
    message_frames.LOADED: lambda m: built(Loaded, m, "what was loaded"),
    message_frames.PHASE: lambda m: PhaseBegan(m["phase"], m["t_ns"]),
    message_frames.LOG: lambda m: LogLine(
        m["severity"], "engine", m["message"], m.get("kind", "log"), m.get("data", {})
    ),
    message_frames.FAILED: lambda m: Failed(m["stage"], m["message"], m["advice"]),
    message_frames.ENDED: lambda m: Ended(m["reason"], m["t_ns"]),
    message_frames.LOST: lambda m: RecordsLost(m["count"]),
    message_frames.MEMORY: lambda m: built(StageMemory, _timed(m), "memory"),
    message_frames.PROFILER: lambda m: ProfilerChosen(
        m["way"], m["reason"], _operators(m.get("operators", [])), fallback_of(m.get("fallback"))
    ),
    message_frames.BURST_BEGINS: lambda m: BurstBegan(m["t_ns"]),
    message_frames.BURST: _burst,
    message_frames.REACHED: lambda m: Reached(m["t_ns"]),
    message_frames.BACKLOG: lambda m: Backlog(m["is_over"]),
    message_frames.SLOW: lambda m: built(SlowInference, _timed(m), "a slow inference"),
}


# Records of several streams must be passed on in the order in which their inferences began. But a stream reports an
# inference when it is done, so a long inference arrives after others that began later. Records are therefore held back
# until every stream has reached their start, but no longer than PATIENCE_NS behind the newest record, so that a stream
# that hangs does not hold back the others.

PATIENCE_NS = 5_000_000_000
MAX_PENDING = 2**20  # two seconds of the fastest models, 30 MB


class InOrder:
    """Sorts the records of several streams (loops that run in parallel) by the start of the inferences."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._pending: Inferences = NO_INFERENCES
        self._reached_ns = 0

    @property
    def is_filling(self) -> bool:
        """Whether many records are held back. If so, streams that are ahead should not be read for now."""
        return len(self._pending) > MAX_PENDING // 2

    def release(self, update: EngineUpdate) -> EngineUpdate:
        """Return `update` with the records that are final, sorted by the start of the inferences. Hold back the rest.

        A record is final if no record that arrives later can have an earlier start. Records that were held back before
        are returned as soon as they are final.
        """
        if self._streams == 1:
            return update
        reached = [message.monotonic_ns for message in update.messages if isinstance(message, Reached)]
        self._reached_ns = max([self._reached_ns, *reached])
        is_over = any(isinstance(message, Ended | Failed | Died) for message in update.messages)
        messages = tuple(message for message in update.messages if not isinstance(message, Reached))
        pending = join([self._pending, update.records])
        pending = pending[np.argsort(pending["t_ns"], kind="stable")]
        if is_over or not len(pending):
            cut = len(pending)
        else:
            until_ns = max(self._reached_ns, int(pending["t_ns"][-1]) - PATIENCE_NS)
            cut = max(int(np.searchsorted(pending["t_ns"], until_ns)), len(pending) - MAX_PENDING)
        self._pending = pending[cut:]
        return replace(update, records=pending[:cut], messages=messages)


# Lines that a runtime prints become events; they never reach the screen directly.

MAX_LINE = 2_000  # characters of a line that are stored
MAX_LINES_A_POLL = 50  # keeps a runtime that prints in a loop from filling the event table
READ_BYTES = 65_536

# Colours of a log line (ECMA-48, SGR), which ONNX Runtime sends even without a terminal.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Words that mean trouble, and the severity letter in a log line of ONNX Runtime ("[E:onnxruntime:") or of Abseil, which
# LiteRT uses ("E0000 00:00:").
_TROUBLE = re.compile(r"error|warn|fail|fatal|\[[WEF]:|^[WEF]\d{4} ", re.IGNORECASE)

# Lines of the stack that follows faulthandler's "Fatal Python error: Segmentation fault".
_STACK = re.compile(r'(File "|Current thread|Thread 0x|Extension modules: |<no Python frame>)')
# Faulthandler's line after abort(). Whoever calls abort() says why before.
_ABORTED = "Fatal Python error: Aborted"


class LineReader:
    """Reads lines from a file descriptor without blocking."""

    def __init__(self, fd: int, source: str, *, grows: bool = False) -> None:
        """Read from the descriptor `fd`. `source` names it in the log lines, such as "engine stderr".

        Set `grows` for a file that is still being written, so that its present end is not final.
        """
        os.set_blocking(fd, False)
        self._grows = grows
        self._fd = fd
        self._source = source
        self._rest = b""
        self._ended = False
        self.last_line = ""  # the last line that is not part of a crash's stack

    def read(self) -> list[LogLine]:
        """Return the complete lines that are new, as log lines.

        At the end of the file, the text after the last line feed is a line too.
        """
        before = len(self._rest)
        self._fill()
        if len(self._rest) == before and not self._ended:
            return []
        *complete, self._rest = self._rest.split(b"\n")
        if self._rest and (self._ended or len(self._rest) > READ_BYTES):
            complete, self._rest = [*complete, self._rest], b""
        texts = [text for text in (_decode(line) for line in complete) if text]
        informative = [text for text in texts if not _STACK.match(text)]
        said = [text for text in informative if text != _ABORTED] or (informative if not self.last_line else [])
        if said:
            self.last_line = said[-1]
        lines = [
            LogLine("warning" if _TROUBLE.search(text) else "info", self._source, text)
            for text in texts[:MAX_LINES_A_POLL]
        ]
        if len(texts) > MAX_LINES_A_POLL:
            skipped = len(texts) - MAX_LINES_A_POLL
            lines.append(LogLine("warning", self._source, f"{quantity(skipped, 'more line')} in this moment, not kept"))
        return lines

    def _fill(self) -> None:
        for _ in range(16):  # at most 1 MiB, so that a flood of lines cannot block the conductor
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._ended = True
                return
            if not data:
                self._ended = not self._grows
                return
            self._rest += data


def _decode(line: bytes) -> str:
    text = _COLOURS.sub("", line.decode("utf-8", "backslashreplace")).strip()
    return text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + "…"
