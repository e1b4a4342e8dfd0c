"""Two hundred generated sessions are the same on the live screen, in reports, replays, exports and lists."""

from pathlib import Path

import pytest

from tests.support.same_everywhere import unequal

pytestmark = pytest.mark.benchmark
SESSIONS = 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, SESSIONS, 10))
def test_generated_sessions_are_the_same_everywhere(first: int, tmp_path: Path) -> None:
    found = {}
    for seed in range(first, first + 10):
        place = tmp_path / str(seed)
        place.mkdir()
        found[seed] = unequal(seed, place)
    assert {seed: of for seed, of in found.items() if of} == {}
