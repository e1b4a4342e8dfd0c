"""Captured boards that were throttled when they were captured: each says so, and why; the others say nothing of it."""

import shutil
import sys
from pathlib import Path

import pytest

from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from tests.support.throttled import causes, folded, read, view

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
CAUSES = {
    path.parent.name: told["causes"]
    for path in sorted(HERE.glob("*/expected.toml"))
    if (told := tomllib.loads(path.read_text(encoding="utf-8")).get("throttled"))
}
COUNTERS = {
    "agx-orin": ("oc3_event_cnt", ["power-cap"]),
    "intel-laptop": ("package_throttle_count", ["thermal"]),
}
QUIET = sorted({path.parent.name for path in HERE.glob("*/tree")} - set(CAUSES))


def test_some_boards_are_throttled() -> None:
    assert len(CAUSES) >= 6


@pytest.mark.parametrize("board", CAUSES)
def test_a_board_that_is_throttled_says_so_and_why(board: str) -> None:
    found = view(Root(HERE / board / "tree"))
    assert causes(found) == CAUSES[board]
    assert found.now is not None
    assert found.measured_total == 1


@pytest.mark.parametrize("board", COUNTERS)
def test_one_whose_counters_go_on_counting_says_so(board: str, tmp_path: Path) -> None:
    counter, expected = COUNTERS[board]
    shutil.copytree(HERE / board / "tree", tmp_path / "tree", symlinks=True)
    root = Root(tmp_path / "tree")
    sources = discover_board(root).sources
    sensors = [info for source in sources for info in source.sensors]
    rows = read(sources, 1)
    assert causes(folded(root, sensors, rows, 1)) == []
    files = [path for path in (tmp_path / "tree").rglob(counter) if not path.is_symlink()]
    assert files
    for second in (2, 4):
        for file in files:
            file.write_text(f"{int(file.read_text()) + 5_000}\n")
        rows += read(sources, second)
    found = folded(root, sensors, rows, 4)
    assert causes(found) == expected
    rows += [row for second in (6, 8, 10) for row in read(sources, second)]
    assert causes(folded(root, sensors, rows, 10)) == []


@pytest.mark.parametrize("board", QUIET)
def test_any_other_board_says_nothing_of_it(board: str) -> None:
    assert view(Root(HERE / board / "tree")).spans == ()
