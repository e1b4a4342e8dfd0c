"""An error in a part of the analysis costs the panes that are made of it; the others, and the screen, go on."""

from collections.abc import Iterator

import pytest

from edgetop.analysis import faults
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.folds import FOLDS
from edgetop.ui.layout import PANES
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.pane import Drawing
from tests.support.broken_program import breaks
from tests.support.screens import opened
from tests.support.scripts import POWER_SENSORS, SENSORS, Script, manifest, powered
from tests.support.thorough import mostly_thorough

SIZE = (160, 60)
FAILED = {
    "latency": {"latency"},
    "progress": {"latency", "power"},
    "tracks": {"heat", "power", "memory", "sensors"},
    "power": {"power"},
    "operators": {"hotspots"},
    "generation": {"latency"},
    "events": {"events"},
}


@pytest.fixture(autouse=True)
def _expected() -> Iterator[None]:
    yield
    faults.occurred.clear()


def session() -> Script:
    whole = manifest(sensors=(*SENSORS, *POWER_SENSORS))
    return Script(whole, powered).load().warm_up().begin().measure(20).profile().measure(10)


# What depends on each fold is tested without a screen (tests/analysis/test_faults.py).
@pytest.mark.parametrize("name", mostly_thorough(FOLDS, *FAILED, "recording"))
async def test_the_other_panes_go_on(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FOLDS, name, breaks(name, 2))
    async with opened(session(), SIZE) as screen:
        for _ in range(3):
            await screen.go_on(2)
        failed = set()
        for key, pane in enumerate(PANES, 1):
            await screen.press(str(key))  # alone
            text = screen.monitor.chosen_pane.text
            failed |= {pane} if text.startswith("not available: internal error") else set()
            assert pane != "session" or "internal error in" in text or not screen.monitor.analysis.faults.found
        await screen.press("escape")
        assert screen.app.failure is None
        if screen.monitor.analysis.faults.found:
            assert failed == FAILED.get(name, set())
            assert "warning" in screen.text
        await screen.press("space")  # frozen, which makes every part
        await screen.tick()
        assert screen.app.failure is None


async def test_events_that_are_never_known_cost_their_pane_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(_: object) -> None:
        raise LookupError("on purpose")

    async with opened(session(), SIZE) as screen:
        monkeypatch.setattr(Analysis, "events_view", defective)
        for _ in range(2):
            screen.feed.put(screen.script.measure(1).batches[-1])
            screen.monitor.tick(is_whole=False)
            await screen.settle()
        await screen.tick()
        assert screen.app.failure is None
        assert "p50" in screen.header


async def test_an_error_in_a_drawing_costs_its_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(*_: object) -> list[object]:
        raise LookupError("on purpose")

    monkeypatch.setitem(DRAWINGS, "heat", Drawing("heat", lambda *_: "", defective))  # type: ignore[arg-type]
    async with opened(session(), SIZE) as screen:
        await screen.go_on(2)
        assert "not available: internal error in screen: pane-heat: LookupError: on purpose" in screen.text
        assert screen.app.failure is None
        assert "p50" in screen.text
        assert [one.code for one in screen.monitor.live.notices][:1] == ["internal-error"]
