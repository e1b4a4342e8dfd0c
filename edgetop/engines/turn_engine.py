"""Two engines as one: both are loaded, and run in turns, each in a process of its own (an A/B session).

The second is started when the first has warmed up, so that neither loads beside the other. Then both are given their
turns at once, as times of the clock that they share: nothing has to be sent when one follows the other.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgetop.engines.decode import InOrder
from edgetop.engines.engine_protocol import (
    Died,
    Ended,
    EngineUpdate,
    Failed,
    Loaded,
    LogLine,
    Message,
    OfVariant,
    PhaseBegan,
    Reached,
    RecordsLost,
    StageMemory,
    Started,
    TurnsBegan,
)
from edgetop.engines.process_engine import ProcessEngine
from edgetop.errors import InputError
from edgetop.session.records import NO_INFERENCES, WARMUP, Inferences, copied, join
from edgetop.session.turns import SIDES, Plan

UNDISTURBED = 0.1  # quantile of the warm-up: what an undisturbed inference takes
LEAD_NS = 100_000_000  # in which both receive their turns


class TurnsEngine:
    isolation = "process"

    def __init__(
        self,
        engines: tuple[ProcessEngine, ProcessEngine],
        make_plan: Callable[[int, int], Plan],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`engines`: with `in_turns` in their specs. `make_plan`: of when it begins, and what an inference takes."""
        self._engines = engines
        self._make_plan = make_plan
        self._clock = clock
        self._started = 0  # so many of them
        self._ready = [False, False]  # warmed up
        self._ended = [False, False]
        self._latency_ns = [0, 0]  # of the last inferences of the warm-up
        self._reached_ns = [0, 0]
        self._order = InOrder(2)
        self._measuring = self._stopping = False

    def start(self) -> None:
        self._engines[0].start()
        self._started = 1

    def poll(self) -> EngineUpdate:
        records: list[Inferences] = [NO_INFERENCES]
        messages: list[Message] = []
        poll_within_s, is_behind = math.inf, False
        for side in range(self._started):
            if self._order.is_filling and self._reached_ns[side] > min(self._reached_ns):
                continue  # what it sends waits in its process until the other has come as far
            update = self._engines[side].poll()
            marked = copied(update.records)
            marked["variant"] = side
            records.append(marked)
            poll_within_s = min(poll_within_s, update.poll_within_s)
            is_behind |= update.is_behind
            warm = marked[marked["phase"] == WARMUP]
            if len(warm):
                self._latency_ns[side] = int(np.quantile(warm["latency_ns"], UNDISTURBED))
            for message in update.messages:
                messages += self._passed_on(side, message)
        messages += self._go_on()
        if any(isinstance(message, Failed | Died) for message in messages):
            messages = [message for message in messages if not isinstance(message, Ended)]
        return self._in_order(EngineUpdate(join(records), tuple(messages), poll_within_s, is_behind))

    def _passed_on(self, side: int, message: Message) -> list[Message]:  # noqa: PLR0911  a case a kind of message
        """The messages of one engine, as if there were only one: process, phases and memory are those of the first."""
        match message:
            case Reached():
                self._reached_ns[side] = message.monotonic_ns
                return []
            case Loaded():
                return [OfVariant(side, message), *([message] if side == 0 else [])]
            case StageMemory():
                self._ready[side] |= message.stage == "steady"
                return [message] if side == 0 else [OfVariant(side, message)]
            case Started() | PhaseBegan():
                return [message] if side == 0 else []
            case LogLine():
                return [replace(message, message=f"{SIDES[side]}: {message.message}")]
            case Failed():
                return [replace(message, message=f"{SIDES[side]}: {message.message}")]
            case Died():
                return [replace(message, cause=f"{SIDES[side]}: {message.cause}")]
            case Ended():
                self._ended[side] = True
                return [message] if all(self._ended[: self._started]) and (self._started == 2 or self._stopping) else []
            case RecordsLost():
                return [message]
        return []  # bursts and slow inferences, which an A/B session does not use

    def _go_on(self) -> list[Message]:
        """Start the second engine when the first is warm, and the turns when both are."""
        if self._stopping or self._measuring:
            return []
        if self._started == 1 and self._ready[0]:
            try:
                self._engines[1].start()
            except InputError as error:
                return [Failed("start", f"B: {error}")]
            self._started = 2
        elif all(self._ready):
            try:
                turns = self._make_plan(self._clock() + LEAD_NS, max(self._latency_ns))
            except ValueError as error:
                return [Failed("first", f"--max-duration is too short: {error}")]
            for side, engine in enumerate(self._engines):
                engine.take_turns(turns.spans(side))
            self._measuring = True
            return [TurnsBegan(turns)]
        return []

    def _in_order(self, update: EngineUpdate) -> EngineUpdate:
        """Merge the records of both engines; before the turns one engine simply follows the other."""
        if not self._measuring:
            return update
        reached = [2**62 if over else ns for over, ns in zip(self._ended, self._reached_ns, strict=True)]
        return self._order.release(replace(update, messages=(*update.messages, Reached(min(reached)))))

    def stop(self) -> None:
        self._stopping = True
        for engine in self._engines[: self._started]:
            engine.stop()

    def profile(self) -> None:
        """Do nothing: a burst within a turn would disturb the comparison."""

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
