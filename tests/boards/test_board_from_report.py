"""A board that somebody sent becomes one of tests/boards, with the values that edgetop reads there."""

import sys
from pathlib import Path

import pytest

from edgetop.sensors.capture.collect import collect, pack
from edgetop.sensors.root import Root
from tests.support.board_from_report import BOARDS, lost_sensors, make_board

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def expected(folder: Path) -> dict:
    document = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    for table in document.values():
        if "ids" in table:
            table["ids"] = sorted(table["ids"])
    return document


def ids(document: dict, table: str) -> set[str]:
    return set(document.get(table, {}).get("ids", ()))


@pytest.mark.parametrize("board", ["raspberry-pi-5", "orin-nano-jp6", "rk3588-cm3588", "virtual-machine"])
def test_a_known_board_gets_the_values_that_were_written_by_hand(board, tmp_path):
    (folder,) = make_board(pack(collect(Root(BOARDS / board / "tree"))), "again", tmp_path)
    made, known = expected(folder), expected(BOARDS / board)
    assert made["board"] == {name: value for name, value in known["board"].items() if value}
    assert made["sensors"] == pytest.approx(known["sensors"], rel=1e-9)
    assert made.get("roles", {}) == known.get("roles", {})
    assert made.get("trips", {}) == known.get("trips", {})
    assert made.get("throttling") == known.get("throttling")
    assert ids(made, "gaps") | ids(made, "rates") == ids(known, "gaps") | ids(known, "rates")
    assert ids(known, "missing") <= ids(made, "missing")


def test_a_board_under_load_is_a_board_of_its_own(tmp_path):
    cool, hot = (collect(Root(BOARDS / name / "tree")) for name in ("raspberry-pi-4", "raspberry-pi-4-hot"))
    folders = make_board(pack(cool, hot), "pi", tmp_path)
    assert [folder.name for folder in folders] == ["pi", "pi-loaded"]
    assert expected(folders[1])["sensors"]["throttle/thermal"] == 1
    assert expected(folders[0])["sensors"]["throttle/thermal"] == 0


def test_a_board_that_is_there_is_not_written_over(tmp_path):
    packed = pack(collect(Root(BOARDS / "virtual-machine/tree")))
    make_board(packed, "vm", tmp_path)
    with pytest.raises(FileExistsError):
        make_board(packed, "vm", tmp_path)


def test_a_sensor_that_the_tree_lost_is_named():
    report = b'{"sensors": {"sensors": [{"id": "temp/gone", "value": 1.0}, {"id": "mem/system-swap", "value": 0.0}]}}'
    assert lost_sensors(report, BOARDS / "virtual-machine/tree") == ["temp/gone"]
