import csv
import json

import pyarrow.parquet as pq
import pytest

from edgetop.recording.columns import SCHEMAS
from edgetop.recording.rows import Span
from edgetop.session.event_codec import read_event
from edgetop.session.seconds import NS
from tests.support.exports import export, put_operators
from tests.support.recordings import back_to_back, record, session

HOSTILE = 'a,"b"\r\n\'; =cmd()|x \x1b]0;owned\x07[bold red]\u202e\\n'


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_each_table_is_a_file_beside_the_manifest(recorded, tmp_path):
    export(recorded, "csv", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"session.json", *(f"{n}.csv" for n in SCHEMAS)}
    assert json.loads((tmp_path / "out/session.json").read_text()) == json.loads(
        (recorded / "session.json").read_text()
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_row_and_column_of_a_table_is_there(name, recorded, tmp_path):
    export(recorded, "csv", tmp_path / "out", tables=(name,))
    table = pq.read_table(recorded / f"{name}.parquet")
    rows = rows_of(tmp_path / "out")
    assert [int(row["t_ns"]) for row in rows] == table["t_ns"].to_pylist()
    assert (tmp_path / "out").read_text().splitlines()[0].replace('"', "").split(",") == table.column_names


def test_an_unknown_value_is_an_empty_cell_and_a_list_is_json(recorded, tmp_path):
    export(recorded, "csv", tmp_path / "out", tables=("seconds",))
    table = pq.read_table(recorded / "seconds.parquet").to_pylist()
    rows = rows_of(tmp_path / "out")
    assert rows[0]["p50_ns"] == rows[0]["deadline_misses"] == ""
    assert [json.loads(row["bucket"]) for row in rows] == [row["bucket"] for row in table]


def test_hostile_names_come_back_as_they_were(tmp_path):
    first, *rest = session(back_to_back(3, 20e6))
    told = read_event(5, "log", "info", HOSTILE, HOSTILE, {"name": HOSTILE})
    folder = record(tmp_path / "s.edgetop", [first, type(first)(5, events=(told,)), *rest])
    put_operators(folder, [(1, 0, 0, HOSTILE, HOSTILE, "CPU", 1, 5, None, 7)])
    export(folder, "csv", tmp_path / "events", tables=("events",))
    row = next(row for row in rows_of(tmp_path / "events") if row["t_ns"] == "5")
    assert (row["source"], row["message"], json.loads(row["data"])) == (HOSTILE, HOSTILE, {"name": HOSTILE})
    export(folder, "csv", tmp_path / "operators", tables=("operators",))
    (row,) = rows_of(tmp_path / "operators")
    assert (row["name"], row["op_type"], row["flops"], row["bytes"]) == (HOSTILE, HOSTILE, "", "7")


def test_a_cut_has_the_rows_of_its_span_in_session_time(recorded, tmp_path):
    export(recorded, "csv", tmp_path / "out", Span(2 * NS, 3 * NS), ("inferences",))
    times = [int(row["t_ns"]) for row in rows_of(tmp_path / "out")]
    assert times == [t for t in pq.read_table(recorded / "inferences.parquet")["t_ns"].to_pylist() if t // NS == 2]
