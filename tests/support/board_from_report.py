"""A captured board for tests/boards, from the file of `edgetop board-report` or `edgetop sensors --capture`.

    python -m tests.support.board_from_report FILE NAME

It writes tests/boards/NAME with the tree and `expected.toml`, and NAME-loaded if the board was captured under load too.
A capture under load that is incomplete is left out, and one at rest is refused. What is expected is what edgetop reads
there now: compare it with the board's documents before you commit it. The script prints each sensor that had a value on
the board and is not in a tree, or has no value there.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from edgetop.files import read_file
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.capture.collect import CUT, Capture
from edgetop.sensors.capture.unpack import MAX_ARCHIVE_BYTES, Unpacked, unpack
from edgetop.sensors.core_pmus import core_pmus
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap

BOARDS = Path(__file__).parents[1] / "boards"
ALWAYS = {"load/cpu", "load/steal"}  # rates of every board, which test_boards.py knows
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
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
    if counters := {pmu.name: [event.name for event in pmu.events] for pmu in core_pmus(root)}:
        yield from ("", "[counters]", *_pairs(counters))


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


def lost_sensors(report: bytes, tree: Path, key: str = "sensors") -> list[str]:
    """Return a line for each sensor that had a value on the board, and is not in the tree or has no value there.

    Each sensor of the tree is read twice, because a rate has no value at first. `key` is the part of the report with
    the board's sensors: "sensors", or "sensors_loaded" of the board under load.
    """
    live = {one["id"] for one in (json.loads(report)[key] or {"sensors": ()})["sensors"] if one["value"] is not None}
    read = second_values(Root(tree))
    return [
        *(f"not in the tree: {one}" for one in sorted(live - read.keys())),
        *(
            f"no value in the tree: {one} ({value.reason})"
            for one, value in sorted(read.items())
            if isinstance(value, Gap) and one in live - ALWAYS
        ),
    ]


def second_values(root: Root) -> dict[str, float | Gap]:
    """Return what each sensor of a board gives when it is read a second time, by its id."""
    found: dict[str, float | Gap] = {}
    for source in discover_board(root).sources:
        read_source(source)
        values = read_source(source)
        found.update(
            zip(
                (info.id for info in source.sensors),
                [values] * len(source.sensors) if isinstance(values, Gap) else values,
                strict=True,
            )
        )
    return found


def lacking(unpacked: Unpacked) -> str:
    """Return why the capture under load is incomplete, or "" if it is whole or there is none."""
    idle, loaded = unpacked.capture, unpacked.loaded
    if loaded is None:
        return ""
    if loaded.is_cut:
        return next(note for note in loaded.notes if note.endswith(CUT))
    count = len(idle.files.keys() - loaded.files.keys())
    # Archives of edgetop 0.1.0 say nothing of a cut.
    return "" if loaded.notes or not count else f"{count} of {len(idle.files)} files are missing"


def make_board(packed: bytes, name: str, boards: Path = BOARDS) -> list[Path]:
    """Write the boards of an archive and return their folders. An incomplete capture under load is left out.

    Raises ValueError, also if the capture at rest is incomplete, and FileExistsError if a folder exists.
    """
    unpacked = unpack(packed)
    if unpacked.capture.is_cut or not unpacked.capture.files:
        raise ValueError(f"the capture is incomplete: {'; '.join(unpacked.capture.notes) or 'it has no files'}")
    loaded = None if lacking(unpacked) else unpacked.loaded
    for suffix in ("", "-loaded") if loaded else ("",):
        if (boards / f"{name}{suffix}").exists():
            raise FileExistsError(f"{boards / f'{name}{suffix}'} exists: choose another name")
    made = []
    for capture, suffix in ((unpacked.capture, ""), (loaded, "-loaded")):
        if capture is not None:
            folder = boards / f"{name}{suffix}"
            folder.mkdir(parents=True)
            write_tree(capture, folder / "tree")
            (folder / "expected.toml").write_text("\n".join(expected_lines(folder / "tree")) + "\n", encoding="utf-8")
            made.append(folder)
    return made


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    parser.add_argument("--boards", type=Path, default=BOARDS, help="folder of the boards")
    asked = parser.parse_args(arguments)
    if not _NAME.fullmatch(asked.name):
        print(
            f"{asked.name!r}: not a name for a folder of tests/boards: use lower-case letters, digits and -, such as"
            " raspberry-pi-5",
            file=sys.stderr,
        )
        return 1
    try:
        packed = read_file(asked.file, MAX_ARCHIVE_BYTES)
        folders, unpacked = make_board(packed, asked.name, asked.boards), unpack(packed)
    except FileNotFoundError:
        print(f"{asked.file}: no such file: give the file that edgetop board-report wrote", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"{asked.file}: {error}", file=sys.stderr)
        return 1
    if why := lacking(unpacked):
        print(f"{asked.name}-loaded: left out, because its capture is incomplete: {why}", file=sys.stderr)
    for folder, key in zip(folders, ("sensors", "sensors_loaded"), strict=False):
        print(folder)
        if key == "sensors_loaded" and unpacked.loaded:
            for note in unpacked.loaded.notes:
                if note not in unpacked.capture.notes:
                    print(f"only under load: {note}")
        for line in lost_sensors(unpacked.report, folder / "tree", key) if unpacked.report else ():
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
