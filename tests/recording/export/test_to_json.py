import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from edgetop.recording.export.export_formats import TABLES
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from tests.support.exports import export, put_operators
from tests.support.recordings import back_to_back, record, session

HOSTILE = 'a,"b"\r\n \x1b]0;owned\x07[bold red]\u202e\u2028\\'


def refuse(name):
    raise AssertionError(f"{name} is no JSON")


def lines_of(path):
    data = path.read_bytes()
    assert data.isascii()
    assert data.endswith(b"\n")
    return [json.loads(line, parse_constant=refuse) for line in data.splitlines()]


def test_the_manifest_comes_first_and_then_every_row(recorded, tmp_path):
    put_operators(
        recorded, [(1, 0, 0, "conv", "Conv", "CPU", 2, 5, None, 7), (1, 0, 1, "add", "Add", "CPU", 2, 5, 9, 7)]
    )
    export(recorded, "json", tmp_path / "out")
    head, *rows = lines_of(tmp_path / "out")
    assert head == {"table": "session", **json.loads((recorded / "session.json").read_text())}
    for name in TABLES:
        written = [row for row in rows if row["table"] == name]
        expected = [{"table": name, **row} for row in pq.read_table(recorded / f"{name}.parquet").to_pylist()]
        if name == "events":
            expected = [{**row, "data": json.loads(row["data"])} for row in expected]
        assert written == expected
    assert len(rows) > 700


def test_hostile_text_is_escaped_and_comes_back_as_it_was(tmp_path):
    first, *rest = session(back_to_back(3, 20e6))
    told = read_event(5, "log", "info", HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    first = replace(first, manifest=replace(first.manifest, labels={HOSTILE: HOSTILE}))
    folder = record(tmp_path / "s.edgetop", [first, Batch(5, events=(told,)), *rest])
    export(folder, "json", tmp_path / "out")
    row = next(row for row in lines_of(tmp_path / "out") if row["table"] == "events" and row["t_ns"] == 5)
    assert (row["source"], row["message"], row["data"]) == (HOSTILE, HOSTILE, {HOSTILE: HOSTILE})


@pytest.mark.parametrize(
    ("data", "exported"),
    [
        ("{}", {}),
        ('{"a": NaN, "b": 1e999, "c": 1.5}', {"a": None, "b": None, "c": 1.5}),
        ('{"a": {"b": 1}, "c": [1], "d": null}', {"a": {"b": 1}, "c": [1], "d": None}),
        ('{"a": [NaN], "b": {"c": 1e999}}', {"a": None, "b": None}),
        ("[" * 200_000, {}),
        ('{"a": ' * 200_000, {}),
        ("not JSON", {}),
        ("[1]", {}),
    ],
)
def test_data_of_an_event_that_is_no_plain_object_stays_json(data, exported, recorded, tmp_path):
    table = pq.read_table(recorded / "events.parquet")
    place = table.schema.get_field_index("data")
    pq.write_table(table.set_column(place, "data", [[data] * len(table)]), recorded / "events.parquet")
    assert export(recorded, "json", tmp_path / "out", tables=("events",)) == []
    assert {json.dumps(row["data"]) for row in lines_of(tmp_path / "out")[1:]} == {json.dumps(exported)}
