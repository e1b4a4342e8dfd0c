"""A captured board for tests/boards, from the file of `edgetop board-report` or `edgetop sensors --capture`.

    python -m tests.support.board_from_report FILE NAME              a new board
    python -m tests.support.board_from_report FILE NAME --replace    a newer capture of a board that is there

It writes tests/boards/NAME with the tree and `expected.toml`, and NAME-loaded if the board was captured under load too.
A capture under load that is incomplete is left out, and one at rest is refused. What is expected is what edgetop reads
there now: compare it with the board's documents before you commit it. The script prints each sensor that had a value on
the board and is not in a tree, or has no value there. `--replace` keeps the tables that are written by hand and prints
what changes in `expected.toml` and in the list of files.
"""

import argparse
import difflib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
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
from tests.support.board_rows import wrong_in_page
from tests.support.throttled import causes, view

PAGE = Path(__file__).parents[2] / "edgetop/docs/boards.md"
BOARDS = Path(__file__).parents[1] / "boards"
ALWAYS = {"load/cpu", "load/steal"}  # rates of every board, which test_boards.py knows
BY_HAND = ("why", "processes")  # tables of `expected.toml` that no tree tells
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
    if throttled := causes(view(root)):
        yield from ("", "[throttled]", *_pairs({"causes": throttled}))
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
            raise FileExistsError(f"{boards / f'{name}{suffix}'} exists: choose another name, or add --replace")
    made = []
    for capture, suffix in ((unpacked.capture, ""), (loaded, "-loaded")):
        if capture is not None:
            folder = boards / f"{name}{suffix}"
            folder.mkdir(parents=True)
            write_tree(capture, folder / "tree")
            (folder / "expected.toml").write_text("\n".join(expected_lines(folder / "tree")) + "\n", encoding="utf-8")
            made.append(folder)
    return made


def replace_board(packed: bytes, name: str, boards: Path = BOARDS) -> tuple[list[Path], list[str]]:
    """Replace a board by that of an archive. Return its folders, and lines that say what has changed.

    The tables of `expected.toml` that are written by hand stay. The board under load is replaced if the archive has it,
    and else it stays as it is. Raises ValueError, and then nothing has changed.
    """
    if not (boards / name / "expected.toml").is_file():
        raise ValueError(f"{boards / name} is not there: leave out --replace")
    folders, changes = [], []
    with tempfile.TemporaryDirectory(dir=boards, prefix=".new-") as place:
        for made in make_board(packed, name, Path(place)):
            folder = boards / made.name
            if folder.exists():
                _keep_tables(folder / "expected.toml", made / "expected.toml")
                changes += _changes(folder, made)
                shutil.rmtree(folder)
            else:
                changes.append(f"{made.name}: new")
            made.rename(folder)
            folders.append(folder)
    if (boards / f"{name}-loaded").exists() and len(folders) == 1:
        changes.append(f"{name}-loaded: left as it is: the file has no whole capture under load")
    return folders, changes


def _keep_tables(old: Path, new: Path) -> None:
    """Append the tables that are written by hand, and the comments before the first table, to a new `expected.toml`."""
    parts = re.split(r"(?m)^(?=\[)", old.read_text(encoding="utf-8"))
    kept = [part for part in parts[1:] if part[1:].partition("]")[0] in BY_HAND]
    text = parts[0] + new.read_text(encoding="utf-8")
    new.write_text("\n".join([text, *(part.rstrip() + "\n" for part in kept)]), encoding="utf-8")


def _changes(old: Path, new: Path) -> list[str]:
    """Return what differs between two folders of a board: lines of `expected.toml` as a diff, then names of files."""
    texts = [(folder / "expected.toml").read_text(encoding="utf-8").splitlines() for folder in (old, new)]
    lines = list(difflib.unified_diff(*texts, f"{old.name}, before", f"{old.name}, now", lineterm="", n=1))
    before, now = (
        {str(path.relative_to(folder / "tree")) for path in (folder / "tree").rglob("*") if not path.is_dir()}
        for folder in (old, new)
    )
    lines += [f"{old.name}: file gone: {path}" for path in sorted(before - now)]
    lines += [f"{old.name}: file new: {path}" for path in sorted(now - before)]
    files = [one for one in sorted(before & now) if not (new / "tree" / one).is_symlink()]
    if count := sum((old / "tree" / one).read_bytes() != (new / "tree" / one).read_bytes() for one in files):
        lines.append(f"{old.name}: {count} of {len(files)} files have other contents")
    return lines or [f"{old.name}: the same sensors, values and files"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    parser.add_argument("--boards", type=Path, default=BOARDS, help="folder of the boards")
    parser.add_argument("--replace", action="store_true", help="replace a board that is there, and print what changes")
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
        folders, changes, unpacked = [], [], unpack(packed)
        if asked.replace:
            folders, changes = replace_board(packed, asked.name, asked.boards)
        else:
            folders = make_board(packed, asked.name, asked.boards)
    except FileNotFoundError:
        print(f"{asked.file}: no such file: give the file that edgetop board-report wrote", file=sys.stderr)
        return 1
    except (ValueError, OSError) as error:
        print(f"{asked.file}: {error}", file=sys.stderr)
        return 1
    if why := lacking(unpacked):
        print(f"{asked.name}-loaded: left out, because its capture is incomplete: {why}", file=sys.stderr)
    for line in (*_lines_of(folders, unpacked), *changes, *(_missing_row(folders) if asked.boards == BOARDS else ())):
        print(line)
    return 0


def _lines_of(folders: Sequence[Path], unpacked: Unpacked) -> Iterator[str]:
    """Yield the folder of each board that was written, and what its tree has lost."""
    for folder, key in zip(folders, ("sensors", "sensors_loaded"), strict=False):
        yield str(folder)
        if key == "sensors_loaded" and unpacked.loaded:
            yield from (f"only under load: {one}" for one in unpacked.loaded.notes if one not in unpacked.capture.notes)
        if unpacked.report:
            yield from lost_sensors(unpacked.report, folder / "tree", key)


def _missing_row(folders: Sequence[Path]) -> Iterator[str]:
    """Yield what the table of edgetop/docs/boards.md lacks, with a row of all trees of the board."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    boards = {folder.name: asdict(read_board(Root(folder / "tree"))) for folder in folders}
    if wrong := [text for name, board in boards.items() if (text := wrong_in_page(name, board, rows))]:
        first = folders[0].name if f"`{folders[0].name}` |" in wrong[0] else folders[-1].name
        yield wrong[0].replace(f"`{first}` |", f"{', '.join(f'`{name}`' for name in boards)} |")


if __name__ == "__main__":
    sys.exit(main())
