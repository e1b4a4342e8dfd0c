"""Read all rings (files of calls) of a watched application, and turn them into an engine's records and messages."""

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgetop.engines.engine_protocol import (
    FillRate,
    Loaded,
    LogLine,
    Message,
    PhaseBegan,
    ProfilerChosen,
    RecordsLost,
    Sampled,
    StreamsSeen,
)
from edgetop.probe import edgetop_probe as layout
from edgetop.session.records import MEASURE, Inferences, Requests, Tokens, last_end_ns
from edgetop.session.sized_calls import PREFILL_OF_PROGRAM, Samples, SizedCalls
from edgetop.taps.call_streams import MAX_STREAMS, Streams
from edgetop.taps.garbage_collections import GarbageCollections
from edgetop.taps.ring import Calls
from edgetop.taps.rings import SHARED_MEMORY, Rings
from edgetop.taps.stage_frames import Frames
from edgetop.taps.token_batches import TokenBatches

QUIET_NS = 10_000_000_000  # after this time without an inference, a warning says what the process has loaded
SLACK_NS = 1_000_000_000  # how far the time of a call may be outside the session, since calls are read later
LANGUAGE_RUNTIME = "llama.cpp"


class Taps:
    def __init__(self) -> None:
        self.started_ns = 0  # when watching began
        self.since_ns = 0  # calls that began earlier do not count
        self.stopped_ns: int | None = None  # when edgetop asked the program to end; failures after that are not errors
        self.began_ns: int | None = None  # begin of the first inference
        self._has_begun = False  # whether the phase of the program has begun
        self._measured = 0
        self._rings = Rings()
        self._lost = 0
        self._refused = self._refused_told = 0  # number of calls with impossible times, and how many were reported
        self._streams = Streams()
        self._frames = Frames()
        self._collections = GarbageCollections()
        self._batches, self._prompts = TokenBatches(), SizedCalls()
        self._released_ns = 0  # latest end of an inference that was returned
        self._told_drafts = False  # whether it was reported that tokens of drafts are not counted
        self._reported: StreamsSeen | None = None
        self._warned = False  # whether there was a warning that no inference was seen
        self._told_others = False  # whether it was reported that there are too many streams
        self._fill_rate = FillRate()
        self.poll_within_s = math.inf  # see EngineUpdate

    @property
    def folder(self) -> Path | None:
        """The folder of the rings, or None before `open` and after `close`."""
        return self._rings.folder

    def open(self, shared: Path = SHARED_MEMORY) -> Path:
        """Create the folder of the rings, in the folder `shared` if that has room, and return its path."""
        return self._rings.open(shared)

    def poll(self, now_ns: int, *, is_over: bool) -> tuple[Inferences, list[Message]]:
        """Return the inferences and the messages since the last poll. `is_over` says that no process writes any more.

        `now_ns` is the present time on CLOCK_MONOTONIC.
        """
        messages = self._read_rings(is_over=is_over)
        if not self._has_begun:
            self._has_begun = True
            messages.insert(0, PhaseBegan("program", self.started_ns))
        records = self._streams.release(now_ns, is_over=is_over)
        messages += [*self._rings.news(now_ns), *self._stream_news(), *self._refusals(is_over=is_over)]
        if len(records) and self.began_ns is None:
            self.began_ns = int(records["t_ns"][0])
            messages += [PhaseBegan("first", self.began_ns), PhaseBegan("measure", self.began_ns)]
        if len(records):
            self._released_ns = max(self._released_ns, last_end_ns(records))
        self._measured += int((records["phase"] == MEASURE).sum())
        samples = self._streams.take_samples() | self._frames.release(now_ns, is_over=is_over) | self._sized_prompts()
        messages += [Sampled(sensor, tuple(each)) for sensor, each in samples.items()]
        return records, messages

    def _sized_prompts(self) -> Samples:
        """Return the lengths of some new prompts, and the times to process them, as sensor samples."""
        new = self._batches.take_prompts()
        return self._prompts.sample(PREFILL_OF_PROGRAM, new["t_ns"], new["latency_ns"], new["tokens"])

    def tokens(self, now_ns: int, *, is_over: bool) -> tuple[Tokens, Requests]:
        """Return the new tokens and requests of the first stream, if that is a language model.

        Call `poll` with the same time before this. `now_ns` is the present time on CLOCK_MONOTONIC. `is_over` says that
        no process writes any more.
        """
        return self._batches.release(self._released_ns, now_ns, is_over=is_over)

    def reached(
        self, duration_ns: int | None, runs: int | None, now_ns: int, may_infer: Callable[[], bool] = lambda: True
    ) -> str:
        """Return which limit has been reached: "duration", "runs", or "" for none.

        `duration_ns` is the longest time since the first inference, in ns. `runs` is the highest number of measured
        inferences. None means no limit. `now_ns` is the present time on CLOCK_MONOTONIC. `may_infer` returns whether
        the program has loaded a runtime. If it has not and there was no inference, `duration_ns` counts from the start
        of watching.
        """
        if self.began_ns is None:
            is_due = duration_ns is not None and now_ns - self.started_ns >= duration_ns
            return "duration" if is_due and not may_infer() else ""
        if duration_ns is not None and now_ns - self.began_ns >= duration_ns:
            return "duration"
        return "runs" if runs is not None and self._measured >= runs else ""

    def warn_if_quiet(
        self,
        now_ns: int,
        why: Callable[[], str],
        may_infer: Callable[[], bool] = lambda: True,
        *,
        is_over: bool = False,
    ) -> list[Message]:
        """Return a list with one message if no inference was seen in the first 10 s or until the program's end.

        Otherwise return []. There is only one such message, so all later calls return [] too. `now_ns` is the present
        time on CLOCK_MONOTONIC. `is_over` says that the program has ended. The message is then a warning. While the
        program runs, `why` returns the reason for the message, and `may_infer` whether the program has loaded a
        runtime. If it has not, the message is just information.
        """
        if self.began_ns is not None or self._warned or (now_ns - self.started_ns <= QUIET_NS and not is_over):
            return []
        self._warned = True
        if is_over:
            return [LogLine("warning", "edgetop", "the program ended, and no inference was seen", "no-inference")]
        text = f"no inference was seen in 10 s: {why()}"
        return [LogLine("warning" if may_infer() else "info", "edgetop", text, "no-inference")]

    @property
    def has_rings(self) -> bool:
        """Whether any process of the program has reported anything so far."""
        return bool(self._rings.sources)

    @property
    def has_hooked(self) -> bool:
        """Whether the Python hook, the preload library or uprobes have reported calls.

        Calls that the program itself reports with edgetop's probe do not count, because it may report only stages.
        """
        return bool(self._rings.sources - {"probe"})

    def _read_rings(self, *, is_over: bool) -> list[Message]:
        most = 0  # largest number of new calls in one ring
        messages: list[Message] = []
        for read, ended in self._rings.read(is_over=is_over):
            most = max([most, *(len(calls) for _, calls in read)])
            now_ns = time.monotonic_ns()  # later than all calls that were read
            reported = [(ring, self._of_session(calls, now_ns)) for ring, calls in read]
            for ring, calls in reported:
                self._streams.add(ring, calls)
                if len(tokens := calls[calls["kind"] == layout.TOKENS]):
                    self._batches.add(ring.number, self._streams.of_first(ring, tokens))
                if ring in ended:
                    self._streams.end(ring)
                    self._batches.end(ring.number)
            self._frames.add(reported)
            messages += self._collections.inferences(reported)
            for ring in ended:
                self._collections.end(ring)
        lost = self._rings.lost
        # Overwritten calls count as well, because otherwise an overrun ring would be read too seldom.
        self.poll_within_s = self._fill_rate.half_full_in_s((most + max(0, lost - self._lost)) / layout.SLOTS)
        if lost <= self._lost:
            return messages
        more, self._lost = lost - self._lost, lost
        return [*messages, RecordsLost(more)]

    def _of_session(self, calls: Calls, now_ns: int) -> Calls:
        """Return the calls in `calls` that count for this run of edgetop.

        Calls from before watching began are left out, and calls that failed after edgetop asked the program to end.
        Calls with impossible times are left out too, and counted as refused. `now_ns` is the present time on
        CLOCK_MONOTONIC.
        """
        calls = calls[(calls["start_ns"] >= self.since_ns) | (calls["kind"] == layout.INPUTS)]
        if self.stopped_ns is not None:
            calls = calls[(calls["kind"] != layout.CALL) | (calls["ok"] != 0) | (calls["end_ns"] < self.stopped_ns)]
        begins = np.where(
            calls["kind"] == layout.DEADLINE, calls["end_ns"], calls["start_ns"]
        )  # its start is not a point in time
        is_possible = (begins >= self.started_ns - SLACK_NS) & (calls["end_ns"] <= now_ns + SLACK_NS)
        is_possible |= calls["kind"] == layout.INPUTS  # this kind has no time
        self._refused += int(np.count_nonzero(~is_possible))
        possible: Calls = calls[is_possible]
        return possible

    def _refusals(self, *, is_over: bool) -> list[Message]:
        """Return messages about calls with impossible times: one at the first such call, and one at the end.

        `is_over` says that the program has ended.
        """
        new = self._refused - self._refused_told
        if not new or (self._refused_told and not is_over):
            return []
        messages: list[Message] = []
        if not self._refused_told:
            text = "the program reports calls with times outside this session, which do not count: times must be"
            messages.append(LogLine("warning", "edgetop", f"{text} CLOCK_MONOTONIC in nanoseconds", "foreign-times"))
        self._refused_told = self._refused
        return [*messages, RecordsLost(new, "their times were not of this session")]

    def _stream_news(self) -> list[Message]:
        """Return messages on what has changed since the last call: names, threads and inputs of the streams."""
        streams, names = self._streams, self._streams.names
        if not names:
            return []
        cost_ns, models = self._rings.cost_ns, tuple(name.model for name in names)
        sources = tuple(sorted(self._rings.sources))
        seen = StreamsSeen(models, sources, cost_ns or None, streams.threads, streams.inputs, self._frames.deadline_ns)
        before, self._reported = self._reported, seen
        news: list[Message] = [] if seen == before else [seen]
        if before is None:
            first, why = names[0], f"seen by {', '.join(sources)}"
            runtime = first.runtime or "unknown"
            reason = "the program runs its own sessions: edgetop ops MODEL profiles its model alone"
            loaded = Loaded(
                runtime, first.version, why, first.providers, (), (), (), streams.load_ns, context=streams.context,
                shows_tokens=runtime == LANGUAGE_RUNTIME and bool({"hook", "preload"} & set(sources)),
            )  # fmt: skip
            news += [loaded, ProfilerChosen("", reason)]
        if self._batches.drafts and not self._told_drafts:
            self._told_drafts = True
            text = "the program checks drafts of several tokens (speculative decoding): tokens are not counted"
            news.append(LogLine("warning", "edgetop", text))
        if streams.are_too_many and not self._told_others:
            self._told_others = True
            text = f"more than {MAX_STREAMS - 1} models and sessions: the calls of the rest are counted as others"
            news.append(LogLine("warning", "edgetop", text, "streams-full"))
        return news

    def close(self) -> None:
        """Close all rings, and remove their folder."""
        self._rings.close()
