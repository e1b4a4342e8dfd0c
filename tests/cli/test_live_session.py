import signal
from types import SimpleNamespace
from typing import Any

from edgetop.analysis.faults import occurred
from edgetop.cli.running.live_session import LiveSession
from edgetop.feeds.live import LiveFeed
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import AnalysisFailed
from tests.support.sessions import ended_event
from tests.support.waiting import wait_until

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


def test_an_observer_that_fails_is_called_no_more_and_the_others_are() -> None:
    called: list[str] = []
    told: list[tuple[str, str]] = []

    def failing(_: object) -> None:
        called.append("failing")
        raise LookupError("on purpose")

    def sound(_: object) -> None:
        called.append("sound")

    conductor: Any = SimpleNamespace(is_stopping=False, outcome=None)
    state: Any = SimpleNamespace(add_event=lambda body, _severity, _source, text: told.append((body, text)))
    session = LiveSession(LiveFeed(), state)
    session.begin(conductor, None)
    session.analyse([failing, sound])
    wait_until(lambda: called.count("sound") > 1)
    session.stop_observers()
    assert called.count("failing") == 1
    ((body, text),) = told
    assert body.kind == "hook-failed"
    assert text.endswith("internal error: LookupError: on purpose")


def test_an_error_in_the_analysis_is_an_event_of_the_session() -> None:
    told: list[tuple[AnalysisFailed, str]] = []
    state: Any = SimpleNamespace(add_event=lambda body, _severity, _source, text: told.append((body, text)))
    session = LiveSession(LiveFeed(), state)
    session.begin(SimpleNamespace(is_stopping=False, outcome=None), None)  # type: ignore[arg-type]
    session.analyse()
    session.analysis.faults.add("power", LookupError("on purpose"))
    session.analysis.catch_up(session.feed)
    session.analysis.catch_up(session.feed)
    occurred.clear()
    ((body, text),) = told
    assert body.kind == "analysis-failed"
    assert text == "power: not available: internal error in power: LookupError: on purpose"
    assert body.traceback
    assert "LookupError" in body.traceback
