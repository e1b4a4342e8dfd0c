"""A session on another machine, as its relay sends it over a link that may break at any time.

One thread reads. When the link breaks it connects anew, with longer and longer pauses, and asks
for what was missed; until then `trouble` says so.
"""

import math
import threading
from collections.abc import Sequence

from edgetop.errors import InputError
from edgetop.feeds.conversation import (
    Confirmed,
    Connect,
    Conversation,
    LinkEndedError,
    Over,
    Received,
    UnreachableError,
)
from edgetop.feeds.protocol import BatchQueue, Can, Refusal
from edgetop.formatting import clean
from edgetop.relay.encoding import NOWHERE, Position
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock
from edgetop.session.orders import Action, Order
from edgetop.session.seconds import NS

PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # before each attempt; the last one before all that follow
SILENCE_S = 15.0  # a relay says something each second
REPORTED_SILENCE_NS = 4 * NS
ALIVE_EVERY_NS = 15 * NS


class RemoteFeed:
    player = None

    def __init__(self, connect: Connect, where: str, clock: Clock, pauses_s: Sequence[float] = PAUSES_S) -> None:
        """Connects, and waits until the board has said what it shows: then a screen may open.

        `where`: the board, in words. Raises InputError where there is nothing to watch.
        """
        self._connect, self._where, self._clock, self._pauses_s = connect, where, clock, pauses_s
        self._waiting = BatchQueue()
        self._position: Position | None = None
        self._orders: dict[int, Action] = {}  # under way
        self._last_order = 0
        self._is_over = False
        self._lost = False
        self._attempts = 0  # to come back, since something came
        self._retry_ns = 0  # when the next attempt is made, while the link is lost
        self._refusal = Refusal(clock)
        self._last_received_ns = self._last_alive_ns = clock.monotonic_ns()
        self.failure = ""  # why it was given up, in words
        self.arrived = threading.Event()  # set when there is something to read
        self._leaving = threading.Event()
        self._conversation = Conversation(connect(None, True), where, None)
        self.session = self._conversation.session
        self._thread = threading.Thread(target=self._run, name="remote session", daemon=True)
        self._thread.start()

    # For the screen's thread.

    @property
    def can(self) -> Can:
        if self._is_over:
            return Can.NOTHING
        return Can.VISIT if self._lost else Can.VISIT | Can.ORDERS

    @property
    def is_over(self) -> bool:
        return self._is_over and not self._waiting

    @property
    def trouble(self) -> str:
        now_ns = self._clock.monotonic_ns()
        if self.failure:
            return f"LINK LOST: {self.failure}"
        if self._is_over:
            return ""
        if self._lost:
            left_s = math.ceil((self._retry_ns - now_ns) / NS)
            return f"LINK LOST, reconnecting in {left_s} s" if left_s > 0 else "LINK LOST, reconnecting"
        if refusal := str(self._refusal):
            return refusal
        silent_ns = now_ns - self._last_received_ns
        return f"LINK SILENT for {silent_ns // NS} s" if silent_ns > REPORTED_SILENCE_NS else ""

    def read(self) -> Batch | None:
        self.arrived.clear()
        return self._waiting.take()

    def order(self, order: Order) -> None:
        if Can.STOP not in self.can:
            return
        self._last_order += 1
        self._orders[self._last_order] = order.do
        try:
            self._conversation.order(self._last_order, order)
        except LinkEndedError:
            self._confirm(self._last_order, "the link is lost")
        except ValueError as error:
            self._confirm(self._last_order, str(error))

    def close(self, timeout_s: float) -> tuple[Action, ...]:
        """Leave the session to itself; the orders of which nobody knows what became, though that was waited for."""
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * NS)
        while self._orders and Can.STOP in self.can and self._clock.monotonic_ns() < deadline_ns:
            self.arrived.wait(0.1)
            self.arrived.clear()
        unconfirmed = tuple(self._orders.values())  # that the link ends now says nothing of them
        self._leaving.set()
        self._conversation.hang_up()
        self._thread.join(timeout_s)
        return unconfirmed

    # For the reading thread.

    def _run(self) -> None:
        while not self._leaving.is_set() and not self._is_over:
            self._step()
        self._conversation.close()
        self.arrived.set()

    def _step(self) -> None:
        try:
            if self._lost:
                self._reconnect()
            else:
                self._listen()
        except (LinkEndedError, TimeoutError, ValueError, UnreachableError):
            self._lose_link()
        except InputError as error:
            self.failure = str(error)
            self._is_over = True

    def _listen(self) -> None:
        for received in self._conversation.listen(SILENCE_S):
            self._handle(received)
        self._last_received_ns = self._clock.monotonic_ns()  # a part of what a slow link carries for minutes, too
        if self._last_received_ns - self._last_alive_ns >= ALIVE_EVERY_NS:
            self._last_alive_ns = self._last_received_ns
            self._conversation.send_alive()

    def _handle(self, received: Received) -> None:
        if isinstance(received, Over):
            self._orders.clear()  # a stop is confirmed by it, and nothing else matters any more
            self._is_over = True
        elif isinstance(received, Confirmed):
            self._confirm(received.number, received.answer.error if received.answer.is_refusal else "")
        elif not isinstance(received, tuple):
            raise ValueError("a summary that nobody asked for")  # noqa: TRY004  a broken link, as any that is unsound
        else:
            batch, position = received
            self._attempts = 0
            self._position = None if position == NOWHERE else position
            self._waiting.put(batch)
            self.arrived.set()

    def _confirm(self, number: int, error: str) -> None:
        action = self._orders.pop(number, None)
        if action and error:
            self._refusal.set(action, clean(error))
        self.arrived.set()

    def _lose_link(self) -> None:
        if not self._lost:
            self._lost, self._retry_ns = True, 0
            self._conversation.close()
        for number in tuple(self._orders):
            self._confirm(number, "the link was lost before it was confirmed")

    def _reconnect(self) -> None:
        pause_s = self._pauses_s[min(self._attempts, len(self._pauses_s) - 1)]
        self._attempts += 1
        self._retry_ns = self._clock.monotonic_ns() + int(pause_s * NS)
        self.arrived.set()
        if self._leaving.wait(pause_s):
            return
        link = self._connect(self.session, False)
        self._conversation = Conversation(link, self._where, self._position)
        self._last_received_ns = self._last_alive_ns = self._clock.monotonic_ns()
        self._lost = False
