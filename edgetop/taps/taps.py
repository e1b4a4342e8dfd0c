"""Read all rings (files of calls) of a watched application, and turn them into the records and messages of an engine.

Calls become inferences, with their stream (the model) and phase, in the order in which they began.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

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
from edgetop.session.records import FIRST, INFERENCE, MEASURE, NO_INFERENCES, WARMUP, Inferences, join
from edgetop.session.sized_calls import MOST_CALLS, SizedCalls
from edgetop.taps.garbage_collections import GarbageCollections
from edgetop.taps.ring import CallName, Calls, Ring
from edgetop.taps.rings import SHARED_MEMORY, Rings
from edgetop.taps.stage_frames import RUN_QUEUE_WAIT, Frames, RunQueueWait, Samples, call_samples, size_sensor

QUIET_NS = 10_000_000_000  # after this time without an inference, a warning says what the process has loaded
MAX_STREAMS = 255  # most streams, one per model and session; the last one collects all that do not fit
OTHERS = CallName("", "", (), "others")
SLACK_NS = 1_000_000_000  # how far the time of a call may be outside the session, since calls are read later
WARMUP_CALLS, WARMUP_NS = 10, 2_000_000_000  # the warm-up of a stream is found in its first calls, up to either limit
WARMUP_RATIO = 1.25  # an early call this much slower than the median of the later half of these calls is warm-up
HOLD_NS, MOST_HELD = 5_000_000_000, 65_536

# Calls whose size is sampled as long as all calls of a model have one size: enough to learn its usual time.
FIRST_SIZED = 32
MOST_SIZED = 256  # most calls of all models together whose size is sampled at a time, which is a few times a second

Times = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Stream:
    name: CallName
    began_ns: int
    recognised: bool = False  # whether its warm-up has been determined
    latencies_ns: list[int] = field(default_factory=list)  # latencies of its first calls
    threads: int | None = None  # threads of its session; 0: the runtime's default; None: unknown
    inputs: str | None = None  # inputs of its first call, with their shapes; None: unknown
    sizes: set[float] = field(default_factory=set)  # the first sizes of its inputs, in elements
    sized: int = 0  # calls of which the size was sampled


class Streams:
    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}  # (ring, name) -> stream
        self._streams: list[_Stream] = []
        self._pending: Inferences = NO_INFERENCES
        self._threads: set[tuple[int, int]] = set()  # the first two threads, as (ring, thread)
        self._longest_ns = 0  # length of the longest call so far; decays over time
        self._last_ns = 0  # begin of the last released inference
        self.load_ns: int | None = None  # time to load the first model; None: unknown
        self._samples: Samples = {}
        self._waits = RunQueueWait()
        self._threads_of: dict[tuple[int, int], int] = {}  # threads of a session by (ring, name); 0: the default
        self._inputs_of: dict[tuple[int, int], str] = {}  # inputs of the first call by (ring, name), with their shapes
        self._sizes: dict[tuple[int, int], float] = {}  # elements in the inputs of the last call by (ring, name)
        self._sized = SizedCalls()
        self._free: defaultdict[CallName, list[int]] = defaultdict(list)  # streams whose process has ended
        self._continued: set[tuple[int, int]] = set()  # keys of `_numbers` that continue the stream of an ended process

    @property
    def names(self) -> tuple[CallName, ...]:
        return tuple(stream.name for stream in self._streams)

    @property
    def threads(self) -> tuple[int | None, ...]:
        """The number of threads that each stream (a model) uses: 0 for the runtime's default, None if unknown."""
        return tuple(stream.threads for stream in self._streams)

    @property
    def inputs(self) -> tuple[str | None, ...]:
        """One text for each stream (a model): the names and shapes of its first call's inputs, or None if unknown."""
        return tuple(stream.inputs for stream in self._streams)

    @property
    def are_too_many(self) -> bool:
        """Whether all MAX_STREAMS streams are in use. The last stream then has the calls of all further sessions."""
        return len(self._streams) == MAX_STREAMS

    def take_samples(self) -> Samples:
        """Return the sensor samples since the last call of this method: lists of (time in ns, value) by sensor id."""
        samples, self._samples = self._samples, {}
        return samples

    def add(self, ring: Ring, calls: Calls) -> None:
        """Add the calls that were read from a ring."""
        self._add_sessions(ring, calls)
        sizes = calls[calls["kind"] == layout.SIZE]
        calls = calls[calls["kind"] == layout.CALL]
        if not len(calls):
            self._add_sizes(ring, sizes)
            return
        inferences = np.zeros(len(calls), INFERENCE)
        inferences["t_ns"] = calls["start_ns"]
        inferences["latency_ns"] = calls["end_ns"] - calls["start_ns"]
        inferences["phase"] = np.where(calls["flags"] & layout.FIRST, FIRST, MEASURE)
        inferences["ok"] = calls["ok"] != 0
        names = np.unique(calls["name"]).tolist()
        for name in names:
            of_name = calls["name"] == name
            number = self._number(ring, name, int(calls["start_ns"][of_name].min()))
            inferences["stream"][of_name], stream = number, self._streams[number]
            if (ring.number, name) in self._continued:
                inferences["phase"][of_name] = MEASURE
            for sensor, samples in call_samples(number, calls[of_name]).items():
                self._samples.setdefault(sensor, []).extend(samples)
            elements = self._sizes_of(ring, name, calls["start_ns"][of_name], sizes)
            self._sample_sizes(number, calls[of_name], elements)
            if not stream.recognised:
                room = WARMUP_CALLS - len(stream.latencies_ns)
                stream.latencies_ns += inferences[of_name]["latency_ns"][:room].tolist()
        is_single = all(self._threads_of.get((ring.number, name)) == 1 for name in names)
        if is_single and (samples := self._waits.add(calls)):
            self._samples.setdefault(RUN_QUEUE_WAIT, []).extend(samples)
        if len(self._threads) <= 1:  # only whether there are several threads matters
            self._threads.update((ring.number, thread) for thread in np.unique(calls["thread"]).tolist()[:2])
        self._pending = join([self._pending, inferences])
        self._add_sizes(ring, sizes)

    def _add_sessions(self, ring: Ring, calls: Calls) -> None:
        """Store what reports in `calls` say of sessions: load time, number of threads, and inputs.

        `calls` come from the file `ring` of one process. A report may come before or after the first call of its
        session.
        """
        loads = calls[calls["kind"] == layout.LOAD]
        if len(loads) and self.load_ns is None:
            self.load_ns = int(loads["end_ns"][0] - loads["start_ns"][0])
        told = calls[(calls["kind"] == layout.INPUTS) | ((calls["kind"] == layout.LOAD) & (calls["number"] > 0))]
        for each in told:
            if each["kind"] == layout.LOAD:
                self._threads_of[ring.number, int(each["name"])] = int(each["number"]) - 1
            elif each["number"] < layout.NAMES:
                self._inputs_of[ring.number, int(each["number"])] = ring.name(int(each["name"])).model
        for key, number in self._numbers.items() if len(told) else ():
            self._describe(key, number)

    def _add_sizes(self, ring: Ring, sizes: Calls) -> None:
        """Store reports of input sizes as sensor samples, and each model's last size for later calls.

        `sizes` are reports from the file `ring` of one process. A program reports the number of input elements when the
        shape of a call differs from the shape of the call before.
        """
        for name in np.unique(sizes["name"]).tolist():
            own = sizes[sizes["name"] == name]
            number = self._number(ring, name, int(own["start_ns"].min()))
            samples = zip(own["start_ns"].tolist(), own["number"].astype(np.float64).tolist(), strict=True)
            self._samples.setdefault(size_sensor(number), []).extend(samples)
            self._sizes[ring.number, name] = float(own["number"][-1])

    def _sizes_of(self, ring: Ring, name: int, start_ns: Times, sizes: Calls) -> Floats:
        """Return the number of input elements of each call of one model. An unknown number is NaN.

        `ring` is the file that reports the calls, and `name` the model's number in it. `start_ns` are the times at
        which the calls begin. `sizes` are the file's reports of sizes.
        """
        own = sizes[sizes["name"] == name]
        known = np.append(self._sizes.get((ring.number, name), np.nan), own["number"].astype(np.float64))
        return known[np.searchsorted(own["start_ns"], start_ns, side="right")]

    def _sample_sizes(self, number: int, calls: Calls, elements: Floats) -> None:
        """Add sensor samples of the input sizes of `calls`. `number` is the number of the calls' stream (model).

        `elements` has the number of input elements of each call, NaN if unknown. As long as all calls have one size,
        only the first few calls are sampled.
        """
        is_known = ~np.isnan(elements)
        if not is_known.any():
            return
        mean = int(calls["start_ns"].max()), float(elements[is_known].mean())
        self._samples.setdefault(f"input/{number}-mean", []).append(mean)
        stream = self._streams[number]
        is_known &= ((calls["flags"] & layout.FIRST) == 0) & (calls["ok"] != 0)
        calls, elements = calls[is_known], elements[is_known]
        if len(stream.sizes) < 2:
            stream.sizes |= set(np.unique(elements)[:2].tolist())
        varying = sum(len(one.sizes) > 1 for one in self._streams)
        most = min(MOST_CALLS, max(1, MOST_SIZED // max(1, varying)))
        if len(stream.sizes) < 2:
            most = min(MOST_CALLS, FIRST_SIZED - stream.sized)
        latency_ns = calls["end_ns"] - calls["start_ns"]
        samples = self._sized.sample(number, calls["start_ns"], latency_ns, elements, most)
        for sensor, values in samples.items():
            self._samples.setdefault(sensor, []).extend(values)
        stream.sized += min(len(calls), max(0, most))

    def _describe(self, key: tuple[int, int], number: int) -> None:
        stream = self._streams[number]
        if stream.name is not OTHERS:
            stream.threads = self._threads_of.get(key, stream.threads)
            stream.inputs = self._inputs_of.get(key, stream.inputs)

    def _number(self, ring: Ring, name: int, began_ns: int) -> int:
        """Return the number of the stream (model) for a session of the program.

        The file `ring` reports the session's calls, and `name` is the session's number in this file. `began_ns` is when
        its first call began. A new session continues the stream of an ended process with the same model, if there is
        one. If there is none, the session gets a new stream.
        """
        key = ring.number, name
        if key not in self._numbers:
            text = ring.name(name)
            if left := self._free.get(text):
                self._numbers[key] = left.pop()
                self._continued.add(key)
            else:
                if len(self._streams) < MAX_STREAMS:
                    is_last = len(self._streams) == MAX_STREAMS - 1
                    self._streams.append(_Stream(OTHERS if is_last else text, began_ns))
                self._numbers[key] = len(self._streams) - 1
            self._describe(key, self._numbers[key])
        return self._numbers[key]

    def end(self, ring: Ring) -> None:
        """Mark the streams of `ring`, whose process has ended, as free. Later processes can continue these streams."""
        for key in [key for key in self._numbers if key[0] == ring.number]:
            number = self._numbers.pop(key)
            if (name := self._streams[number].name) is not OTHERS:
                self._free[name].append(number)
        self._continued = {key for key in self._continued if key[0] != ring.number}
        self._threads_of = {key: value for key, value in self._threads_of.items() if key[0] != ring.number}
        self._inputs_of = {key: value for key, value in self._inputs_of.items() if key[0] != ring.number}
        self._sizes = {key: value for key, value in self._sizes.items() if key[0] != ring.number}

    def release(self, now_ns: int, *, is_over: bool = False) -> Inferences:
        """Return new inferences, sorted by begin. Each inference is returned once.

        An inference is held back for some time, because an earlier one may still be running on another thread, or
        because it is not known yet whether it belongs to the warm-up. `now_ns` is the present time on CLOCK_MONOTONIC.
        `is_over` says that no process writes any more.
        """
        for number, stream in enumerate(self._streams):
            if not stream.recognised:
                has_enough = len(stream.latencies_ns) >= WARMUP_CALLS or now_ns - stream.began_ns > WARMUP_NS
                if not (has_enough or is_over):
                    return NO_INFERENCES
                self._recognise(number, stream)
        pending = self._pending[np.argsort(self._pending["t_ns"], kind="stable")]
        if len(pending):
            self._longest_ns = max(int(pending["latency_ns"].max()), self._longest_ns * 9 // 10)
        cut = len(pending)
        if (
            len(self._threads) > 1 and not is_over
        ):  # a call of another thread may have begun earlier and still be running
            until_ns = now_ns - min(2 * self._longest_ns, HOLD_NS)
            cut = max(int(np.searchsorted(pending["t_ns"], until_ns)), cut - MOST_HELD)
        released, self._pending = pending[:cut], pending[cut:]
        if len(released):
            released["t_ns"] = np.maximum(released["t_ns"], self._last_ns)
            self._last_ns = int(released["t_ns"][-1])
        return released

    def _recognise(self, number: int, stream: _Stream) -> None:
        """Mark the first calls of `stream` as warm-up, if they take clearly longer than later calls.

        `number` is the number of `stream`.
        """
        stream.recognised, latencies = True, stream.latencies_ns
        usual_ns = float(np.median(latencies[len(latencies) // 2 :])) if latencies else 0.0
        slow = next((i for i, ns in enumerate(latencies) if ns <= WARMUP_RATIO * usual_ns), len(latencies))
        of_stream = np.flatnonzero(self._pending["stream"] == number)[:slow]
        warm = of_stream[self._pending["phase"][of_stream] == MEASURE]
        self._pending["phase"][warm] = WARMUP


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
        self._measured += int((records["phase"] == MEASURE).sum())
        samples = self._streams.take_samples() | self._frames.release(now_ns, is_over=is_over)
        messages += [Sampled(sensor, tuple(each)) for sensor, each in samples.items()]
        return records, messages

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
                if ring in ended:
                    self._streams.end(ring)
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
            loaded = Loaded(runtime, first.version, why, first.providers, (), (), (), streams.load_ns)
            news += [loaded, ProfilerChosen("", reason)]
        if streams.are_too_many and not self._told_others:
            self._told_others = True
            text = f"more than {MAX_STREAMS - 1} models and sessions: the calls of the rest are counted as others"
            news.append(LogLine("warning", "edgetop", text, "streams-full"))
        return news

    def close(self) -> None:
        """Close all rings, and remove their folder."""
        self._rings.close()
