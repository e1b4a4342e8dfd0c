"""Frames of journals of earlier versions: Arrow IPC messages, compressed by Zstandard. They are only read.

In the first of them each frame needed all those of its run before it; later ones need their reference alone.
"""

import io
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from edgetop.recording import columns
from edgetop.recording.frames import Frame
from edgetop.recording.packing import KINDS, inferences_of, split, with_last
from edgetop.recording.packing import unpack as unpack_deflated
from edgetop.recording.schema import EVENTS, OPERATORS, SECONDS
from edgetop.session.batch import Batch
from edgetop.session.records import READING, Inferences, Readings
from edgetop.session.seconds import SECOND, Seconds

_INFERENCES, _READINGS, _EVENTS, _FIRST_SECONDS, _FIRST_BEGUN, _BURSTS, _SECONDS, _BEGUN = 1, 2, 3, 4, 6, 7, 8, 9


def _plain(of_table: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_dictionary(of_table) else of_table


def _required(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])


_INFERENCE_COLUMNS = _required(
    pause_ns=pa.int64(),  # start less the end of the one before it in this message
    latency_ns=pa.int64(),
    wait_ns=pa.int64(),
    stream=pa.uint8(),
    phase=pa.uint8(),  # place in PHASES
    ok=pa.bool_(),
)
_READING_COLUMNS = _required(
    step_ns=pa.int64(),  # time less that of the one before it in this message
    sensor=pa.uint16(),  # place in the last manifest's sensors
    value=pa.float64(),
)
_EVENT_COLUMNS = pa.schema([pa.field(f.name, _plain(f.type), nullable=False) for f in EVENTS])
_BURST_COLUMNS = pa.schema([pa.field(f.name, _plain(f.type), f.nullable) for f in OPERATORS])
# Before response times and runs of misses.
_FIRST_SECOND_COLUMNS = _required(
    **{name: pa.from_numpy_dtype(SECOND[name]) for name in (SECOND.names or ()) if not name.startswith("miss_run")},
    bucket=pa.list_(pa.int16()),
    bucket_count=pa.list_(pa.int32()),
)


class EarlierFrames:
    """Reads the frames of one segment in their order."""

    def __init__(self) -> None:
        self._stream: _Unpacker | None = None  # of a run in which each frame needs all before it

    def payload_of(self, frame: Frame, reference: Frame | None, *, is_gap: bool) -> bytes:
        """`reference`: where it needs one. `is_gap`: something before it could not be read. Raises ValueError."""
        if reference is not None:
            alone = _Unpacker()
            alone.unpack(reference)
            return alone.unpack(frame)
        stream = _Unpacker() if frame.is_opening else None if is_gap else self._stream
        self._stream = None
        if stream is None:
            raise ValueError("the frames before it are missing")
        payload = stream.unpack(frame)
        self._stream = stream
        return payload

    def unpack(self, payload: bytes, until_ns: int, wanted: Collection[str], most_inferences: int | None) -> Batch:
        """As `packing.unpack`."""
        parts: dict[str, Any] = {}
        for kind, data in split(payload):
            if kind in _READERS and _READERS[kind][0] in wanted:
                name, read = _READERS[kind]
                parts[name] = read(data)
        manifest = unpack_deflated(payload, until_ns, {"manifest"} & {*wanted} & {*KINDS}).manifest
        return Batch(until_ns=until_ns, manifest=manifest, **with_last(parts, most_inferences))

    def begun_of(self, payload: bytes) -> Seconds | None:
        """As `packing.begun_of`."""
        schemas = {_BEGUN: SECONDS, _FIRST_BEGUN: _FIRST_SECOND_COLUMNS}
        return next((_seconds(data, schemas[kind]) for kind, data in split(payload) if kind in schemas), None)


class _Unpacker:
    """Zstandard over consecutive payloads."""

    def __init__(self) -> None:
        self._source = _Pipe()
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._source, "r"), "zstd")

    def unpack(self, frame: Frame) -> bytes:
        self._source.held += frame.payload
        try:
            payload = bytes(self._stream.read(frame.unpacked_bytes))
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"not compressed by Zstandard: {error}") from None
        if len(payload) < frame.unpacked_bytes:
            raise ValueError("shorter than it says")
        return payload


class _Pipe(io.RawIOBase):
    def __init__(self) -> None:
        self.held = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = bytes(self.held if size < 0 else self.held[:size])
        del self.held[: len(taken)]
        return taken


def _rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Raises ValueError where the message is not sound, whoever wrote it: offsets, lengths, text."""
    try:
        rows = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"not an Arrow message: {error}") from None
    if any(rows.column(place).null_count for place in _never_null(schema)):
        raise ValueError("a value is missing")
    return rows


@lru_cache
def _never_null(schema: pa.Schema) -> tuple[int, ...]:
    return tuple(place for place, field in enumerate(schema) if not field.nullable)


def _table(data: bytes, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([_rows(data, schema)])


def _inferences(data: bytes) -> Inferences:
    rows = _rows(data, _INFERENCE_COLUMNS)
    return inferences_of(rows["pause_ns"].to_numpy().copy(), lambda name: rows[name].to_numpy(zero_copy_only=False))


def _readings(data: bytes) -> Readings:
    rows = _rows(data, _READING_COLUMNS)
    readings = np.empty(len(rows), READING)
    readings["t_ns"] = np.cumsum(rows["step_ns"].to_numpy())
    for name in ("sensor", "value"):
        readings[name] = rows[name].to_numpy()
    return readings


def _seconds(data: bytes, schema: pa.Schema) -> Seconds:
    return columns.seconds_from_arrow(_table(data, schema))


_READERS: dict[int, tuple[str, Callable[[bytes], object]]] = {
    _INFERENCES: ("inferences", _inferences),
    _READINGS: ("readings", _readings),
    _EVENTS: ("events", lambda data: columns.events_from_arrow(_table(data, _EVENT_COLUMNS))),
    _SECONDS: ("seconds", lambda data: _seconds(data, SECONDS)),
    _FIRST_SECONDS: ("seconds", lambda data: _seconds(data, _FIRST_SECOND_COLUMNS)),
    _BURSTS: ("bursts", lambda data: columns.bursts_from_arrow([_table(data, _BURST_COLUMNS)])),
}
