"""Damage of every kind, by seed: no command ends in a traceback, and what is said of losses is so."""

import random
import shutil
from pathlib import Path

import pytest

from tests.support.damage import COMMANDS, FINISHED, LEFT, examined, mutated, untrue
from tests.support.recordings import back_to_back, left_by_a_dead_writer, record, session, until, with_phases
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

SEEDS = 60
AT_ONCE = 20


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    batches = list(session(with_phases(back_to_back(120, 50e6)), seed=5))
    place = tmp_path_factory.mktemp("originals")
    return {
        "finished": record(place / "finished.edgetop", batches),
        "left": left_by_a_dead_writer(place / "left.edgetop", until(batches, 5), segment_bytes=6_000),
        "left in one": left_by_a_dead_writer(place / "one.edgetop", until(batches, 5)),
    }


@pytest.mark.parametrize("first", mostly_thorough(range(0, SEEDS, AT_ONCE), 0))
def test_no_damage_is_a_traceback_or_a_loss_that_is_not_so(
    originals: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    damaged_by_seed(originals, tmp_path, monkeypatch, range(first, first + AT_ONCE))


def damaged_by_seed(
    originals: dict[str, Path], place: Path, monkeypatch: pytest.MonkeyPatch, seeds: range, commands: int = 1
) -> None:
    """Each seed is a session with one piece of damage, looked at with as many commands."""
    monkeypatch.chdir(place)
    before = {
        name: examined(shutil.copytree(original, place / f"{name}/edgetop/s.edgetop"), place / name, ())
        for name, original in originals.items()
    }
    for seed in seeds:
        rng = random.Random(seed)
        name = rng.choice(sorted(originals))
        home = place / str(seed)
        folder = shutil.copytree(originals[name], home / "edgetop/s.edgetop")
        damage = mutated(folder, rng, FINISHED if name == "finished" else LEFT)
        print(f"seed {seed}: {damage} of {name}")  # shown where it fails
        found = examined(folder, home, rng.sample(COMMANDS, commands))
        whole = before[name]
        assert whole
        if damage != "table_rows":  # sound rows that another program left out are nobody's loss to know of
            assert not untrue(whole, found), f"seed {seed}, {damage} of {name}: {untrue(whole, found)}; {found}"
        shutil.rmtree(home)
