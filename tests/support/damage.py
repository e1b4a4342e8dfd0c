"""Damage of every kind to a recorded session, by seed, and what edgetop then says of it."""

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.analysis.analysis import Analysis
from edgetop.cli.command_group import edgetop
from edgetop.errors import EdgetopError
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.reader import Recording
from edgetop.session.manifest import Lost
from tests.support.clocks import ManualClock
from tests.support.recordings import rewritten

TABLES = ("inferences", "readings", "operators", "events", "seconds")
ODD: tuple[Any, ...] = (
    10**30, -(10**30), 2**63, 2**63 - 1, -(2**63), 2**62, -1, 0, 1, 1e308, -0.5, float("nan"), float("inf"), True, None,
    "", "text", "\ud800", "\x1b]0;owned\x07", [], {}, [None], [[[]]], {"a": {"b": None}}, "9" * 5_000,
)  # fmt: skip

Damage = Callable[[Path, random.Random], None]


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from _places(item, (*at, key))


def manifest_value(folder: Path, rng: random.Random) -> None:
    """One value of the manifest is another."""
    document = json.loads((folder / "session.json").read_text())
    *way, last = rng.choice(list(_places(document)))
    holder = document
    for key in way:
        holder = holder[key]
    if rng.random() < 0.1 and isinstance(holder, dict):
        del holder[last]
    else:
        holder[last] = rng.choice(ODD)
    (folder / "session.json").write_text(json.dumps(document))


def manifest_bytes(folder: Path, rng: random.Random) -> None:
    _bytes(folder / "session.json", rng)


def _bytes(path: Path, rng: random.Random) -> None:
    """Bits flip, blocks go, the end is missing, or another's lies in the middle."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data)) if data else 0
    kind = rng.choice(("bit", "bit", "bit", "block", "cut", "more", "swap"))
    if kind == "bit" and data:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == "block":
        data[place : place + 512] = bytes(len(data[place : place + 512]))
    elif kind == "cut":
        del data[place:]
    elif kind == "more":
        data[place:place] = rng.randbytes(rng.randrange(1, 600))
    else:
        data[place : place + 64] = data[place : place + 64][::-1]
    rewritten(path, bytes(data))


def flipped_bit(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    rewritten(path, bytes(data))


def table_bytes(folder: Path, rng: random.Random) -> None:
    _bytes(folder / f"{rng.choice(TABLES)}.parquet", rng)


def table_gone(folder: Path, rng: random.Random) -> None:
    (folder / f"{rng.choice(TABLES)}.parquet").unlink()


def table_rows(folder: Path, rng: random.Random) -> None:
    """Other rows, or the same in another order."""
    path = folder / f"{rng.choice(TABLES)}.parquet"
    table = pq.read_table(path)
    places = list(range(len(table)))
    kind = rng.choice(("reversed", "shuffled", "twice", "none", "some"))
    if kind == "reversed":
        places.reverse()
    elif kind == "shuffled":
        rng.shuffle(places)
    elif kind == "twice":
        places += places
    elif kind == "none":
        places = []
    else:
        places = sorted(rng.sample(places, len(places) // 2))
    pq.write_table(table.take(pa.array(places, pa.int64())), path, row_group_size=rng.choice((7, 100, 100_000)))


def table_column(folder: Path, rng: random.Random) -> None:
    """A column is missing, of another type, or holds what it may not."""
    path = folder / f"{rng.choice(TABLES)}.parquet"
    table = pq.read_table(path)
    place = rng.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    kind = rng.choice(("gone", "more", "twice", "type", "null", "some null", "value", "value", "value", "renamed"))
    if kind == "gone":
        table = table.remove_column(place)
    elif kind == "more":
        table = table.append_column("more", pa.array([{"a": 1}] * len(table)))
    elif kind == "twice":
        table = table.append_column(name, column)
    elif kind == "renamed":
        table = table.rename_columns([f"{n}2" if n == name else n for n in table.column_names])
    else:
        table = table.set_column(place, name, _other(column, kind, rng))
    pq.write_table(table, path)


def _other(column: pa.ChunkedArray, kind: str, rng: random.Random) -> pa.Array:
    values = column.to_pylist()
    if kind == "type":
        wanted = rng.choice(
            (pa.string(), pa.float64(), pa.bool_(), pa.binary(), pa.list_(pa.int8()), pa.timestamp("s"))
        )
        try:
            return column.cast(wanted)
        except pa.ArrowException:
            return pa.array([None] * len(values), wanted)
    if kind == "null":
        return pa.nulls(len(values), column.type)
    hit = [rng.random() < 0.2 for _ in values]
    if kind == "some null":
        return pa.array([None if is_hit else value for value, is_hit in zip(values, hit, strict=True)])
    odd = {
        int: (-1, 0, 1, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1), float: (float("nan"), float("inf"), -1e300),
        str: ("", "unheard-of", "\x1b[2J", "x" * 10_000, '{"a": 1e999, "runs": 123456789012345678901234567890}'),
        bool: (True, False), list: ([], [-1], [32_000], [1] * 300),
    }  # fmt: skip
    sample = next((value for value in values if value is not None), 0)
    value = rng.choice(odd[type(sample)])
    mixed = [value if is_hit else v for v, is_hit in zip(values, hit, strict=True)]
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    try:
        return pa.array(mixed, plain)
    except (pa.ArrowException, OverflowError):
        return pa.array(mixed)


def journal_bytes(folder: Path, rng: random.Random) -> None:
    _bytes(rng.choice(sorted(path for path in (folder / "journal").iterdir() if path.stat().st_size)), rng)


def journal_bit(folder: Path, rng: random.Random) -> None:
    flipped_bit(rng.choice(sorted((folder / "journal").glob("*.journal"))), rng)


def journal_file(folder: Path, rng: random.Random) -> None:
    """One is missing, empty, or none of ours."""
    path = rng.choice(sorted((folder / "journal").iterdir()))
    kind = rng.choice(("gone", "empty", "garbage", "link"))
    path.unlink()
    if kind == "empty":
        path.touch()
    elif kind == "garbage":
        path.write_bytes(rng.randbytes(3_000))
    elif kind == "link":
        path.symlink_to("/dev/zero")


FINISHED: tuple[Damage, ...] = (
    manifest_value, manifest_value, manifest_bytes, table_bytes, table_gone, table_rows, table_column, table_column,
)  # fmt: skip
LEFT: tuple[Damage, ...] = (journal_bit, journal_bit, journal_bytes, journal_file, manifest_value)


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("report",), ("sessions",), ("export", "csv"), ("export", "json"), ("export", "parquet"), ("export", "perfetto"),
    ("export", "session"), ("replay",),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What edgetop made of a damaged session."""

    counted: int  # inferences by its seconds, errors included
    single: int
    by_second: dict[int, int]  # counted, by the beginning of the second in ns
    lost: Lost | None
    told: bool  # a line says that something is wrong


def examined(folder: Path, home: Path, commands: Collection[tuple[str, ...]] = COMMANDS) -> Found | None:
    """By `report --json` and these; None: it is refused, in a line. Raises what is none of edgetop's errors."""
    os.environ["XDG_STATE_HOME"] = str(home)
    text, said = run_here("report", str(folder), "--json")
    for command, *form in commands:
        if command == "replay":
            _replayed(folder)
        elif command == "sessions":
            listed, _ = run_here("sessions", "--json")
            assert str(folder) in {session["path"] for session in json.loads(listed)}
        elif command == "report":
            run_here("report", str(folder))
        else:
            run_here("export", str(folder), "--to", *form, "-o", str(home / "exported"), "--force")
    if not text:
        assert said, "refused without a word"
        return None
    document = json.loads(text, parse_constant=_refuse)
    lost = Lost(**document["lost"]) if document["lost"] else None
    whole = list(Recording(folder).play(inferences=True))
    counted = sum(int(b.seconds.rows["count"].sum() + b.seconds.rows["errors"].sum()) for b in whole)
    by_second: Counter[int] = Counter()
    for batch in whole:
        for row in batch.seconds.rows:
            by_second[int(row["t_ns"])] += int(row["count"] + row["errors"])
    return Found(counted, sum(len(b.inferences) for b in whole), dict(by_second), lost, bool(said))


def untrue(before: Found, after: Found | None) -> str:
    """What is wrong with what is said of losses, where `before` is the session without damage; "": nothing."""
    if after is None:
        return ""
    missing = before.single - after.single
    uncounted = before.counted - after.counted
    if (missing > 0 or uncounted > 0) and after.lost is None:
        return f"{missing} inferences, {uncounted} of the seconds are missing, and nothing is said to be lost"
    known = after.lost.inferences if after.lost else 0
    if known and known > max(missing, uncounted, 0):
        return f"{missing} inferences, {uncounted} of the seconds are missing, and {known} are said to be lost"
    if known is not None and known < missing:
        return f"{missing} inferences are missing, and {known} are said to be lost"
    return _untrue_seconds(before, after)


def _untrue_seconds(before: Found, after: Found) -> str:
    """What is lost is said as a number of seconds at most."""
    short_s = sum(after.by_second.get(t_ns, 0) < count for t_ns, count in before.by_second.items())
    seconds = after.lost.seconds if after.lost else 0.0
    if seconds is not None and short_s > seconds + 1:  # a second may be cut by where a batch ends
        return f"{short_s} seconds lack inferences, and at most {seconds} s are said to be lost"
    return ""


def _refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def run_here(*arguments: str) -> tuple[str, str]:
    """Standard output, and the error in a line, of a command in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            edgetop.main(list(arguments), prog_name="edgetop", standalone_mode=False)
        except (EdgetopError, click.ClickException) as error:
            return out.getvalue(), str(error)
    return out.getvalue(), ""


def _replayed(folder: Path) -> None:
    """It is gone about in."""
    try:
        feed, analysis = ReplayFeed(Recording(folder), ManualClock()), Analysis()
    except EdgetopError:
        return
    for t_ns in (0, feed.transport.end_ns, feed.transport.end_ns // 2):
        feed.seek(t_ns)
        batch = feed.read()
        assert batch is not None
        analysis.fold(batch)
        analysis.view(None).freeze()


def mutated(folder: Path, rng: random.Random, kinds: tuple[Damage, ...]) -> str:
    """The name of what was done to it."""
    damage = rng.choice(kinds)
    damage(folder, rng)
    return damage.__name__
