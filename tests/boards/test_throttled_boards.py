"""Captured boards that were throttled when they were captured: each says so, and why; the others say nothing of it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgetop.analysis.slowdowns.throttles import Throttles, ThrottlesView
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, Source
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from tests.support.sessions import make_manifest, make_readings, phase_event

HERE = Path(__file__).parent
CAUSES = {
    "raspberry-pi-4-hot": ["thermal"],
    "raspberry-pi-4-under-voltage": ["under-voltage"],
    "rk3588-mainline-hot": ["thermal"],
    "coral-dev-board-hot": ["thermal"],
    "intel-laptop-hot": ["thermal"],
    "orin-nano-jp6-over-current": ["thermal"],
}
COUNTERS = {
    "agx-orin": ("oc3_event_cnt", ["power-cap"]),
    "intel-laptop": ("package_throttle_count", ["thermal"]),
}
QUIET = sorted({path.parent.name for path in HERE.glob("*/tree")} - set(CAUSES))


def read(sources: Sequence[Source], second: float) -> list[tuple[int, int, float]]:
    rows, place = [], 0
    for source in sources:
        values = read_source(source)
        for number in range(len(source.sensors)):
            value = values if isinstance(values, Gap) else values[number]
            if not isinstance(value, Gap):
                rows.append((round(second * NS), place, float(value)))
            place += 1
    return rows


def view(root: Root, times: int = 3) -> ThrottlesView:
    """After so many reads a second apart."""
    sources = discover_board(root).sources
    sensors = [info for source in sources for info in source.sensors]
    rows = [row for second in range(1, times + 1) for row in read(sources, second)]
    return folded(root, sensors, rows, times)


def folded(root: Root, sensors: Sequence[object], rows: list[tuple[int, int, float]], until_s: float) -> ThrottlesView:
    fold = Throttles()
    manifest = make_manifest(*sensors, board=read_board(root))  # type: ignore[arg-type]
    events = (phase_event(0, "measure"),)
    fold.fold(Batch(until_ns=round(until_s * NS), manifest=manifest, readings=make_readings(*rows), events=events))
    return fold.view()


def causes(found: ThrottlesView) -> list[str]:
    return [span.cause for span in found.spans if span.end_ns is None]


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
