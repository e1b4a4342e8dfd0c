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
