"""Make an engine fail as soon as an operator runs elsewhere than requested (`--require-full-delegation`).

Only a timed inference proves where operators run, because a runtime may do something else than it planned. The first
timed inference runs before the warm-up, so even the shortest run is checked.
"""

from collections.abc import Sequence

from edgetop.engines.engine_protocol import (
    BurstTaken,
    Ended,
    Engine,
    EngineUpdate,
    Failed,
    Loaded,
    Message,
    PhaseBegan,
    ProfilerChosen,
)
from edgetop.engines.spec import EngineSpec
from edgetop.formatting import percent, quantity
from edgetop.runner.loaded_engine import fallback_words
from edgetop.session.operators import CPU, Operator, hosts

OPTION = "--require-full-delegation"
NAMED = 3
ADVICE = "run without it to see them all, or use a model of which the provider has every operator"


class FullyDelegated:
    """Wraps an engine, and reports a failure of the engine if an operator runs elsewhere than the user requested."""

    def __init__(self, engine: Engine, spec: EngineSpec) -> None:
        self.isolation = engine.isolation
        self._engine = engine
        self._asked = spec.requested
        self._hosts: frozenset[str] = frozenset()  # providers that must not run any operator
        self._dropped = ""
        self._is_proven = self._is_over = False
        self.start, self.stop, self.profile, self.close = engine.start, engine.stop, engine.profile, engine.close

    def poll(self) -> EngineUpdate:
        update = EngineUpdate() if self._is_over else self._engine.poll()
        for place, message in enumerate(update.messages):
            if failure := self._failure(message):
                self._is_over = True
                before = update.messages[: place + (not isinstance(message, Ended))]
                return EngineUpdate(update.records, (*before, failure))
        return update

    def _failure(self, message: Message) -> Failed | None:
        match message:
            case Loaded():
                self._hosts = frozenset() if message.whole else hosts((*self._asked, *message.providers))
                if message.dropped_providers:
                    self._dropped = f"{', '.join(message.dropped_providers)} was left out by the runtime; "
            case ProfilerChosen(way, reason) if not way and self._hosts:
                return Failed("input", f"{OPTION}: {self._dropped}where operators run is unknown: {reason}")
            case ProfilerChosen() | BurstTaken() if message.operators:
                self._is_proven = True
                fallback = message.fallback if isinstance(message, ProfilerChosen) else None
                found = [operator for operator in message.operators if operator.provider in self._hosts]
                if found:
                    why = f"; {fallback_words(fallback)}" if fallback else ""
                    text = f"{OPTION}: {self._dropped}{_sentence(found, message.operators)}{why}"
                    return Failed("input", text, ADVICE)
            case PhaseBegan("measure") | Ended("runs" | "duration") if not self._is_proven and self._hosts:
                return Failed("input", f"{OPTION}: {self._dropped}where operators run was not shown", ADVICE)
        return None


def _sentence(found: Sequence[Operator], every: Sequence[Operator]) -> str:
    share = percent(sum(o.total_ns for o in found) / (sum(o.total_ns for o in every) or 1))
    largest = sorted(found, key=lambda operator: -operator.total_ns)[:NAMED]
    names = ", ".join(f"{operator.op_type} {operator.name}" for operator in largest)
    more = ", ..." if len(found) > NAMED else ""
    places = " and ".join("the CPU" if host == CPU else host for host in sorted({o.provider for o in found}))
    return f"{len(found)} of {quantity(len(every), 'operator')}, {share} of the time, ran on {places}: {names}{more}"
