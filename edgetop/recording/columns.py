"""Batches into Arrow columns and back. Each pair is an identity, proven by a property test."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from edgetop.recording.packing import encodable
from edgetop.recording.schema import (
    CAME_LATER,
    EVENTS,
    INFERENCES,
    OPERATORS,
    READINGS,
    RESPONSE,
    RESPONSE_SUMS,
    SECONDS,
)
from edgetop.recording.soundness import are_sound_operators, sound_data
from edgetop.session.events import Event, JsonValue
from edgetop.session.operators import Burst, Numbers, OperatorInfo, joined
from edgetop.session.records import INFERENCE, PHASES, READING, Inferences, Readings
from edgetop.session.seconds import ABSENT, OF_DEADLINE, PERCENTILE_FIELDS, SECOND, Seconds

# Bursts into Arrow columns and back: a row an operator. What is not known (FLOPs, bytes, origin) is null.

_INFO = ("name", "op_type", "provider", "flops", "bytes", "origin")  # the fields of an OperatorInfo

MAX_KNOWN = 64  # a model runs in few ways
FEW_ROWS = 8_192  # a writer has fewer at a time, and does without Arrow's compute functions then: 10 MiB

Infos = tuple[OperatorInfo, ...]


def bursts_to_arrow(bursts: Sequence[Burst]) -> pa.RecordBatch:
    sizes = [len(burst) for burst in bursts]
    infos = [info for burst in bursts for info in burst.infos]
    columns = {
        "t_ns": np.repeat([burst.t_ns for burst in bursts], sizes),
        "burst": np.repeat([burst.number for burst in bursts], sizes),
        "position": np.fromiter(chain.from_iterable(map(range, sizes)), np.int64),
        "calls": _concatenated(burst.calls for burst in bursts),
        "total_ns": _concatenated(burst.total_ns for burst in bursts),
        **{name: [encodable(getattr(info, name)) for info in infos] for name in ("name", "op_type", "provider")},
        **{name: [getattr(info, name) for info in infos] for name in ("flops", "bytes")},
        "origin": [None if info.origin is None else encodable(info.origin) for info in infos],
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in OPERATORS], schema=OPERATORS)


def _concatenated(arrays: Iterable[Numbers]) -> Numbers:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def sound_rows(table: pa.Table) -> pa.Table:
    """Those that can be true. Raises pa.ArrowException where the columns are not sound themselves."""
    table.validate(full=True)
    sound = are_sound_operators(*(np.asarray(table[name]) for name in ("t_ns", "calls", "total_ns")))
    return table if sound.all() else table.filter(pa.array(sound))


def bursts_from_arrow(pieces: Sequence[pa.Table], known: dict[Infos, Infos] | None = None) -> tuple[Burst, ...]:
    """The bursts of pieces that follow one another; where one ends, a burst may be cut.

    `known`: what other bursts have, to be shared with these.
    """
    shared: dict[Infos, Infos] = {} if known is None else known
    return joined(burst for piece in pieces for burst in _bursts(piece, shared))


def _bursts(table: pa.Table, known: dict[Infos, Infos]) -> Iterator[Burst]:
    if not len(table):
        return
    t_ns, number, calls, total_ns = (
        np.asarray(table[name]).astype(np.int64) for name in ("t_ns", "burst", "calls", "total_ns")
    )
    begins = np.flatnonzero((np.diff(t_ns) != 0) | (np.diff(number) != 0)) + 1
    ends = [*begins.tolist(), len(table)]
    codes, values = _coded(table)
    seen: dict[bytes, Infos] = {}
    begin = 0
    for end in ends:
        key = codes[begin:end].tobytes()
        if key not in seen:
            infos = _infos(codes[begin:end], values)
            seen[key] = known.setdefault(infos, infos) if len(known) < MAX_KNOWN else infos
        yield Burst(int(t_ns[begin]), int(number[begin]), seen[key], calls[begin:end], total_ns[begin:end])
        begin = end


def _coded(table: pa.Table) -> tuple[npt.NDArray[np.int32], list[list[object]]]:
    """For each row the places of what it is among the values of each column; each value is made once."""
    codes = np.empty((len(table), len(_INFO)), np.int32)
    values = []
    for place, name in enumerate(_INFO):
        codes[:, place], found = _encoded(table[name])
        values.append([*found, None])
    return codes, values


def _encoded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[object]]:
    """For each row the place of its value among all there are, which is behind their last where it has none."""
    if not pa.types.is_dictionary(column.type) and len(column) <= FEW_ROWS:
        rows = column.to_pylist()
        places = {value: place for place, value in enumerate(dict.fromkeys(rows))}
        return np.array([places[value] for value in rows], np.int32), list(places)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    whole = encoded.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    found = whole.dictionary.to_pylist()
    return np.nan_to_num(np.asarray(whole.indices), nan=len(found)).astype(np.int32), found


def _infos(codes: npt.NDArray[np.int32], values: list[list[object]]) -> Infos:
    return tuple(
        OperatorInfo(*(value[code] for value, code in zip(values, row, strict=True))) for row in codes.tolist()
    )


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
    ok, variant = (pa.array(np.ascontiguousarray(inferences[name])) for name in ("ok", "variant"))
    return pa.record_batch([*columns, phase, ok, variant], schema=INFERENCES)


def inferences_from_arrow(table: pa.Table) -> Inferences:
    inferences = np.zeros(len(table), INFERENCE)
    for name in ("t_ns", "latency_ns", "wait_ns", "stream", "ok"):
        inferences[name] = _numpy(table[name])
    if "variant" in table.column_names:  # not in the first files of format 1
        inferences["variant"] = _numpy(table["variant"])
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
    return np.asarray(column)
