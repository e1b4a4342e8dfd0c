"""Records of several streams in the order in which their inferences began.

Each stream reports when its inferences are done, so one that takes long comes after others that
began later. What comes is pending until every stream has come so far; but no longer than PATIENCE_NS
behind the newest, lest a stream that hangs keep back what the others do.
"""

import numpy as np

from edgetop.engines.protocol import Died, Ended, EngineUpdate, Failed, Reached
from edgetop.session.records import NO_INFERENCES, Inferences

PATIENCE_NS = 5_000_000_000
MAX_PENDING = 65_536


class InOrder:
    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._pending: Inferences = NO_INFERENCES
        self._reached_ns = 0

    def release(self, update: EngineUpdate) -> EngineUpdate:
        """The update with the records of which none can come that began earlier."""
        if self._streams == 1:
            return update
        reached = [message.monotonic_ns for message in update.messages if isinstance(message, Reached)]
        self._reached_ns = max([self._reached_ns, *reached])
        is_over = any(isinstance(message, Ended | Failed | Died) for message in update.messages)
        messages = tuple(message for message in update.messages if not isinstance(message, Reached))
        return EngineUpdate(self._released(update.records, is_over=is_over), messages)

    def _released(self, records: Inferences, *, is_over: bool) -> Inferences:
        pending = np.concatenate([self._pending, records])
        pending = pending[np.argsort(pending["t_ns"], kind="stable")]
        if is_over or not len(pending):
            cut = len(pending)
        else:
            until_ns = max(self._reached_ns, int(pending["t_ns"][-1]) - PATIENCE_NS)
            cut = max(int(np.searchsorted(pending["t_ns"], until_ns)), len(pending) - MAX_PENDING)
        self._pending = pending[cut:]
        released: Inferences = pending[:cut]
        return released
