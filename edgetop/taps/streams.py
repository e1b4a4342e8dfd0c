"""Turns the calls of a program's rings into inferences: by stream, by phase, in the order in which they began."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgetop.probe import edgetop_probe as layout
from edgetop.session.records import FIRST, INFERENCE, MEASURE, NO_INFERENCES, WARMUP, Inferences
from edgetop.taps.frames import RUN_QUEUE_WAIT, Samples, call_samples, run_queue_wait
from edgetop.taps.ring import CallName, Calls, Ring

MAX_STREAMS = 255  # any more share the last one
WARMUP_CALLS, WARMUP_NS = 10, 2_000_000_000  # of a stream, from which its warm-up is recognised: whichever is less
WARMUP_RATIO = 1.25  # to the median of the later half of these calls: above it, a call at the beginning is warm-up
HOLD_NS, MOST_HELD = 5_000_000_000, 65_536


@dataclass(slots=True)
class _Stream:
    name: CallName
    began_ns: int
    recognised: bool = False  # which of its first calls are its warm-up
    latencies_ns: list[int] = field(default_factory=list)  # of these calls


class Streams:
    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}  # by ring and name in it
        self._streams: list[_Stream] = []
        self._pending: Inferences = NO_INFERENCES
        self._threads: set[int] = set()
        self._longest_ns = 0  # of the calls so far, the older the less
        self._last_ns = 0  # begin of what was released last
        self.load_ns: int | None = None  # how long the first model took to load; None: unknown
        self._samples: Samples = {}
        self._threads_of: dict[tuple[int, int], int] = {}  # of a session, by ring and name in it; 0: by default
        self._inputs_of: dict[tuple[int, int], str] = {}  # of the first call, with their shapes

    @property
    def names(self) -> tuple[CallName, ...]:
        return tuple(stream.name for stream in self._streams)

    @property
    def threads(self) -> tuple[int | None, ...]:
        """Return on how many threads each stream's session runs. 0: the runtime's default; None: unknown."""
        return self._by_stream(self._threads_of)

    @property
    def inputs(self) -> tuple[str | None, ...]:
        """Return the inputs of each stream's first call with their shapes. None: unknown."""
        return self._by_stream(self._inputs_of)

    def _by_stream(self, values: dict[tuple[int, int], Any]) -> tuple[Any, ...]:
        by_number = {stream: values.get(key) for key, stream in self._numbers.items()}
        return tuple(by_number.get(number) for number in range(len(self._streams)))

    def take_samples(self) -> Samples:
        """Return, by sensor, what the hook measured of the calls that came since this was last asked."""
        samples, self._samples = self._samples, {}
        return samples

    def add(self, ring: Ring, calls: Calls) -> None:
        """Add the calls that `Ring.read` returned."""
        loads = calls[calls["kind"] == layout.LOAD]
        if len(loads) and self.load_ns is None:
            self.load_ns = int(loads["end_ns"][0] - loads["start_ns"][0])
        for load in loads[loads["number"] > 0]:
            self._threads_of[id(ring), int(load["name"])] = int(load["number"]) - 1
        for shapes in calls[calls["kind"] == layout.INPUTS]:
            self._inputs_of[id(ring), int(shapes["number"])] = ring.name(int(shapes["name"])).model
        calls = calls[calls["kind"] == layout.CALL]
        if not len(calls):
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
            for sensor, samples in call_samples(number, calls[of_name]).items():
                self._samples.setdefault(sensor, []).extend(samples)
            if not stream.recognised:
                room = WARMUP_CALLS - len(stream.latencies_ns)
                stream.latencies_ns += inferences[of_name]["latency_ns"][:room].tolist()
        is_single = all(self._threads_of.get((id(ring), name)) == 1 for name in names)
        if is_single and (samples := run_queue_wait(calls)):
            self._samples.setdefault(RUN_QUEUE_WAIT, []).extend(samples)
        self._threads.update(np.unique(calls["thread"]).tolist()[:2])
        self._pending = np.concatenate([self._pending, inferences])

    def _number(self, ring: Ring, name: int, began_ns: int) -> int:
        key = id(ring), name
        if key not in self._numbers:
            if len(self._streams) < MAX_STREAMS:
                self._streams.append(_Stream(ring.name(name), began_ns))
            self._numbers[key] = len(self._streams) - 1
        return self._numbers[key]

    def release(self, now_ns: int, *, is_over: bool = False) -> Inferences:
        """Return the inferences before which none that is still missing can have begun. `now_ns`: CLOCK_MONOTONIC."""
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
        if len(self._threads) > 1 and not is_over:  # a call of another thread may have begun earlier, and last still
            until_ns = now_ns - min(2 * self._longest_ns, HOLD_NS)
            cut = max(int(np.searchsorted(pending["t_ns"], until_ns)), cut - MOST_HELD)
        released, self._pending = pending[:cut], pending[cut:]
        if len(released):
            released["t_ns"] = np.maximum(released["t_ns"], self._last_ns)
            self._last_ns = int(released["t_ns"][-1])
        return released

    def _recognise(self, number: int, stream: _Stream) -> None:
        """The first calls of a stream that take clearly longer than those after them are its warm-up."""
        stream.recognised, latencies = True, stream.latencies_ns
        usual_ns = float(np.median(latencies[len(latencies) // 2 :])) if latencies else 0.0
        slow = next((i for i, ns in enumerate(latencies) if ns <= WARMUP_RATIO * usual_ns), len(latencies))
        of_stream = np.flatnonzero(self._pending["stream"] == number)[:slow]
        warm = of_stream[self._pending["phase"][of_stream] == MEASURE]
        self._pending["phase"][warm] = WARMUP
