"""Read frames of journals of earlier versions: Arrow IPC messages, compressed by Zstandard.

In the first version each frame needed all earlier ones of its run; later frames need only their reference.
"""

import io
from functools import lru_cache

import numpy as np
import pyarrow as pa

from edgetop.recording import columns, packing
from edgetop.recording.columns import EVENTS, OPERATORS, SECONDS, SYMBOL
from edgetop.recording.frames import OPENING, Frame
from edgetop.recording.packing import Readers, inferences_of
from edgetop.session.records import READING, Inferences, Readings
from edgetop.session.seconds import SECOND

_INFERENCES, _READINGS, _EVENTS, _FIRST_SECONDS, _FIRST_PARTIAL, _BURSTS, _SECONDS, _PARTIAL = 1, 2, 3, 4, 6, 7, 8, 9


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
_EVENT_COLUMNS, _BURST_COLUMNS = (
    pa.schema([pa.field(f.name, pa.string() if f.type == SYMBOL else f.type, f.nullable) for f in schema])
    for schema in (EVENTS, OPERATORS)
)
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
        stream = _Unpacker() if frame.has(OPENING) else None if is_gap else self._stream
        self._stream = None
        if stream is None:
            raise ValueError("the frames before it are missing")
        payload = stream.unpack(frame)
        self._stream = stream
        return payload


class _Unpacker:
    """Zstandard over consecutive payloads."""

    def __init__(self) -> None:
        self._source = _Pipe()
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._source, "r"), "zstd")

    def unpack(self, frame: Frame) -> bytes:
        self._source.pending += frame.payload
        try:
            payload = bytes(self._stream.read(frame.unpacked_bytes))
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"not compressed by Zstandard: {error}") from None
        if len(payload) < frame.unpacked_bytes:
            raise ValueError("shorter than it says")
        return payload


class _Pipe(io.RawIOBase):
    def __init__(self) -> None:
        self.pending = bytearray()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = bytes(self.pending if size < 0 else self.pending[:size])
        del self.pending[: len(taken)]
        return taken


def _rows(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Raises ValueError if offsets, lengths or text of the message are invalid."""
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


def _inferences(data: bytes, _: int = 0) -> Inferences:
    rows = _rows(data, _INFERENCE_COLUMNS)
    return inferences_of(rows["pause_ns"].to_numpy().copy(), lambda name: rows[name].to_numpy(zero_copy_only=False))


def _readings(data: bytes, _: int = 0) -> Readings:
    rows = _rows(data, _READING_COLUMNS)
    readings = np.empty(len(rows), READING)
    readings["t_ns"] = np.cumsum(rows["step_ns"].to_numpy())
    for name in ("sensor", "value"):
        readings[name] = rows[name].to_numpy()
    return readings


READERS: Readers = {
    packing.MANIFEST: packing.READERS[packing.MANIFEST],
    _INFERENCES: ("inferences", _inferences),
    _READINGS: ("readings", _readings),
    _EVENTS: ("events", lambda data, _: columns.from_arrow("events", _table(data, _EVENT_COLUMNS))),
    _SECONDS: ("seconds", lambda data, _: columns.from_arrow("seconds", _table(data, SECONDS))),
    _FIRST_SECONDS: ("seconds", lambda data, _: columns.from_arrow("seconds", _table(data, _FIRST_SECOND_COLUMNS))),
    _BURSTS: ("bursts", lambda data, _: columns.bursts_from_arrow([_table(data, _BURST_COLUMNS)])),
    _PARTIAL: ("partial", lambda data, _: columns.from_arrow("seconds", _table(data, SECONDS))),
    _FIRST_PARTIAL: ("partial", lambda data, _: columns.from_arrow("seconds", _table(data, _FIRST_SECOND_COLUMNS))),
}
