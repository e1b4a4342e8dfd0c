import signal
from types import SimpleNamespace
from typing import Any

from edgetop.cli.live_session import LiveSession
from edgetop.feeds.live import LiveFeed
from edgetop.session.batch import Batch
from tests.support.sessions import ended_event

NS = 1_000_000_000


def test_a_finished_session_is_waited_for_until_it_is_written() -> None:
    """Whoever leaves its screen while its tables are written gets its summary, and no run in the background."""
    conductor: Any = SimpleNamespace(is_stopping=False, outcome=None)
    state: Any = SimpleNamespace()
    session = LiveSession(LiveFeed(), state)
    session.begin(conductor, None)
    session.analyse()
    assert session.is_running
    session.feed.put(Batch(until_ns=NS, events=(ended_event(NS, "duration"),)))
    session.analysis.catch_up(session.feed)
    assert not session.is_running


def test_signals_that_come_before_the_session_begins_are_acted_upon_as_it_does() -> None:
    """One that nobody recorded ends when its terminal hangs up, whenever that is."""
    stops: list[str] = []
    conductor: Any = SimpleNamespace(stop=stops.append, let_go=stops.append, is_stopping=False)
    state: Any = SimpleNamespace()
    session = LiveSession(LiveFeed(), state)
    session.on_signal(signal.SIGHUP)
    session.on_signal(signal.SIGINT)
    assert (stops, session.leave_now, session.interrupted) == ([], False, False)
    session.begin(conductor, None)
    assert stops == ["signal", "signal"]
    assert (session.leave_now, session.interrupted, session.hung_up) == (True, True, False)
