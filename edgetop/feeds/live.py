"""The running session of this process: what the conductor's thread made, for the screen's thread."""

import threading
from dataclasses import replace
from typing import Protocol

from edgetop.feeds.protocol import Can
from edgetop.session.batch import Batch, merge
from edgetop.session.orders import Order
from edgetop.session.records import NO_INFERENCES

# A screen that does not read for so long gets the seconds of what it missed, not each inference.
MAX_WAITING_INFERENCES = 500_000
MAX_WAITING_BATCHES = 256  # merged beyond this


class Session(Protocol):
    """Whoever conducts the session. The call is safe from any thread."""

    def order(self, order: Order) -> None: ...


class LiveFeed:
    player = None
    trouble = ""

    def __init__(self, *, outlives_its_screen: bool = False) -> None:
        """`outlives_its_screen`: whether there will be a way back to it."""
        self._outlives_its_screen = outlives_its_screen
        self._lock = threading.Lock()
        self._waiting: list[Batch] = []
        self._waiting_inferences = 0
        self._session: Session | None = None
        self.ended = threading.Event()  # nothing more will come

    def connect(self, session: Session) -> None:
        self._session = session

    def put(self, batch: Batch) -> None:
        """Called by the conductor's thread."""
        with self._lock:
            if self._waiting_inferences + len(batch.inferences) > MAX_WAITING_INFERENCES:
                batch = replace(batch, inferences=NO_INFERENCES)
            self._waiting_inferences += len(batch.inferences)
            self._waiting.append(batch)
            if len(self._waiting) > MAX_WAITING_BATCHES:
                self._waiting = [merge(self._waiting)]

    def close(self) -> None:
        self.ended.set()

    @property
    def can(self) -> Can:
        if self.ended.is_set() or self._session is None:
            return Can.NOTHING
        return Can.ORDERS | Can.DETACH if self._outlives_its_screen else Can.ORDERS

    @property
    def is_over(self) -> bool:
        return self.ended.is_set() and not self._waiting

    def read(self) -> Batch | None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._waiting_inferences = 0
        return merge(waiting) if waiting else None

    def order(self, order: Order) -> None:
        if self._session:
            self._session.order(order)
