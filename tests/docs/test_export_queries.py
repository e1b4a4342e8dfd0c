"""Every one-liner of `edgetop help export` runs, over a session and a folder of them, as it stands there."""

import shlex
import shutil
from importlib import resources
from pathlib import Path

import duckdb
import pytest

from edgetop.recording.columns import SCHEMAS
from tests.support.exports import export
from tests.support.recordings import back_to_back, record, session, with_phases

TOPIC = resources.files("edgetop").joinpath("docs/export.md").read_text(encoding="utf-8")
LINES = [line.strip() for line in TOPIC.splitlines() if line.startswith(("    duckdb -c", "    python3 -c"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """`soak-1`, its wide table, and two other sessions: one of this version, one of the first."""
    folder = tmp_path_factory.mktemp("sessions")
    for name, seed in (("soak-1", 1), ("soak-2", 2)):
        record(folder / f"{name}.edgetop", list(session(with_phases(back_to_back(400, 20e6, seed)), seed)))
    shutil.copytree(Path(__file__).parents[1] / "recordings/v1/first.edgetop", folder / "first.edgetop")
    export(folder / "soak-1.edgetop", "parquet", folder / "soak-1.parquet")
    return folder


def rows(sql):
    return duckdb.sql(sql).fetchall()


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_topic_runs_and_has_an_answer(line, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    program, _, code = shlex.split(line)
    if program == "duckdb":
        assert rows(code)
    else:
        exec(code, {})
        assert len(capsys.readouterr().out) > 50


def test_the_topic_has_lines_for_each_reader_and_many_sessions():
    one, many = TOPIC.split("## One session")[1].split("## A folder of sessions")
    for reader in ("duckdb -c", "pandas.", "pl."):
        assert reader in one
        assert reader in many


def test_the_meaning_of_every_column_of_every_table_is_told(folder):
    for name, schema in SCHEMAS.items():
        path = folder / f"soak-1.edgetop/{name}.parquet"
        told = dict(rows(f"select decode(key), decode(value) from parquet_kv_metadata('{path}')"))
        assert {field.name: told[f"meaning:{field.name}"] for field in schema} == {
            field.name: field.metadata[b"meaning"].decode() for field in schema
        }


def test_pandas_reads_the_wide_table_with_times(folder):
    import pandas as pd  # half a second, which every worker would spend

    wide = pd.read_parquet(folder / "soak-1.parquet").set_index("utc")
    assert (wide.index.tz is not None, len(wide)) == (True, wide["t_ns"].nunique())
    assert wide["temp/cpu-thermal"].notna().any()
