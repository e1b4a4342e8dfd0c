"""Run several requests to a language model at the same time, as sequences of one llama.cpp context.

Each call of `llama_decode` processes one batch, as in llama-server: one token of every request that generates, then as
many tokens of waiting prompts as fit. Each request has a sequence of its own, with an equal part of the context.

The time between two tokens depends on how many requests generate at the same time, and on the prompts in between. So
each token is reported with the number of requests that generated with it, or 0 if its batch also had tokens of prompts.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional

from . import message_frames
from .loop import Control
from .pace import NEVER, Waiter
from .prompts import Prompts
from .request_steps import CANCELLED, CONTEXT, LENGTH, STOP, WARMUP_TOKENS, Decoder, Failures
from .token_frames import Clock, TokenFrames


class Request:
    """One request that is in progress. All times are in ns of CLOCK_MONOTONIC."""

    def __init__(self, prompt: Any, place: int, start_ns: int, due_ns: int) -> None:
        """Create a request of whose prompt no token has been processed.

        `prompt` has the prompt's tokens as a ctypes array, and `place` is the prompt's number. `start_ns` is the start,
        and `due_ns` is when the request should have started.
        """
        self.prompt, self.place, self.start_ns, self.due_ns = prompt, place, start_ns, due_ns
        self.divided_ns = self.prefilled_ns = self.first_ns = self.last_ns = start_ns
        self.done = 0  # tokens of the prompt that are processed
        self.token = 0  # the last generated token
        self.tokens = 0  # generated tokens
        self.position = len(prompt)  # tokens in the context
        self.sampled_ns = 0
        self.output = -1  # place in the batch of the token from which the next one follows; -1 if there is none
        self.was_alone = True  # whether no other request was in progress while the prompt was processed

    @property
    def generates(self) -> bool:
        """Whether the request is past its prompt, so that each further batch generates one of its tokens."""
        return self.done == len(self.prompt)


class ParallelRequests:
    """Runs several requests at the same time, with the interface of `loop.Loop`."""

    def __init__(
        self,
        adapter: Any,
        spec: Dict[str, Any],
        outlet: Any,
        control: Control,
        make_pace: Callable[[int], Any],
        clock: Clock = time.monotonic_ns,
    ) -> None:
        """Prepare the prompts. Raises EngineError("input") if a prompt is longer than the context of one request.

        `adapter` holds the loaded model. `spec` has the fields of `EngineSpec` by name. `outlet` sends the reports to
        edgetop's main process. `control` says when the user requests a stop. `make_pace(number)` returns the object
        that plans the starts in sequence `number`, or None to run requests back to back. `clock` returns ns.
        """
        self.clock = clock
        self.bursts: Optional[Any] = None  # operators are not profiled
        self._library, self._adapter, self._outlet, self._control = adapter.library, adapter, outlet, control
        self._frames, self._failures = TokenFrames(outlet, clock), Failures(outlet)
        self.prompts, self._decoder = Prompts(adapter, spec), Decoder(adapter, spec, clock)
        options = spec["generation"]
        self._most_tokens, self._size = int(options["max_tokens"]), int(options["context"])
        self._slots: List[Optional[Request]] = [None] * int(options["parallel"])
        self._samplers = [
            adapter.library.sampler(options["temperature"], spec["seed"] + number) for number in range(len(self._slots))
        ]
        self._make_pace = make_pace
        self._waiter = Waiter(control, clock, outlet.sleep)
        self._batch, self._ids = adapter.library.wide_batch()
        self._latencies: Optional[List[int]] = None
        self._reached_ns = 0

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

        The parameters are the same as in `Loop.repeat`. Requests that are cut off at the end get no record.
        """
        announce()
        begun = self.clock()
        if until_ns is None:
            until_ns = 2**63 - 1 if duration_ns is None else begun + duration_ns
        self._latencies, plan = latencies, _Plan(self._make_pace, len(self._slots), begun, paced=paced)
        left = -1 if runs is None else runs
        while not self._is_over(until_ns):
            left -= self._begin(plan, left, until_ns)
            if any(self._slots):
                self._step(phase, plan)
            elif not left or not self._waiter.until(min(plan.next_ns(self._slots), until_ns)):
                break
        self._cut_off(phase)
        if self._control.stop_requested:
            return "stop"
        return "runs" if left == 0 and self.clock() < until_ns else "duration"

    def _is_over(self, until_ns: int) -> bool:
        return self._control.stop_requested or self.clock() >= until_ns

    def _begin(self, plan: "_Plan", left: int, until_ns: int) -> int:
        """Begin all requests that are due and for which a sequence is free. Return their number.

        `plan` has the starts. At most `left` requests are begun; -1 means no limit. No request begins at `until_ns` or
        later.
        """
        begun = 0
        for number, slot in enumerate(self._slots):
            if slot is not None or begun == left:
                continue
            drawn = self.prompts.drawn()  # drawing random tokens is no part of a request
            due_ns = plan.taken(number, self.clock(), until_ns)
            if due_ns is None:
                continue
            place, start_ns = self.prompts.next_place(), self.clock()
            prompt = self.prompts.tokens_at(place) if drawn is None else drawn
            request = self._slots[number] = Request(prompt, place, start_ns, min(due_ns, start_ns))
            request.divided_ns = self.clock()
            self._library.llama_memory_seq_rm(self._adapter.memory, number, -1, -1)
            self._library.llama_sampler_reset(self._samplers[number])
            begun += 1
        return begun

    def _step(self, phase: int, plan: "_Plan") -> None:
        """Process one batch, and take the tokens that it generates.

        `phase` is a constant such as PHASE_WARMUP. `plan` learns when a request has ended. Raises EngineError if too
        many requests fail.
        """
        active = [(number, slot) for number, slot in enumerate(self._slots) if slot is not None]
        generating = sum(slot.generates for _, slot in active)
        has_prompt = self._fill(active)
        try:
            self._decoder.decode(self._batch)
        except RuntimeError as error:
            self._fail(phase, error, plan)
            return
        done_ns = self.clock()
        for number, slot in active:
            slot.was_alone = slot.was_alone and len(active) == 1
            if slot.output < 0:
                continue
            if not slot.tokens:
                slot.prefilled_ns = done_ns
                if slot.was_alone:
                    self._frames.put_prompt(done_ns, done_ns - slot.divided_ns, len(slot.prompt), phase)
            self._sample(number, slot, phase, 0 if has_prompt else generating)
            finish = self._finish(slot, phase)
            if finish is not None:
                self._end(number, slot, phase, finish)
                plan.done(number, slot.last_ns)

    def _fill(self, active: Any) -> bool:
        """Put the next tokens of all requests into the batch. Return True if tokens of prompts are among them.

        `active` has a pair (number of the sequence, `Request`) for each request that is in progress.
        """
        batch, count, room = self._batch, 0, int(self._library.batch_size)
        for number, slot in active:
            if slot.generates:
                self._put(count, slot.token, slot.position, number, is_output=True)
                slot.output, count = count, count + 1
                slot.position += 1
        prompts = sorted((one for one in active if not one[1].generates), key=lambda one: one[1].start_ns)
        for number, slot in prompts:
            slot.output = -1
            size = min(room - count, len(slot.prompt) - slot.done)
            for place in range(slot.done, slot.done + size):
                self._put(count, slot.prompt[place], place, number, is_output=place == len(slot.prompt) - 1)
                count += 1
            slot.done += size
            if size and slot.generates:
                slot.output = count - 1
        batch.n_tokens = count
        return bool(prompts)

    def _put(self, place: int, token: int, position: int, number: int, *, is_output: bool) -> None:
        """Put one token into the batch, in row number `place`.

        `position` is the token's position in the context of its request. `number` is the number of the request's
        sequence. `is_output` is True if the next token is to be chosen after this one.
        """
        ids = self._ids
        ids.token[place], ids.pos[place] = token, position
        ids.n_seq_id[place], ids.seq_id[place][0], ids.logits[place] = 1, number, is_output

    def _sample(self, number: int, slot: Request, phase: int, generating: int) -> None:
        """Choose the next token of a request, and report it.

        `number` is the number of the request's sequence, and `slot` is the request. `phase` is a constant such as
        PHASE_WARMUP. `generating` is how many requests generated a token in the batch, or 0 if the batch had tokens of
        prompts.
        """
        before = self.clock()
        slot.token = self._library.llama_sampler_sample(self._samplers[number], self._adapter.context, slot.output)
        after = self.clock()
        slot.sampled_ns += after - before
        slot.tokens += 1
        if slot.tokens == 1:
            slot.first_ns = after
            self._frames.put_token(after, after - slot.due_ns, slot.position, 0, phase)
        else:
            self._frames.put_token(after, after - slot.last_ns, slot.position, 1, phase, generating)
        slot.last_ns = after

    def _finish(self, slot: Request, phase: int) -> Optional[int]:
        """Return why the request `slot` has ended, as a constant such as LENGTH, or None if it goes on.

        `phase` is a constant such as PHASE_WARMUP.
        """
        most = self._most_tokens if phase == message_frames.PHASE_MEASURE else min(WARMUP_TOKENS, self._most_tokens)
        if self.prompts.are_texts and self._library.llama_vocab_is_eog(self._adapter.vocabulary, slot.token):
            return STOP
        if slot.tokens >= most:
            return LENGTH
        return CONTEXT if slot.position >= self._size else None

    def _end(self, number: int, slot: Request, phase: int, finish: int) -> None:
        """Report a request that has ended, and free its sequence.

        `number` is the number of the sequence, and `slot` is the request. `phase` is a constant such as PHASE_WARMUP.
        `finish` is why the request has ended, a constant such as LENGTH.
        """
        self._slots[number] = None
        self._frames.put_request(
            slot.start_ns, slot.start_ns - slot.due_ns, slot.last_ns - slot.start_ns, slot.first_ns - slot.due_ns,
            slot.divided_ns - slot.start_ns, slot.prefilled_ns - slot.divided_ns, slot.last_ns - slot.first_ns,
            slot.sampled_ns, len(slot.prompt), 0, slot.tokens, slot.position, slot.place, phase, finish,
        )  # fmt: skip
        if finish != CANCELLED:
            self._failures.in_a_row = 0
            self._record(slot, slot.last_ns, phase, ok=True)

    def _record(self, slot: Request, end_ns: int, phase: int, *, ok: bool) -> None:
        """Send the record of the request `slot`, which ended at `end_ns`. `ok` says whether it succeeded.

        `phase` is a constant such as PHASE_WARMUP.
        """
        latency_ns = end_ns - slot.start_ns
        record = message_frames.RECORD.pack(slot.start_ns, latency_ns, slot.start_ns - slot.due_ns, 0, phase, ok)
        self._outlet.put(memoryview(record), 1, 0, end_ns)
        reached_ns = min((other.start_ns for other in self._slots if other is not None), default=end_ns)
        if reached_ns > self._reached_ns:  # so that the reader can sort the records by their starts
            self._reached_ns = reached_ns
            self._outlet.send(message_frames.REACHED, {"t_ns": reached_ns})
        if self._latencies is not None:
            self._latencies.append(latency_ns)

    def _fail(self, phase: int, error: Exception, plan: "_Plan") -> None:
        """Report all requests in progress as failed with `error`. `phase` is a constant such as PHASE_WARMUP.

        `plan` learns that the requests have ended.
        """
        now_ns = self.clock()
        failed = [(number, slot) for number, slot in enumerate(self._slots) if slot is not None]
        self._slots = [None] * len(self._slots)
        for number, slot in failed:
            self._record(slot, now_ns, phase, ok=False)
            plan.done(number, now_ns)
        self._failures.add(phase, error, now_ns)

    def _cut_off(self, phase: int) -> None:
        """End all requests in progress. Those that have generated tokens are reported as cancelled."""
        for number, slot in enumerate(self._slots):
            if slot is not None and slot.tokens:
                self._end(number, slot, phase, CANCELLED)
        self._slots = [None] * len(self._slots)
        self._frames.flush(self.clock())


class _Plan:
    """Plans when the requests of one phase, such as the warm-up, start."""

    def __init__(self, make_pace: Callable[[int], Any], slots: int, begun_ns: int, *, paced: bool) -> None:
        """Begin the plan at the time `begun_ns`.

        `make_pace(number)` makes the plan of sequence `number`. `slots` is the number of sequences. `paced` says
        whether the user's rate applies.
        """
        first = make_pace(0) if paced else None
        self._shared = first if first is not None and first.is_open else None
        is_each = first is not None and self._shared is None
        self._each = [make_pace(number) for number in range(slots)] if is_each else []
        self._due = [pace.begin(begun_ns) for pace in self._each] or [begun_ns] * slots
        self._shared_due = self._shared.begin(begun_ns) if self._shared else begun_ns

    def taken(self, number: int, now_ns: int, until_ns: int) -> Optional[int]:
        """Take the next request of sequence `number` from the plan, and return when it was due, in ns.

        Returns NEVER if requests have no schedule. Returns None, and takes nothing, if no request is due at the time
        `now_ns`, or if the next one is due at `until_ns` or later.
        """
        due = self._shared_due if self._shared else self._due[number]
        if due > now_ns or due >= until_ns:
            return None
        if self._shared is None:
            return NEVER
        self._shared_due = self._shared.after(now_ns)
        return int(due)

    def done(self, number: int, done_ns: int) -> None:
        """Plan the next request of sequence `number`, whose request ended at `done_ns`."""
        if self._each:
            self._due[number] = self._each[number].after(done_ns)

    def next_ns(self, slots: List[Optional[Request]]) -> int:
        """Return the time in ns at which the next request is due.

        `slots` has an item for each sequence: its request, or None if the sequence is free.
        """
        if self._shared:
            return int(self._shared_due)
        return int(min(due for due, slot in zip(self._due, slots) if slot is None))
