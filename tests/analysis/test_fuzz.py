"""No session, however odd, is too much for the analysis: a small part of `tests/benchmarks/test_fuzz_analysis.py`."""

from pathlib import Path

import pytest

from edgetop.analysis.faults import occurred
from tests.support.commands import ROOT
from tests.support.fuzzed import Fuzz, looked_at, shown
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

BESIDE = ROOT / "tests/recordings/v1/finished.edgetop"
SEEDS, AT_ONCE, SHOWN_EVERY = 24, 8, 8


@pytest.mark.parametrize("first", mostly_thorough(range(0, SEEDS, AT_ONCE), 16))
async def test_no_session_is_a_traceback(first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    await fuzzed(range(first, first + AT_ONCE), tmp_path, looks=2)


async def fuzzed(seeds: range, place: Path, *, looks: int = 9) -> None:
    """`looks`: in how many ways each is looked at beside its report as JSON and its replay."""
    for seed in seeds:
        print(f"seed {seed}")  # shown where it fails
        fuzz = Fuzz(seed)
        batches = fuzz.batches()
        folder = fuzz.written(place / f"{seed}.edgetop", batches)
        looked_at(folder, BESIDE, place, fuzz, looks=looks, pages=seed % 50 == 7)
        if seed % SHOWN_EVERY == 0:
            await shown(batches, fuzz)
        assert not occurred, next(iter(occurred.values())).traceback
