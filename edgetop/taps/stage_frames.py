"""Join the stages that a program reports into frames, and make sensor samples from frames and calls.

A frame is the work on one input, and its parts are stages and calls. These sensors have samples in ms, with the start
of the measured span as their time: `stage/NAME` (a stage), `frame/total` (the whole frame), `frame/between` (gaps
within a thread), `frame/queue` (gaps in which the frame goes to another thread), and `call/N-...` (means of the calls
of model N). `drop/frames` has a sample of 1 for each dropped frame.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.probe import edgetop_probe as layout
from edgetop.session.distinct import distinct
from edgetop.taps.ring import Calls, Ring

MOST_PARTS = 256  # most parts of a frame; more without a repeated first stage are no frame, such as a load
MOST_STAGES, LONGEST_NAME = 32, 40
INFERENCE = "inference"  # stage of a call that is in no other stage
HOLD_NS = 100_000_000  # delay, because calls and stages of a process may be in two rings that are read in turn
THREAD_PATIENCE_NS = 10_000_000_000  # wait for the next stage of a thread; servers have a thread for each request
PATIENCE_NS = 2_000_000_000  # wait for the next part of a numbered frame

RUN_QUEUE_WAIT = "rate/call-run-queue-wait"
# Few calls are measured, and a call waits for a whole turn of another process or not at all. So their mean over some
# seconds is reported.
WAIT_SPAN_NS = 5_000_000_000

Floats = npt.NDArray[np.float64]
Samples = dict[str, list[tuple[int, float]]]  # (CLOCK_MONOTONIC in ns, value) by sensor id


@frozen
class Part:
    """A span of time within a frame, which is the work on one input: a stage, or a call of a model.

    Its thread may belong to any process.
    """

    start_ns: int
    end_ns: int
    stage: str
    thread: tuple[int, int]
    is_stage: bool


def _order(part: Part) -> tuple[int, int]:
    """Return a sort key: earlier spans come first. If two begin at the same time, the longer one comes first."""
    return part.start_ns, -part.end_ns


class Frames:
    def __init__(self) -> None:
        self._by_thread: dict[tuple[int, int], list[Part]] = {}  # parts by thread, for threads that report stages
        self._by_number: defaultdict[tuple[int, int], list[Part]] = defaultdict(list)
        self._names: dict[str, None] = {}  # names of stages, in the order of their first occurrence
        self._drops: list[tuple[int, float]] = []
        self.deadline_ns: int | None = None

    def add(self, reported: Sequence[tuple[Ring, Calls]]) -> None:
        """Add new calls. `reported` are (ring, calls) pairs; several rings may belong to one process."""
        for ring, calls in reported:
            of_thread = (calls["kind"] == layout.STAGE) & (calls["number"] == 0)
            for thread in distinct(calls["thread"][of_thread]).tolist():
                self._by_thread.setdefault((ring.pid, thread), [])
        for ring, calls in reported:
            self._add(ring, calls)

    def _add(self, ring: Ring, calls: Calls) -> None:
        self._drops += [(t_ns, 1.0) for t_ns in calls["end_ns"][calls["kind"] == layout.DROP].tolist()]
        declared = calls[calls["kind"] == layout.DEADLINE]
        if len(declared):
            self.deadline_ns = int(declared["end_ns"][-1] - declared["start_ns"][-1])
        threads = [thread for process, thread in self._by_thread if process == ring.pid]
        is_call = (calls["kind"] == layout.CALL) & ((calls["number"] > 0) | np.isin(calls["thread"], threads))
        for each in calls[is_call | (calls["kind"] == layout.STAGE)]:
            stage = INFERENCE if each["kind"] == layout.CALL else self._name(ring.name(int(each["name"])).model)
            thread, is_stage = (ring.pid, int(each["thread"])), bool(each["kind"] == layout.STAGE)
            part = Part(int(each["start_ns"]), int(each["end_ns"]), stage, thread, is_stage)
            if each["number"]:
                self._by_number[ring.pid, int(each["number"])].append(part)
            elif part.thread in self._by_thread:
                self._by_thread[part.thread].append(part)

    def _name(self, text: str) -> str:
        name = "".join(letter for letter in text if letter.isprintable()).replace("/", "-")[:LONGEST_NAME] or "stage"
        if len(self._names) < MOST_STAGES:
            self._names[name] = None
        return name if name in self._names else "other"

    def release(self, now_ns: int, *, is_over: bool = False) -> Samples:
        """Return samples of the frames that are complete by now: lists of (time in ns, ms) by sensor id.

        A frame is the work on one input. The sensors are described at the head of this module. Each frame is returned
        once. `now_ns` is the present time on CLOCK_MONOTONIC. `is_over` says that the program has ended.
        """
        samples: Samples = defaultdict(list)
        for thread, parts in list(self._by_thread.items()):
            is_done = is_over or (parts and max(part.end_ns for part in parts) < now_ns - THREAD_PATIENCE_NS)
            parts.sort(key=_order)
            del parts[: next((place for place, part in enumerate(parts) if part.is_stage), 0)]
            while frame := _first_frame(parts, None if is_done else now_ns - HOLD_NS):
                _add_samples(frame, samples, has_number=False)
                del parts[: len(frame)]
            if len(parts) > MOST_PARTS:
                self._by_thread[thread] = parts[1:]
            elif is_done:
                del self._by_thread[thread]
        for key, parts in list(self._by_number.items()):
            if is_over or max(part.end_ns for part in parts) < now_ns - PATIENCE_NS:
                _add_samples(sorted(self._by_number.pop(key), key=_order), samples, has_number=True)
        if self._drops:
            samples["drop/frames"], self._drops = self._drops, []
        return samples


def _first_frame(parts: list[Part], until_ns: int | None) -> list[Part]:
    """Return the first of `parts` that make up one frame, or [] if that frame may not be complete yet.

    A frame ends where its first stage is repeated. Until that happens, more stages may come before the time `until_ns`.
    `until_ns` is None if nothing more will come.
    """
    again = (place for place, part in enumerate(parts) if place and part.stage == parts[0].stage)
    end = next((place for place in again if parts[place].start_ns >= parts[0].end_ns), None)
    if until_ns is None:
        return parts[:end]
    return parts[:end] if end is not None and parts[end].start_ns < until_ns else []


def _add_samples(frame: list[Part], samples: Samples, *, has_number: bool) -> None:
    """Add the durations of one frame, in ms, to `samples`. `has_number` says whether the program numbers its frames.

    The stages, the time between them and the waits for a thread add up to the frame's total.
    """
    reached_ns, thread = frame[0].start_ns, frame[0].thread
    took_ns: defaultdict[str, int] = defaultdict(int)
    for part in frame:
        if part.end_ns <= reached_ns and part is not frame[0]:  # inside an earlier part
            continue
        gap = "frame/between" if part.thread == thread else "frame/queue"
        took_ns[gap] += max(0, part.start_ns - reached_ns)
        took_ns[f"stage/{part.stage}"] += part.end_ns - max(part.start_ns, reached_ns)
        reached_ns, thread = part.end_ns, part.thread
    took_ns["frame/total"] = reached_ns - frame[0].start_ns
    if has_number:
        took_ns["frame/queue"] += 0
    for name, ns in took_ns.items():
        samples[name].append((frame[0].start_ns, ns / 1e6))


def call_samples(stream: int, calls: Calls) -> Samples:
    """Return samples in ms, by sensor id, of the calls of one stream, a model of the program.

    From the calls that the Python hook measured come three samples: their mean CPU time, their mean time off the CPU
    and, if the kernel counts it, their mean wait for a CPU. Each call with a new input shape gives a sample of its
    latency. `stream` is the stream's number.
    """
    samples: Samples = {}
    took_ms, cpu_ms, waited_ms = _spent(calls)
    if len(took_ms):
        newest_ns = int(calls["start_ns"].max())
        values = {"cpu": cpu_ms, "off-cpu": took_ms - cpu_ms, "run-queue-wait": waited_ms}
        samples = {f"call/{stream}-{name}": [(newest_ns, float(ms.mean()))] for name, ms in values.items() if len(ms)}
    reshaped = (calls["flags"] & layout.RESHAPED) > 0
    if reshaped.any():
        latency_ms = (calls["end_ns"] - calls["start_ns"])[reshaped] / 1e6
        times = calls["start_ns"][reshaped].tolist(), latency_ms.tolist()
        samples[f"call/{stream}-reshaped"] = list(zip(*times, strict=True))
    return samples


def size_sensor(stream: int) -> str:
    """Return the id of the sensor for the number of elements in the inputs of a stream's calls.

    >>> size_sensor(2)
    'input/2-elements'
    """
    return f"input/{stream}-elements"


def _spent(calls: Calls) -> tuple[Floats, Floats, Floats]:
    """Return the latency, the CPU time and the wait for a CPU, each in ms, of the calls that the Python hook measured.

    The third array is empty if the kernel does not count waits. A measured wait includes waits just before and after
    the call. So each wait is limited to the latency less the CPU time.
    """
    calls = calls[calls["cpu_us"] > 0]
    took_ms, cpu_ms = (calls["end_ns"] - calls["start_ns"]) / 1e6, calls["cpu_us"] / 1e3
    cpu_ms, waited_us = np.minimum(cpu_ms, took_ms), calls["flags"] >> layout.WAITED_SHIFT
    waited_ms = np.minimum(waited_us / 1e3 - 1e-3, took_ms - cpu_ms) if waited_us.all() else np.empty(0)
    return took_ms, cpu_ms, waited_ms


class RunQueueWait:
    """Averages how long calls waited for a CPU, over the calls of the last 5 seconds."""

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float, float]] = deque()  # start in ns, ms that calls took and waited

    def add(self, calls: Calls) -> list[tuple[int, float]]:
        """Add calls, and return a list with one sample: (begin of the last call in ns, wait).

        The wait is in ms for each second that the calls of the last 5 seconds took. Returns [] if the kernel did not
        measure waits in `calls`. Add only calls of runtime sessions with one thread.
        """
        took_ms, _, waited_ms = _spent(calls)
        if not len(waited_ms):
            return []
        newest_ns = int(calls["start_ns"].max())
        self._recent.append((newest_ns, float(took_ms.sum()), float(waited_ms.sum())))
        while self._recent[0][0] < newest_ns - WAIT_SPAN_NS:
            self._recent.popleft()
        took, waited = (sum(each[place] for each in self._recent) for place in (1, 2))
        return [(newest_ns, 1e3 * waited / took)] if took else []
