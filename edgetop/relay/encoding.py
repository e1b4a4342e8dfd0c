"""A batch as bytes, and back: columns of differences, deflated as one stream for as long as the link lasts.

Whoever decodes believes nothing: what cannot be true is a ValueError, and a payload that would
grow beyond what a batch can be is never unpacked.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import astuple
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.relay.credible import MAX_SESSION_NS, are_times, is_time, lies, require, take_rows
from edgetop.relay.packed_seconds import pack_seconds, read_seconds
from edgetop.relay.wire import MAX_PAYLOAD
from edgetop.session import byte_shuffle
from edgetop.session.batch import Batch
from edgetop.session.byte_shuffle import Columns
from edgetop.session.events import Event
from edgetop.session.manifest import from_json, to_json
from edgetop.session.operators import Burst, OperatorInfo
from edgetop.session.records import INFERENCE, PHASES, READING, STRETCH, Inferences, Readings, Stretches

# How many seconds, readings, events and bursts a viewer was given, and when the last inference started.
Position = tuple[int, int, int, int, int]
NOWHERE: Position = (-1, -1, -1, -1, -1)  # in the middle of a past: who is cut off there begins anew

MAX_UNPACKED = 8 * 1024 * 1024
MAX_SENSORS = 512
MAX_OPERATORS = 20_000  # of a burst
MAX_TEXT = 2_000

_HEAD = struct.Struct("<qB5q")  # until_ns, whether it begins anew, the position behind it
_PART = struct.Struct("<BI")  # kind, bytes
_MANIFEST, _SECONDS, _READINGS, _STRETCHES, _EVENTS, _INFERENCES, _BURSTS, _JUDGED = range(8)
Infos = tuple[OperatorInfo, ...]


class Encoder:
    """Of one link: what it says is understood only with all that it said before."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(6, wbits=-zlib.MAX_WBITS)
        self._values = LastValues()
        self._infos: Infos = ()  # of the last burst

    def encode(self, batch: Batch, position: Position) -> bytes:
        parts = (_PART.pack(kind, len(data)) + data for kind, data in self._parts(batch))
        payload = _HEAD.pack(batch.until_ns, batch.restart, *position) + b"".join(parts)
        return self._stream.compress(payload) + self._stream.flush(zlib.Z_SYNC_FLUSH)

    def _parts(self, batch: Batch) -> Iterator[tuple[int, bytes]]:
        if batch.manifest is not None:
            yield _MANIFEST, json.dumps(to_json(batch.manifest)).encode()
        if len(batch.seconds):
            yield _SECONDS, pack_seconds(batch.seconds)
        if len(batch.stretches):
            yield _STRETCHES, byte_shuffle.pack_table(batch.stretches)
        if len(batch.readings):
            yield _READINGS, self._pack_readings(batch.readings)
        if batch.events:
            yield (
                _EVENTS,
                json.dumps([_plain(event) for event in batch.events], ensure_ascii=False).encode(
                    "utf-8", "backslashreplace"
                ),
            )
        if batch.judged is not None:
            yield _JUDGED, json.dumps(batch.judged).encode()
        if len(batch.inferences):
            yield _INFERENCES, byte_shuffle.pack_table(batch.inferences)
        if batch.bursts:
            bursts = [self._plain_burst(burst) for burst in batch.bursts]
            yield _BURSTS, json.dumps(bursts, ensure_ascii=False).encode("utf-8", "backslashreplace")

    def _plain_burst(self, burst: Burst) -> list[object]:
        """Its operators are said where they are not those of the burst before."""
        infos, self._infos = (None if burst.infos == self._infos else list(map(astuple, burst.infos))), burst.infos
        return [burst.t_ns, burst.number, infos, burst.calls.tolist(), burst.total_ns.tolist()]

    def _pack_readings(self, readings: Readings) -> bytes:
        changes = self._values.changes(readings["sensor"], _bits(readings["value"]))
        return (
            byte_shuffle.pack_steps(readings["t_ns"])
            + byte_shuffle.pack_steps(readings["sensor"])
            + byte_shuffle.pack(changes)
        )


class Decoder:
    """The other end of one Encoder. Raises ValueError; nothing after that can be understood."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._values = LastValues()
        self._infos: Infos = ()

    def decode(self, packed: bytes) -> tuple[Batch, Position]:
        assert len(packed) <= MAX_PAYLOAD
        try:
            payload = self._stream.decompress(packed, MAX_UNPACKED)
        except zlib.error as error:
            raise ValueError(f"not deflated: {error}") from None
        if self._stream.unconsumed_tail or len(payload) < _HEAD.size:
            raise ValueError("a batch is longer or shorter than it can be")
        until_ns, restart, *position = _HEAD.unpack_from(payload)
        require(is_time(until_ns) and restart in (0, 1))
        readers: dict[int, tuple[str, Callable[[bytes], Any]]] = {
            _MANIFEST: ("manifest", _read_manifest),
            _SECONDS: ("seconds", partial(read_seconds, until_ns=until_ns)),
            _STRETCHES: ("stretches", _read_stretches),
            _READINGS: ("readings", self._read_readings),
            _EVENTS: ("events", _read_events),
            _INFERENCES: ("inferences", _read_inferences),
            _BURSTS: ("bursts", self._read_bursts),
            _JUDGED: ("judged", _read_judged),
        }
        parts: dict[str, Any] = {}
        for kind, data in _split(payload[_HEAD.size :]):
            if kind in readers:
                name, read = readers[kind]
                parts[name] = read(data)
        return Batch(until_ns, restart=bool(restart), **parts), tuple(position)

    def _read_bursts(self, data: bytes) -> tuple[Burst, ...]:
        return tuple(self._burst(row) for row in _rows(data))

    def _burst(self, row: Any) -> Burst:
        require(isinstance(row, list) and len(row) == 5)
        t_ns, number, infos, *columns = row
        if infos is not None:
            require(isinstance(infos, list) and len(infos) <= MAX_OPERATORS)
            self._infos = tuple(map(_info, infos))
        require(type(t_ns) is int and is_time(t_ns) and type(number) is int and 0 <= number < 2**31)
        for column in columns:
            require(isinstance(column, list) and len(column) == len(self._infos) and {*map(type, column)} <= {int})
            require(all(0 <= value < MAX_SESSION_NS for value in column))
        calls, total_ns = (np.array(column, np.int64) for column in columns)
        require(bool((calls > 0).all()))
        return Burst(t_ns, number, self._infos, calls, total_ns)

    def _read_readings(self, data: bytes) -> Readings:
        columns = Columns(data)
        t_ns = columns.take_steps()
        rows = np.zeros(len(t_ns), READING)
        sensor = columns.take_steps(len(t_ns))
        require(are_times(t_ns) and lies(sensor, 0, MAX_SENSORS - 1))
        rows["t_ns"], rows["sensor"] = t_ns, sensor
        rows["value"] = self._values.restored(rows["sensor"], columns.take(len(t_ns))).view(np.float64)
        require(bool(np.isfinite(rows["value"]).all()))
        return rows


class LastValues:
    """What each sensor read last, as bits: the next value has most of them in common with it (Gorilla, VLDB 2015)."""

    def __init__(self) -> None:
        self._last = np.zeros(2**16, np.int64)

    def changes(self, sensor: npt.NDArray[np.uint16], bits: byte_shuffle.Ints) -> byte_shuffle.Ints:
        """By sensor, and of each in its order."""
        order, begins = _grouped(sensor)
        bits = bits[order]
        before = np.concatenate([[0], bits[:-1]])
        before[begins] = self._last[sensor[order[begins]]]
        self._last[sensor[order]] = bits  # of several values of one sensor, the last
        changed: byte_shuffle.Ints = bits ^ before
        return changed

    def restored(self, sensor: npt.NDArray[np.uint16], changes: byte_shuffle.Ints) -> byte_shuffle.Ints:
        """In the order of the sensors."""
        order, begins = _grouped(sensor)
        bits = np.empty(len(changes), np.int64)
        ends = [*begins[1:], len(changes)]
        for begin, end in zip(begins, ends, strict=True):
            known = self._last[sensor[order[begin]]]
            bits[order[begin:end]] = np.bitwise_xor.accumulate(changes[begin:end]) ^ known
        self._last[sensor[order]] = bits[order]
        return bits


def _grouped(sensor: npt.NDArray[np.uint16]) -> tuple[byte_shuffle.Ints, byte_shuffle.Ints]:
    order = np.argsort(sensor, kind="stable")
    return order, np.flatnonzero(np.diff(sensor[order].astype(np.int64), prepend=-1))


def _bits(values: npt.NDArray[np.float64]) -> byte_shuffle.Ints:
    bits: byte_shuffle.Ints = np.ascontiguousarray(values).view(np.int64)
    return bits


def _read_stretches(data: bytes) -> Stretches:
    rows = take_rows(Columns(data), STRETCH)
    require(lies(rows["sensor"], 0, MAX_SENSORS - 1) and bool((rows["count"] > 0).all()))
    require(bool((rows["until_ns"] >= rows["t_ns"]).all()))
    return rows


def _read_inferences(data: bytes) -> Inferences:
    rows = take_rows(Columns(data), INFERENCE)
    require(lies(rows["phase"], 0, len(PHASES) - 1) and lies(rows["latency_ns"], 0, MAX_SESSION_NS))
    return rows


def _read_manifest(data: bytes) -> Any:
    try:
        manifest = from_json(json.loads(data))
    except (RecursionError, OverflowError) as error:
        raise ValueError(f"not a manifest: {error}") from None
    require(len(manifest.sensors) <= MAX_SENSORS)
    return manifest


def _plain(event: Event) -> list[object]:
    return [event.t_ns, event.kind, event.severity, event.source, event.message[:MAX_TEXT], dict(event.data)]


def _read_events(data: bytes) -> tuple[Event, ...]:
    return tuple(_event(row) for row in _rows(data))


def _rows(data: bytes) -> list[Any]:
    try:
        document = json.loads(data)
    except RecursionError:
        raise ValueError("nested beyond measure") from None
    require(isinstance(document, list))
    rows: list[Any] = document
    return rows


def _read_judged(data: bytes) -> Any:
    """Whoever goes on from it looks at what it says."""
    try:
        document = json.loads(data)
    except RecursionError:
        raise ValueError("nested beyond measure") from None
    require(isinstance(document, dict))
    return document


def _info(row: Any) -> OperatorInfo:
    require(isinstance(row, list) and len(row) == 6)
    name, op_type, provider, flops, moved, origin = row
    require(all(isinstance(text, str) for text in (name, op_type, provider)))
    require(all(n is None or (type(n) is int and 0 <= n < 2**63) for n in (flops, moved)))
    require(origin is None or isinstance(origin, str))
    texts = (name[:MAX_TEXT], op_type[:MAX_TEXT], provider[:MAX_TEXT])
    return OperatorInfo(*texts, flops, moved, None if origin is None else origin[:MAX_TEXT])


def _event(row: Any) -> Event:
    require(isinstance(row, list) and len(row) == 6)
    t_ns, kind, severity, source, message, data = row
    require(type(t_ns) is int and is_time(t_ns) and severity in ("info", "warning", "critical"))
    require(all(isinstance(text, str) for text in (kind, source, message)) and isinstance(data, dict))
    plain = {key: value for key, value in data.items() if not isinstance(value, dict | list)}
    return Event(t_ns, kind[:MAX_TEXT], severity, source[:MAX_TEXT], message[:MAX_TEXT], plain)


def _split(payload: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset < len(payload):
        require(len(payload) - offset >= _PART.size)
        kind, size = _PART.unpack_from(payload, offset)
        offset += _PART.size
        require(len(payload) - offset >= size)
        yield kind, payload[offset : offset + size]
        offset += size
