"""The streams of a watched program: its models and sessions, whose calls become inferences.

Each inference has its stream and its phase. Inferences are returned in the order in which they began.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.probe import edgetop_probe as layout
from edgetop.session.distinct import distinct
from edgetop.session.records import FIRST, INFERENCE, MEASURE, NO_INFERENCES, WARMUP, Inferences, join
from edgetop.session.sized_calls import MOST_CALLS, SizedCalls
from edgetop.taps.ring import CallName, Calls, Ring
from edgetop.taps.stage_frames import RUN_QUEUE_WAIT, RunQueueWait, Samples, call_samples, size_sensor

MAX_STREAMS = 255  # most streams, one per model and session; the last one collects all that do not fit
OTHERS = CallName("", "", (), "others")
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
    context: int | None = None  # tokens that a sequence of a language model may have; None: unknown
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
        self._contexts_of: dict[tuple[int, int], int] = {}  # most tokens of a sequence by (ring, name)
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
    def context(self) -> int | None:
        """How many tokens a sequence of the first stream's language model may have; None if unknown."""
        return self._streams[0].context if self._streams else None

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
        names = distinct(calls["name"]).tolist()
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
            self._threads.update((ring.number, thread) for thread in distinct(calls["thread"]).tolist()[:2])
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
                if each["cpu_us"]:
                    self._contexts_of[ring.number, int(each["name"])] = int(each["cpu_us"])
            elif each["number"] < layout.NAMES:
                self._inputs_of[ring.number, int(each["number"])] = ring.name(int(each["name"])).model
        for key, number in self._numbers.items() if len(told) else ():
            self._describe(key, number)

    def of_first(self, ring: Ring, calls: Calls) -> Calls:
        """Return those of `calls`, which come from the file `ring`, that belong to the first stream (model)."""
        first = [
            name
            for name in distinct(calls["name"]).tolist()
            if self._number(ring, name, int(calls["start_ns"][calls["name"] == name].min())) == 0
        ]
        chosen: Calls = calls[np.isin(calls["name"], first)]
        return chosen

    def _add_sizes(self, ring: Ring, sizes: Calls) -> None:
        """Store reports of input sizes as sensor samples, and each model's last size for later calls.

        `sizes` are reports from the file `ring` of one process. A program reports the number of input elements when the
        shape of a call differs from the shape of the call before.
        """
        for name in distinct(sizes["name"]).tolist():
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
            stream.sizes |= set(distinct(elements)[:2].tolist())
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
            stream.context = self._contexts_of.get(key, stream.context)
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
        self._contexts_of = {key: value for key, value in self._contexts_of.items() if key[0] != ring.number}
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
