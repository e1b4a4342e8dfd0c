"""The tokens and requests of a language model, from the batches that a watched program computes.

A program reports which sequences a batch has, how many tokens of each, and from which position on. It reports neither
texts nor requests. So these follow from the batches:

- One token that continues a sequence whose last token got scores was generated. With N such sequences, a batch has N
  generated tokens.
- All other tokens belong to a prompt. Without a generated token after it, a prompt is no request.
- A short run of which several tokens get scores, after a token that may be chosen, is a draft if the next run of the
  sequence begins inside it: then the program has rejected some of its tokens. Else it is a prompt. The tokens of the
  first such draft count nowhere. How many of them the request got is not known, so neither the request in which the
  draft lies nor anything later counts. The tokens that this request generated one by one before the draft still count.
- The first token of a request is there when its prompt has been processed. It is counted when the batch after it shows
  that it was used.
- If a request that was reported as ended goes on, the rest is a request without a prompt. Its TTFT is not known.
- If positions are not known, a prompt after a generated token begins a context: the program may have cleared it.

A time of a token is the end of its batch. The time to choose the token is part of the time to the next one.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.session.records import FINISH_REASONS, MEASURE, NO_REQUESTS, NO_TOKENS, REQUEST, TOKEN, Requests, Tokens
from edgetop.taps.ring import Calls

SEVERAL = 2  # value of `ok` if several tokens of a run get scores
MOST_DRAFT = 64  # most tokens of a draft that a batch checks
QUIET_NS = 2_000_000_000  # least time without a token after which a sequence has ended its request
QUIET_STEPS = 4  # such a time is at least so many times the longest step (batch or time between tokens) of its context
MOST_BEFORE = 32  # most tokens in the context before a prompt that is compared: a fuller context makes it slower
MOST_PROMPTS = 4096  # most prompts that wait until they are taken
MOST_NUMBER = 2**31 - 1  # largest position or number of tokens
MOST_ACTIVE = 255  # largest number in TOKEN's field `active`
STOP = FINISH_REASONS.index("stop")

PROMPT = np.dtype([("t_ns", "<i8"), ("latency_ns", "<i8"), ("tokens", "<f8")])  # end, time to process it, length

Prompts = npt.NDArray[np.void]
Key = tuple[int, int, int]  # numbers of the ring, of the context's name in it, and of the sequence


@dataclass(slots=True)
class _Sequence:
    """A request in one sequence of a context. Times are CLOCK_MONOTONIC in ns."""

    start_ns: int
    cached: int  # tokens that were in the context before
    position: int  # position of the next token
    prompt: int = 0  # tokens of its prompt that were processed
    prefill_ns: int = 0
    prefilled_ns: int = 0  # when its prompt had been processed
    is_alone: bool = True  # whether no other sequence was in the batches of its prompt
    has_scores: bool = False  # whether its last token got scores, so that the next token may be chosen
    draft: int = -1  # position of the last run if it may be a draft
    before: "_Sequence | None" = None  # the request before, as long as this prompt may be a draft that continues it
    tokens: int = 0  # generated tokens
    last_ns: int = 0  # time of the last one
    is_told: bool = False  # whether it has been reported as a request
    is_rest: bool = False  # whether it continues a request that was reported as ended: then it has no prompt


@dataclass(slots=True)
class TokenBatches:
    """Collects the tokens and requests of one context."""

    drafts: bool = False  # whether the program checks drafts of several tokens, which are then not counted
    _sequences: dict[Key, _Sequence] = field(default_factory=dict)
    _steps_ns: dict[tuple[int, int], int] = field(default_factory=dict)  # longest step of each context
    _tokens: list[tuple[int | bool, ...]] = field(default_factory=list)  # as TOKEN
    _requests: list[tuple[int | bytes, ...]] = field(default_factory=list)  # as REQUEST
    _prompts: list[tuple[int, int, int]] = field(default_factory=list)  # as PROMPT

    def add(self, ring: int, runs: Calls) -> None:
        """Add reports of kind TOKENS from the ring number `ring`, in the order in which they were written."""
        begin = 0
        names, starts = runs["name"], runs["start_ns"]
        ends = np.flatnonzero((np.diff(starts) != 0) | (np.diff(names.astype(np.int64)) != 0)) + 1
        for end in (*ends.tolist(), len(runs)):
            if end > begin:
                self._add_batch(ring, runs[begin:end])
            begin = end

    def _add_batch(self, ring: int, runs: Calls) -> None:
        """Add the runs of one batch. A run has successive tokens of one sequence.

        Numbers that no context can have are left out: the runs come from another process. A run of no tokens says that
        the tokens of the batch are not known. Then nothing is known of the sequences of its context any more.
        """
        generated: list[tuple[_Sequence, int]] = []  # with the position of the token
        runs = runs[(runs["cpu_us"] <= MOST_NUMBER) & (runs["number"] <= MOST_NUMBER)]
        if not len(runs):
            return
        context = ring, int(runs["name"][0])
        if not runs["number"].all():
            self._end_all(context)
            return
        fields = [runs[name].tolist() for name in ("name", "flags", "cpu_us", "number", "ok", "start_ns", "end_ns")]
        is_alone = len(set(runs["flags"].tolist())) == 1
        start_ns = end_ns = longest_ns = 0
        for name, sequence, after, count, scores, start_ns, end_ns in zip(*fields, strict=True):
            key = ring, name, sequence
            known = self._sequences.get(key)
            position = after - 1 if after else _next_position(known, count)
            goes_on = known is not None and known.has_scores and position == known.position
            if known and 0 <= known.draft < position < known.position:
                self.drafts = True
            if known and goes_on and count == 1 and not known.is_told:
                self._tell_before(known)
                generated.append((known, known.position))
                known.position = min(known.position + 1, MOST_NUMBER)
                known.has_scores, known.draft = scores > 0, -1
                longest_ns = max(longest_ns, end_ns - (known.last_ns or known.prefilled_ns))
                continue
            may_be_draft = goes_on and scores == SEVERAL and count <= MOST_DRAFT
            self._add_prompt(key, (start_ns, end_ns), (position, count), scores > 0, may_be_draft=may_be_draft)
            self._sequences[key].is_alone &= is_alone
            self._sequences[key].is_rest |= known is not None and goes_on and count == 1 and known.is_told
        self._steps_ns[context] = max(self._steps_ns.get(context, 0), end_ns - start_ns, longest_ns)
        if self.drafts:
            return
        active = min(len(generated), MOST_ACTIVE) if len(generated) == len(runs) else 0
        for one, position in generated:
            self._add_token(one, position, end_ns, active)

    def _add_prompt(
        self, key: Key, span: tuple[int, int], run: tuple[int, int], has_scores: bool, *, may_be_draft: bool
    ) -> None:
        """Add tokens of a prompt.

        `span` is when the batch began and ended. `run` is the position of the first token, and the number of tokens.
        `has_scores` says whether the last one got scores. `may_be_draft` says that they may continue the request
        before, which is then reported when that is known.
        """
        (start_ns, end_ns), (position, count) = span, run
        known = self._sequences.get(key)
        if known is None or known.tokens or position != known.position:
            begun = self._sequences[key] = _Sequence(start_ns, position, position)
            if known and may_be_draft:
                begun.before = known
            elif known:
                self._tell(known)
            known = begun
        known.prompt = min(known.prompt + count, MOST_NUMBER)
        known.position = min(known.position + count, MOST_NUMBER)
        known.prefill_ns += end_ns - start_ns
        known.prefilled_ns, known.has_scores = end_ns, has_scores
        known.draft = position if may_be_draft else -1

    def _add_token(self, one: _Sequence, position: int, end_ns: int, active: int) -> None:
        """Add a token that was there at `end_ns`, after the token at `position`. `active` is as in TOKEN."""
        if not one.tokens:
            ttft_ns = one.prefilled_ns - one.start_ns
            if not one.is_rest:
                self._tokens.append((one.prefilled_ns, ttft_ns, position, False, MEASURE, 0, False))
            if not one.is_rest and one.is_alone and one.cached <= MOST_BEFORE and len(self._prompts) < MOST_PROMPTS:
                self._prompts.append((one.prefilled_ns, one.prefill_ns, one.prompt))
            one.tokens, one.last_ns = 1, one.prefilled_ns
        self._tokens.append(
            (end_ns, end_ns - one.last_ns, min(position + 1, MOST_NUMBER), True, MEASURE, active, False)
        )
        one.tokens += 1
        one.last_ns = end_ns

    def _tell_before(self, one: _Sequence) -> None:
        """Report the request before `one`, if that waited: what followed it was no draft that was rejected."""
        if one.before is not None:
            before, one.before = one.before, None
            self._tell(before)

    def _tell(self, one: _Sequence) -> None:
        self._tell_before(one)
        if one.is_told or not one.tokens or self.drafts:
            return
        one.is_told = True
        latency_ns, ttft_ns = one.last_ns - one.start_ns, one.prefilled_ns - one.start_ns
        decode_ns, tokens_in = one.last_ns - one.prefilled_ns, min(one.cached + one.prompt, MOST_NUMBER)
        cached, prefill_ns = one.cached, one.prefill_ns
        if one.is_rest:
            cached, ttft_ns, prefill_ns = tokens_in, 0, 0
        times = (one.start_ns, 0, latency_ns, ttft_ns, 0, prefill_ns, decode_ns, 0)
        counts = (tokens_in, cached, one.tokens, min(tokens_in + one.tokens - 1, MOST_NUMBER), 0)
        self._requests.append((*times, *counts, MEASURE, STOP, b""))

    def take_prompts(self) -> Prompts:
        """Return the prompts since the last call of this method whose times can be compared at equal length.

        Left out are prompts that were processed beside other sequences, that continue a longer context, or that got no
        generated token.
        """
        prompts, self._prompts = np.array(self._prompts, PROMPT), []
        return prompts

    def end(self, ring: int) -> None:
        """End the requests of the ring number `ring`, whose process has ended."""
        self._end_all((ring,))
        self._steps_ns = {context: ns for context, ns in self._steps_ns.items() if context[0] != ring}

    def _end_all(self, begin: tuple[int, ...]) -> None:
        """End the requests of all sequences whose key begins with `begin`."""
        for key in [key for key in self._sequences if key[: len(begin)] == begin]:
            self._tell(self._sequences.pop(key))

    def release(self, until_ns: int, now_ns: int, *, is_over: bool) -> tuple[Tokens, Requests]:
        """Return the tokens and the ended requests up to the time `until_ns`, each once.

        A request ends when its sequence gets another prompt or no token for some seconds: at least QUIET_NS, and longer
        if the context is slow. If a token follows nevertheless, the rest is a request of its own. `now_ns` is the
        present time. `is_over` says that no process writes any more.
        """
        for key, one in self._sequences.items():
            quiet_ns = max(QUIET_NS, QUIET_STEPS * self._steps_ns.get(key[:2], 0))
            if is_over or now_ns - max(one.last_ns, one.prefilled_ns) > quiet_ns:
                self._tell(one)
        tokens = np.array(self._tokens, TOKEN) if self._tokens else NO_TOKENS
        requests = np.array(self._requests, REQUEST) if self._requests else NO_REQUESTS
        if is_over:
            self._tokens, self._requests = [], []
            return tokens, requests
        is_due, has_ended = tokens["t_ns"] <= until_ns, requests["t_ns"] + requests["latency_ns"] <= until_ns
        self._tokens = [row for row, due in zip(self._tokens, is_due.tolist(), strict=True) if not due]
        self._requests = [row for row, ended in zip(self._requests, has_ended.tolist(), strict=True) if not ended]
        return tokens[is_due], requests[has_ended]


def _next_position(known: _Sequence | None, count: int) -> int:
    """Return where `count` tokens go whose positions are not known: 0 if they may begin a context.

    `known` is what is known of their sequence; None for nothing. A single token goes on, and so does a further piece of
    a prompt. The program may have cleared the context before another prompt.
    """
    if known is None or (known.tokens and count > 1):
        return 0
    return known.position
