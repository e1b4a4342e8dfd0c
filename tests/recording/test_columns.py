"""Batches into Arrow columns and back: each pair is an identity."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording import columns
from edgetop.recording.columns import EVENTS, INFERENCES, READINGS, SECONDS
from edgetop.session.event_codec import data_of, read_event
from edgetop.session.events import Event
from edgetop.session.records import INFERENCE, READING
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import ABSENT, NS, OF_DEADLINE, SECOND, Seconds
from tests.support.scripted_engine import inferences

LONG = st.integers(-(2**63), 2**63 - 1)
IDS = tuple(f"temp/zone-{i}" for i in range(5))

quick = settings(max_examples=60, deadline=None)


@quick
@given(
    st.lists(
        st.tuples(LONG, LONG, LONG, st.integers(0, 255), st.integers(0, 2), st.booleans(), st.integers(0, 1)),
        max_size=40,
    )
)
def test_inferences_come_back(rows: list[tuple[int, ...]]) -> None:
    given_in = np.array(rows, INFERENCE)
    arrow = columns.to_arrow("inferences", given_in)
    assert arrow.schema.equals(INFERENCES, check_metadata=True)
    assert columns.from_arrow("inferences", arrow).tobytes() == given_in.tobytes()


def test_some_of_many_inferences_come_back() -> None:
    some = inferences(range(100))[3:50:7]
    table = columns.to_arrow("inferences", some)
    assert columns.from_arrow("inferences", table).tolist() == some.tolist()


@quick
@given(st.lists(st.tuples(LONG, st.integers(0, 4), st.floats(allow_nan=False)), max_size=40))
def test_readings_come_back_to_the_last_bit(rows: list[tuple[int, int, float]]) -> None:
    given_in = np.array(rows, READING)
    arrow = columns.to_arrow("readings", given_in, IDS)
    assert arrow.schema.equals(READINGS, check_metadata=True)
    assert columns.from_arrow("readings", arrow, IDS).tobytes() == given_in.tobytes()


def test_readings_are_told_by_id_and_not_by_place() -> None:
    given_in = np.array([(0, i, float(i)) for i in range(5)], READING)
    table = columns.to_arrow("readings", given_in, IDS)
    assert columns.from_arrow("readings", table, IDS[::-1])["sensor"].tolist() == [4, 3, 2, 1, 0]


def test_readings_of_a_sensor_that_nobody_knows_are_left_out() -> None:
    given_in = np.array([(i, i, float(i)) for i in range(5)], READING)
    table = columns.to_arrow("readings", given_in, IDS)
    assert columns.from_arrow("readings", table, IDS[1:3]).tolist() == [(1, 0, 1.0), (2, 1, 2.0)]


TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = (
    st.none()
    | st.booleans()
    | st.integers(1 - 2**62, 2**62 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
WELL_FORMED = st.text(max_size=20)
EVENT = st.builds(
    read_event, LONG, WELL_FORMED, st.sampled_from(["info", "warning", "critical"]), TEXT, TEXT,
    st.dictionaries(TEXT, JSON, max_size=3),
)  # fmt: skip


def storable(text: str) -> str:
    """Lone surrogates, which stand for bytes that are not UTF-8, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


@quick
@given(st.lists(EVENT, max_size=4))
def test_events_come_back_with_whatever_text_they_hold(events: Sequence[Event]) -> None:
    arrow = columns.to_arrow("events", events)
    assert arrow.schema.equals(EVENTS, check_metadata=True)
    back = columns.from_arrow("events", arrow)
    assert back == tuple(
        read_event(e.t_ns, e.kind, e.severity, storable(e.source), storable(e.message), data_of(e.body)) for e in events
    )


def test_a_file_name_that_is_no_text_is_told_with_escapes() -> None:
    event = read_event(1, "log", "info", "caf\udce9", "no such file: \udcff", {"name": "\udcff"})
    (back,) = columns.from_arrow("events", columns.to_arrow("events", [event]))
    assert (back.source, back.message, data_of(back.body)) == (
        "caf\\udce9",
        "no such file: \\udcff",
        data_of(event.body),
    )


@pytest.mark.parametrize("text", ["", "{", "[1]", "3", "null"])
def test_data_that_is_no_object_is_none(text: str) -> None:
    row = {"t_ns": 1, "kind": "log", "severity": "info", "source": "s", "message": "m", "data": text}
    (event,) = columns.from_arrow("events", pa.Table.from_pylist([row], EVENTS))
    assert data_of(event.body) == {}


def test_an_events_data_is_a_json_object() -> None:
    event = read_event(1, "phase", "info", "engine", "begins", {"phase": "measure", "runs": None})
    (data,) = columns.to_arrow("events", [event])["data"].to_pylist()
    assert json.loads(data) == {"phase": "measure", "runs": None}


STARTS = st.lists(st.integers(0, 6 * NS), max_size=50).map(sorted)


@quick
@given(
    starts=STARTS,
    latencies=st.lists(st.integers(0, 2**41), min_size=50, max_size=50),
    ok=st.lists(st.booleans(), min_size=50, max_size=50),
    deadline_ns=st.none() | st.integers(0, 2**41),
    is_paced=st.booleans(),
)
def test_seconds_come_back(
    starts: list[int], latencies: list[int], ok: list[bool], deadline_ns: int | None, is_paced: bool
) -> None:
    records = inferences(starts, latencies[: len(starts)])
    records["ok"], records["wait_ns"] = ok[: len(starts)], latencies[: len(starts)][::-1]
    aggregator = SecondAggregator(deadline_ns, is_paced=is_paced)
    for seconds in (aggregator.add(records), aggregator.close()):
        arrow = columns.to_arrow("seconds", seconds)
        assert arrow.schema.equals(SECONDS, check_metadata=True)
        same(columns.from_arrow("seconds", arrow), seconds)


def same(back: Seconds, given_in: Seconds) -> None:
    assert back.rows.tobytes() == given_in.rows.tobytes()
    for name in ("offsets", "bucket", "bucket_count"):
        assert getattr(back, name).tolist() == getattr(given_in, name).tolist()
        assert getattr(back, name).dtype == getattr(given_in, name).dtype
    assert (back.response is None) == (given_in.response is None or not len(given_in))
    if back.response is not None and given_in.response is not None:
        same(back.response, given_in.response)


def test_some_of_many_seconds_come_back() -> None:
    seconds = SecondAggregator().add(inferences([i * NS // 3 for i in range(40)]))
    table = columns.to_arrow("seconds", seconds).slice(2, 5)
    back = columns.from_arrow("seconds", table)
    assert back.rows.tolist() == seconds.rows[2:7].tolist()
    assert back.bucket_count.tolist() == seconds.bucket_count[seconds.offsets[2] : seconds.offsets[7]].tolist()
    assert back.offsets[0] == 0


def test_what_a_second_has_not_is_null_in_the_file() -> None:
    rows = np.zeros(1, SECOND)
    for name in (*OF_DEADLINE, "min_ns", "max_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns"):
        rows[name] = ABSENT
    nothing = Seconds(rows, np.zeros(2, np.int32), np.empty(0, np.int16), np.empty(0, np.int32))
    (row,) = columns.to_arrow("seconds", nothing).to_pylist()
    absent = {name for name, value in row.items() if value is None}
    assert absent == {name for name in row if name.startswith("response")} | {
        name for name in SECOND.names if rows[name][0] == ABSENT
    }


# What loading the columns does to a process, whatever else is installed.

ASK = """
import sys
import pyarrow as pa
from edgetop.recording import columns
pa.array([1.5])
print("pandas" in sys.modules, importlib.util.find_spec("pandas") is not None)
"""


@pytest.mark.slow
def test_a_pandas_that_is_broken_or_large_is_never_imported(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("raise RuntimeError('broken')\n")
    program = f"import importlib.util, sys\nsys.path.insert(0, {str(tmp_path)!r})\n{ASK}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")


WRITE = """
import sys
from pathlib import Path
from tests.support.recordings import back_to_back, left_by_a_dead_writer, session
left_by_a_dead_writer(Path(sys.argv[1]) / "s.edgetop", list(session(back_to_back(8_000, 5e6))), 10_000)
print(*sorted(name for name in sys.modules if name.startswith(("pyarrow.", "pandas"))))
"""


@pytest.mark.slow
def test_a_writer_loads_of_arrow_what_it_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITE, tmp_path],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pyarrow.parquet" in done.stdout
    assert {"pyarrow.compute", "pyarrow.dataset", "pandas"}.isdisjoint(done.stdout.split())
    assert len(list((tmp_path / "s.edgetop/journal").glob("*.partial"))) == 5  # tables were begun


@pytest.mark.slow
def test_the_file_systems_of_the_cloud_are_never_loaded() -> None:
    show = (
        "import sys, edgetop.recording.parquet_tables; print(sys.modules['pyarrow._s3fs'], 'pyarrow.fs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "True"]
