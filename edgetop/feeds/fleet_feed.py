"""Follow many boards at once. Each board sends a summary once a second over a separate link, which may hang or break.

Each board has a thread, so a problem with one board does not affect others. A thread reconnects after increasing
pauses. Data from a board are not trusted.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any, Literal

from edgetop import formatting
from edgetop.errors import InputError
from edgetop.feeds import remote
from edgetop.feeds.remote import ALIVE_EVERY_NS, PAUSES_S, SILENCE_S, Connect, Conversation, Link
from edgetop.feeds.ssh import Target
from edgetop.frozen import frozen
from edgetop.session.clock import Clock
from edgetop.session.events import Order
from edgetop.session.seconds import NS
from edgetop.session.session_summary import Happened, Summary, parse_summary

LEAST_S = 0.1  # least time between two reads, so that a board that floods its link does not take CPU time
SILENT_NS = 4 * NS
MAX_LOG = 1_000

State = Literal["connecting", "live", "silent", "over", "idle", "lost", "unreachable", "misfit", "refused"]
# Word and level to show in place of a verdict, by state of the board.
STATE_WORDS: Mapping[State, tuple[str, str]] = {
    "connecting": ("CONNECTING", "neutral"),
    "silent": ("SILENT", "critical"),
    "idle": ("NO SESSION", "neutral"),
    "lost": ("LINK LOST", "critical"),
    "unreachable": ("UNREACHABLE", "critical"),
    "misfit": ("OTHER VERSION", "warning"),
    "refused": ("DOES NOT RUN", "critical"),
}
_LEVELS = ("critical", "warning", "neutral", "good")
_TAIL_STEP = 0.25  # boards whose p99 differs by less than this share of the deadline keep their order


@frozen
class Address:
    """A board that the user wants to watch: its address, name, group and labels."""

    name: str
    target: Target
    group: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    command: str = "edgetop"  # command that starts edgetop on the board


@frozen
class BoardView:
    address: Address
    state: State = "connecting"
    reason: str = ""  # sentence on why no data arrive
    summary: Summary | None = None  # the last summary
    age_s: float | None = None  # age of the last summary
    version: str = ""  # version of edgetop on the board
    place: str = ""  # path of the session on the board, to attach to it

    @property
    def word(self) -> str:
        return STATE_WORDS[self.state][0] if self.state in STATE_WORDS or not self.summary else self.summary.word

    @property
    def level(self) -> str:
        return STATE_WORDS[self.state][1] if self.state in STATE_WORDS or not self.summary else self.summary.level

    @property
    def details(self) -> str:
        if self.state in STATE_WORDS or not self.summary:
            return self.reason
        return self.summary.words.removeprefix(self.summary.word).lstrip(": ")

    @property
    def has_failed(self) -> bool:
        """Whether the board sends no data, and no data are expected soon."""
        return self.state in ("idle", "lost", "unreachable", "misfit", "refused")

    @property
    def tail_share(self) -> float:
        """The p99 latency divided by the deadline, such as 0.8, or 0 if either is unknown."""
        summary = self.summary
        return summary.p99_ms / summary.deadline_ms if summary and summary.p99_ms and summary.deadline_ms else 0.0

    def searched(self) -> str:
        """Return the text in which a filter looks for the user's words: the board's name, labels, verdict and more."""
        address, summary = self.address, self.summary or Summary()
        labels = " ".join(f"{key}={value}" for key, value in address.labels.items())
        parts = (address.name, address.target.host, address.group, labels, self.word, summary.model, summary.board)
        return " ".join(parts).lower()


def _by_name(view: BoardView) -> list[str | int]:
    """Return a sort key that sorts boards by name, with `board-2` before `board-10`."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split("([0-9]+)", view.address.name))]


ORDERS: Mapping[str, Callable[[BoardView], Any]] = {
    "worst": lambda view: (_LEVELS.index(view.level), -(view.tail_share // _TAIL_STEP), _by_name(view)),
    "name": _by_name,
    "group": lambda view: (view.address.group, _by_name(view)),
    "p99": lambda view: -((view.summary and view.summary.p99_ms) or 0.0),
    "heat": lambda view: -((view.summary and view.summary.temperature_c) or 0.0),
}


@frozen
class Logged:
    t_ns: int  # monotonic time of this machine, because clocks of boards differ
    board: str
    happened: Happened


class Board:
    """One of the watched boards, with the newest data from it. The data arrive on a separate thread."""

    def __init__(
        self, address: Address, connect: Connect, gates: Sequence[str], clock: Clock, log: Callable[[Logged], None],
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:  # fmt: skip
        self.address = address
        self._connect, self._gates, self._clock, self._log, self._pauses_s = connect, gates, clock, log, pauses_s
        self._view = BoardView(address)
        self._came_ns: int | None = None
        self._newest_event_ns = -(2**62)
        self._session = address.target.session
        self._attempts = 0
        self._orders: dict[int, Order] = {}
        self._last_order = 0
        self._link: Link | None = None
        self._conversation: Conversation | None = None
        self._leaving = threading.Event()
        self.is_done = False  # whether nothing more will be requested from the board
        self._thread = threading.Thread(target=self._run, name=f"board {address.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def refuse(self, reason: str) -> None:
        """Mark the board as refused, so that it is not contacted. `reason` is a sentence for the user."""
        self._view, self.is_done = replace(self._view, state="refused", reason=reason), True

    # Called by the thread of the screen.

    @property
    def view(self) -> BoardView:
        view, came_ns = self._view, self._came_ns
        if came_ns is None:
            return view
        age_ns = self._clock.monotonic_ns() - came_ns
        is_due = view.state == "live" and not (view.summary and view.summary.phase == "over")
        state: State = "silent" if is_due and age_ns > SILENT_NS else view.state
        reason = f"no data for {age_ns // NS} s" if state == "silent" else view.reason
        return replace(view, state=state, reason=reason, age_s=age_ns / NS)

    def order(self, order: Order) -> None:
        """Send a command, such as a stop, to the board. If the board refuses, the log says so."""
        self._last_order += 1
        number = self._last_order
        self._orders[number] = order
        try:
            if conversation := self._conversation:
                conversation.order(number, order)
            else:
                self._confirm(number, "there is no link")
        except (remote.LinkEndedError, ValueError) as error:
            self._confirm(number, str(error) or "the link is lost")

    @property
    def waits(self) -> bool:
        """Whether the board still has to answer a command, such as a stop."""
        return bool(self._orders)

    def hang_up(self) -> None:
        self._leaving.set()
        if link := self._link:
            link.hang_up()

    def join(self, timeout_s: float) -> None:
        if self._thread.ident:
            self._thread.join(timeout_s)

    # Called by the thread of the board.

    def _run(self) -> None:
        while not self._leaving.is_set() and not self.is_done:
            try:
                self._watch()
            except remote.MisfitError as error:
                self._fail("misfit", error, error.version)
            except (remote.LinkEndedError, TimeoutError, ValueError, remote.UnreachableError) as error:
                self._fail("lost" if self._came_ns is not None else "unreachable", error)
            except InputError as error:  # the board answers, but has nothing to show
                self._session = self.address.target.session
                if self._view.state != "over":
                    self._fail("idle", error)
            pause_s = self._pauses_s[min(self._attempts, len(self._pauses_s) - 1)]
            self._attempts += 1
            self._leaving.wait(pause_s)

    def _fail(self, state: State, error: Exception, version: str = "") -> None:
        ended = f"no data for {SILENCE_S:.0f} s" if isinstance(error, TimeoutError) else "the link ended"
        reason = formatting.clean(str(error)).removeprefix(f"{self.address.target}: ") or ended
        if state != self._view.state and not self._leaving.is_set() and state in ("lost", "unreachable", "misfit"):
            self._report("warning", f"{STATE_WORDS[state][0].lower()}: {reason}")
        self._view = replace(
            self._view, state=state, reason=reason, version=formatting.clean(version)[:40] or self._view.version
        )
        for number in tuple(self._orders):
            self._confirm(number, "the link was lost before it was confirmed")

    def _watch(self) -> None:
        try:
            self._link = self._connect(self._session, False)
        except InputError as error:
            raise remote.UnreachableError(str(error)) from None
        conversation = Conversation(self._link, str(self.address.target), None, gates=self._gates)
        self._conversation = conversation
        is_first, alive_ns = True, self._clock.monotonic_ns()
        self._session = conversation.session
        self._view = replace(self._view, version=formatting.clean(conversation.version)[:40], place=self._session)
        try:
            while not self._leaving.is_set():
                for received in conversation.listen(SILENCE_S):
                    if isinstance(received, remote.Over):
                        self._end()
                        return
                    is_first = self._handle(received, is_first=is_first)
                if self._clock.monotonic_ns() - alive_ns >= ALIVE_EVERY_NS:
                    alive_ns = self._clock.monotonic_ns()
                    conversation.send_alive()
                self._leaving.wait(LEAST_S)
        finally:
            self._conversation = None
            conversation.link.close()

    def _end(self) -> None:
        """Mark the session as over. Another session may run on the board later."""
        self._orders.clear()  # the end confirms a stop
        self._view = replace(self._view, state="over")
        self._session, self._attempts = self.address.target.session, len(self._pauses_s)
        self.is_done = self._session is not None

    def _handle(self, received: remote.Received, *, is_first: bool) -> bool:
        """Handle a message from the board. Return whether the link's first summary has still to come.

        `is_first` is what the previous call returned, or True at first. Raises ValueError for an invalid message.
        """
        if isinstance(received, remote.Confirmed):
            self._confirm(received.number, received.answer.error if received.answer.is_refusal else "")
        elif not isinstance(received, remote.Summarised):
            raise ValueError("an unrequested batch")  # noqa: TRY004  a broken link, as any that is unsound
        else:
            now_ns = self._clock.monotonic_ns()
            before = Summary() if is_first else self._view.summary
            summary = parse_summary(received.changed, before or Summary())
            if is_first and self._came_ns is not None and self._view.state == "lost":
                self._report("info", f"the link is back after {formatting.duration(now_ns - self._came_ns)}")
            self._view = replace(self._view, state="live", reason="", summary=summary)
            self._came_ns, self._attempts = now_ns, 0
            # The first summary repeats earlier events, which are not logged again.
            known_ns = self._newest_event_ns + NS if is_first else -(2**62)
            for happened in received.events:
                t_ns = now_ns - int(happened.age_s * NS)
                if t_ns > known_ns:
                    self._log(Logged(t_ns, self.address.name, happened))
                    self._newest_event_ns = max(self._newest_event_ns, t_ns)
            return False
        return is_first

    def _confirm(self, number: int, error: str) -> None:
        order = self._orders.pop(number, None)
        if order and error:
            self._report("warning", f"{order.do}: {formatting.clean(error)}")

    def _report(self, severity: Any, text: str) -> None:
        self._log(Logged(self._clock.monotonic_ns(), self.address.name, Happened(0.0, severity, text)))


class Fleet:
    def __init__(
        self, addresses: Sequence[Address], connect: Callable[[Address], Connect], gates: Sequence[str], clock: Clock,
        refused: Mapping[str, str] = MappingProxyType({}), pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:  # fmt: skip
        """Prepare to watch the boards at `addresses`.

        `connect` takes an address and returns the function that connects to it. `gates` are the conditions that each
        board checks, in the form of `--fail-if`. `refused` has the reasons for not contacting boards, by name.
        `pauses_s` are the pauses before attempts to reconnect.
        """
        self.clock = clock
        self._log: deque[Logged] = deque(maxlen=MAX_LOG)
        self.boards = tuple(Board(of, connect(of), gates, clock, self._log.append, pauses_s) for of in addresses)
        for board in self.boards:
            if reason := refused.get(board.address.name):
                board.refuse(reason)

    def start(self) -> None:
        for board in self.boards:
            if not board.is_done:
                board.start()

    def views(self, order: str = "worst", words: str = "") -> list[BoardView]:
        """Return the boards that match all of `words`, sorted. `order` is "name" or another key of `ORDERS`."""
        wanted = words.lower().split()
        views = (board.view for board in self.boards)
        return sorted((v for v in views if all(word in v.searched() for word in wanted)), key=ORDERS[order])

    def log(self) -> list[Logged]:
        """Return the log of all boards, the newest entry first."""
        return sorted(self._log.copy(), key=lambda logged: -logged.t_ns)

    def order_all(self, order: Order) -> None:
        for board in self.boards:
            if not board.is_done and board.view.state in ("live", "silent"):
                board.order(order)

    def close(self, timeout_s: float) -> None:
        """Close all links. First wait up to `timeout_s` seconds for the answers to commands, such as a stop."""
        until_ns = self.clock.monotonic_ns() + int(timeout_s * NS)
        pause = threading.Event()
        while any(board.waits for board in self.boards) and self.clock.monotonic_ns() < until_ns:
            pause.wait(LEAST_S)
        for board in self.boards:
            board.hang_up()
        for board in self.boards:
            board.join(max(LEAST_S, (until_ns - self.clock.monotonic_ns()) / NS))
