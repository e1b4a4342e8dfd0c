"""Records of several streams in the order in which their inferences began.

Each stream reports when its inferences are done, so one that takes long comes after others that
began later. What comes is held until every stream has come so far; but no longer than PATIENCE_NS
behind the newest, lest a stream that hangs keep back what the others do.
"""

import numpy as np

from edgetop.engines.protocol import Died, Ended, EngineUpdate, Failed, Reached
from edgetop.session.records import NO_INFERENCES, Inferences

PATIENCE_NS = 5_000_000_000
MAX_HELD = 65_536


class InOrder:
    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._held: Inferences = NO_INFERENCES
        self._reached_ns = 0

    def settle(self, update: EngineUpdate) -> EngineUpdate:
        """The update with the records of which none can come that began earlier."""
        if self._streams == 1:
            return update
        reached = [message.monotonic_ns for message in update.messages if isinstance(message, Reached)]
        self._reached_ns = max([self._reached_ns, *reached])
        is_over = any(isinstance(message, Ended | Failed | Died) for message in update.messages)
        messages = tuple(message for message in update.messages if not isinstance(message, Reached))
        return EngineUpdate(self._settled(update.records, is_over=is_over), messages)

    def _settled(self, records: Inferences, *, is_over: bool) -> Inferences:
        held = np.concatenate([self._held, records])
        held = held[np.argsort(held["t_ns"], kind="stable")]
        if is_over or not len(held):
            cut = len(held)
        else:
            until_ns = max(self._reached_ns, int(held["t_ns"][-1]) - PATIENCE_NS)
            cut = max(int(np.searchsorted(held["t_ns"], until_ns)), len(held) - MAX_HELD)
        self._held = held[cut:]
        settled: Inferences = held[:cut]
        return settled
