"""Run several inferences at the same time, each in a thread with its own buffers, and report them as one loop would."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import message_frames
from .loop import Control

NEVER = 2**63 - 1


class Lanes:
    """Sends the records of several loops, each in a thread, through one outlet. Each loop is one stream.

    An inference that began early may end after later ones have been sent. So this object also reports a time: all
    records of inferences that began before that time have been sent. The reader can then sort these records by their
    starts.
    """

    def __init__(self, outlet: Any, streams: int) -> None:
        self._outlet = outlet
        self._lock = threading.Lock()
        self._next_ns = [NEVER] * streams  # for each stream, the earliest start that it may still report
        self._reported_ns = 0

    def begin(self, now_ns: int) -> None:
        """Begin a phase of the run, such as the warm-up, in all streams. `now_ns` is the present time."""
        self._next_ns = [now_ns] * len(self._next_ns)

    def end(self, stream: int) -> None:
        """End the present phase of the run in the stream number `stream`, which has nothing more to report."""
        with self._lock:
            self._next_ns[stream] = NEVER

    def put(self, records: memoryview, count: int, stream: int, next_ns: int = 0) -> None:
        with self._lock:
            self._outlet.put(records, count)
            self._next_ns[stream] = next_ns
            reached = min(self._next_ns)
            if self._reported_ns < reached < NEVER:
                self._reported_ns = reached
                self._outlet.send(message_frames.REACHED, {"t_ns": reached})

    def sleep(self, seconds: float) -> None:
        if len(self._next_ns) == 1:
            self._outlet.sleep(seconds)
        else:  # another stream may be sending
            time.sleep(seconds)

    def send_packed(self, kind: int, payload: bytes) -> None:
        with self._lock:
            self._outlet.send_packed(kind, payload)

    def send(self, kind: int, message: Dict[str, Any]) -> None:
        with self._lock:
            self._outlet.send(kind, message)


class Streams:
    """Several loops that run at the same time in threads, with the interface of one `Loop`."""

    def __init__(self, loops: Sequence[Any], lanes: Lanes, control: Control) -> None:
        self.clock = loops[0].clock
        self.bursts: Optional[Any] = None  # never set: profiling one stream would also measure the others
        self._loops = loops
        self._lanes = lanes
        self._control = control

    def repeat(
        self, phase: int, *, runs: Optional[int] = None, announce: Callable[[], None] = lambda: None, **how: Any
    ) -> str:
        """Run a phase, such as the warm-up, in all loops. Return why it ended: "runs", "duration" or "stop".

        The parameters are the same as in `Loop.repeat`. `runs` is divided among the loops. The phase of the first
        inference runs in the first loop alone. `announce` is called once, by the first loop that is ready.
        """
        if phase == message_frames.PHASE_FIRST:
            return str(self._loops[0].repeat(phase, runs=runs, announce=announce, **how))
        count = len(self._loops)
        how["announce"] = _once(announce)
        shares = [None if runs is None else runs // count + (k < runs % count) for k in range(count)]
        ends: List[Any] = [None] * count
        self._lanes.begin(self.clock())
        threads = [
            threading.Thread(target=self._run, args=(k, ends, phase, shares[k], how), name="stream %d" % k)
            for k in range(1, count)
        ]
        for thread in threads:
            thread.start()
        self._run(0, ends, phase, shares[0], how)
        for thread in threads:
            thread.join()
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return "stop" if "stop" in ends else str(ends[0])

    def _run(self, stream: int, ends: List[Any], phase: int, runs: Optional[int], how: Dict[str, Any]) -> None:
        """Run loop number `stream` to its end, and set `ends[stream]` to the reason, such as "stop".

        `phase` is a constant such as PHASE_WARMUP. `runs` is how many inferences this loop makes, or None for no limit.
        `how` has further parameters of `Loop.repeat`. If the loop raises, `ends[stream]` is set to the error, and all
        loops are stopped.
        """
        try:
            ends[stream] = self._loops[stream].repeat(phase, runs=runs, **how)
        except BaseException as error:
            ends[stream] = error
            self._control.stop_requested = True
        finally:
            self._lanes.end(stream)


def _once(call: Callable[[], None]) -> Callable[[], None]:
    """Return a function that makes `call` only the first time. Other threads wait until that first call is done."""
    lock = threading.Lock()
    waiting = [call]

    def first() -> None:
        with lock:
            if waiting:
                waiting.pop()()

    return first
