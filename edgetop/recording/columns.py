"""Batches into Arrow columns and back. Each pair is an identity, proven by a property test."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgetop.recording.operator_columns import bursts_to_arrow
from edgetop.recording.packing import encodable
from edgetop.recording.schema import CAME_LATER, EVENTS, INFERENCES, READINGS, RESPONSE, RESPONSE_SUMS, SECONDS
from edgetop.recording.soundness import sound_data
from edgetop.session.events import Event, JsonValue
from edgetop.session.records import INFERENCE, PHASES, READING, Inferences, Readings
from edgetop.session.seconds import ABSENT, OF_DEADLINE, PERCENTILE_FIELDS, SECOND, Seconds

_MAY_BE_ABSENT = (*OF_DEADLINE, "min_ns", "max_ns", *PERCENTILE_FIELDS)


def to_arrow(name: str, rows: Any, sensor_ids: Sequence[str]) -> pa.Table:
    """Rows of a table, with the columns of the format."""
    if name == "readings":
        return pa.Table.from_batches([readings_to_arrow(rows, sensor_ids)])
    writers: dict[str, Callable[[Any], pa.RecordBatch]] = {
        "inferences": inferences_to_arrow,
        "operators": bursts_to_arrow,
        "events": events_to_arrow,
        "seconds": seconds_to_arrow,
    }
    return pa.Table.from_batches([writers[name](rows)])


def inferences_to_arrow(inferences: Inferences) -> pa.RecordBatch:
    columns = [pa.array(np.ascontiguousarray(inferences[name])) for name in ("t_ns", "latency_ns", "wait_ns", "stream")]
    phase = _dictionary(inferences["phase"].astype(np.int32), PHASES)
    ok = pa.array(np.ascontiguousarray(inferences["ok"]))
    return pa.record_batch([*columns, phase, ok], schema=INFERENCES)


def inferences_from_arrow(table: pa.Table) -> Inferences:
    inferences = np.empty(len(table), INFERENCE)
    for name in ("t_ns", "latency_ns", "wait_ns", "stream", "ok"):
        inferences[name] = _numpy(table[name])
    inferences["phase"] = _codes(table["phase"], PHASES)
    return inferences


def readings_to_arrow(readings: Readings, sensor_ids: Sequence[str]) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array(np.ascontiguousarray(readings["t_ns"])),
            _dictionary(readings["sensor"].astype(np.int32), sensor_ids),
            pa.array(np.ascontiguousarray(readings["value"])),
        ],
        schema=READINGS,
    )


def readings_from_arrow(table: pa.Table, sensor_ids: Sequence[str]) -> Readings:
    """Rows of sensors that the manifest does not list are left out."""
    codes = _codes(table["sensor"], sensor_ids)
    known = codes >= 0
    readings = np.empty(int(np.count_nonzero(known)), READING)
    readings["t_ns"] = _numpy(table["t_ns"])[known]
    readings["sensor"] = codes[known]
    readings["value"] = _numpy(table["value"])[known]
    return readings


def events_to_arrow(events: Sequence[Event]) -> pa.RecordBatch:
    columns = {
        "t_ns": [event.t_ns for event in events],
        "kind": [event.kind for event in events],
        "severity": [event.severity for event in events],
        "source": [encodable(event.source) for event in events],
        "message": [encodable(event.message) for event in events],
        "data": [json.dumps(dict(event.data)) for event in events],
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in EVENTS], schema=EVENTS)


def events_from_arrow(table: pa.Table) -> tuple[Event, ...]:
    return tuple(
        Event(row["t_ns"], row["kind"], row["severity"], row["source"], row["message"], _data(row["data"]))
        for row in table.to_pylist()
    )


def _data(text: str) -> dict[str, JsonValue]:
    try:
        return sound_data(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def seconds_to_arrow(seconds: Seconds) -> pa.RecordBatch:
    arrays = _figures(seconds)
    if seconds.response is not None:
        arrays.update((f"response_{name}", array) for name, array in _figures(seconds.response).items())
    columns = [arrays.get(field.name, pa.nulls(len(seconds), field.type)) for field in SECONDS]
    return pa.record_batch(columns, schema=SECONDS)


def _figures(seconds: Seconds) -> dict[str, pa.Array]:
    arrays = {}
    for name in SECOND.names or ():
        values = np.ascontiguousarray(seconds.rows[name])
        arrays[name] = pa.array(values, mask=values == ABSENT) if name in _MAY_BE_ABSENT else pa.array(values)
    offsets = pa.array(seconds.offsets)
    arrays["bucket"] = pa.ListArray.from_arrays(offsets, pa.array(seconds.bucket))
    arrays["bucket_count"] = pa.ListArray.from_arrays(offsets, pa.array(seconds.bucket_count))
    return arrays


def seconds_from_arrow(table: pa.Table) -> Seconds:
    there = dict(zip(table.column_names, table.columns, strict=True))  # each look-up in a table lists all names
    rows = np.zeros(len(table), SECOND)
    for name in SECOND.names or ():
        if name in there:
            rows[name] = _filled(there[name], ABSENT)
        elif name in OF_DEADLINE:
            rows[name] = ABSENT
        elif name not in CAME_LATER:
            raise KeyError(name)
    seconds = with_histograms(rows, there["bucket"].combine_chunks(), there["bucket_count"].combine_chunks())
    return replace(seconds, response=_response_from_arrow(there, rows))


def _response_from_arrow(there: Mapping[str, pa.ChunkedArray], service: npt.NDArray[np.void]) -> Seconds | None:
    """None where a second has none: a closed load, or a file of another program."""
    wanted = ("response_bucket", "response_bucket_count", *RESPONSE, *RESPONSE_SUMS)
    if not len(service) or any(name not in there for name in wanted):
        return None
    if any(there[name].null_count for name in wanted[:2]):
        return None
    bucket, bucket_count = (there[name].combine_chunks() for name in wanted[:2])
    rows = np.zeros(len(service), SECOND)
    for name in ("t_ns", "count", "jitter_count"):
        rows[name] = service[name]
    for name in OF_DEADLINE:
        rows[name] = ABSENT
    for name in (*RESPONSE, *RESPONSE_SUMS):
        rows[name.removeprefix("response_")] = _filled(there[name], ABSENT)
    return with_histograms(rows, bucket, bucket_count)


def with_histograms(rows: npt.NDArray[np.void], bucket: pa.ListArray, bucket_count: pa.ListArray) -> Seconds:
    """Raises ValueError where the lists do not belong together."""
    offsets, buckets = _lists(bucket)
    other_offsets, counts = _lists(bucket_count)
    if not np.array_equal(offsets, other_offsets):
        raise ValueError("bucket and bucket_count are not of one length")
    return Seconds(rows, offsets.astype(np.int32), buckets.astype(np.int16), counts.astype(np.int32))


def _lists(column: pa.ListArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.generic]]:
    """Where each list begins and, behind the last, ends in the values of all of them; these values."""
    offsets = _numpy(column.offsets).astype(np.int64)
    return offsets - offsets[0], _numpy(column.values)[offsets[0] : offsets[-1]]


def _filled(column: pa.ChunkedArray, absent: int) -> npt.NDArray[np.generic]:
    """With `absent` for null. pyarrow.compute would do it too, in 10 MiB that a writer does without."""
    if not column.null_count:
        return _numpy(column)
    return np.concatenate([_filled_chunk(chunk, absent) for chunk in column.chunks])


def _filled_chunk(numbers: pa.Array, absent: int) -> npt.NDArray[np.generic]:
    """Of integers, laid out as the Arrow columnar format says: a bit for each value that is there."""
    validity, data = numbers.buffers()
    dtype, begin = np.dtype(str(numbers.type)), numbers.offset  # to_pandas_dtype() would load pandas
    values = np.frombuffer(data, dtype, len(numbers), begin * dtype.itemsize)
    if validity is None:
        return values
    bits = np.unpackbits(np.frombuffer(validity, np.uint8), count=begin + len(numbers), bitorder="little")
    return np.where(bits[begin:] == 1, values, np.array(absent, dtype))


def _dictionary(codes: npt.NDArray[np.int32], values: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), _names(values))


def _codes(column: pa.ChunkedArray, values: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each row its position in `values`, or -1. Each name is looked up once, not once a row."""
    import pyarrow.compute as pc  # noqa: PLC0415  10 MiB that a writer does without

    wanted, found = _names(values), [np.empty(0, np.int64)]
    for chunk in column.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.cast(pa.string()).dictionary_encode()
        codes = _numpy(pc.fill_null(pc.index_in(encoded.dictionary.cast(pa.string()), wanted), -1)).astype(np.int64)
        indices = _numpy(pc.fill_null(encoded.indices, len(codes)))
        found.append(np.append(codes, -1)[indices])
    return np.concatenate(found)


def _names(values: Sequence[str]) -> pa.StringArray:
    return pa.array([encodable(value) for value in values], pa.string())


def _numpy(column: pa.Array) -> npt.NDArray[np.generic]:
    """Of an Array or a ChunkedArray."""
    return np.asarray(column)
