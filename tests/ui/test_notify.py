"""`--notify` with a screen: the terminal is told, and the screen stays as it is."""

import pytest

from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from tests.support.screens import Opened, opened
from tests.support.scripts import measured

RULE = read_event(0, "alert-rule", "info", "user", "alert if p50>1ms", {"rule": "p50>1ms once"})


def heard(screen: Opened, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is written to the terminal from now on, beside the screen."""
    written: list[str] = []
    monkeypatch.setattr(screen.app._driver, "write", written.append)
    return written


@pytest.mark.parametrize(("notify", "told"), [(True, 1), (False, 0)])
async def test_an_alert_rings_once_where_that_was_asked(
    monkeypatch: pytest.MonkeyPatch, notify: bool, told: int
) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    async with opened(measured(5), notify=notify) as screen:
        before = screen.text
        written = heard(screen, monkeypatch)
        screen.feed.put(Batch(screen.monitor.live.progress.now_ns, events=(RULE,)))
        await screen.go_on(3)
        await screen.go_on(3)
        rung = [text for text in written if "\a" in text]
        assert len(rung) == told
        assert all("]777;notify;edgetop" in text and "p50>1ms once: 5." in text for text in rung)
        assert len(screen.text) == len(before)
