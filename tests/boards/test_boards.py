"""Captured boards: each folder here with a `tree` is discovered as its `expected.toml` says."""

import json
import os
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import edgetop
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.core_pmus import core_pmus
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.process_table import why_unseen
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap
from edgetop.session.caches import Cache
from edgetop.session.manifest import Board, SensorInfo
from edgetop.session.manifest_codec import to_json
from tests.support.board_rows import wrong_in_page
from tests.support.clocks import ManualClock
from tests.support.sessions import begun

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
BOARDS = sorted(folder.parent.name for folder in HERE.glob("*/tree"))

# What a first read cannot give: a rate needs a second one.
RATES = {"load/cpu", "load/steal"}


@cache
def expected(board: str) -> dict[str, Any]:
    return tomllib.loads((HERE / board / "expected.toml").read_text(encoding="utf-8"))


def told(board: str, table: str) -> set[str]:
    """The ids that a table of the board's expectations lists."""
    return set(expected(board).get(table, {}).get("ids", ()))


def root_of(board: str) -> Root:
    return Root(HERE / board / "tree")


@cache
def sensors_of(board: str) -> dict[str, tuple[SensorInfo, float | Gap]]:
    """Every sensor that is found, with its first value."""
    found = {}
    for source in discover_board(root_of(board)).sources:
        values = read_source(source)
        if isinstance(values, Gap):
            values = [values] * len(source.sensors)
        found.update({info.id: (info, value) for info, value in zip(source.sensors, values, strict=True)})
    return found


def test_there_are_boards() -> None:
    assert BOARDS


@pytest.mark.parametrize("board", BOARDS)
def test_the_board_is_known_for_what_it_is(board: str) -> None:
    fields = dict(expected(board)["board"])
    caches = tuple(Cache(**one) for one in fields.pop("caches", ()))
    assert asdict(read_board(root_of(board))) == asdict(Board(**fields, caches=caches))


def page_rows() -> list[str]:
    page = (Path(edgetop.__file__).parent / "docs/boards.md").read_text(encoding="utf-8")
    tried = page.partition("## What was tried")[2].partition("\n## ")[0]
    return [line for line in tried.splitlines() if line.startswith("| ")]


@pytest.mark.parametrize("board", BOARDS)
def test_the_page_on_boards_lists_what_was_tried(board: str) -> None:
    """The kernel or release of each tree, beside its name."""
    assert wrong_in_page(board, expected(board)["board"], page_rows()) == ""


@pytest.mark.parametrize("tree", ["vm", "vm-loaded"])
@pytest.mark.parametrize(
    ("board", "row", "told"),
    [
        ({"kernel": "6.1"}, "| vm | 6.1 | Debian | `vm`, `vm-loaded` | captured |", ""),
        ({"model": "Pi", "kernel": "6.1"}, "| Pi | 6.1 | Debian | `vm`, `vm-loaded` | captured |", ""),
        ({}, "| vm | - | - | `vm`, `vm-loaded` | captured |", ""),
        ({"kernel": "6.1", "os": "Debian"}, "| vm | 6.1 | Debian | `other` | captured |", "| vm | 6.1 | Debian | `"),
        ({"kernel": "6.1"}, "| Pi | 6.1 | Debian | `vm`, `vm-loaded` | captured |", "begins with 'Pi', not with 'vm'"),
        ({"kernel": "6.1"}, "| vm | 6.2 | Debian | `vm`, `vm-loaded` | captured |", "has '6.2', not its kernel '6.1'"),
        ({"kernel": "6.1"}, "| vm | 6.1 | Debian | `vm`, `vm-loaded` | said |", "ends with 'said'"),
    ],
)
def test_a_row_that_is_missing_or_wrong_is_told(tree: str, board: dict[str, str], row: str, told: str) -> None:
    wrong = wrong_in_page(tree, board, [row])
    assert told in wrong
    assert bool(wrong) is bool(told)


@pytest.mark.parametrize("board", BOARDS)
def test_exactly_the_sensors_that_it_has_are_found_and_read(board: str) -> None:
    values = {sensor: value for sensor, (_, value) in sensors_of(board).items()}
    gaps = {sensor for sensor, value in values.items() if isinstance(value, Gap)}
    assert gaps == RATES | told(board, "rates") | told(board, "gaps")
    # Powers are products of decimal fractions, which the last bit of a float does not hold.
    exact = pytest.approx(expected(board)["sensors"], rel=1e-9, abs=0)
    assert {sensor: value for sensor, value in values.items() if sensor not in gaps} == exact


@pytest.mark.parametrize("board", BOARDS)
def test_the_total_and_its_parts_never_count_twice(board: str) -> None:
    found = sensors_of(board)
    roles = {sensor: info.role for sensor, (info, _) in found.items() if info.role is not None}
    assert roles == expected(board).get("roles", {})
    watts = {sensor: value for sensor, (_, value) in found.items() if not isinstance(value, Gap)}
    parts = sum(watts.get(sensor, 0.0) for sensor, role in roles.items() if role == "part")
    assert all(parts <= watts[sensor] for sensor, role in roles.items() if role == "total" and sensor in watts)


@pytest.mark.parametrize("board", BOARDS)
def test_what_its_cpus_count_is_known(board: str) -> None:
    """Most trees are older than the capture of counters."""
    counted = {pmu.name: [event.name for event in pmu.events] for pmu in core_pmus(root_of(board))}
    assert counted == expected(board).get("counters", {})


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_on_which_processes_are_hidden_is_known(board: str) -> None:
    assert why_unseen(root_of(board)) == expected(board).get("processes", {}).get("unseen")


@pytest.mark.parametrize("board", BOARDS)
def test_what_is_missing_is_told_with_its_reason(board: str) -> None:
    whys = {missing.what: missing.why for missing in discover_board(root_of(board)).missing}
    for what, why in expected(board).get("why", {}).items():
        assert why in whys[what]


@pytest.mark.parametrize("board", BOARDS)
def test_every_power_says_how_far_it_may_be_trusted(board: str) -> None:
    powers = [info for info, _ in sensors_of(board).values() if info.kind == "power"]
    assert all(info.accuracy is not None for info in powers)


@pytest.mark.parametrize("board", BOARDS)
def test_only_the_trips_that_throttle_or_shut_down_are_told(board: str) -> None:
    found = {sensor: dict(info.trips) for sensor, (info, _) in sensors_of(board).items() if info.trips is not None}
    assert found == expected(board)["trips"]


@pytest.mark.parametrize("board", BOARDS)
def test_cooling_devices_that_throttle_are_marked(board: str) -> None:
    found = {sensor for sensor, (info, _) in sensors_of(board).items() if info.throttles}
    assert found == told(board, "throttling")


@pytest.mark.parametrize("board", BOARDS)
def test_what_the_board_cannot_tell_is_said(board: str) -> None:
    assert told(board, "missing") <= {missing.what for missing in discover_board(root_of(board)).missing}


def private_texts(tree: Path) -> set[str]:
    """Serial numbers, host name and machine id of a captured board."""
    names = ("*serial*", "hostname", "machine-id")
    texts = {path.read_text().strip("\0\n ") for name in names for path in tree.rglob(name)}
    lines = (tree / "proc/cpuinfo").read_text().splitlines()
    return texts | {line.partition(":")[2].strip() for line in lines if line.startswith("Serial")}


@pytest.mark.parametrize("board", BOARDS)
def test_nothing_in_the_manifest_identifies_a_single_board(board: str) -> None:
    private = private_texts(HERE / board / "tree")
    sensors = tuple(info for info, _ in sensors_of(board).values())
    manifest = replace(begun(ManualClock(), sensors=sensors), board=read_board(root_of(board)))
    document = json.dumps(to_json(manifest), ensure_ascii=False)
    assert not [text for text in private if text in document]


def test_some_board_has_something_to_keep_quiet_about() -> None:
    """A board that was captured with edgetop has nothing of the kind."""
    assert any(private_texts(HERE / board / "tree") for board in BOARDS)


@pytest.mark.parametrize("board", BOARDS)
def test_the_tree_is_one_that_git_keeps(board: str) -> None:
    """Git knows files and links; it drops empty folders, pipes and modes."""
    tree = HERE / board / "tree"
    for folder, folders, files in os.walk(tree):
        assert folders or files, f"{folder} is empty"
        for path in (Path(folder) / name for name in (*folders, *files)):
            assert path.is_symlink() or path.is_dir() or path.is_file()
            if path.is_symlink():
                assert not path.readlink().is_absolute()
                assert path.resolve(strict=True).is_relative_to(tree)


@pytest.mark.parametrize("board", BOARDS)
def test_the_links_of_the_tree_are_links(board: str) -> None:
    thermal = HERE / board / "tree/sys/class/thermal"
    links = list(thermal.glob("thermal_zone*/cdev[0-9]"))
    assert len(links) == len(list(thermal.glob("thermal_zone*/cdev[0-9]_trip_point")))
    assert all(path.is_symlink() for path in links)
