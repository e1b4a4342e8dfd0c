"""What the live screen said at the end of a run is what report, replay, export and the list of sessions say of it."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.throttles import ThrottleEvents
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.by_time import RecordingByTime
from edgetop.recording.reader import Recording
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import ThrottleBegan, ThrottleEnded
from tests.feeds.test_replay import played
from tests.support.clocks import ManualClock
from tests.support.commands import ROOT
from tests.support.exports import export
from tests.support.generator.plans import generate
from tests.support.recordings import record

GOLDEN = sorted((ROOT / "tests/recordings/v1").glob("*.edgetop"))
SEEDS = (1, 4, 7, 11, 18)  # of generated sessions: some throttle, some slow down, some are calm


def conclusions(analysis: Analysis) -> dict[str, Any]:
    """Return what every printer says of a session."""
    view = analysis.view(None)
    return {
        "phase": (view.progress.phase, view.progress.end_reason, analysis.phases.measured_from_ns),
        "measured until": analysis.progress.measured_until_ns,
        "throttles": [(span.start_ns, span.end_ns, span.cause) for span in analysis.throttles.view().spans],
        "slowdowns": [(of.start_ns, of.end_ns, of.cause) for of in analysis.slowdowns.view().slowdowns],
        "misses": [(span.begin_ns, span.end_ns) for span in analysis.alerts_view().missing],
        "verdict": (view.verdict.state, view.verdict.level, view.verdict.now),
    }


def looked_at(folder: Path, place: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "report", conclusions(Analysis.of(Recording(folder).play()))
    yield "sessions", conclusions(Analysis.of([RecordingByTime(Recording(folder)).whole()]))
    yield "replay", conclusions(played(ReplayFeed(Recording(folder), clock := ManualClock()), clock, [7.0, 30.0]))
    if Recording(folder).end_ns:  # of damaged tables whose length is unknown, an export has no events
        export(folder, "session", place / "exported.edgetop")
        yield "export", conclusions(Analysis.of(Recording(place / "exported.edgetop").play()))


def run_live(batches: Sequence[Batch]) -> list[Batch]:
    """Add what the run derives as it goes on."""
    events = ThrottleEvents()
    made = [replace(batch, events=(*batch.events, *events.fold(batch))) for batch in batches]
    end_ns = made[-1].until_ns
    last = replace(made[0].manifest, state="finished", end_reason="duration", duration_ns=end_ns)  # type: ignore[type-var]
    return [*made[:-1], replace(made[-1], manifest=last)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_session_is_the_same_everywhere(seed: int, tmp_path: Path) -> None:
    same_everywhere(seed, tmp_path)


def same_everywhere(seed: int, place: Path) -> None:
    drawn = generate(seed)
    batches = run_live(list(drawn.batches(tuple(map(float, range(1, int(drawn.end_s)))), single=True)))
    live = conclusions(Analysis.of(batches))
    for name, found in looked_at(record(place / "one.edgetop", batches), place):
        assert found == live, name
    # What the run recorded as events, and what every analysis of it finds, are the same throttles.
    bodies = [(event.t_ns, event.body) for batch in batches for event in batch.events]
    begun = [(t_ns, body.cause) for t_ns, body in bodies if isinstance(body, ThrottleBegan)]
    over = [(t_ns, body.cause) for t_ns, body in bodies if isinstance(body, ThrottleEnded)]
    spans = live["throttles"]
    assert sorted(begun) == sorted((start_ns, cause) for start_ns, _, cause in spans)
    lasting = {(end_ns, cause) for _, end_ns, cause in spans}
    assert set(over) <= lasting
    assert len(spans) - len(over) <= sum(end_ns == live["measured until"] for end_ns, _ in lasting)


@pytest.mark.parametrize("golden", GOLDEN, ids=[path.name for path in GOLDEN])
def test_a_golden_recording_is_the_same_everywhere(golden: Path, tmp_path: Path) -> None:
    found = dict(looked_at(shutil.copytree(golden, tmp_path / golden.name), tmp_path))
    for name, said in found.items():
        assert said == found["report"], name
