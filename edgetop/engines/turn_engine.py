"""An engine that consists of two, each in a process of its own, which run in turns (an A/B session).

The second one is started when the first has warmed up, so that neither loads while the other runs. Then both receive
all their turns as times of the clock that they share, so that nothing has to be sent at the end of a turn.
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

UNDISTURBED = 0.1  # quantile of the warm-up's latencies that stands for an undisturbed inference
LEAD_NS = 100_000_000  # time before the first turn in which both engines receive their turns


class TurnsEngine:
    isolation = "process"

    def __init__(
        self,
        engines: tuple[ProcessEngine, ProcessEngine],
        make_plan: Callable[[int, int], Plan],
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Run A and B in turns. The specs of both engines must have `in_turns` set.

        `make_plan` takes when the turns begin and how long an inference takes, both in ns, and returns their plan.
        """
        self._engines = engines
        self._make_plan = make_plan
        self._clock = clock
        self._started = 0  # number of engines that were started
        self._ready = [False, False]  # whether each has warmed up
        self._ended = [False, False]
        self._latency_ns = [0, 0]  # latency of each at the end of its warm-up
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
                continue  # its data waits in its process until the other engine has come as far
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

    def _passed_on(self, side: int, message: Message) -> list[Message]:  # noqa: PLR0911  one case for each kind
        """Return the messages to pass on for a message of one engine. Process, phases and memory are those of A."""
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
        return []  # an A/B session does not use bursts and slow inferences

    def _go_on(self) -> list[Message]:
        """Start the second engine when the first has warmed up, and the turns when both have."""
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
        """Put the records of both engines in order. Before the turns they are in order, since only one engine runs."""
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
