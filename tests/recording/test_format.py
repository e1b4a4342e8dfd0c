"""The files of a session, as the public format promises them to those who read without edgetop."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgetop.recording.columns import SCHEMAS
from edgetop.session.records import PHASES
from tests.support.recordings import back_to_back, record, session, with_phases

LONG, INT, SYMBOL, TEXT = "int64", "int32", "dictionary<string>", "string"
PERCENTILES = ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns")

FORMAT = {
    "inferences": {
        "t_ns": LONG, "latency_ns": LONG, "wait_ns": LONG, "stream": "uint8", "phase": SYMBOL, "ok": "bool",
        "variant": "uint8",
    },
    "readings": {"t_ns": LONG, "sensor": SYMBOL, "value": "double"},
    "operators": {
        "t_ns": LONG, "burst": INT, "position": INT, "name": TEXT, "op_type": SYMBOL, "provider": SYMBOL,
        "calls": INT, "total_ns": LONG, "flops": LONG, "bytes": LONG, "origin": SYMBOL,
    },
    "events": {"t_ns": LONG, "kind": SYMBOL, "severity": SYMBOL, "source": TEXT, "message": TEXT, "data": TEXT},
    "seconds": {
        "t_ns": LONG, "count": INT, "errors": INT, "deadline_misses": INT, "sum_ns": LONG, "min_ns": LONG,
        "max_ns": LONG, **dict.fromkeys(PERCENTILES, LONG),
        "m2_ns2": "double", "jitter_sum_ns": LONG, "jitter_count": INT,
        "bucket": "list<int16>", "bucket_count": "list<int32>",
        **{f"response_{name}": LONG for name in (*PERCENTILES, "max_ns")},
        "response_bucket": "list<int16>", "response_bucket_count": "list<int32>",
        "response_min_ns": LONG, "response_sum_ns": LONG, "response_m2_ns2": "double", "response_jitter_sum_ns": LONG,
        **dict.fromkeys(("miss_run_first", "miss_run_last", "miss_run_longest"), INT),
    },
}  # fmt: skip
NULLABLE = {
    "operators": {"flops", "bytes", "origin"},
    "seconds": {"deadline_misses", "min_ns", "max_ns", *PERCENTILES}
    | {name for name in FORMAT["seconds"] if name.startswith(("response", "miss_run"))},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of 20 seconds."""
    inferences = with_phases(back_to_back(4_000, 5e6))
    return record(tmp_path_factory.mktemp("recorded") / "soak.edgetop", list(session(inferences, seed=3)))


def type_name(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return f"dictionary<{kind.value_type}>"
    return f"list<{kind.value_type}>" if pa.types.is_list(kind) else str(kind)


@pytest.mark.parametrize("name", FORMAT)
def test_each_table_has_the_columns_of_the_format(recorded: Path, name: str) -> None:
    found = {field.name: type_name(field.type) for field in pq.read_schema(recorded / f"{name}.parquet")}
    assert found == FORMAT[name]
    assert list(found) == list(FORMAT[name])


@pytest.mark.parametrize("name", FORMAT)
def test_only_what_may_be_unknown_is_nullable(recorded: Path, name: str) -> None:
    fields = pq.read_schema(recorded / f"{name}.parquet")
    assert {field.name for field in fields if field.nullable} == NULLABLE.get(name, set())


def test_each_column_says_what_it_means() -> None:
    assert all((field.metadata or {}).get(b"meaning") for schema in SCHEMAS.values() for field in schema)


def test_there_is_nothing_beside_the_tables_and_the_manifest(recorded: Path) -> None:
    names = {path.name for path in recorded.iterdir()}
    assert names == {"session.json", "session.json.lock", *(f"{name}.parquet" for name in FORMAT)}


def counted(recorded: Path) -> dict[str, int]:
    return {name: pq.ParquetFile(recorded / f"{name}.parquet").metadata.num_rows for name in FORMAT}


def sql(query: str) -> list[tuple[object, ...]]:
    return duckdb.sql(query).fetchall()


def test_duckdb_reads_what_arrow_reads(recorded: Path) -> None:
    for name, count in counted(recorded).items():
        assert sql(f"SELECT count(*) FROM '{recorded}/{name}.parquet'") == [(count,)]
    table = pq.read_table(recorded / "inferences.parquet")
    phases, latency = np.array(table["phase"].to_pylist()), table["latency_ns"].to_numpy()
    for phase in PHASES:
        expected = (np.sum(phases == phase), latency[phases == phase].sum(), 0, True)
        query = "SELECT count(*), sum(latency_ns)::BIGINT, max(stream), bool_and(ok) FROM"
        assert sql(f"{query} '{recorded}/inferences.parquet' WHERE phase = '{phase}'") == [expected]


def test_sql_over_histograms_and_readings_is_simple(recorded: Path) -> None:
    ((in_buckets, in_seconds),) = sql(
        f"SELECT sum(list_sum(bucket_count)), sum(count) FROM '{recorded}/seconds.parquet'"
    )
    assert [(in_buckets,)] == sql(
        f"SELECT count(*) FROM '{recorded}/inferences.parquet' WHERE phase = 'measure' AND ok"
    )
    assert in_buckets == in_seconds
    unknown = (
        f"SELECT sensor FROM '{recorded}/readings.parquet', '{recorded}/session.json' AS m WHERE NOT list_contains"
    )
    assert sql(f"{unknown}([s.id FOR s IN m.sensors], sensor)") == []


# Bytes an inference, as the design budgets them.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("latency_ns", "count", "budget"),
    [
        (20e3, 400_000, 4.0),
        pytest.param(10e6, 30_000, 6.5, marks=pytest.mark.thorough),
        pytest.param(60e6, 8_000, 6.6, marks=pytest.mark.thorough),
    ],
)
def test_an_inference_costs_few_bytes(tmp_path: Path, latency_ns: float, count: int, budget: float) -> None:
    folder = record(tmp_path / "s.edgetop", list(session(back_to_back(count, latency_ns))))
    assert (folder / "inferences.parquet").stat().st_size / count < budget


def test_a_busy_machine_makes_an_inference_no_dearer(tmp_path: Path) -> None:
    inferences = back_to_back(200_000, 20e3)
    random = np.random.default_rng(1)
    inferences["latency_ns"] += ((random.random(200_000) < 0.01) * random.exponential(1e6, 200_000)).astype(np.int64)
    inferences["t_ns"][1:] += np.cumsum(inferences["latency_ns"] - 20_000)[:-1]
    folder = record(tmp_path / "s.edgetop", list(session(inferences)))
    assert (folder / "inferences.parquet").stat().st_size / 200_000 < 4


@pytest.mark.slow
def test_a_quiet_second_costs_little(tmp_path: Path) -> None:
    folder = record(tmp_path / "s.edgetop", list(session(back_to_back(20_000, 10e6))))
    assert (folder / "seconds.parquet").stat().st_size / 200 < 400
