"""Eighty times the odd sessions that the ordinary tests have, those among them."""

from pathlib import Path

import pytest

from tests.analysis.test_fuzz import fuzzed

SEEDS = 2_000
AT_ONCE = 100


@pytest.mark.benchmark
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
async def test_no_session_is_a_traceback(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    await fuzzed(range(first, first + AT_ONCE), tmp_path)
