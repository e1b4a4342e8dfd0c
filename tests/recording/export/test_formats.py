import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from edgetop.recording.columns import SCHEMAS
from edgetop.recording.export.export_formats import FORMATS, TABLES, load
from edgetop.recording.reader import Recording
from edgetop.session.seconds import NS
from tests.support.exports import export


def test_every_format_can_be_loaded():
    assert all(callable(load(name)) for name in FORMATS)


def test_the_tables_are_those_of_the_format():
    assert tuple(SCHEMAS) == TABLES


@pytest.mark.slow
def test_formats_are_listed_without_arrow():
    code = "import sys, edgetop.recording.export.export_formats; print('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_damaged_is_told_and_the_rest_exported(form, recorded, tmp_path):
    (recorded / "readings.parquet").write_bytes(b"PAR1 and nothing else")
    (problem,) = export(recorded, form, tmp_path / "out")
    assert "readings.parquet: is damaged" in problem
    assert (tmp_path / "out").exists()


def rows_in(path: Path) -> dict[str, list[str]]:
    """What an export holds: for each of its files the lines, or the rows of the table; ids and names of files aside."""
    if path.is_dir():
        recording = Recording(path)
        rows = {name: [row for piece in recording.rows(name) for row in map(repr, piece)] for name in TABLES[:3]}
        return rows | {"events": [repr((e.t_ns, e.kind)) for piece in recording.rows("events") for e in piece]}
    if path.read_bytes()[:4] == b"PAR1":
        return {"": list(map(repr, pq.read_table(path).to_pylist()))}
    return {"": path.read_text("utf-8", "replace").splitlines()[1:]}


@pytest.mark.parametrize("form", sorted(set(FORMATS) - {"perfetto"}))
def test_a_session_of_unknown_length_is_exported_whole(form: str, recorded: Path, tmp_path: Path) -> None:
    """A foreign or damaged manifest need not tell the length: the last row does."""
    known, unknown = tmp_path / "known.edgetop", tmp_path / "unknown.edgetop"
    tables = ("inferences",) if form == "csv" else TABLES
    assert export(recorded, form, known, tables=tables) == []
    manifest = json.loads((recorded / "session.json").read_text())
    (recorded / "session.json").write_text(json.dumps({**manifest, "duration_ns": None}))
    assert export(recorded, form, unknown, tables=tables) == []
    assert rows_in(unknown) == rows_in(known)
    assert any(rows_in(unknown).values())


def test_the_last_seconds_of_a_session_of_unknown_length_are_found(recorded: Path) -> None:
    end_ns = Recording(recorded).end_ns
    manifest = json.loads((recorded / "session.json").read_text())
    (recorded / "session.json").write_text(json.dumps({**manifest, "duration_ns": None}))
    assert 0 < end_ns - NS <= Recording(recorded).end_ns <= end_ns + NS
