"""Run a language model: request after request, and token after token.

A request is one inference: its prompt is processed (prefill), then its tokens are generated one by one (decode). The
terms are those of AIPerf 0.13 and MLPerf Client 1.5:

- TTFT: from when a request was due until its first token, with the wait, the division into tokens and the prefill.
- ITL: the time between two successive tokens. Each gap is recorded.
- Prefill time: from the tokens of the prompt until they are processed. The first token's sampling comes after it.

Every request begins with an empty context: no prompt is found in a cache. Requests before the measurement generate few
tokens, as in llama-bench, whose warm-up is one prompt and one token.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import message_frames, own_memory
from .adapters import choose
from .board_page import SLOWDOWN, Page
from .engine_error import EngineError, one_line
from .llama_library import NO_VOCABULARY
from .loop import MAX_FAILURES_IN_A_ROW, REPORT_FAILURE_NS, Control
from .pace import NEVER, Waiter, pace_of, sharpen_timers
from .parallel_streams import Lanes, Streams
from .token_frames import Clock, TokenFrames

WARMUP_TOKENS = 8  # most tokens of a request before the measurement
LENGTH, STOP, CONTEXT, CANCELLED = range(4)  # finish reasons: as FINISH_REASONS in session/records.py


class Requests:
    """Sends prompts to one language model, and reports each request and each token."""

    def __init__(
        self, adapter: Any, spec: Dict[str, Any], outlet: Any, control: Control, clock: Clock = time.monotonic_ns
    ) -> None:
        """Prepare the prompts. Raises EngineError("input") if a prompt is longer than the model's context.

        `adapter` holds the loaded model. `spec` has the fields of `EngineSpec` by name. `outlet` sends the reports to
        edgetop's main process. `control` says when the user requests a stop. `clock` returns ns.
        """
        self._library, self._adapter = adapter.library, adapter
        self._control, self._clock = control, clock
        self._frames = TokenFrames(outlet, clock)
        options = spec["generation"]
        self.context_size = int(options["context"])
        self._most_tokens = int(options["max_tokens"])
        # A synthetic load always has the same length, and so have both sides of a comparison in turns.
        self._stops_at_end = bool(options["prompts"]) and not spec.get("in_turns")
        texts = (text.encode("utf-8", "surrogatepass") for text in options["prompts"])
        self._texts: List[bytes] = [self._library.as_chat(adapter.model, text) for text in texts]
        self._random = np.random.RandomState(spec["seed"])
        self._prompt_tokens = int(options["prompt_tokens"])
        self._page = Page(spec["virtual_board"]).doubles if spec.get("virtual_board") else None
        self._count = 0  # requests so far
        if self._texts and self._library.llama_vocab_type(adapter.vocabulary) == NO_VOCABULARY:
            raise EngineError(
                "input", "%s has no tokenizer, so a text cannot be its prompt" % spec["model"], "use --prompt-tokens N"
            )
        self.longest = max(self._length_of(place) for place in range(max(1, len(self._texts))))
        if self.longest >= self.context_size:
            raise EngineError(
                "input", "a prompt of %d tokens does not fit into a context of %d" % (self.longest, self.context_size),
                "enlarge it: --context %d" % (self.longest + self._most_tokens),
            )  # fmt: skip

    def _length_of(self, place: int) -> int:
        if not self._texts:
            return self._prompt_tokens
        count = len(self._library.tokens_of(self._adapter.vocabulary, self._texts[place]))
        if not count:
            raise EngineError("input", "prompt %d is empty" % (place + 1))
        return count

    def _prompt(self, place: int) -> Any:
        if self._texts:
            return self._library.tokens_of(self._adapter.vocabulary, self._texts[place])
        words = self._library.llama_vocab_n_tokens(self._adapter.vocabulary)
        drawn = self._random.randint(0, max(1, words), self._prompt_tokens).astype(np.int32)
        return (ctypes.c_int32 * self._prompt_tokens).from_buffer_copy(drawn.tobytes())

    def run(self, phase: int, due_ns: int, until_ns: int) -> Tuple[int, int, bool]:
        """Run the next request. Return its start and end in ns, and whether it was cut off by a stop or by `until_ns`.

        `phase` is the phase of the run. `due_ns` is when the request should have begun, or NEVER without a schedule.
        The wait since then is part of the time to the first token. Raises EngineError or RuntimeError if llama.cpp
        fails.
        """
        library, now, context = self._library, self._clock, self._adapter.context
        place = self._count % max(1, len(self._texts))
        self._count += 1
        most = self._most_tokens if phase == message_frames.PHASE_MEASURE else min(WARMUP_TOKENS, self._most_tokens)
        drawn = None if self._texts else self._prompt(place)  # drawing random tokens is no part of a request
        start = now()
        due_ns = min(due_ns, start)
        library.llama_memory_clear(self._adapter.memory, False)
        library.llama_sampler_reset(self._adapter.sampler)
        prompt = self._prompt(place) if drawn is None else drawn
        divided = now()
        for batch in library.batches(prompt):
            self._decode(batch)
            if self._is_over(until_ns):
                return start, now(), True
        prefilled = now()
        slot = (ctypes.c_int32 * 1)()
        one = library.batch(ctypes.addressof(slot), 1)
        sample, sampler, is_end = library.llama_sampler_sample, self._adapter.sampler, library.llama_vocab_is_eog
        position, tokens, sampled_ns, finish = len(prompt), 0, 0, LENGTH
        first = last = prefilled
        while True:
            before = now()
            slot[0] = sample(sampler, context, -1)
            after = now()
            sampled_ns += after - before
            tokens += 1
            if tokens == 1:
                first = last = after
                self._frames.put_token(after, after - due_ns, position, 0, phase)
            else:
                self._frames.put_token(after, after - last, position, 1, phase)
                last = after
            if self._stops_at_end and is_end(self._adapter.vocabulary, slot[0]):
                finish = STOP
                break
            if tokens >= most:
                break
            if position >= self.context_size:
                finish = CONTEXT
                break
            if self._is_over(until_ns):
                finish = CANCELLED
                break
            self._decode(one)
            position += 1
        self._frames.put_request(
            start, start - due_ns, last - start, first - due_ns, divided - start, prefilled - divided,
            last - first, sampled_ns, len(prompt), 0, tokens, position, place, phase, finish,
        )  # fmt: skip
        return start, last, finish == CANCELLED

    def _decode(self, batch: Any) -> None:
        begin = self._clock() if self._page is not None else 0
        status = self._library.llama_decode(self._adapter.context, batch)
        self._library.llama_synchronize(self._adapter.context)
        if status:
            raise RuntimeError("llama_decode returned %d" % status)
        if self._page is not None and self._page[SLOWDOWN] > 0:
            end = self._clock()
            until = end + int((end - begin) * self._page[SLOWDOWN])
            while self._clock() < until:
                pass

    def _is_over(self, until_ns: int) -> bool:
        return self._control.stop_requested or self._clock() >= until_ns


class GenerationLoop:
    """Runs requests of a language model one after another, with the interface of `loop.Loop`."""

    def __init__(self, requests: Any, outlet: Any, control: Control, make_pace: Callable[[], Any]) -> None:
        self.clock = time.monotonic_ns
        self.bursts: Optional[Any] = None  # operators are not profiled
        self._requests, self._outlet, self._control, self._make_pace = requests, outlet, control, make_pace
        self._waiter = Waiter(control, self.clock, outlet.sleep)
        self._failures_in_a_row = self._silent_until = 0

    def repeat(
        self,
        phase: int,
        *,
        runs: Optional[int] = None,
        until_ns: Optional[int] = None,
        duration_ns: Optional[int] = None,
        latencies: Optional[List[int]] = None,
        paced: bool = False,
        announce: Callable[[], None] = lambda: None,
    ) -> str:
        """Run requests until a limit is reached, and return why it ended: "stop", "runs" or "duration".

        The parameters are the same as in `Loop.repeat`. A request that is cut off at the end gets no record.
        """
        announce()
        begun = self.clock()
        if until_ns is None:
            until_ns = 2**63 - 1 if duration_ns is None else begun + duration_ns
        pace = self._make_pace() if paced else None
        due = begun if pace is None else pace.begin(begun)
        left = -1 if runs is None else runs
        is_open = pace is not None and pace.is_open
        while left and not self._control.stop_requested:
            if pace is not None and not (self._waiter.until(min(due, until_ns)) and due < until_ns):
                break
            done = self._run(phase, due if is_open else NEVER, until_ns, latencies)
            left -= 1
            if done is None or done >= until_ns:
                break
            if pace is not None:
                due = pace.after(done)
                self._outlet.put(memoryview(b""), 0, 0, max(done, due))  # in turns, tells how far this engine has come
        if self._control.stop_requested:
            return "stop"
        return "runs" if left == 0 and self.clock() < until_ns else "duration"

    def _run(self, phase: int, due_ns: int, until_ns: int, latencies: Optional[List[int]]) -> Optional[int]:
        """Run a request and send its record. Return the time of its end in ns, or None if the request was cut off.

        `phase` is the phase of the run. `due_ns` is when the request should begin, and `until_ns` when it is cut off.
        `latencies` gets the request's latency in ns; None if nobody needs it.
        """
        start, done, ok = self.clock(), 0, True
        try:
            start, done, is_cancelled = self._requests.run(phase, due_ns, until_ns)
            if is_cancelled:
                return None
            self._failures_in_a_row = 0
        except EngineError:
            raise
        except Exception as error:
            done, ok = self.clock(), False
            self._failed(phase, error, done)
        record = message_frames.RECORD.pack(start, done - start, max(0, start - due_ns), 0, phase, ok)
        self._outlet.put(memoryview(record), 1, 0, done)
        if latencies is not None:
            latencies.append(done - start)
        return done

    def _failed(self, phase: int, error: Exception, now_ns: int) -> None:
        text = one_line(error)
        if phase == message_frames.PHASE_FIRST:
            raise EngineError("first", "the first request failed: %s" % text)
        self._failures_in_a_row += 1
        if now_ns >= self._silent_until:
            self._silent_until = now_ns + REPORT_FAILURE_NS
            self._outlet.send(message_frames.LOG, {"severity": "warning", "kind": "inference-failed", "message": text})
        if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
            raise EngineError("inference", "%d requests in a row failed: %s" % (self._failures_in_a_row, text))


def prepared(spec: Dict[str, Any], outlet: Any, control: Control) -> Any:
    """Load the language model at `spec["model"]`, and return a loop that runs requests.

    `spec` has the fields of `EngineSpec` by name. `outlet` gets a report of the loaded model. `control` says when the
    user requests a stop. Raises EngineError if the model cannot be loaded.
    """
    begin = time.monotonic_ns()
    adapter, why = choose(spec["engine"], spec["format"])
    adapter.open(spec, lambda: own_memory.report(outlet, own_memory.RUNTIME))
    requests = Requests(adapter, spec, Nowhere() if spec.get("in_turns") else outlet, control)
    init_ns = time.monotonic_ns() - begin
    own_memory.report(outlet, own_memory.MODEL)
    loaded = dict(adapter.describe(), why=why, init_ns=init_ns, assumptions=[], input_steps=1, inputs=[])
    loaded["buffers"] = buffers_in(adapter.library.lines)
    outlet.send(message_frames.LOADED, loaded)
    sharpen_timers()
    if not spec.get("in_turns"):
        return GenerationLoop(requests, outlet, control, lambda: pace_of(spec, 0))
    lanes = Lanes(outlet, 1)
    return Streams([GenerationLoop(requests, lanes, control, lambda: pace_of(spec, 0))], lanes, control)


class Nowhere:
    """An outlet that drops every report of a token.

    Used if two engines run in turns, when only requests are recorded.
    """

    def send_packed(self, _kind: int, _payload: bytes) -> None:
        pass


def buffers_in(lines: List[str]) -> Dict[str, float]:
    """Return the sizes in MiB of the buffers that llama.cpp makes while it loads a model, by name.

    `lines` are the lines that llama.cpp logs meanwhile.

    >>> buffers_in(["load_tensors:   CPU_Mapped model buffer size =   636.18 MiB"])
    {'model': 636.18}
    """
    found: Dict[str, float] = {}
    for line in lines:
        name, separator, rest = line.partition(" buffer size")
        words = rest.replace("=", " ").split()
        if separator and words:
            try:
                key = name.split(":")[-1].split()[-1].lower()
                found[key] = found.get(key, 0.0) + float(words[0])
            except (ValueError, IndexError):
                continue
    return found
