"""An engine that is over as soon as it shows that the CPU runs what was meant for something else.

Only a burst of instrumented inferences shows that for certain: what a runtime plans is not what runs.
"""

from collections.abc import Iterable, Sequence

from edgetop.engines.protocol import BurstTaken, Engine, EngineUpdate, Failed, Loaded, Message, ProfilerChosen
from edgetop.engines.spec import EngineSpec
from edgetop.formatting import percent
from edgetop.session.operators import Operator

CPU = "CPU"
OPTION = "--require-full-delegation"
NAMED = 3


class FullyDelegated:
    """An engine in every respect. Where some operator is on the CPU, it fails, as of an input that cannot be used."""

    def __init__(self, engine: Engine, spec: EngineSpec) -> None:
        self.isolation = engine.isolation
        self._engine = engine
        self._is_asked = bool(spec.delegates) or any(name.upper() != CPU for name, _ in spec.providers)
        self._providers: tuple[str, ...] = ()
        self._is_over = False
        self.start, self.stop, self.profile, self.close = engine.start, engine.stop, engine.profile, engine.close

    def poll(self) -> EngineUpdate:
        update = EngineUpdate() if self._is_over else self._engine.poll()
        for place, message in enumerate(update.messages):
            if isinstance(message, Loaded):
                self._providers = message.providers
            if failure := self._failure(message):
                self._is_over = True
                return EngineUpdate(update.records, (*update.messages[: place + 1], failure))
        return update

    def _failure(self, message: Message) -> Failed | None:
        if isinstance(message, ProfilerChosen) and not message.way:
            return Failed("input", f"{OPTION}: where operators run cannot be told: {message.reason}")
        if isinstance(message, BurstTaken) and (found := self._not_delegated(message.operators)):
            return Failed(
                "input",
                f"{OPTION}: {_told(found, message.operators)}",
                "run without it to see them all, or use a model of which the provider has every operator",
            )
        return None

    def _not_delegated(self, operators: Sequence[Operator]) -> list[Operator]:
        """Those on the CPU, the longest first; none where the CPU is all that was asked for."""
        if self._providers[:1] == (CPU,) and not self._is_asked:
            return []
        return sorted((o for o in operators if o.provider == CPU), key=lambda operator: -operator.total_ns)


def _told(found: Sequence[Operator], operators: Iterable[Operator]) -> str:
    every = list(operators)
    share = percent(sum(o.total_ns for o in found) / (sum(o.total_ns for o in every) or 1))
    names = ", ".join(f"{operator.op_type} {operator.name}" for operator in found[:NAMED])
    more = ", ..." if len(found) > NAMED else ""
    return f"{len(found)} of {len(every)} operators, {share} of the time, ran on the CPU: {names}{more}"
