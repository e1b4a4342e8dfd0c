"""Footers that are put together from row groups are those of whole Parquet files."""

import contextlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import footer
from edgetop.recording.columns import SCHEMAS
from edgetop.recording.parquet_tables import _encoded, _template
from tests.support.recordings import back_to_back, record, session


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    folder = record(tmp_path_factory.mktemp("f") / "s.edgetop", list(session(back_to_back(3_000, 5e6))))
    return {name: pq.read_table(folder / f"{name}.parquet") for name in SCHEMAS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_reading_and_writing_a_footer_changes_nothing(files: dict[str, pa.Table], name: str) -> None:
    _, end = footer.split(_encoded(SCHEMAS[name], files[name]))
    assert footer._encoded(footer._parsed(end)) == end
    assert footer._encoded(footer._parsed(_template(SCHEMAS[name]))) == _template(SCHEMAS[name])


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("parts", [0, 1, 2, 40])
def test_row_groups_written_one_at_a_time_are_one_file(
    files: dict[str, pa.Table], name: str, parts: int, tmp_path: Path
) -> None:
    whole = files[name]
    size = max(1, -(-len(whole) // parts)) if parts else 1
    slices = [whole.slice(i, size) for i in range(0, len(whole) if parts else 0, size)]
    data, entries = footer.MAGIC, []
    for part in slices:
        body, end = footer.split(_encoded(SCHEMAS[name], part))
        entries += footer.row_groups_of(end, len(data) - 4)
        data += body
    rows = sum(map(len, slices))
    (tmp_path / "t.parquet").write_bytes(data + footer.footer_of(_template(SCHEMAS[name]), rows, entries))
    back = pq.read_table(tmp_path / "t.parquet", page_checksum_verification=True)
    assert back.cast(whole.schema).equals(whole.slice(0, rows))
    written_whole = pq.read_schema(pa.BufferReader(_encoded(SCHEMAS[name], whole)))
    assert pq.read_schema(tmp_path / "t.parquet").equals(written_whole, check_metadata=True)
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/t.parquet'").fetchall() == [(rows,)]


def test_data_that_is_moved_is_found_again(files: dict[str, pa.Table], tmp_path: Path) -> None:
    body, end = footer.split(_encoded(SCHEMAS["readings"], files["readings"]))
    (entry,) = footer.row_groups_of(end, 0)
    moved = footer.shifted(footer.shifted(entry, 1_000_000), -999_000)
    data = footer.MAGIC + b"?" * 1_000 + body
    rows = len(files["readings"])
    (tmp_path / "t.parquet").write_bytes(data + footer.footer_of(_template(SCHEMAS["readings"]), rows, [moved]))
    assert pq.read_table(tmp_path / "t.parquet")["value"].equals(files["readings"]["value"])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_what_is_no_row_group_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        footer.shifted(data + b"\xff", 4)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_spoilt_row_group_is_refused_or_stays_one(data: st.DataObject) -> None:
    (entry,) = footer.row_groups_of(footer.split(_encoded(SCHEMAS["readings"], SPOILT))[1], 0)
    spoilt = bytearray(entry)
    spoilt[data.draw(st.integers(0, len(entry) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        footer.shifted(bytes(spoilt), 4)


SPOILT = pa.table({"t_ns": [1], "sensor": pa.array(["temp/a"]).dictionary_encode(), "value": [1.0]}).cast(
    SCHEMAS["readings"]
)


@pytest.mark.parametrize("file", [b"", b"PAR1", b"PAR1" + b"\xff\xff\xff\x7fPAR1", b"x" * 100])
def test_what_is_no_parquet_file_is_refused(file: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        footer.split(file)
