"""The columns of the tables in every recording, and the conversion of a batch's rows to Arrow and back without loss.

In a session of several models, `seconds` has further columns (`stream_columns`). Each file has the meaning of its
columns in key-value metadata, `meaning:COLUMN`, which every Parquet reader can show.

If the meaning of a column changes, FORMAT_VERSION gets a new value. Within format 1, these columns were added:

- `m2_ns2`, `jitter_sum_ns`, `jitter_count`, and later `miss_run_*` and sums of response times, in `seconds`. With them,
  deviation, jitter and runs of misses are known even if individual inferences were not recorded.
- `origin` in `operators`, since the names that runtimes give are often not those of the model.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgetop.recording.packing import encodable
from edgetop.recording.rows import are_sound_operators
from edgetop.session.event_codec import data_of, read_event
from edgetop.session.events import Event
from edgetop.session.operators import Burst, OperatorInfo, joined
from edgetop.session.records import INFERENCE, PHASES, READING, Inferences, Readings
from edgetop.session.seconds import ABSENT, OF_DEADLINE, PERCENTILE_FIELDS, SECOND, Seconds


class _NoPandas:
    """An import finder that keeps pyarrow from importing pandas.

    Edgetop does not need pandas. The import takes 40 MiB, and a broken installation of pandas would end the recording.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed here", name=fullname)


_finder = _NoPandas()
sys.meta_path.insert(0, _finder)
try:
    pa.array([0])
finally:
    sys.meta_path.remove(_finder)

SYMBOL = pa.dictionary(pa.int32(), pa.string())


def table_schema(columns: list[tuple[str, Any, str]], absent: tuple[str, ...] = ()) -> pa.Schema:
    """Return an Arrow schema. `columns` has `(name, Arrow type, meaning)` for each column.

    Only the columns named in `absent` may contain nulls.
    """
    return pa.schema(
        [pa.field(name, kind, nullable=name in absent, metadata={"meaning": text}) for name, kind, text in columns],
        metadata={f"meaning:{name}": text for name, _, text in columns},
    )


INFERENCES = table_schema(
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

READINGS = table_schema(
    [
        ("t_ns", pa.int64(), "when the sensor was read"),
        ("sensor", SYMBOL, "an id listed in session.json, kind/label"),
        ("value", pa.float64(), "in the unit that the sensor's kind fixes; never NaN"),
    ]
)

OPERATORS = table_schema(
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

EVENTS = table_schema(
    [
        ("t_ns", pa.int64(), "when it happened"),
        ("kind", SYMBOL, "what happened: phase, mark, log, sensor-lost, engine-died ..."),
        ("severity", SYMBOL, "info, warning or critical"),
        ("source", pa.string(), "who says so"),
        ("message", pa.string(), "for people"),
        ("data", pa.string(), "a JSON object"),
    ]
)

# Columns about response time, as SECOND has them about service time. The first ones are null in a second without
# inferences; all are null if the load was not paced.
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

_MAY_BE_ABSENT = (*OF_DEADLINE, "min_ns", "max_ns", *PERCENTILE_FIELDS)

SECONDS = table_schema(
    [
        ("t_ns", pa.int64(), "start of the second; an inference belongs to the second in which it started"),
        ("count", pa.int32(), "inferences with ok and phase measure; all columns below are about these"),
        ("errors", pa.int32(), "inferences of phase measure that raised"),
        ("deadline_misses", pa.int32(), "response time above the declared deadline; null where none was declared"),
        ("sum_ns", pa.int64(), "sum of latencies"),
        ("min_ns", pa.int64(), "shortest latency"),
        ("max_ns", pa.int64(), "longest latency"),
        ("p50_ns", pa.int64(), "nearest-rank percentile of this second's latencies, exact"),
        *[(name, pa.int64(), "the same") for name in PERCENTILE_FIELDS[1:]],
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
    absent=(*_MAY_BE_ABSENT, *RESPONSE, *RESPONSE_SUMS, "response_bucket", "response_bucket_count"),
)

SCHEMAS = {
    "inferences": INFERENCES,
    "readings": READINGS,
    "operators": OPERATORS,
    "events": EVENTS,
    "seconds": SECONDS,
}

# Columns that the first files of format 1 did not have.
CAME_LATER = ("m2_ns2", "jitter_sum_ns", "jitter_count", "variant")


def as_described(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return `table` with only the columns that `schema` names, cast to the schema's types.

    Optional columns that `table` lacks stay absent. Raises KeyError if a required column is missing, ValueError if a
    required column contains nulls, and pa.ArrowException if a column cannot be cast.
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
    """Return `table` with all columns of `schema`.

    Missing columns have nulls, or zeros if the schema allows no nulls.
    """
    columns = []
    for field in schema:
        if field.name in table.column_names:
            columns.append(table[field.name].cast(field.type))
        else:
            nulls = pa.nulls(len(table), field.type)
            columns.append(nulls if field.nullable else nulls.fill_null(0))
    return pa.table(columns, schema)


MAX_SHARED = 64  # distinct lists of operators kept for sharing: a model runs in few ways
# Up to this many rows are encoded in Python. A writer never has more at a time, so it does not load Arrow's compute
# functions, which take 10 MiB.
FEW_ROWS = 8_192

_INFO = ("name", "op_type", "provider", "flops", "bytes", "origin")  # the fields of an OperatorInfo

Infos = tuple[OperatorInfo, ...]
Columns = dict[str, Any]


def to_arrow(name: str, rows: Any, sensor_ids: Sequence[str] = ()) -> pa.Table:
    """Return rows of the table `name`, such as "readings", as an Arrow table with the columns of the format.

    `rows` is the value of the field `name` of a `Batch`. Readings refer to sensors by positions in `sensor_ids`.
    """
    schema = SCHEMAS[name]
    if name == "inferences":
        columns: Columns = _fields(rows) | {"phase": _dictionary(rows["phase"], PHASES)}
    elif name == "readings":
        columns = _fields(rows) | {"sensor": _dictionary(rows["sensor"], sensor_ids)}
    elif name == "operators":
        columns = _burst_columns(rows)
    elif name == "events":
        columns = {name: [getattr(event, name) for event in rows] for name in ("t_ns", "kind", "severity")}
        columns |= {name: [encodable(getattr(event, name)) for event in rows] for name in ("source", "message")}
        columns["data"] = [json.dumps(data_of(event.body)) for event in rows]
    else:
        columns = {field.name: pa.nulls(len(rows), field.type) for field in schema} | _figures(rows)
        if rows.response is not None:
            figures = {f"response_{key}": array for key, array in _figures(rows.response).items()}
            columns |= {key: array for key, array in figures.items() if key in columns}
    arrays = ((columns[field.name], field.type) for field in schema)
    made = [array if isinstance(array, pa.Array) else pa.array(array, kind) for array, kind in arrays]
    return pa.table(made, schema=schema)


def _fields(rows: npt.NDArray[np.void]) -> Columns:
    return {name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()}


def _dictionary(codes: npt.NDArray[Any], values: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), _names(values))


def _names(values: Sequence[str]) -> pa.StringArray:
    return pa.array([encodable(value) for value in values], pa.string())


def _burst_columns(bursts: Sequence[Burst]) -> Columns:
    """Return the columns of the table `operators`, by name, with one row for each operator of each profiling round."""
    sizes = [len(burst) for burst in bursts]
    infos = [info for burst in bursts for info in burst.infos]
    return {
        "t_ns": np.repeat([burst.t_ns for burst in bursts], sizes),
        "burst": np.repeat([burst.number for burst in bursts], sizes),
        "position": np.fromiter(chain.from_iterable(map(range, sizes)), np.int64),
        **{
            name: np.concatenate([np.empty(0, np.int64), *(getattr(burst, name) for burst in bursts)])
            for name in ("calls", "total_ns")
        },
        **{name: [encodable(getattr(info, name)) for info in infos] for name in ("name", "op_type", "provider")},
        **{name: [getattr(info, name) for info in infos] for name in ("flops", "bytes")},
        "origin": [None if info.origin is None else encodable(info.origin) for info in infos],
    }


def _figures(seconds: Seconds) -> Columns:
    columns = _fields(seconds.rows)
    for name in _MAY_BE_ABSENT:
        columns[name] = pa.array(columns[name], mask=columns[name] == ABSENT)
    offsets = pa.array(seconds.offsets)
    columns["bucket"] = pa.ListArray.from_arrays(offsets, pa.array(seconds.bucket))
    columns["bucket_count"] = pa.ListArray.from_arrays(offsets, pa.array(seconds.bucket_count))
    return columns


def from_arrow(name: str, table: pa.Table, sensor_ids: Sequence[str] = ()) -> Any:
    """Return the rows of the Arrow table `table` as the value of the field `name` of a `Batch`.

    For the table "operators", use `bursts_from_arrow`. Readings of sensors that are not in `sensor_ids` are left out.
    """
    if name == "inferences":
        return _inferences(table)
    if name == "readings":
        return _readings(table, sensor_ids)
    return _events(table) if name == "events" else _seconds(table)


def _inferences(table: pa.Table) -> Inferences:
    inferences = np.zeros(len(table), INFERENCE)
    for name in INFERENCE.names or ():
        if name != "variant" or name in table.column_names:  # the first files of format 1 lack it
            inferences[name] = _codes(table[name], PHASES) if name == "phase" else np.asarray(table[name])
    return inferences


def _readings(table: pa.Table, sensor_ids: Sequence[str]) -> Readings:
    codes = _codes(table["sensor"], sensor_ids)
    listed = codes >= 0
    readings = np.empty(int(np.count_nonzero(listed)), READING)
    for name, values in (("t_ns", np.asarray(table["t_ns"])), ("sensor", codes), ("value", np.asarray(table["value"]))):
        readings[name] = values[listed]
    return readings


def _events(table: pa.Table) -> tuple[Event, ...]:
    return tuple(
        read_event(row["t_ns"], row["kind"], row["severity"], row["source"], row["message"], _data(row["data"]))
        for row in table.to_pylist()
    )


def _data(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


def _seconds(table: pa.Table) -> Seconds:
    columns = dict(zip(table.column_names, table.columns, strict=True))  # a look-up in a pa.Table lists all names
    rows = np.zeros(len(table), SECOND)
    for name in SECOND.names or ():
        if name in columns:
            rows[name] = _filled(columns[name])
        elif name in OF_DEADLINE:
            rows[name] = ABSENT
        elif name not in CAME_LATER:
            raise KeyError(name)
    seconds = _with_histograms(rows, columns["bucket"], columns["bucket_count"])
    return replace(seconds, response=_response(columns, rows))


def _response(columns: Mapping[str, pa.ChunkedArray], service: npt.NDArray[np.void]) -> Seconds | None:
    """Return the statistics of response times for each second, or None if a second lacks them.

    `columns` are the columns of the table `seconds`, by name. `service` has the statistics of service times.
    """
    lists = ("response_bucket", "response_bucket_count")
    if not len(service) or any(name not in columns for name in (*lists, *RESPONSE, *RESPONSE_SUMS)):
        return None
    if any(columns[name].null_count for name in lists):
        return None
    rows = np.zeros(len(service), SECOND)
    for name in ("t_ns", "count", "jitter_count"):
        rows[name] = service[name]
    for name in OF_DEADLINE:
        rows[name] = ABSENT
    for name in (*RESPONSE, *RESPONSE_SUMS):
        rows[name.removeprefix("response_")] = _filled(columns[name])
    return _with_histograms(rows, *(columns[name] for name in lists))


def _with_histograms(rows: npt.NDArray[np.void], bucket: pa.ChunkedArray, bucket_count: pa.ChunkedArray) -> Seconds:
    """Return a `Seconds` of `rows` with their histograms.

    For each row, `bucket` has the list of bucket numbers, and `bucket_count` the list of their counts. Raises
    ValueError if two such lists differ in length.
    """
    offsets, buckets = _lists(bucket.combine_chunks())
    other_offsets, counts = _lists(bucket_count.combine_chunks())
    if not np.array_equal(offsets, other_offsets):
        raise ValueError("bucket and bucket_count are not of one length")
    return Seconds(rows, offsets.astype(np.int32), buckets.astype(np.int16), counts.astype(np.int32))


def _lists(column: pa.ListArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return `(offsets, values)`: the items of list i are `values[offsets[i]:offsets[i + 1]]`."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    return offsets - offsets[0], np.asarray(column.values)[offsets[0] : offsets[-1]]


def _filled(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column of integers as an array, with ABSENT in place of nulls."""
    if not column.null_count:
        return np.asarray(column)
    filled: list[npt.NDArray[Any]] = []
    # `pyarrow.compute` would do the same, but takes 10 MiB of a writer's memory. A chunk has the layout of the Arrow
    # columnar format: a bitmap tells which values are present.
    for chunk in column.chunks:
        validity, data = chunk.buffers()
        dtype, begin = np.dtype(str(chunk.type)), chunk.offset  # to_pandas_dtype() would load pandas
        values = np.frombuffer(data, dtype, len(chunk), begin * dtype.itemsize)
        if validity is not None:
            bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=begin + len(chunk), bitorder="little")
            values = np.where(bits[begin:] == 1, values, np.array(ABSENT, dtype))
        filled.append(values)
    return np.concatenate(filled)


def _codes(column: pa.ChunkedArray, values: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return, for each row, the position of its text in `values`, or -1 for another text."""
    import pyarrow.compute as pc  # noqa: PLC0415  takes 10 MiB, which a writer saves

    wanted, codes = _names(values), [np.empty(0, np.int64)]
    for chunk in column.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.cast(pa.string()).dictionary_encode()
        places = np.asarray(pc.fill_null(pc.index_in(encoded.dictionary.cast(pa.string()), wanted), -1))
        codes.append(np.append(places, -1).astype(np.int64)[np.asarray(pc.fill_null(encoded.indices, len(places)))])
    return np.concatenate(codes)


def sound_rows(table: pa.Table) -> pa.Table:
    """Return the rows of an `operators` table whose times and number of calls are plausible.

    Raises pa.ArrowException if a column is invalid.
    """
    table.validate(full=True)
    sound = are_sound_operators(*(np.asarray(table[name]) for name in ("t_ns", "calls", "total_ns")))
    return table if sound.all() else table.filter(pa.array(sound))


def bursts_from_arrow(pieces: Iterable[pa.Table], shared: dict[Infos, Infos] | None = None) -> tuple[Burst, ...]:
    """Return the profiling rounds in consecutive parts of the `operators` table. Parts may divide a round.

    Rounds with equal lists of operators share one list object. `shared` maps each known list to that object, and gets
    new lists.
    """
    infos: dict[Infos, Infos] = {} if shared is None else shared
    return joined(burst for piece in pieces for burst in _bursts(piece, infos))


def _bursts(table: pa.Table, shared: dict[Infos, Infos]) -> Iterator[Burst]:
    if not len(table):
        return
    t_ns, number, calls, total_ns = (
        np.asarray(table[name]).astype(np.int64) for name in ("t_ns", "burst", "calls", "total_ns")
    )
    codes = np.empty((len(table), len(_INFO)), np.int32)  # for each row and field, the position in `values`
    values: list[list[object]] = []
    for place, name in enumerate(_INFO):
        codes[:, place], distinct = _encoded(table[name])
        values.append([*distinct, None])
    seen: dict[bytes, Infos] = {}
    begin = 0
    for end in [*(np.flatnonzero((np.diff(t_ns) != 0) | (np.diff(number) != 0)) + 1).tolist(), len(table)]:
        key = codes[begin:end].tobytes()
        if key not in seen:
            rows = ([value[code] for value, code in zip(values, row, strict=True)] for row in codes[begin:end].tolist())
            infos = tuple(OperatorInfo(*row) for row in rows)
            seen[key] = shared.setdefault(infos, infos) if len(shared) < MAX_SHARED else infos
        yield Burst(int(t_ns[begin]), int(number[begin]), seen[key], calls[begin:end], total_ns[begin:end])
        begin = end


def _encoded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[object]]:
    """Return each row's position in a list of distinct values, and this list.

    A null has the position of None, or the length of the list if None is not there.
    """
    if not pa.types.is_dictionary(column.type) and len(column) <= FEW_ROWS:
        rows = column.to_pylist()
        places = {value: place for place, value in enumerate(dict.fromkeys(rows))}
        return np.array([places[value] for value in rows], np.int32), list(places)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    distinct = whole.dictionary.to_pylist()
    return np.nan_to_num(np.asarray(whole.indices), nan=len(distinct)).astype(np.int32), distinct
