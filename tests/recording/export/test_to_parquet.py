import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop.errors import InputError
from edgetop.recording.rows import Span
from edgetop.session.batch import Batch
from edgetop.session.manifest_codec import from_json, to_json
from edgetop.session.records import NO_INFERENCES, READING
from edgetop.session.seconds import NS
from tests.support.exports import export
from tests.support.recordings import SENSORS, back_to_back, record, session

SENSOR_IDS = [info.id for info in SENSORS]


def wide(folder, path, **more):
    assert export(folder, "parquet", path, **more) == []
    return pq.read_table(path)


def seconds_of(folder):
    return pq.read_table(folder / "seconds.parquet").to_pylist()


def test_each_second_is_a_row_with_its_latencies(recorded, tmp_path):
    rows = wide(recorded, tmp_path / "out").to_pylist()
    seconds = seconds_of(recorded)
    assert [row["t_ns"] for row in rows] == [i * NS for i in range(len(rows))]
    assert len(rows) - len(seconds) in {0, 1}
    for row, second in zip(rows, seconds, strict=False):
        names = ("min", "p50", "p90", "p99", "max")
        assert [row[f"latency_{name}_ns"] for name in names] == [second[f"{name}_ns"] for name in names]
        assert (row["count"], row["errors"], row["deadline_misses"]) == (second["count"], second["errors"], None)
        mean = second["sum_ns"] / second["count"] if second["count"] else None
        assert row["latency_mean_ns"] == pytest.approx(mean)


RESPONSES = ("min", "p50", "p90", "p99", "max")


def test_under_a_rate_response_times_stand_beside_service_times(paced, tmp_path):
    rows, seconds = wide(paced, tmp_path / "out").to_pylist(), seconds_of(paced)
    busy = [(row, second) for row, second in zip(rows, seconds, strict=False) if second["count"]]
    assert len(busy) > 4
    for row, second in busy:
        assert [row[f"response_{name}_ns"] for name in RESPONSES] == [second[f"response_{n}_ns"] for n in RESPONSES]
        assert row["response_mean_ns"] == pytest.approx(second["response_sum_ns"] / second["count"])
        assert row["response_mean_ns"] > row["latency_mean_ns"]


@pytest.mark.parametrize("hz", [1, 2])
def test_finer_rows_have_response_times_of_single_inferences(hz, paced, tmp_path):
    rows = wide(paced, tmp_path / "out", hz=hz).to_pylist()
    for row in (row for row in rows if row["count"]):
        begin, end = row["t_ns"], row["t_ns"] + NS // hz
        inside = [
            one["wait_ns"] + one["latency_ns"]
            for one in pq.read_table(paced / "inferences.parquet").to_pylist()
            if begin <= one["t_ns"] < end and one["phase"] == "measure"
        ]
        assert (row["response_min_ns"], row["response_max_ns"]) == (min(inside), max(inside))
        assert row["response_p50_ns"] == sorted(inside)[(len(inside) + 1) // 2 - 1]


@pytest.mark.parametrize("hz", [0.1, 1, 4])
def test_back_to_back_there_is_no_response_time(hz, recorded, tmp_path):
    table = wide(recorded, tmp_path / "out", hz=hz)
    for name in ("mean", *RESPONSES):
        assert set(table[f"response_{name}_ns"].to_pylist()) == {None}


@pytest.mark.parametrize("hz", [0.1, 1, 4, 30])
def test_every_reading_and_event_is_in_its_row(hz, recorded, tmp_path):
    table = wide(recorded, tmp_path / "out", hz=hz)
    starts = np.asarray(table["t_ns"])
    readings = pq.read_table(recorded / "readings.parquet").to_pylist()
    for sensor_id in SENSOR_IDS:
        mine = [row for row in readings if row["sensor"] == sensor_id]
        cells = np.searchsorted(starts, [row["t_ns"] for row in mine], side="right") - 1
        values = table[sensor_id].to_pylist()
        assert {i for i, value in enumerate(values) if value is not None} == set(cells.tolist())
        for cell in set(cells.tolist()):
            mean = np.mean([row["value"] for row, place in zip(mine, cells, strict=True) if place == cell])
            assert values[cell] == pytest.approx(mean)
    kinds = [kind for row in table["events"].to_pylist() for kind in row]
    assert sorted(kinds) == sorted(pq.read_table(recorded / "events.parquet")["kind"].to_pylist())


@pytest.mark.parametrize("hz", [4, 30])
def test_finer_rows_count_every_inference_once(hz, recorded, tmp_path):
    rows = wide(recorded, tmp_path / "out", hz=hz).to_pylist()
    seconds = {row["t_ns"] // NS: row["count"] for row in seconds_of(recorded)}
    for second, count in seconds.items():
        assert sum(row["count"] for row in rows if row["t_ns"] // NS == second) == count


def test_finer_rows_are_null_where_not_every_inference_was_kept(recorded, tmp_path):
    table = pq.read_table(recorded / "inferences.parquet")
    kept = [t // NS != 5 or t % 2 == 0 for t in table["t_ns"].to_pylist()]
    pq.write_table(table.filter(kept), recorded / "inferences.parquet")
    rows = wide(recorded, tmp_path / "out", hz=2).to_pylist()
    assert {row["count"] is None for row in rows if row["t_ns"] // NS == 5} == {True}
    assert {row["latency_p50_ns"] is None for row in rows if row["t_ns"] // NS == 6} == {False}


def test_without_single_inferences_finer_rows_have_no_latency(tmp_path):
    batches = [replace(b, inferences=NO_INFERENCES) for b in session(back_to_back(200, 20e6))]
    table = wide(record(tmp_path / "s.edgetop", batches), tmp_path / "out", hz=2)
    busy = [row["count"] for row in table.to_pylist() if 1 < row["t_ns"] / NS < 4]
    assert set(busy) == {None}


def test_the_wall_clock_stands_beside_session_time(recorded, tmp_path):
    utc = wide(recorded, tmp_path / "out")["utc"].to_pylist()
    assert [moment.isoformat() for moment in utc[:2]] == ["2026-11-21T10:15:00+00:00", "2026-11-21T10:15:01+00:00"]


def test_a_cut_is_whole_seconds_by_the_time_of_the_session(recorded, tmp_path):
    rows = wide(recorded, tmp_path / "out", span=Span(2 * NS + 1, 5 * NS)).to_pylist()
    assert [row["t_ns"] // NS for row in rows] == [2, 3, 4]
    assert [row["count"] for row in rows] == [row["count"] for row in seconds_of(recorded)[2:5]]


def test_the_file_says_what_its_columns_mean_and_what_ran(recorded, tmp_path):
    export(recorded, "parquet", tmp_path / "out")
    about = pq.read_metadata(tmp_path / "out").metadata
    assert set(pq.read_schema(tmp_path / "out").names) == {
        key.decode().removeprefix("meaning:") for key in about if key.startswith(b"meaning:")
    }
    assert about[b"meaning:temp/cpu-thermal"] == "the mean of its readings in the row's time, in °C".encode()
    assert json.loads(about[b"edgetop:session"])["id"] == json.loads((recorded / "session.json").read_text())["id"]


def with_sensors(folder, *ids):
    path = folder / "session.json"
    manifest = from_json(json.loads(path.read_text()))
    sensors = tuple(replace(manifest.sensors[0], id=sensor_id, simulated=True) for sensor_id in ids)
    path.write_text(json.dumps(to_json(replace(manifest, sensors=sensors))))


def test_sensors_with_odd_names_take_no_other_column(recorded, tmp_path):
    with_sensors(recorded, "t_ns", "temp/x", "temp/x", "temp/\udc80")
    table = wide(recorded, tmp_path / "out")
    assert table.column_names[-3:] == ["sensor/t_ns", "temp/x", "temp/\\udc80"]
    assert table.schema.field("temp/x").metadata[b"simulated"] == b"true"


def test_a_reading_that_comes_late_is_in_its_row_too(tmp_path):
    late = np.array([(700 * NS + 5, 0, 40.0), (599 * NS, 1, 7.0), (701 * NS, 0, 41.0)], READING)
    first, *_, last = session(back_to_back(0, 20e6))
    ended = replace(last.manifest, duration_ns=702 * NS)
    folder = record(tmp_path / "s.edgetop", [first, Batch(702 * NS, readings=late, manifest=ended)])
    table = wide(folder, tmp_path / "out").to_pylist()
    assert table[599][SENSOR_IDS[1]] == 7.0
    assert (len(table), table[700][SENSOR_IDS[0]], table[300]["count"]) == (703, 40.0, None)


YEARS_NS = 3 * 365 * 86_400 * NS


@pytest.mark.parametrize(
    ("duration_ns", "hz"), [(2**62, 1.0), (YEARS_NS, 1.0), (YEARS_NS, 0.1), (86_400 * NS, 1_000.0)]
)
def test_a_time_that_cannot_be_true_is_refused(recorded, duration_ns, hz, tmp_path):
    """Years that say that they hold something are not written second by second."""
    path = recorded / "session.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "duration_ns": duration_ns}))
    with pytest.raises(InputError, match="rows"):
        export(recorded, "parquet", tmp_path / "out", hz=hz)
    assert not (tmp_path / "out").exists()
