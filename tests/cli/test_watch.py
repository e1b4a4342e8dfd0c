"""What happens around the screen of a run."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from edgetop.cli.running import run_session
from edgetop.cli.running.run_request import Showing
from edgetop.errors import InputError
from edgetop.feeds.live import LiveFeed
from edgetop.ui.screen_settings import ScreenSettings


@pytest.mark.parametrize("is_loadable", [True, False])
def test_a_screen_is_loaded_before_a_model_that_cannot_be_loaded_is_waited_for(
    is_loadable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What that takes is time for the engine to fail in: the user then sees a line and no screen."""
    steps: list[str] = []
    conductor = SimpleNamespace(outcome=None)

    class Screen(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name != "show":
                raise AttributeError(name)
            steps.append("loaded")
            return lambda *_, **__: steps.append("shown")

    def wait(_: float) -> None:
        steps.append("waited")
        conductor.outcome = None if is_loadable else SimpleNamespace(error=InputError("no such model"))

    conductor.began_measuring = SimpleNamespace(wait=wait)
    monkeypatch.setitem(sys.modules, "edgetop.ui.app", Screen("app"))
    session: Any = SimpleNamespace(
        conductor=conductor, feed=LiveFeed(), analysis=None, folder=None, note_interrupt=lambda *_: None
    )
    session.feed.close()
    terminal: Any = None
    settings = ScreenSettings()
    run_session._show(session, Showing(), terminal, settings)
    assert steps == (["loaded", "waited", "shown"] if is_loadable else ["loaded", "waited"])
