"""Two engines that run in turns, each in a separate process (an A/B session). Together they are used as one engine.

The second engine is started when the first has warmed up, so neither loads while the other runs. Then both are told all
their turns, as times of the clock that they share. So nothing has to be sent at the end of a turn.

When these turns are over, both models are loaded again in new processes, warmed up, and get the next turns. This is
repeated until the session's time is over. So the models are compared over several loads.
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
    Reloading,
    StageMemory,
    Started,
    TurnsBegan,
)
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError
from edgetop.session.records import MEASURE, NO_INFERENCES, WARMUP, Inferences, copied, join
from edgetop.session.turns import SIDES, Plan, Planner

UNDISTURBED = 0.1  # quantile of the warm-up's latencies that stands for an undisturbed inference
LEAD_NS = 100_000_000  # time before the first turn in which both engines receive their turns
# Warm-up of an engine that was loaded anew: at least this long and this many runs, which fill its caches and arenas.
# The board itself is warm.
RELOAD_WARMUP_NS, RELOAD_WARMUP_RUNS = 200_000_000, 5
RELOAD_POLL_S = 0.02  # interval of polls while both are loaded anew, since the turns begin when both are ready


def reloading(spec: EngineSpec) -> EngineSpec:
    """Return a copy of `spec` for loading its model again: it keeps no outputs, does not rest and warms up briefly."""
    runs = min(spec.warmup_runs, RELOAD_WARMUP_RUNS)
    return replace(
        spec, keep_outputs=0, idle_ns=0, warmup_runs=runs, warmup_ns=RELOAD_WARMUP_NS, warmup_until_steady=False
    )


class TurnsEngine:
    isolation = "process"

    def __init__(
        self,
        engines: tuple[ProcessEngine, ProcessEngine],
        planner: Planner,
        make_again: Callable[[int], ProcessEngine] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Prepare to run engines A and B in turns. The specifications of both must have `in_turns` set.

        `planner` plans the turns. `make_again` gets 0 for A or 1 for B, and returns an engine that loads its model
        again. If `make_again` is None, each model is loaded once. `clock` returns ns.
        """
        self._engines = engines
        self._planner = planner
        self._make_again = make_again
        self._clock = clock
        self._started = 0  # number of engines that were started
        self._ready = [False, False]  # whether each has warmed up
        self._ended = [False, False]
        self._latency_ns = [0, 0]  # latency of each at the end of its warm-up
        self._reached_ns = [0, 0]
        self._order = InOrder(2)
        self._measuring = self._stopping = False
        self._first: Plan | None = None  # turns of the first load
        self._load = 0  # how often both have been loaded before
        self._began_ns = [0, 0]  # when each was started
        self._load_ns = [0, 0]  # how long the start of each took until its model was loaded
        self._reload_ns = 0  # how long it takes to load both anew

    def start(self) -> None:
        self._begin(0)
        self._started = 1

    def _begin(self, side: int) -> None:
        self._began_ns[side] = self._clock()
        self._engines[side].start()

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
            # The session has had its first inference and its warm-up.
            records.append(marked[marked["phase"] == MEASURE] if self._load else marked)
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
        if self._load and not self._measuring:
            poll_within_s = min(poll_within_s, RELOAD_POLL_S)
        return self._in_order(EngineUpdate(join(records), tuple(messages), poll_within_s, is_behind))

    def _passed_on(self, side: int, message: Message) -> list[Message]:  # noqa: C901, PLR0911  one case for each kind
        """Return the messages that the session gets for `message` from one engine.

        `side` is 0 for engine A and 1 for B. The start and the phases of A count as those of the session, so B's are
        dropped. After the models were loaded again, only the start of A, the ends and problems are passed on.
        """
        name = f"{SIDES[side]}: load {self._load + 1}" if self._load else SIDES[side]
        match message:
            case Reached():
                self._reached_ns[side] = message.monotonic_ns
                return []
            case Loaded():
                self._load_ns[side] = self._clock() - self._began_ns[side]
                return [] if self._load else [OfVariant(side, message), *([message] if side == 0 else [])]
            case StageMemory():
                self._ready[side] |= message.stage == "steady"
                return [] if self._load else [message] if side == 0 else [OfVariant(side, message)]
            case Started():
                return [message] if side == 0 else []
            case PhaseBegan():
                return [message] if side == 0 and not self._load else []
            case LogLine():
                return [replace(message, message=f"{SIDES[side]}: {message.message}")]
            case Failed():
                # What a user could have mended before the session is no reason to discard what it has measured.
                stage = "engine" if self._load else message.stage
                return [replace(message, stage=stage, message=f"{name}: {message.message}")]
            case Died():
                return [replace(message, cause=f"{name}: {message.cause}")]
            case Ended():
                self._ended[side] = True
                return self._one_ended(side, message)
            case RecordsLost():
                return [message]
        return []  # an A/B session does not use bursts and slow inferences

    def _one_ended(self, side: int, ended: Ended) -> list[Message]:
        goes_on = self._goes_on()
        told: list[Message] = [Reloading()] if goes_on and side == 0 else []
        if not all(self._ended[: self._started]) or not (self._started == 2 or self._stopping):
            return told
        if not goes_on:
            return [ended]
        return [*told, *self._load_anew()]

    def _goes_on(self) -> bool:
        """Whether to load both models again.

        True if `make_again` was given, no stop was requested, and enough time is left.
        """
        if self._stopping or self._first is None or self._make_again is None:
            return False
        begin_ns = self._clock() + self._reload_ns
        return self._planner.after(self._first, self._load + 1, begin_ns, self._reload_ns) is not None

    def _load_anew(self) -> list[Message]:
        """Start both engines again in new processes. Return [], or a message if that fails.

        Both load at the same time, because nothing is measured meanwhile.
        """
        assert self._make_again
        self.close()
        self._load += 1
        self._measuring = False
        self._ready, self._ended = [False, False], [False, False]
        self._reached_ns = [self._clock()] * 2
        self._engines = (self._make_again(0), self._make_again(1))
        try:
            self._begin(0)
            self._begin(1)
        except InputError as error:
            return [Failed("engine", f"load {self._load + 1}: {error}")]
        return []

    def _go_on(self) -> list[Message]:
        """Start the second engine when the first has warmed up, and begin the turns when both have warmed up.

        Return a message if the turns begin or if something failed, in a list; else [].
        """
        if self._stopping or self._measuring:
            return []
        if self._started == 1 and self._ready[0]:
            try:
                self._begin(1)
            except InputError as error:
                return [Failed("start", f"B: {error}")]
            self._started = 2
        elif all(self._ready):
            return self._begin_turns()
        return []

    def _begin_turns(self) -> list[Message]:
        begin_ns = self._clock() + LEAD_NS
        if self._first is None:
            warmup_ns = max(RELOAD_WARMUP_NS, RELOAD_WARMUP_RUNS * max(self._latency_ns))
            self._reload_ns = sum(self._load_ns) + warmup_ns + LEAD_NS
            reload_ns = self._reload_ns if self._make_again else None
            try:
                turns = self._first = self._planner.first(begin_ns, max(self._latency_ns), reload_ns)
            except ValueError as error:
                return [Failed("first", f"--max-duration is too short: {error}")]
        else:
            self._reload_ns = begin_ns - min(self._began_ns)
            following = self._planner.after(self._first, self._load, begin_ns, self._reload_ns)
            if following is None:
                return [Ended("duration", self._clock())]
            turns = following
        for side, engine in enumerate(self._engines):
            engine.take_turns(turns.spans(side))
        self._measuring = True
        return [TurnsBegan(turns, self._load)]

    def _in_order(self, update: EngineUpdate) -> EngineUpdate:
        """Return `update` with the records of both engines merged, sorted by the start of their inferences.

        A record is held back, for a later call, until neither engine can report an earlier one. While the first model
        still runs alone, `update` is returned as it is.
        """
        if self._first is None:
            return update
        reached = [2**62 if over else ns for over, ns in zip(self._ended, self._reached_ns, strict=True)]
        return self._order.release(replace(update, messages=(*update.messages, Reached(min(reached)))))

    def stop(self) -> None:
        self._stopping = True
        for engine in self._engines[: self._started]:
            engine.stop()

    def profile(self) -> None:
        """Do nothing: profiling operators within a turn would disturb the comparison."""

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
