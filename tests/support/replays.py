"""Recorded sessions on the screen, and as feeds, by a clock that a test moves."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from edgetop.analysis.analysis import Analysis
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from edgetop.ui.app import EdgetopApp, monitor
from edgetop.ui.screen_settings import ScreenSettings
from tests.support.clocks import ManualClock
from tests.support.recordings import record
from tests.support.screens import NEVER_S, Opened
from tests.support.scripts import Script


@dataclass(frozen=True, slots=True)
class Replay(Opened):
    """A replay under test: time passes when the test says so."""

    clock: ManualClock

    async def pass_time(self, seconds: float) -> None:
        """And refresh the screen."""
        self.clock.advance(seconds)
        await self.tick()

    @property
    def transport(self) -> str:
        """The line of the replay."""
        return self.rows[-2]

    @property
    def at_s(self) -> float:
        """Where playback stands."""
        return self.monitor.transport.t_ns / NS  # type: ignore[union-attr]


def replay_of(
    batches: Iterable[Batch], folder: Path, *, speed: float = 1.0, from_ns: int = 0
) -> tuple[ReplayFeed, ManualClock]:
    """A feed of a session that is recorded in `folder`."""
    clock = ManualClock()
    recording = Recording(record(folder / "s.edgetop", list(batches)))
    return ReplayFeed(recording, clock, speed=speed, from_ns=from_ns), clock


@asynccontextmanager
async def replayed(
    script: Script, folder: Path, size: tuple[int, int] = (80, 24), *, from_s: float = 0.0, **settings: object
) -> AsyncIterator[Replay]:
    """The app on the recording of a session, which is made in the folder unless it is there."""
    path = folder / "s.edgetop"
    if not path.exists():
        record(path, script.batches)
    clock = ManualClock()
    feed = ReplayFeed(Recording(path), clock, from_ns=int(from_s * NS))
    choices = ScreenSettings(refresh_s=NEVER_S, first_line_s=NEVER_S, recording=path, **settings)  # type: ignore[arg-type]
    app = EdgetopApp(monitor(feed, Analysis(), choices), choices)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = Replay(app, pilot, feed, script, clock)  # type: ignore[arg-type]
        await screen.settle()
        yield screen


def take(feed: ReplayFeed, analysis: Analysis) -> Batch | None:
    batch = feed.read()
    if batch is not None:
        analysis.fold(batch)
    return batch


def played(feed: ReplayFeed, clock: ManualClock, steps_s: Sequence[float]) -> Analysis:
    """From where it stands to its end, in these steps and then in one."""
    analysis = Analysis()
    take(feed, analysis)
    for step_s in (*steps_s, 1e9):
        clock.advance(step_s)
        take(feed, analysis)
    assert feed.is_over
    return analysis
