"""One recorded session for all formats: 600 inferences of 20 ms, three sensors, events."""

import shutil
from pathlib import Path

import pytest

from tests.support.recordings import back_to_back, late, record, session, with_phases


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "s.edgetop"
    return record(folder, list(session(with_phases(back_to_back(600, 20e6)), seed=5)))


@pytest.fixture
def paced(tmp_path: Path) -> Path:
    """A session under a rate, in which inferences wait."""
    inferences = late(with_phases(back_to_back(300, 20e6)))
    return record(tmp_path / "paced.edgetop", list(session(inferences, rate_hz=50.0)))


@pytest.fixture
def recorded(tmp_path: Path, original: Path) -> Path:
    return shutil.copytree(original, tmp_path / "s.edgetop")
