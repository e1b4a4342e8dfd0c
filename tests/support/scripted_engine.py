"""An engine that says what a test has written for it, and runs nothing."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from edgetop.engines.engine_protocol import EngineUpdate, Message
from edgetop.errors import InputError
from edgetop.session.records import INFERENCE, MEASURE, NO_INFERENCES, Inferences


class ScriptedEngine:
    """One update a poll, in their order; then nothing more. `calls` are those of its conductor."""

    def __init__(
        self,
        *updates: EngineUpdate,
        when_stopped: Sequence[EngineUpdate] = (),
        refuses: InputError | None = None,
        fails_to_close: Exception | None = None,
        fails: BaseException | None = None,
        goes_on: str | None = None,
        isolation: str = "process",
    ) -> None:
        """`when_stopped`: what it says once it is asked to stop. `refuses`: what its start raises.

        `fails`: what a poll raises when all is said. `goes_on`: what it says as it is closed.
        """
        self.isolation = isolation
        self._fails, self._goes_on = fails, goes_on
        self._updates = deque(updates)
        self._when_stopped = when_stopped
        self._refuses = refuses
        self._fails_to_close = fails_to_close
        self.calls: list[str] = []

    def say(self, update: EngineUpdate) -> None:
        """Give this update after all others."""
        self._updates.append(update)

    def start(self) -> None:
        self.calls.append("start")
        if self._refuses:
            raise self._refuses

    def poll(self) -> EngineUpdate:
        if self._fails and not self._updates:
            raise self._fails
        return self._updates.popleft() if self._updates else EngineUpdate()

    def stop(self) -> None:
        self.calls.append("stop")
        self._updates.extend(self._when_stopped)

    def profile(self) -> None:
        self.calls.append("profile")

    def close(self) -> str | None:
        self.calls.append("close")
        if self._fails_to_close:
            raise self._fails_to_close
        return self._goes_on


def said(*messages: Message, records: Inferences = NO_INFERENCES) -> EngineUpdate:
    return EngineUpdate(records, messages)


def inferences(
    starts_ns: Sequence[int], latency_ns: Sequence[int] | int = 1_000_000, phase: int = MEASURE, *, ok: bool = True
) -> Inferences:
    records = np.zeros(len(starts_ns), INFERENCE)
    records["t_ns"], records["latency_ns"], records["phase"], records["ok"] = starts_ns, latency_ns, phase, ok
    return records
