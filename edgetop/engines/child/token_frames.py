"""Pack tokens and requests of a language model into frames for edgetop's main process."""

from __future__ import annotations

import time
from typing import Any, Callable

from . import message_frames

FLUSH_NS = 20_000_000
_pack_token = message_frames.TOKEN.pack

Clock = Callable[[], int]


class TokenFrames:
    """Sends tokens to edgetop's main process in batches, and each request at once."""

    def __init__(self, outlet: Any, clock: Clock = time.monotonic_ns) -> None:
        self.clock = clock
        self._outlet = outlet
        self._tokens = bytearray()
        self._flushed_ns = 0

    def put_token(self, t_ns: int, gap_ns: int, position: int, kind: int, phase: int, active: int = 1) -> None:
        """Add a token to the next batch. A batch is sent 20 ms after the last one.

        The token was there at `t_ns`, and `gap_ns` is the time since the token before it, or for a first token since
        its request was due. `position` is the number of tokens before it in the context. `kind` is 0 for the first
        token of a request, else 1. `phase` is a constant such as PHASE_WARMUP. `active` is how many requests generated
        at the same time; 0 if unknown, or if prompts were processed meanwhile.
        """
        self._tokens += _pack_token(t_ns, gap_ns, position, kind, phase, active, False)
        if t_ns - self._flushed_ns > FLUSH_NS:
            self.flush(t_ns)

    def put_prompt(self, t_ns: int, took_ns: int, tokens: int, phase: int) -> None:
        """Add the end of a prefill to the next batch of tokens.

        `t_ns` is when the prompt was processed, and `took_ns` is how long that took, both in ns. `tokens` is the length
        of the prompt. `phase` is a constant such as PHASE_WARMUP. Call it only if no other request was in progress
        meanwhile.
        """
        self._tokens += message_frames.TOKEN.pack(t_ns, took_ns, tokens, False, phase, 1, True)

    def flush(self, now_ns: int) -> None:
        """Send the tokens that were not sent yet. `now_ns` is the present time in ns."""
        self._flushed_ns = now_ns
        if self._tokens:
            self._outlet.send_packed(message_frames.TOKENS, bytes(self._tokens))
            self._tokens = bytearray()

    def put_request(self, *values: int) -> None:
        """Send the tokens that were not sent yet, then a request.

        `values` are the fields of `message_frames.REQUEST`.
        """
        self.flush(self.clock())
        self._outlet.send_packed(message_frames.REQUESTS, message_frames.REQUEST.pack(*values))
