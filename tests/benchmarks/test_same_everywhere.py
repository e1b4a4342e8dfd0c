"""Two hundred generated sessions are the same on the live screen, in reports, replays, exports and lists."""

from pathlib import Path

import pytest

from tests.feeds.test_same_everywhere import same_everywhere

pytestmark = pytest.mark.benchmark
SESSIONS = 200


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(0, SESSIONS, 10))
def test_generated_sessions_are_the_same_everywhere(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 10):
        place = tmp_path / str(seed)
        place.mkdir()
        same_everywhere(seed, place)
