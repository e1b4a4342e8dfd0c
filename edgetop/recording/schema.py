"""The five tables: their columns, and what each means.

A change of meaning is a new FORMAT_VERSION. History of format 1: `seconds` carries
`m2_ns2`, `jitter_sum_ns` and `jitter_count` beyond the first draft, so that standard
deviation and jitter of a session survive where its single inferences were not kept; later came
`miss_run_*` and the sums and the minimum of response time, for the same reason. `operators`
carries `origin`, since the names that runtimes give are often not the model's.

What each column means travels with each file, as key-value metadata that every reader of
Parquet can show: `meaning:COLUMN`.
"""

import sys
from typing import Any

import pyarrow as pa


class _NoPandas:
    """pyarrow imports pandas, wherever it is installed, for its first array, and never asks again.

    That is 40 MiB for nothing, and a pandas that is broken would end the recording.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed here", name=fullname)


def _keep_pandas_out() -> None:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


_keep_pandas_out()

SYMBOL = pa.dictionary(pa.int32(), pa.string())


def _schema(columns: list[tuple[str, Any, str]], absent: tuple[str, ...] = ()) -> pa.Schema:
    """`absent`: the columns in which a null may stand for a value that is not known."""
    return pa.schema(
        [pa.field(name, kind, nullable=name in absent, metadata={"meaning": text}) for name, kind, text in columns],
        metadata={f"meaning:{name}": text for name, _, text in columns},
    )


INFERENCES = _schema(
    [
        ("t_ns", pa.int64(), "when the inference started, ns of CLOCK_MONOTONIC since the session's origin"),
        ("latency_ns", pa.int64(), "service time: start to outputs ready"),
        ("wait_ns", pa.int64(), "actual start minus intended start under a paced load; 0 back to back"),
        ("stream", pa.uint8(), "which concurrent stream, from 0"),
        ("phase", SYMBOL, "first, warmup or measure"),
        ("ok", pa.bool_(), "false: the runtime raised; the event table says what"),
        ("variant", pa.uint8(), "in an A/B session whose: 0 is A, 1 is B; else 0"),
    ]
)

READINGS = _schema(
    [
        ("t_ns", pa.int64(), "when the sensor was read"),
        ("sensor", SYMBOL, "an id listed in session.json, kind/label"),
        ("value", pa.float64(), "in the unit that the sensor's kind fixes; never NaN"),
    ]
)

OPERATORS = _schema(
    [
        ("t_ns", pa.int64(), "start of the instrumented burst"),
        ("burst", pa.int32(), "number of the burst, from 0"),
        ("position", pa.int32(), "run order"),
        ("name", pa.string(), "the operator as it ran, after fusion"),
        ("op_type", SYMBOL, "its type"),
        ("provider", SYMBOL, "who executed it"),
        ("calls", pa.int32(), "runs in the burst"),
        ("total_ns", pa.int64(), "time of all calls"),
        ("flops", pa.int64(), "floating-point operations per call"),
        ("bytes", pa.int64(), "weights and activations moved per call"),
        ("origin", SYMBOL, "its name in the model's file, names where several became one"),
    ],
    absent=("flops", "bytes", "origin"),
)

EVENTS = _schema(
    [
        ("t_ns", pa.int64(), "when it happened"),
        ("kind", SYMBOL, "what happened: phase, mark, log, sensor-lost, engine-died ..."),
        ("severity", SYMBOL, "info, warning or critical"),
        ("source", pa.string(), "who says so"),
        ("message", pa.string(), "for people"),
        ("data", pa.string(), "a JSON object"),
    ]
)

# Of response time, as SECOND has it of service time: what may be absent in a second, and what is only without a pace.
RESPONSE = tuple(f"response_{name}_ns" for name in ("p50", "p90", "p95", "p99", "p999", "max", "min"))
RESPONSE_SUMS = {
    "response_sum_ns": pa.int64(),
    "response_m2_ns2": pa.float64(),
    "response_jitter_sum_ns": pa.int64(),
}
_RUNS = {
    "miss_run_first": "how many of its first inferences missed the deadline in a row; null where none was declared",
    "miss_run_last": "the same of its last ones",
    "miss_run_longest": "the longest run of misses in it",
}

SECONDS = _schema(
    [
        ("t_ns", pa.int64(), "start of the second; an inference belongs to the second in which it started"),
        ("count", pa.int32(), "inferences with ok and phase measure; all columns below are about these"),
        ("errors", pa.int32(), "inferences of phase measure that raised"),
        ("deadline_misses", pa.int32(), "response time above the declared deadline; null where none was declared"),
        ("sum_ns", pa.int64(), "sum of latencies"),
        ("min_ns", pa.int64(), "shortest latency"),
        ("max_ns", pa.int64(), "longest latency"),
        ("p50_ns", pa.int64(), "nearest-rank percentile of this second's latencies, exact"),
        ("p90_ns", pa.int64(), "the same"),
        ("p95_ns", pa.int64(), "the same"),
        ("p99_ns", pa.int64(), "the same"),
        ("p999_ns", pa.int64(), "the same"),
        ("m2_ns2", pa.float64(), "sum of squared deviations from this second's mean"),
        ("jitter_sum_ns", pa.int64(), "sum of |difference| between successive latencies"),
        ("jitter_count", pa.int32(), "how many differences that is"),
        ("bucket", pa.list_(pa.int16()), "buckets of the log-linear histogram that hold something, ascending"),
        ("bucket_count", pa.list_(pa.int32()), "how many inferences each holds"),
        *[(name, pa.int64(), "the same of response time; null under a closed load") for name in RESPONSE[:-1]],
        ("response_bucket", pa.list_(pa.int16()), "as bucket, of response time; null under a closed load"),
        ("response_bucket_count", pa.list_(pa.int32()), "as bucket_count, of response time"),
        (RESPONSE[-1], pa.int64(), "shortest response time; null under a closed load"),
        *[(name, kind, "as without response_; null under a closed load") for name, kind in RESPONSE_SUMS.items()],
        *[(name, pa.int32(), text) for name, text in _RUNS.items()],
    ],
    absent=(
        "deadline_misses",
        "min_ns",
        "max_ns",
        *(f"{p}_ns" for p in ("p50", "p90", "p95", "p99", "p999")),
        *RESPONSE,
        *RESPONSE_SUMS,
        *_RUNS,
        "response_bucket",
        "response_bucket_count",
    ),
)

SCHEMAS = {
    "inferences": INFERENCES,
    "readings": READINGS,
    "operators": OPERATORS,
    "events": EVENTS,
    "seconds": SECONDS,
}

# Tables with the columns that they had in earlier versions, which a writer that was killed left unpublished.
EARLIER = {
    "inferences": pa.schema([f for f in INFERENCES if f.name != "variant"]),
    "seconds": pa.schema([f for f in SECONDS if f.name not in (RESPONSE[-1], *RESPONSE_SUMS, *_RUNS)]),
}

# Columns that the first files of format 1 had not.
CAME_LATER = ("m2_ns2", "jitter_sum_ns", "jitter_count", "variant")


def as_described(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of `schema`, in its types, of a table that anybody may have written.

    Those that it may lack stay absent. Raises KeyError for one that is missing, ValueError for one of other values.
    """
    columns = {}
    for field in schema:
        if field.name not in table.column_names and (field.nullable or field.name in CAME_LATER):
            continue
        column = table[field.name]
        if not field.nullable and column.null_count:
            raise ValueError(f"{field.name} lacks values")
        wanted = pa.string() if pa.types.is_dictionary(field.type) else field.type
        given = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        columns[field.name] = column if given == wanted else column.cast(wanted)
    return pa.table(columns)


def completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add the absent columns: nulls, or zeros where the schema allows no nulls."""
    columns = [table[f.name].cast(f.type) if f.name in table.column_names else _absent(f, len(table)) for f in schema]
    return pa.table(columns, schema)


def _absent(field: pa.Field, rows: int) -> pa.Array:
    nulls = pa.nulls(rows, field.type)
    return nulls if field.nullable else nulls.fill_null(0)
