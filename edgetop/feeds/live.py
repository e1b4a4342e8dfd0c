"""The feed of the session that runs in this process, from the session's thread to the screen's thread."""

import threading

from edgetop.feeds.feed_protocol import BatchQueue, Can
from edgetop.session.batch import Batch
from edgetop.session.events import Order, TakesOrders


class LiveFeed:
    player = None
    trouble = ""

    def __init__(self, *, outlives_its_screen: bool = False) -> None:
        """Begin without data.

        `outlives_its_screen` says that the session can go on without a screen, for `edgetop attach`.
        """
        self._outlives_its_screen = outlives_its_screen
        self._waiting = BatchQueue()
        self.put = self._waiting.put  # called by the conductor's thread
        self._session: TakesOrders | None = None
        self.ended = threading.Event()  # set when nothing more will come

    def connect(self, session: TakesOrders) -> None:
        self._session = session

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

    @property
    def waiting(self) -> tuple[Batch, ...]:
        return self._waiting.peek()

    def read(self) -> Batch | None:
        return self._waiting.take()

    def order(self, order: Order) -> None:
        if self._session:
            self._session.order(order)
