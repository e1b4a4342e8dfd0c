"""Run a language model: request after request, and token after token.

A request is one inference: its prompt is processed (prefill), then its tokens are generated one by one (decode). The
terms are those of AIPerf 0.13 and MLPerf Client 1.5:

- TTFT: from when a request was due until its first token. It includes the wait, the division of the prompt into tokens,
  and the prefill.
- ITL: the time between two successive tokens. Each gap is recorded.
- Prefill time: from when the prompt is divided into tokens until all of these are processed. The choice of the first
  token comes after it.

Every request begins with an empty context: no prompt is found in a cache. Requests before the measurement generate few
tokens, as in llama-bench, whose warm-up is one prompt and one token.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import message_frames, own_memory
from .adapters import choose
from .bursts import open_bursts
from .engine_error import EngineError
from .loop import Control
from .pace import NEVER, Waiter, pace_of, sharpen_timers
from .parallel_requests import ParallelRequests
from .parallel_streams import Lanes, Streams
from .prompts import Prompts
from .request_steps import CANCELLED, CONTEXT, LENGTH, STOP, WARMUP_TOKENS, Decoder, Failures
from .token_frames import Clock, TokenFrames


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
        self.prompts = Prompts(adapter, spec)
        # A synthetic load always has the same length, and so have both sides of a comparison in turns.
        self._stops_at_end = self.prompts.are_texts and not spec.get("in_turns")
        self._decoder = Decoder(adapter, spec, clock)

    def run(self, phase: int, due_ns: int, until_ns: int) -> Tuple[int, int, bool]:
        """Run the next request. Return its start and end in ns, and whether it was cut off by a stop or by `until_ns`.

        `phase` is a constant such as PHASE_WARMUP. `due_ns` is when the request should have begun, or NEVER without a
        schedule. The wait since then is part of the time to the first token. Raises EngineError or RuntimeError if
        llama.cpp fails.
        """
        library, now, context = self._library, self._clock, self._adapter.context
        place = self.prompts.next_place()
        most = self._most_tokens if phase == message_frames.PHASE_MEASURE else min(WARMUP_TOKENS, self._most_tokens)
        drawn = self.prompts.drawn()  # drawing random tokens is no part of a request
        start = now()
        due_ns = min(due_ns, start)
        library.llama_memory_clear(self._adapter.memory, False)
        library.llama_sampler_reset(self._adapter.sampler)
        prompt = self.prompts.tokens_at(place) if drawn is None else drawn
        divided = now()
        for batch in library.batches(prompt):
            self._decoder.decode(batch)
            if self._is_over(until_ns):
                return start, now(), True
        prefilled = now()
        self._frames.put_prompt(prefilled, prefilled - divided, len(prompt), phase)
        slot = (ctypes.c_int32 * 1)()
        one = library.batch(ctypes.addressof(slot), 1)
        # Looked up once: what is done for each token is time in which no token is computed.
        sample, sampler, is_end = library.llama_sampler_sample, self._adapter.sampler, library.llama_vocab_is_eog
        put_token, decode, control, stops_at_end = (
            self._frames.put_token, self._decoder.decode, self._control, self._stops_at_end
        )  # fmt: skip
        position, tokens, sampled_ns, finish = len(prompt), 1, 0, LENGTH
        before = now()
        slot[0] = sample(sampler, context, -1)
        first = last = after = now()
        put_token(after, after - due_ns, position, 0, phase)
        while True:
            sampled_ns += after - before
            if stops_at_end and is_end(self._adapter.vocabulary, slot[0]):
                finish = STOP
                break
            if tokens >= most:
                break
            if position >= self.context_size:
                finish = CONTEXT
                break
            if control.stop_requested or after >= until_ns:
                finish = CANCELLED
                break
            decode(one)
            position += 1
            tokens += 1
            before = now()
            slot[0] = sample(sampler, context, -1)
            after = now()
            put_token(after, after - last, position, 1, phase)
            last = after
        self._frames.put_request(
            start, start - due_ns, last - start, first - due_ns, divided - start, prefilled - divided,
            last - first, sampled_ns, len(prompt), 0, tokens, position, place, phase, finish,
        )  # fmt: skip
        return start, last, finish == CANCELLED

    def settle(self) -> None:
        """Compute a token that is not recorded, so that caches are as usual before the next request."""
        slot = (ctypes.c_int32 * 1)(0)
        self._library.llama_memory_clear(self._adapter.memory, False)
        self._decoder.decode(self._library.batch(ctypes.addressof(slot), 1))

    def _is_over(self, until_ns: int) -> bool:
        return self._control.stop_requested or self._clock() >= until_ns


class GenerationLoop:
    """Runs requests of a language model one after another, with the interface of `loop.Loop`."""

    def __init__(
        self, requests: Any, outlet: Any, control: Control, make_pace: Callable[[], Any], stream: int = 0
    ) -> None:
        """Prepare to run `requests`, such as a `Requests` object.

        `outlet` sends the records to edgetop's main process, and `control` says when to stop. `make_pace` returns an
        object of pace.py that plans when the requests of a phase start, or None to run them back to back. `stream` is
        the number, from 0, of this loop among parallel loops.
        """
        self._stream = stream
        self.clock = time.monotonic_ns
        self.bursts: Optional[Any] = None  # a Bursts object if operators are profiled, which happens between requests
        self._requests, self._outlet, self._control, self._make_pace = requests, outlet, control, make_pace
        self._waiter = Waiter(control, self.clock, outlet.sleep)
        self._failures = Failures(outlet)

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
        bursts = self.bursts if phase == message_frames.PHASE_MEASURE else None
        if bursts is not None:
            bursts.begin()
        while left and not self._control.stop_requested:
            if pace is not None and not (self._waiter.until(min(due, until_ns)) and due < until_ns):
                break
            done = self._run(phase, due if is_open else NEVER, until_ns, latencies)
            left -= 1
            if done is None or done >= until_ns:
                break
            if pace is not None:
                due = pace.after(done)
                self._outlet.put(
                    memoryview(b""), 0, self._stream, max(done, due)
                )  # in turns, tells how far this engine has come
            if bursts is not None and left and bursts.is_due(done):
                bursts.take(self._requests.settle)
                if is_open and pace is not None:
                    due = pace.postpone(due, done, self.clock())
        if self._control.stop_requested:
            return "stop"
        return "runs" if left == 0 and self.clock() < until_ns else "duration"

    def _run(self, phase: int, due_ns: int, until_ns: int, latencies: Optional[List[int]]) -> Optional[int]:
        """Run a request and send its record. Return the time of its end in ns, or None if the request was cut off.

        `phase` is a constant such as PHASE_WARMUP. `due_ns` is when the request should begin, and `until_ns` when it is
        cut off. The request's latency in ns is appended to `latencies`, unless that is None.
        """
        start, done, ok = self.clock(), 0, True
        try:
            start, done, is_cancelled = self._requests.run(phase, due_ns, until_ns)
            if is_cancelled:
                return None
            self._failures.in_a_row = 0
        except EngineError:
            raise
        except Exception as error:
            done, ok = self.clock(), False
            self._failures.add(phase, error, done)
        record = message_frames.RECORD.pack(start, done - start, max(0, start - due_ns), 0, phase, ok)
        self._outlet.put(memoryview(record), 1, self._stream, done)
        if latencies is not None:
            latencies.append(done - start)
        return done


def prepared(spec: Dict[str, Any], outlet: Any, control: Control) -> Tuple[Any, Callable[[], None], Callable[[], None]]:
    """Load the language model at `spec["model"]`. Return a loop that runs requests, and two functions.

    The first function prepares to profile operators, and the second one stores outputs. Both are to be called between
    two requests, the first one before the warm-up begins, the second one when it begins. `spec` has the fields of
    `EngineSpec` by name. `outlet` gets a report of the loaded model. `control` says when the user requests a stop.
    Raises EngineError if the model cannot be loaded.
    """
    begin = time.monotonic_ns()
    adapter, why = choose(spec["engine"], spec["format"])
    adapter.open(spec, lambda: own_memory.report(outlet, own_memory.RUNTIME))
    requests: Any
    if spec["generation"]["parallel"] > 1:
        requests = ParallelRequests(adapter, spec, outlet, control, lambda number: pace_of(spec, number))
    else:
        requests = Requests(adapter, spec, Nowhere() if spec.get("in_turns") else outlet, control)
    init_ns = time.monotonic_ns() - begin
    own_memory.report(outlet, own_memory.MODEL)
    loaded = dict(adapter.describe(), why=why, init_ns=init_ns, assumptions=[], input_steps=1, inputs=[])
    loaded["buffers"] = buffers_in(adapter.library.lines)
    outlet.send(message_frames.LOADED, loaded)
    sharpen_timers()

    def keep() -> None:
        if spec.get("keep_outputs"):
            from .token_outputs import keep_outputs  # noqa: PLC0415  only if the user wants outputs

            keep_outputs(spec, adapter, requests.prompts, outlet.send, lambda: control.stop_requested)

    loop: Any
    if isinstance(requests, ParallelRequests):
        loop = requests
    elif not spec.get("in_turns"):
        loop = GenerationLoop(requests, outlet, control, lambda: pace_of(spec, 0))
    else:
        lanes = Lanes(outlet, 1)
        loop = Streams([GenerationLoop(requests, lanes, control, lambda: pace_of(spec, 0))], lanes, control)

    def profile() -> None:
        loop.bursts = open_bursts(adapter, spec, outlet, control)

    return loop, profile, keep


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
