"""A captured board for tests/boards, from the file of `edgetop board-report` or `edgetop sensors --capture`.

    python -m tests.support.board_from_report FILE NAME

It writes tests/boards/NAME with the tree and `expected.toml`, and NAME-loaded if the board was captured under load too.
What is expected is what edgetop reads there now: compare it with the board's documents before you commit it. It prints
each sensor that the board had and the tree does not.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from edgetop.files import read_file
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.capture.collect import Capture
from edgetop.sensors.capture.unpack import MAX_ARCHIVE_BYTES, unpack
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap

BOARDS = Path(__file__).parents[1] / "boards"
ALWAYS = {"load/cpu", "load/steal"}  # rates of every board, which test_boards.py knows
RATES = ("rate/", "net/", "disk/", "pressure/", "throttle/over-current", "throttle/under-voltage")


def write_tree(capture: Capture, tree: Path) -> None:
    """Write a capture as files and links. Raises FileExistsError."""
    for path, content in capture.files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        with (tree / path).open("xb") as file:
            file.write(content)
    for path, target in capture.links.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).symlink_to(target)


def expected_lines(tree: Path) -> Iterator[str]:
    """Yield `expected.toml` of a tree: what edgetop reads there."""
    root = Root(tree)
    found = discover_board(root)
    infos, values, gaps = [], {}, set()
    for source in found.sources:
        read = read_source(source)
        infos += source.sensors
        for info, value in zip(
            source.sensors, [read] * len(source.sensors) if isinstance(read, Gap) else read, strict=True
        ):
            if isinstance(value, Gap):
                gaps.add(info.id)
            else:
                values[info.id] = value
    rates = {one for one in gaps - ALWAYS if one.startswith(RATES)}
    yield from (
        "[board]",
        *_pairs({name: value for name, value in asdict(read_board(root)).items() if value not in (None, False, ())}),
    )
    yield from ("", "[sensors]", *_pairs(values))
    yield from _ids("gaps", gaps - rates - ALWAYS)
    yield from _ids("rates", rates)
    yield from _ids("missing", [missing.what for missing in found.missing])
    yield from ("", "[trips]", *_trips({info.id: dict(info.trips) for info in infos if info.trips is not None}))
    yield from _ids("throttling", [info.id for info in infos if info.throttles])
    yield from ("", "[roles]", *_pairs({info.id: info.role for info in infos if info.role is not None}))


def _pairs(table: Mapping[str, object]) -> Iterator[str]:
    for name, value in table.items():
        text = json.dumps(value).replace('": ', '" = ')  # tables within a list are written like this in TOML
        yield f"{json.dumps(name) if '/' in name else name} = {text}"


def _trips(trips: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for sensor, of in trips.items():
        yield f"{json.dumps(sensor)} = {{ {', '.join(f'{json.dumps(name)} = {value}' for name, value in of.items())} }}"


def _ids(table: str, ids: object) -> Iterator[str]:
    if names := sorted(ids):
        yield from ("", f"[{table}]", "ids = [", *(f"    {json.dumps(name)}," for name in names), "]")


def lost_sensors(report: bytes, tree: Path) -> list[str]:
    """Return the sensors that had a value on the board and are not in the tree."""
    live = {one["id"] for one in json.loads(report)["sensors"]["sensors"] if one["value"] is not None}
    return sorted(live - {info.id for source in discover_board(Root(tree)).sources for info in source.sensors})


def make_board(packed: bytes, name: str, boards: Path = BOARDS) -> list[Path]:
    """Write the boards of an archive and return their folders. Raises ValueError and FileExistsError."""
    unpacked = unpack(packed)
    made = []
    for capture, suffix in ((unpacked.capture, ""), (unpacked.loaded, "-loaded")):
        if capture is not None and capture.files:
            folder = boards / f"{name}{suffix}"
            folder.mkdir(parents=True)
            write_tree(capture, folder / "tree")
            (folder / "expected.toml").write_text("\n".join(expected_lines(folder / "tree")) + "\n", encoding="utf-8")
            made.append(folder)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    asked = parser.parse_args()
    packed = read_file(asked.file, MAX_ARCHIVE_BYTES)
    for folder in make_board(packed, asked.name):
        print(folder)
    report = unpack(packed).report
    for sensor in lost_sensors(report, BOARDS / asked.name / "tree") if report else ():
        print(f"not in the tree: {sensor}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
