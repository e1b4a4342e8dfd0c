"""What the live screen said at the end of a run is what report, replay, export and the list of sessions say of it."""

import shutil
from pathlib import Path

import pytest

from edgetop.recording.reader import Recording
from tests.support.commands import ROOT
from tests.support.same_everywhere import looked_at, unequal
from tests.support.sessions import differences
from tests.support.thorough import mostly_thorough

GOLDEN = sorted((ROOT / "tests/recordings/v1").glob("*.edgetop"))


@pytest.mark.slow
@pytest.mark.parametrize(  # each shape once: plain, left by a dead writer, and the others; the benchmark has 200
    "seed", mostly_thorough(range(8), 0, 6)
)
def test_a_generated_session_is_the_same_everywhere(seed: int, tmp_path: Path) -> None:
    assert unequal(seed, tmp_path) == []


@pytest.mark.parametrize("golden", GOLDEN, ids=[path.name for path in GOLDEN])
def test_a_golden_recording_is_the_same_everywhere(golden: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(golden, tmp_path / golden.name)  # reading one that was cut short completes it
    found = dict(looked_at(copy, tmp_path))
    lost = Recording(copy).manifest.lost
    if lost and lost.seconds is None:  # so damaged that its length is not known: only a report reads all of it
        for said in found.values():
            del said["report"]["lost"]
    for name, said in found.items():
        assert differences(said, found["report"]) == [], name
