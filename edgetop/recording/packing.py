"""A batch as the payload of a journal's frame, and back: Arrow IPC messages, each under its kind.

Columns are those of the tables, made small for a stream that is never queried: times as
differences, names of phases and sensors as their places. The messages of one batch are much like
those of the next, so Zstandard takes each as what follows some of those before it, the
reference. So a frame needs the reference and no other frame, and a damaged one spoils only itself.
"""

import io
import json
import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from edgetop.recording import columns, operator_columns
from edgetop.recording.schema import EVENTS, OPERATORS
from edgetop.recording.schema import SECONDS as SECONDS_TABLE
from edgetop.session.batch import Batch
from edgetop.session.manifest import from_json, to_json
from edgetop.session.records import INFERENCE, PHASES, READING, Inferences, Readings
from edgetop.session.seconds import SECOND, Seconds

(
    MANIFEST, INFERENCES, READINGS, EVENTS_KIND, _FIRST_SECONDS, INTERVAL, _FIRST_BEGUN, BURSTS, SECONDS, BEGUN, TALLY,
) = range(11)  # fmt: skip
KINDS = {
    "manifest": MANIFEST,
    "inferences": INFERENCES,
    "readings": READINGS,
    "events": EVENTS_KIND,
    "seconds": SECONDS,
    "bursts": BURSTS,
}

_PART = struct.Struct("<BI")  # kind, bytes
_INTERVAL = struct.Struct("<q")
TALLY_STEP_NS = 1_000_000  # as exactly is the time told: what varies in each batch costs room in each


def _plain(of_table: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_dictionary(of_table) else of_table


_INFERENCES = pa.schema(
    [
        pa.field("pause_ns", pa.int64(), nullable=False),  # start less the end of the one before it in this message
        pa.field("latency_ns", pa.int64(), nullable=False),
        pa.field("wait_ns", pa.int64(), nullable=False),
        pa.field("stream", pa.uint8(), nullable=False),
        pa.field("phase", pa.uint8(), nullable=False),  # place in PHASES
        pa.field("ok", pa.bool_(), nullable=False),
    ]
)
_READINGS = pa.schema(
    [
        pa.field("step_ns", pa.int64(), nullable=False),  # time less that of the one before it in this message
        pa.field("sensor", pa.uint16(), nullable=False),  # place in the last manifest's sensors
        pa.field("value", pa.float64(), nullable=False),
    ]
)
_EVENTS = pa.schema([pa.field(f.name, _plain(f.type), nullable=False) for f in EVENTS])
_BURSTS = pa.schema([pa.field(f.name, _plain(f.type), f.nullable) for f in OPERATORS])
# What kinds 4 and 6 held, in journals before response times and runs of misses; kinds 8 and 9 are as the table.
_FIRST_NAMES = (
    "t_ns", "count", "errors", "deadline_misses", "sum_ns", "min_ns", "max_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns",
    "p999_ns", "m2_ns2", "jitter_sum_ns", "jitter_count",
)  # fmt: skip
_SECONDS_BEFORE = pa.schema(
    [
        *[pa.field(name, pa.from_numpy_dtype(SECOND[name]), nullable=False) for name in _FIRST_NAMES],
        pa.field("bucket", pa.list_(pa.int16()), nullable=False),
        pa.field("bucket_count", pa.list_(pa.int32()), nullable=False),
    ]
)


def pack(batch: Batch) -> bytes:
    """Everything of it but `until_ns`, which the frame carries, and `restart`."""
    return b"".join(_PART.pack(kind, len(data)) + data for kind, data in _parts(batch))


def _parts(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Those first that are alike in each batch: a reference is the beginning of one."""
    if len(batch.readings):
        yield READINGS, _message(_readings_to_arrow(batch.readings))
    if batch.events:
        yield EVENTS_KIND, _message(columns.events_to_arrow(batch.events, _EVENTS))
    if len(batch.seconds):
        yield SECONDS, _message(columns.seconds_to_arrow(batch.seconds))
    if batch.bursts:
        yield BURSTS, _message(operator_columns.bursts_to_arrow(batch.bursts, _BURSTS))
    if len(batch.inferences):
        yield INFERENCES, _message(_inferences_to_arrow(batch.inferences))
    if batch.manifest is not None:
        yield MANIFEST, json.dumps(to_json(batch.manifest)).encode()


def unpack(
    payload: bytes, until_ns: int, wanted: Collection[str] = tuple(KINDS), most_inferences: int | None = None
) -> Batch:
    """The batch of a frame, or what is wanted of it; of more than `most_inferences`, the last.

    Raises ValueError where the payload is not sound.
    """
    names = {KINDS[name]: name for name in wanted}
    if "seconds" in wanted:
        names[_FIRST_SECONDS] = "seconds"
    parts: dict[str, Any] = {}
    for kind, data in _split(payload):
        if kind == INFERENCES and kind in names:
            parts[names[kind]] = _inferences_from_arrow(data, most_inferences)
        elif kind in names:
            parts[names[kind]] = _READERS[kind](data)
    return Batch(until_ns=until_ns, **parts)


def pack_interval(fsync_interval_ns: int) -> bytes:
    """A part that says how much a loss of power may cost; it comes before those of a batch."""
    return _PART.pack(INTERVAL, _INTERVAL.size) + _INTERVAL.pack(fsync_interval_ns)


def interval_of(payload: bytes) -> int | None:
    """What `pack_interval` said, where the payload begins with it."""
    kind, data = next(_split(payload), (None, b""))
    return int(_INTERVAL.unpack(data)[0]) if kind == INTERVAL and len(data) == _INTERVAL.size else None


def pack_begun(second: Seconds) -> bytes:
    """A part that holds a second before it is complete, where its inferences are not kept."""
    message = _message(columns.seconds_to_arrow(second)) if len(second) else b""
    return _PART.pack(BEGUN, len(message)) + message if message else b""


def begun_of(payload: bytes) -> Seconds | None:
    """What `pack_begun` kept in it. Raises ValueError."""
    schemas = {BEGUN: SECONDS_TABLE, _FIRST_BEGUN: _SECONDS_BEFORE}
    found = (_seconds_from_arrow(data, schemas[kind]) for kind, data in _split(payload) if kind in schemas)
    return next(found, None)


@dataclass(frozen=True, slots=True)
class Tally:
    """How much a writer had put into its journal by a moment."""

    until_ns: int = 0
    inferences: int = 0  # single ones
    counted: int = 0  # inferences that its seconds count, errors included

    def after(self, batch: Batch) -> "Tally":
        """The tally when that is written too."""
        counted = int(
            batch.seconds.rows["count"].sum(dtype=np.int64) + batch.seconds.rows["errors"].sum(dtype=np.int64)
        )
        return Tally(batch.until_ns, self.inferences + len(batch.inferences), self.counted + counted)


def pack_tally(before: Tally, after: Tally) -> bytes:
    """A part that says how much was written before a frame, and with it: by that a reader knows what it lacks."""
    since_ms = max(0, after.until_ns - before.until_ns) // TALLY_STEP_NS
    own = after.inferences - before.inferences, after.counted - before.counted
    data = b"".join(map(_varint, (since_ms, before.inferences, before.counted, *own)))
    return _PART.pack(TALLY, len(data)) + data


def tallies_of(payload: bytes, until_ns: int) -> tuple[Tally, Tally] | None:
    """What `pack_tally` said; None: a writer of an earlier version did not. Raises ValueError."""
    for kind, data in _split(payload):
        if kind == TALLY:
            since_ms, inferences, counted, own, own_counted = _varints(data)
            before = Tally(until_ns - since_ms * TALLY_STEP_NS, inferences, counted)
            return before, Tally(until_ns, inferences + own, counted + own_counted)
    return None


def _varint(number: int) -> bytes:
    """Seven bits a byte, the least first; all but the last byte have the eighth set."""
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + _varint(high) if high else bytes([low])


def _varints(data: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    return numbers


def _split(payload: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(payload):
        if offset + _PART.size > len(payload):
            raise ValueError("a part of a batch is cut short")
        kind, size = _PART.unpack_from(payload, offset)
        offset += _PART.size
        data = payload[offset : offset + size]
        if len(data) < size:
            raise ValueError("a part of a batch is cut short")
        offset += size
        yield kind, data


def _message(rows: pa.RecordBatch) -> bytes:
    return bytes(rows.serialize().to_pybytes())


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


def _inferences_to_arrow(inferences: Inferences) -> pa.RecordBatch:
    ends = inferences["t_ns"] + inferences["latency_ns"]
    pause = inferences["t_ns"].copy()
    pause[1:] -= ends[:-1]
    rest = [
        pa.array(np.ascontiguousarray(inferences[name])) for name in ("latency_ns", "wait_ns", "stream", "phase", "ok")
    ]
    return pa.record_batch([pa.array(pause), *rest], schema=_INFERENCES)


def _inferences_from_arrow(data: bytes, most: int | None = None) -> Inferences:
    rows = _rows(data, _INFERENCES)
    pause_ns, latency_ns = (rows.column(place).to_numpy() for place in (0, 1))
    if most is not None and len(rows) > most:  # their last one alone
        rows = rows.slice(len(rows) - 1)
        pause_ns, latency_ns = np.array([pause_ns.sum() + latency_ns[:-1].sum()]), latency_ns[-1:]
    inferences = np.empty(len(rows), INFERENCE)
    inferences["latency_ns"] = latency_ns
    for name in ("wait_ns", "stream", "phase"):
        inferences[name] = rows[name].to_numpy()
    inferences["ok"] = rows["ok"].to_numpy(zero_copy_only=False)
    steps = pause_ns.copy()
    steps[1:] += latency_ns[:-1]
    inferences["t_ns"] = np.cumsum(steps)
    if len(inferences) and inferences["phase"].max() >= len(PHASES):
        raise ValueError("an inference of no known phase")
    return inferences


def _readings_to_arrow(readings: Readings) -> pa.RecordBatch:
    step = np.diff(readings["t_ns"], prepend=0)
    rest = [pa.array(np.ascontiguousarray(readings[name])) for name in ("sensor", "value")]
    return pa.record_batch([pa.array(step), *rest], schema=_READINGS)


def _readings_from_arrow(data: bytes) -> Readings:
    rows = _rows(data, _READINGS)
    readings = np.empty(len(rows), READING)
    readings["t_ns"] = np.cumsum(rows["step_ns"].to_numpy())
    for name in ("sensor", "value"):
        readings[name] = rows[name].to_numpy()
    return readings


def _seconds_from_arrow(data: bytes, schema: pa.Schema) -> Seconds:
    return columns.seconds_from_arrow(pa.Table.from_batches([_rows(data, schema)]))


_READERS: dict[int, Callable[[bytes], object]] = {
    MANIFEST: lambda data: from_json(json.loads(data)),
    READINGS: _readings_from_arrow,
    EVENTS_KIND: lambda data: columns.events_from_arrow(pa.Table.from_batches([_rows(data, _EVENTS)])),
    SECONDS: lambda data: _seconds_from_arrow(data, SECONDS_TABLE),
    _FIRST_SECONDS: lambda data: _seconds_from_arrow(data, _SECONDS_BEFORE),
    BURSTS: lambda data: operator_columns.bursts_from_arrow([pa.Table.from_batches([_rows(data, _BURSTS)])]),
}


def pack_after(reference: bytes, payload: bytes) -> bytes:
    """It can be unpacked once the reference was, packed by a Packer of its own."""
    packer = Packer()
    packer.pack(reference)
    return packer.pack(payload)


class Packer:
    """Zstandard over consecutive payloads: each can be unpacked once those before it were."""

    def __init__(self) -> None:
        self._sink = _Pipe()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._sink, "w"), "zstd")

    def pack(self, payload: bytes) -> bytes:
        self._stream.write(payload)
        self._stream.flush()
        return self._sink.read()


class Unpacker:
    """The other end of one Packer."""

    def __init__(self) -> None:
        self._source = _Pipe()
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._source, "r"), "zstd")

    def unpack(self, packed: bytes, size: int) -> bytes:
        """Raises ValueError where that is not `size` bytes of a packer's."""
        self._source.write(packed)
        try:
            payload = bytes(self._stream.read(size))
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"not compressed by Zstandard: {error}") from None
        if len(payload) < size:
            raise ValueError("shorter than it says")
        return payload


class _Pipe(io.RawIOBase):
    """Bytes in, bytes out."""

    def __init__(self) -> None:
        self._held = bytearray()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._held += data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        taken = bytes(self._held if size < 0 else self._held[:size])
        del self._held[: len(taken)]
        return taken
