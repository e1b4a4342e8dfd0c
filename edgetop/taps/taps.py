"""All rings of a watched application, read as the records and messages of an engine.

Calls become inferences: by stream, by phase, in the order in which they began.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from edgetop.engines.protocol import (
    Loaded,
    LogLine,
    Message,
    PhaseBegan,
    ProfilerChosen,
    RecordsLost,
    Sampled,
    StreamsSeen,
)
from edgetop.paths import has_room
from edgetop.probe import edgetop_probe as layout
from edgetop.session.records import FIRST, INFERENCE, MEASURE, NO_INFERENCES, WARMUP, Inferences
from edgetop.taps.frames import RUN_QUEUE_WAIT, Frames, Samples, call_samples, run_queue_wait
from edgetop.taps.ring import CallName, Calls, Ring

ROOM_BYTES = 32 * 2**20  # of some twenty rings
MAX_RINGS = 512  # processes, of which each has one or two
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a mapped file on a disk stalls its writer under write-back
PREFIX = "edgetop-tap-"
QUIET_NS = 10_000_000_000  # without an inference: then a warning says what the process has loaded
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


class Taps:
    def __init__(self) -> None:
        self.folder: Path | None = None  # where the rings are; None: not yet
        self.started_ns = 0  # when watching began
        self.since_ns = 0  # calls that began earlier do not count
        self.began_ns: int | None = None  # the first inference that was seen
        self._measured = 0
        self._rings: dict[str, Ring | None] = {}  # by file name; None: no ring
        self._lost = 0
        self._streams = Streams()
        self._frames = Frames()
        self._reported: StreamsSeen | None = None
        self._warned = False  # that no inference was seen

    def open(self, shared: Path = SHARED_MEMORY) -> Path:
        """Make a folder for the rings, in shared memory where possible. Removes those of an edgetop that was killed."""
        home = shared if has_room(shared, ROOM_BYTES) else None
        owners = {os.getuid(), int(os.environ.get("SUDO_UID") or os.getuid())}
        for folder in (home or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
            number = folder.name.removeprefix(PREFIX).partition("-")[0]  # of the process that made it
            with contextlib.suppress(OSError):
                if number.isdigit() and folder.stat().st_uid in owners and not Path(f"/proc/{number}").exists():
                    shutil.rmtree(folder, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=home))
        return self.folder

    def poll(self, now_ns: int, *, is_over: bool) -> tuple[Inferences, list[Message]]:
        """The records and messages since the last poll. `is_over`: nobody writes any more."""
        messages: list[Message] = []
        self._read_rings(messages)
        records = self._streams.release(now_ns, is_over=is_over)
        messages += self._stream_news()
        if len(records) and self.began_ns is None:
            self.began_ns = int(records["t_ns"][0])
            messages += [PhaseBegan("first", self.began_ns), PhaseBegan("measure", self.began_ns)]
        self._measured += int((records["phase"] == MEASURE).sum())
        samples = self._streams.take_samples() | self._frames.release(now_ns, is_over=is_over)
        messages += [Sampled(sensor, tuple(each)) for sensor, each in samples.items()]
        return records, messages

    def reached(self, duration_ns: int | None, runs: int | None, now_ns: int) -> str:
        """Return the limit that was reached, "duration" or "runs"; "": none."""
        if self.began_ns is None:
            return ""
        if duration_ns is not None and now_ns - self.began_ns >= duration_ns:
            return "duration"
        return "runs" if runs is not None and self._measured >= runs else ""

    def warn_if_quiet(self, now_ns: int, why: Callable[[], str], *, is_over: bool = False) -> list[Message]:
        """Warn once, where no inference was seen for a while; `why`: what the process has loaded."""
        if self.began_ns is not None or self._warned or (now_ns - self.started_ns <= QUIET_NS and not is_over):
            return []
        self._warned = True
        text = "the program ended without an inference that was seen"
        text = text if is_over else f"no inference was seen in 10 s: {why()}"
        return [LogLine("warning", "edgetop", text, "no-inference")]

    @property
    def has_rings(self) -> bool:
        """Whether a process has begun to report."""
        return any(self._rings.values())

    def _read_rings(self, messages: list[Message]) -> None:
        assert self.folder
        with contextlib.suppress(OSError):
            for name in sorted(path.name for path in self.folder.iterdir()):
                if name.endswith(".tap") and self._rings.get(name) is None and len(self._rings) < MAX_RINGS:
                    with contextlib.suppress(ValueError, OSError):  # not complete yet; tried again the next time
                        self._rings[name] = Ring(self.folder / name)
        rings = [ring for ring in self._rings.values() if ring]
        for ring in rings:
            ring.find_whole()
        read = [(ring, ring.read()) for ring in rings]
        reported = [(ring, calls[calls["start_ns"] >= self.since_ns]) for ring, calls in read]
        for ring, calls in reported:
            self._streams.add(ring, calls)
        self._frames.add(reported)
        if (lost := sum(ring.lost for ring in rings)) > self._lost:
            messages.append(RecordsLost(lost - self._lost))
            self._lost = lost

    def _stream_news(self) -> list[Message]:
        """Return messages on what is known of the streams, where that has changed."""
        streams, names = self._streams, self._streams.names
        if not names:
            return []
        rings = [ring for ring in self._rings.values() if ring and ring.source]
        sources = tuple(sorted({ring.source for ring in rings}))
        cost_ns, models = max((ring.cost_ns for ring in rings), default=0), tuple(name.model for name in names)
        seen = StreamsSeen(models, sources, cost_ns or None, streams.threads, streams.inputs, self._frames.deadline_ns)
        before, self._reported = self._reported, seen
        if before is None:
            first, why = names[0], f"seen by {', '.join(sources)}"
            runtime = first.runtime or "unknown"
            reason = "the program runs its own sessions: edgetop ops MODEL profiles its model alone"
            loaded = Loaded(runtime, first.version, why, first.providers, (), (), (), streams.load_ns)
            return [seen, loaded, ProfilerChosen("", reason)]
        return [] if seen == before else [seen]

    def close(self) -> None:
        for ring in filter(None, self._rings.values()):
            ring.close()
        self._rings = {}
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
