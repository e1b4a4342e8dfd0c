"""A program with a screen, to be run on a terminal: `python -m tests.support.screen_program SCENARIO REFRESHES`.

It shows a session for so many refreshes and prints, as JSON in its last line, how that ended.
"""

import json
import sys
from collections.abc import Sequence

from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.session.batch import Batch
from edgetop.ui.app import show
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.screen_settings import ScreenSettings
from edgetop.ui.text import Line
from tests.support.scripts import ListFeed, Script, measured

SECONDS_BEFORE = 620  # so that the charts are full
REFRESH_S = 0.05  # long enough for a key to arrive in time on a busy machine


def session(refreshes: int) -> Script:
    """A second after another; the first batch is all that was before."""
    script = measured(SECONDS_BEFORE)
    script.batches[:] = [script.whole()]
    return script.measure(refreshes)


class CountedFeed(ListFeed):
    """Lets the screen go when it has been read so often beyond its last batch."""

    def __init__(self, batches: Sequence[Batch], idle: int) -> None:
        super().__init__(batches)
        self._idle = idle

    def read(self) -> Batch | None:
        batch = super().read()
        self._idle -= batch is None
        return batch

    def is_finished(self) -> bool:
        return self._idle < 0


class PaneError(Exception):
    """Of a pane or a feed that has a defect."""


def broken(view: MonitorView, area: Area) -> Sequence[Line]:
    if view.progress.now_ns > (SECONDS_BEFORE + 4) * 10**9:
        raise PaneError("[red]a defect[/red] of a pane")
    return ()


class BrokenFeed(CountedFeed):
    """Has a defect, which shows with its fifth batch."""

    given = 0

    def read(self) -> Batch | None:
        self.given += 1
        if self.given > 4:
            raise PaneError("[red]a defect[/red] of a feed")
        return super().read()


def main(scenario: str, refreshes: int) -> None:
    if scenario == "defect":
        DRAWINGS["events"] = Drawing("events", lambda *_: "", broken)
    batches = session(0 if scenario == "idle" else refreshes).batches
    ends_soon = scenario in ("steady", "own-theme")
    make = BrokenFeed if scenario == "screen-defect" else CountedFeed
    feed = make(batches, refreshes if scenario == "idle" else 5 if ends_soon else 10**9)
    theme = None if scenario == "own-theme" else "dark"
    failure = show(feed, Analysis(), ScreenSettings(refresh_s=REFRESH_S, theme=theme), feed.is_finished)
    print(json.dumps({"failure": failure, "asked": [order.do for order in feed.asked]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
