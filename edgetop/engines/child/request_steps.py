"""Parts of every run of requests to a language model: llama.cpp's call, why requests end, and reports of failures."""

from __future__ import annotations

from typing import Any, Dict

from . import message_frames
from .board_page import SLOWDOWN, Page
from .engine_error import EngineError, one_line
from .loop import MAX_FAILURES_IN_A_ROW, REPORT_FAILURE_NS
from .token_frames import Clock

WARMUP_TOKENS = 8  # most tokens of a request before the measurement
LENGTH, STOP, CONTEXT, CANCELLED = range(4)  # finish reasons: as FINISH_REASONS in session/records.py


class Decoder:
    """Calls `llama_decode`, and waits until the batch is processed."""

    def __init__(self, adapter: Any, spec: Dict[str, Any], clock: Clock) -> None:
        """Prepare to call `llama_decode`.

        `adapter` holds the loaded model. `spec` has the fields of `EngineSpec` by name. `clock` returns ns.
        """
        # The functions themselves: a look-up for each token takes time in which no token is computed.
        self._decode, self._wait = adapter.library.llama_decode, adapter.library.llama_synchronize
        self._context, self._clock = adapter.context, clock
        self._page = Page(spec["virtual_board"]).doubles if spec.get("virtual_board") else None

    def decode(self, batch: Any) -> None:
        """Process the tokens of `batch`, llama.cpp's structure. Raises RuntimeError if llama.cpp fails.

        On a virtual board that is throttled, this takes longer.
        """
        if self._page is not None:
            self._decode_on_board(batch, self._page)
            return
        status = self._decode(self._context, batch)
        self._wait(self._context)
        if status:
            raise RuntimeError("llama_decode returned %d" % status)

    def _decode_on_board(self, batch: Any, page: Any) -> None:
        """Process `batch` on a virtual board, whose state is in `page`."""
        begin = self._clock()
        status = self._decode(self._context, batch)
        self._wait(self._context)
        if status:
            raise RuntimeError("llama_decode returned %d" % status)
        if page[SLOWDOWN] > 0:
            end = self._clock()
            until = end + int((end - begin) * page[SLOWDOWN])
            while self._clock() < until:
                pass


class Failures:
    """Reports requests that failed, and ends the run if too many in a row do."""

    def __init__(self, outlet: Any) -> None:
        """Begin with no failure. `outlet` sends the reports to edgetop's main process."""
        self._outlet = outlet
        self.in_a_row = self._silent_until = 0

    def add(self, phase: int, error: Exception, now_ns: int) -> None:
        """Report a request that failed at the time `now_ns` with `error`. `phase` is a constant such as PHASE_WARMUP.

        Raises EngineError if it was the first request, or the tenth in a row.
        """
        text = one_line(error)
        if phase == message_frames.PHASE_FIRST:
            raise EngineError("first", "the first request failed: %s" % text)
        self.in_a_row += 1
        if now_ns >= self._silent_until:
            self._silent_until = now_ns + REPORT_FAILURE_NS
            self._outlet.send(message_frames.LOG, {"severity": "warning", "kind": "inference-failed", "message": text})
        if self.in_a_row >= MAX_FAILURES_IN_A_ROW:
            raise EngineError("inference", "%d requests in a row failed: %s" % (self.in_a_row, text))
