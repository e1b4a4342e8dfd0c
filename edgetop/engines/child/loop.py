"""The timed loop. The latency that edgetop reports is the time between two clock readings here.

Only the runtime's call lies between them: inputs are prepared before, and outputs are dropped after. The clock is
CLOCK_MONOTONIC (`time.monotonic_ns`), the only clock of a session.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, List, Optional, Tuple

from . import message_frames
from .engine_error import EngineError, one_line
from .pace import Waiter
from .slowest import NEVER, Slowest

CAPACITY = 4096  # most records that are packed before they are sent
FLUSH_NS = 20_000_000
SPARE_NS = 2_000_000  # a pause between two inferences of this length is used to send records
MAX_FAILURES_IN_A_ROW = 10
# Shortest time between two log lines about failed inferences. Thousands may fail each second; the records count them.
REPORT_FAILURE_NS = 1_000_000_000

Call = Callable[[], Any]
Clock = Callable[[], int]


class Control:
    """What edgetop's main process asks of the loop, such as a stop. The loop reads it between two inferences."""

    def __init__(self) -> None:
        self.stop_requested = False
        self.profile_requested = False
        self.turns: Optional[List[List[int]]] = None  # turns of an A/B session for pace.Turns; None until set


class Loop:
    """Runs one call again and again, times each run, and sends a record of it to edgetop's main process."""

    def __init__(
        self,
        call: Call,
        outlet: Any,
        control: Control,
        next_call: Optional[Callable[[], Call]] = None,
        *,
        make_pace: Callable[[], Any] = lambda: None,
        stream: int = 0,
        clock: Clock = time.monotonic_ns,
        waiter: Optional[Waiter] = None,
        place: Optional[Callable[[], Tuple[int, int]]] = None,
    ) -> None:
        """Prepare to repeat `call`, which runs one inference.

        `outlet` sends the records to edgetop's main process, and `control` says when to stop. `next_call` prepares the
        next input and returns the call that runs it; without `next_call`, `call` is repeated. `make_pace` returns an
        object of pace.py that plans when the inferences of a phase start, or None to run them back to back. `stream` is
        the number, from 0, of this loop among parallel loops. `clock` returns ns. `waiter` waits between inferences.
        `place` returns the result of `InputSet.place`: which of the input arrays the newest inference got, and how many
        there are.
        """
        self.clock = clock
        self._make_pace = make_pace
        self._stream = stream
        self._place = place
        self.bursts: Optional[Any] = None  # profiles between measured inferences (bursts.py)
        self._call = call
        self._next_call = next_call
        self._unused: Optional[Call] = None  # a call that was prepared for an inference that did not run
        self._outlet = outlet
        self._buffer = bytearray(CAPACITY * message_frames.RECORD.size)
        self._view = memoryview(self._buffer)
        self._control = control
        self._waiter = waiter or Waiter(control, clock, outlet.sleep)
        self._failures_in_a_row = 0
        self._last_failure = ""
        self._silent_until = 0

    def repeat(self, phase: int, **how: Any) -> str:
        """Run inferences until a limit is reached. Return "runs", "duration", or "stop" if a stop was requested.

        `phase` is a constant such as PHASE_WARMUP. The limits are `runs` inferences, the time `until_ns` of the clock,
        and a duration of `duration_ns` ns. With `paced`, inferences start at the rate that the user requested, else
        back to back. `announce` is called right before the first inference, so that preparation is not part of the
        phase. If `latencies` is given, each latency in ns is appended to it.

        Raises EngineError if the very first inference of a run fails, or if ten inferences in a row fail.
        """
        if phase != message_frames.PHASE_MEASURE:
            return self._repeat(phase, None, **how)
        with contextlib.closing(Slowest(self._outlet, place=self._place)) as slowest:
            return self._repeat(phase, slowest, **how)

    # One long function on purpose. Python code between two inferences takes time in which a model of 20 us does not
    # run, and each call of a Python function costs 0.1 us and disturbs caches that the model uses. So only the model
    # runs between the two clock readings, and around them only calls that are needed each time.
    def _repeat(  # noqa: C901, PLR0912, PLR0915
        self,
        phase: int,
        slowest: Optional[Slowest],
        *,
        runs: Optional[int] = None,
        until_ns: Optional[int] = None,
        duration_ns: Optional[int] = None,
        latencies: Optional[List[int]] = None,
        paced: bool = False,
        announce: Callable[[], None] = lambda: None,
    ) -> str:
        now, pack_into, size = self.clock, message_frames.RECORD.pack_into, message_frames.RECORD.size
        outlet, control, call, next_call = self._outlet, self._control, self._call, self._next_call
        buffer, view, end = self._buffer, self._view, CAPACITY * size
        if control.stop_requested:
            return "stop"
        left = -1 if runs is None else runs
        if left == 0:
            return "runs"
        bursts = self.bursts if phase == message_frames.PHASE_MEASURE else None
        if bursts is not None:
            bursts.begin()
        slow_ns = NEVER if slowest is None else slowest.checkpoint(now())
        announce()
        begun = now()
        if until_ns is None:
            until_ns = 2**63 if duration_ns is None else begun + duration_ns
        deadline = until_ns
        offset, flush_at, done, stream = 0, begun + FLUSH_NS, begun, self._stream
        pace = self._make_pace() if paced else None
        is_open, intended = (0, 0) if pace is None else (int(pace.is_open), pace.begin(begun))
        while True:
            if next_call is not None:
                call = self._prepare_next(phase, offset)
            if pace is not None:
                went_on = self._waiter.until(min(intended, deadline))
                if not went_on or intended >= deadline:
                    self._unused = call if next_call is not None else None
                    outlet.put(view[:offset], offset // size, stream, deadline)
                    return "duration" if went_on else "stop"
                if slowest is not None and intended - done >= FLUSH_NS:
                    slowest.rested(now())
            ok = True
            start = now()
            try:
                outputs = call()
                done = now()
            except Exception as error:  # runtimes raise errors of any type
                done = now()
                ok, outputs = False, None
                flush_at = done if self._failed(phase, error, done) else flush_at
            except BaseException:  # such as SystemExit, which ends the run: what was measured before it counts
                outlet.put(view[:offset], offset // size, stream)
                raise
            pack_into(buffer, offset, start, done - start, (start - intended) * is_open, stream, phase, ok)
            outputs = None  # noqa: F841  dropped here, outside the timed span
            offset += size
            left -= 1
            if done - start > slow_ns and ok and slowest is not None:
                slow_ns = slowest.note(start, done)
            if latencies is not None:
                latencies.append(done - start)
            if ok and self._failures_in_a_row:
                self._failures_in_a_row = 0
            if pace is not None:
                intended = pace.after(done)
                if intended - done > SPARE_NS or intended >= deadline:
                    flush_at = done
            if done < flush_at and offset < end and left and done < deadline:
                continue
            outlet.put(view[:offset], offset // size, stream, max(done, intended))
            offset, flush_at = 0, done + FLUSH_NS
            if slowest is not None:
                slow_ns = slowest.checkpoint(done)
            if self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW:
                text = "%d inferences in a row failed: %s" % (self._failures_in_a_row, self._last_failure)
                raise EngineError("inference", text)
            if left == 0:
                return "runs"
            if done >= deadline:
                return "duration"
            if control.stop_requested:
                return "stop"
            # Checked here, once in 20 ms, and not after every inference, so that it costs nothing between bursts.
            if bursts is not None and bursts.is_due(done):
                begun = now()
                bursts.take(call)
                done = now()
                flush_at = done + FLUSH_NS
                if is_open and pace is not None:
                    intended = pace.postpone(intended, begun, done)
                if slowest is not None:
                    slow_ns = slowest.checkpoint(done)

    def _prepare_next(self, phase: int, packed_bytes: int) -> Call:
        """Return the call that runs the next input. `phase` is a constant such as PHASE_WARMUP.

        If the input cannot be prepared, send the records in the buffer and raise EngineError. `packed_bytes` is the
        size of these records in bytes.
        """
        assert self._next_call
        if self._unused is not None:
            call, self._unused = self._unused, None
            return call
        try:
            return self._next_call()
        except Exception as error:
            self._outlet.put(self._view[:packed_bytes], packed_bytes // message_frames.RECORD.size, self._stream)
            if phase == message_frames.PHASE_FIRST:
                raise
            raise EngineError("inference", "the next input could not be prepared: %s" % one_line(error)) from None

    def _failed(self, phase: int, error: Exception, now: int) -> bool:
        """Report an error of the runtime. Return whether too many inferences in a row have failed.

        `phase` is a constant such as PHASE_WARMUP. `error` is what the runtime raised, and `now` is its time in ns.
        Raises EngineError if it was the first inference of the run.
        """
        text = one_line(error)
        if phase == message_frames.PHASE_FIRST:
            raise EngineError("first", "the first inference failed: %s" % text, "see --input and --shape")
        self._failures_in_a_row += 1
        self._last_failure = text
        if now >= self._silent_until:
            self._silent_until = now + REPORT_FAILURE_NS
            self._outlet.send(message_frames.LOG, {"severity": "warning", "kind": "inference-failed", "message": text})
        return self._failures_in_a_row >= MAX_FAILURES_IN_A_ROW


def warm_up(loop: Any, runs: int, time_ns: int, until_steady: bool) -> str:
    """Warm up: run at least `runs` inferences, back to back, and go on until `time_ns` ns have passed.

    Both limits must be reached, as in TensorFlow Lite's benchmark_model. If `until_steady`, go on after that, at the
    pace of the measured phase, until latency is steady. Return "stop" if a stop was requested, else the limit that was
    reached last: "runs" or "duration".
    """
    begin = loop.clock()
    reason: str = loop.repeat(message_frames.PHASE_WARMUP, runs=runs)
    if reason != "stop" and loop.clock() < begin + time_ns:
        reason = loop.repeat(message_frames.PHASE_WARMUP, until_ns=begin + time_ns)
    if reason != "stop" and until_steady:
        reason = _warm_up_until_steady(loop)
    return reason


STEADY_BLOCK_NS = 500_000_000
STEADY_BLOCK_RUNS = 10
STEADY_BLOCKS = 4
STEADY_SPREAD = 0.02
STEADY_PATIENCE_NS = 60_000_000_000


def _warm_up_until_steady(loop: Any) -> str:
    """Run until latency is steady, but for at most a minute. Return why it ended: "runs", "duration" or "stop".

    The time is divided into spans of half a second. Latency is steady if the medians of four successive spans differ by
    at most 2 %.
    """
    give_up_at = loop.clock() + STEADY_PATIENCE_NS
    medians: List[int] = []
    reason = "runs"
    while loop.clock() < give_up_at:
        latencies: List[int] = []
        block_end = loop.clock() + STEADY_BLOCK_NS
        reason = loop.repeat(message_frames.PHASE_WARMUP, until_ns=block_end, latencies=latencies, paced=True)
        if reason != "stop" and len(latencies) < STEADY_BLOCK_RUNS:
            missing = STEADY_BLOCK_RUNS - len(latencies)
            reason = loop.repeat(message_frames.PHASE_WARMUP, runs=missing, latencies=latencies, paced=True)
        if reason == "stop":
            break
        medians = [*medians[1 - STEADY_BLOCKS :], sorted(latencies)[len(latencies) // 2]]
        if len(medians) == STEADY_BLOCKS and max(medians) <= min(medians) * (1 + STEADY_SPREAD):
            break
    return reason
