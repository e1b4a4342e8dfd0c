"""Thirty times the damage that the ordinary tests do, theirs among it, and each looked at by three commands."""

from pathlib import Path

import pytest

from tests.recording.test_damage import damaged_by_seed, originals

__all__ = ["originals"]

SEEDS = 2_000
AT_ONCE = 250


@pytest.mark.benchmark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_damage_is_a_traceback_or_a_loss_that_is_not_so(
    originals: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: int,
) -> None:
    damaged_by_seed(originals, tmp_path, monkeypatch, range(first, first + AT_ONCE), commands=3)
