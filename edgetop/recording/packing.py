"""A batch as the payload of a journal's frame, and back: columns of numbers and lines of JSON, each under its kind.

Arrow is not needed for it: a process that records all day does not load Arrow. Times are stored as differences, and
numbers byte by byte (`session.byte_shuffle`), which deflates well. The payload of one batch is much like that of the
next, so it is deflated with a part of an earlier payload, the reference, as its dictionary. So a frame needs the
reference and no other frame, and a damaged one spoils only itself.
"""

import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.recording.frames import varint
from edgetop.recording.soundness import sound_data
from edgetop.session.batch import Batch
from edgetop.session.byte_shuffle import Columns, pack_steps, pack_table
from edgetop.session.byte_shuffle import pack as pack_numbers
from edgetop.session.events import Event
from edgetop.session.manifest import from_json, to_json
from edgetop.session.operators import Burst, OperatorInfo
from edgetop.session.records import INFERENCE, PHASES, READING, Inferences, Readings
from edgetop.session.seconds import SECOND, Seconds

# Kinds 1 to 4 and 6 to 9 are those of earlier versions (`arrow_frames`).
MANIFEST, INTERVAL, TALLY, INFERENCES, READINGS, EVENTS, SECONDS, BURSTS, BEGUN = 0, 5, 10, 11, 12, 13, 14, 15, 16
KINDS = {
    "manifest": MANIFEST,
    "inferences": INFERENCES,
    "readings": READINGS,
    "events": EVENTS,
    "seconds": SECONDS,
    "bursts": BURSTS,
}
MAX_NUMBERS = 8 * 1024 * 1024  # of one column: 64 MiB
LEVEL = 1  # of zlib: higher ones take twice the time for 3 % of the size

_PART = struct.Struct("<BI")  # kind, bytes
_INTERVAL = struct.Struct("<q")
_INFO_FIELDS = tuple(field.name for field in fields(OperatorInfo))
TALLY_STEP_NS = 1_000_000  # the precision of its time: what varies in each batch costs room in each


def pack(batch: Batch) -> bytes:
    """Everything of it but `until_ns`, which the frame carries, and `restart`."""
    return b"".join(pack_part(kind, data) for kind, data in _parts(batch))


def pack_part(kind: int, data: bytes) -> bytes:
    return _PART.pack(kind, len(data)) + data


def _parts(batch: Batch) -> Iterator[tuple[int, bytes]]:
    """Those first that are alike in each batch: a reference is the beginning of one."""
    if len(batch.readings):
        rows = batch.readings
        yield READINGS, pack_steps(rows["t_ns"]) + pack_steps(rows["sensor"]) + rows["value"].tobytes()
    if batch.events:
        yield EVENTS, _json(list(map(_plain_event, batch.events)))
    if len(batch.seconds):
        yield SECONDS, _pack_seconds(batch.seconds)
    if batch.bursts:
        yield BURSTS, _pack_bursts(batch.bursts)
    if len(batch.inferences):
        yield INFERENCES, _pack_inferences(batch.inferences)
    if batch.manifest is not None:
        yield MANIFEST, _json(to_json(batch.manifest))


def unpack(
    payload: bytes,
    until_ns: int,
    wanted: Collection[str] = tuple(KINDS),
    most_inferences: int | None = None,
    most_numbers: int = MAX_NUMBERS,
) -> Batch:
    """The batch of a frame, or what is wanted of it; of more than `most_inferences`, the last.

    `most_numbers`: of one column. Raises ValueError where the payload is not sound.
    """
    names = {KINDS[name]: name for name in wanted}
    parts: dict[str, Any] = {}
    for kind, data in split(payload):
        if kind in names:
            parts[names[kind]] = _READERS[kind](data, most_numbers)
    return Batch(until_ns=until_ns, **with_last(parts, most_inferences))


def with_last(parts: dict[str, Any], most_inferences: int | None) -> dict[str, Any]:
    """The parts of a batch, with the last inference alone where there are more than that."""
    singles = parts.get("inferences", ())
    if most_inferences is not None and len(singles) > most_inferences:
        parts["inferences"] = singles[-1:]
    return parts


def encodable(text: str) -> str:
    """As UTF-8 can hold it: a file name that is not UTF-8 comes with lone surrogates."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain_event(event: Event) -> list[object]:
    return [event.t_ns, *map(encodable, (event.kind, event.severity, event.source, event.message)), dict(event.data)]


def _plain_info(info: OperatorInfo) -> list[object]:
    values = (getattr(info, name) for name in _INFO_FIELDS)  # astuple() copies each, which takes five times as long
    return [encodable(value) if isinstance(value, str) else value for value in values]


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested beyond measure") from None


_BESIDE_START = ("latency_ns", "wait_ns", "stream", "phase", "ok")


def _pack_inferences(inferences: Inferences) -> bytes:
    """Of each start how long after the end of the one before it."""
    pause_ns = inferences["t_ns"].copy()
    pause_ns[1:] -= (inferences["t_ns"] + inferences["latency_ns"])[:-1]
    names = (*_BESIDE_START, "variant") if inferences["variant"].any() else _BESIDE_START  # of an A/B session alone
    return b"".join(map(pack_numbers, (pause_ns, *(inferences[name] for name in names))))


def _read_inferences(data: bytes, most: int = MAX_NUMBERS) -> Inferences:
    columns = Columns(data, most)
    pause_ns = columns.take()
    inferences = inferences_of(pause_ns, lambda _: columns.take(len(pause_ns)))
    if not columns.is_over:
        inferences["variant"] = columns.take(len(pause_ns))
    return inferences


def inferences_of(pause_ns: npt.NDArray[np.int64], column: Callable[[str], npt.ArrayLike]) -> Inferences:
    """Inferences of their pauses, which are changed, and of their other columns. Raises ValueError."""
    inferences = np.zeros(len(pause_ns), INFERENCE)
    for name in _BESIDE_START:
        inferences[name] = column(name)
    pause_ns[1:] += inferences["latency_ns"][:-1]
    inferences["t_ns"] = np.cumsum(pause_ns)
    if len(inferences) and inferences["phase"].max() >= len(PHASES):
        raise ValueError("an inference of no known phase")
    return inferences


def _read_readings(data: bytes, most: int = MAX_NUMBERS) -> Readings:
    columns = Columns(data, most)
    t_ns = columns.take_steps()
    readings = np.empty(len(t_ns), READING)
    readings["t_ns"], readings["sensor"] = t_ns, columns.take_steps(len(t_ns))
    readings["value"] = np.frombuffer(columns.rest(8 * len(t_ns)), "<f8")
    return readings


def _pack_seconds(seconds: Seconds) -> bytes:
    """Behind them the same of response time, where the load has it."""
    return (
        pack_table(seconds.rows)
        + pack_numbers(np.diff(seconds.offsets))
        + pack_steps(seconds.bucket)
        + pack_numbers(seconds.bucket_count)
        + (_pack_seconds(seconds.response) if seconds.response else b"")
    )


def _read_seconds(data: bytes, most: int = MAX_NUMBERS) -> Seconds:
    columns = Columns(data, most)
    seconds = _take_seconds(columns)
    response = None if columns.is_over else _take_seconds(columns)
    columns.rest(0)
    if response is not None and len(response) != len(seconds):
        raise ValueError("response times of other seconds")
    return replace(seconds, response=response)


def _take_seconds(columns: Columns) -> Seconds:
    rows = columns.take_table(SECOND)
    lengths = columns.take(len(rows))
    bucket = columns.take_steps()
    counts = columns.take(len(bucket))
    if (lengths < 0).any() or (lengths > len(bucket)).any() or int(lengths.sum()) != len(bucket):
        raise ValueError("histograms of another length")
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Seconds(rows, offsets, bucket.astype(np.int16), counts.astype(np.int32))


def _pack_bursts(bursts: tuple[Burst, ...]) -> bytes:
    """The operators of each are written where they are not those of the burst before."""
    plain, infos = [], None
    for burst in bursts:
        same, infos = burst.infos == infos, burst.infos
        named = None if same else list(map(_plain_info, infos))
        plain.append([burst.t_ns, burst.number, named, burst.calls.tolist(), burst.total_ns.tolist()])
    return _json(plain)


def _read_bursts(data: bytes) -> tuple[Burst, ...]:
    bursts: list[Burst] = []
    infos: tuple[OperatorInfo, ...] = ()
    try:
        for t_ns, number, named, calls, total_ns in _parsed(data):
            infos = infos if named is None else tuple(map(_read_info, named))
            columns = (np.array(column, np.int64).reshape(len(infos)) for column in (calls, total_ns))
            bursts.append(Burst(_whole(t_ns), _whole(number), infos, *columns))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not a burst: {error}") from None
    return tuple(bursts)


def _read_info(row: Any) -> OperatorInfo:
    name, op_type, provider, flops, moved, origin = row
    if not all(isinstance(text, str) for text in (name, op_type, provider)) or not isinstance(origin, str | None):
        raise ValueError("the name of an operator is no text")
    known = [None if number is None else _whole(number) for number in (flops, moved)]
    return OperatorInfo(name, op_type, provider, known[0], known[1], origin)


def _whole(number: Any) -> int:
    if type(number) is not int or abs(number) >= 2**63:
        raise ValueError("not a number of 64 bits")
    return number


def _read_events(data: bytes) -> tuple[Event, ...]:
    events = []
    try:
        for t_ns, *texts, details in _parsed(data):
            kind, severity, source, message = texts
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("the text of an event is no text")
            events.append(Event(_whole(t_ns), kind, severity, source, message, sound_data(details)))
    except TypeError as error:
        raise ValueError(f"not an event: {error}") from None
    return tuple(events)


_READERS: dict[int, Callable[[bytes, int], object]] = {
    MANIFEST: lambda data, _: from_json(_parsed(data)),
    INFERENCES: _read_inferences,
    READINGS: _read_readings,
    EVENTS: lambda data, _: _read_events(data),
    SECONDS: _read_seconds,
    BURSTS: lambda data, _: _read_bursts(data),
}


def pack_interval(fsync_interval_ns: int) -> bytes:
    """A part that says how much a loss of power may cost; it comes before those of a batch."""
    return pack_part(INTERVAL, _INTERVAL.pack(fsync_interval_ns))


def interval_of(payload: bytes) -> int | None:
    """What `pack_interval` said, where the payload begins with it."""
    kind, data = next(split(payload), (None, b""))
    return int(_INTERVAL.unpack(data)[0]) if kind == INTERVAL and len(data) == _INTERVAL.size else None


def pack_begun(second: Seconds) -> bytes:
    """A part that holds a second before it is complete, where its inferences are not kept."""
    return pack_part(BEGUN, _pack_seconds(second)) if len(second) else b""


def begun_of(payload: bytes) -> Seconds | None:
    """What `pack_begun` kept in it. Raises ValueError."""
    return next((_read_seconds(data) for kind, data in split(payload) if kind == BEGUN), None)


@dataclass(frozen=True, slots=True)
class Tally:
    """How much a writer had put into its journal by a moment."""

    until_ns: int = 0
    inferences: int = 0  # single ones
    counted: int = 0  # inferences that its seconds count, errors included

    def after(self, batch: Batch) -> "Tally":
        """The tally when that is written too."""
        return Tally(batch.until_ns, self.inferences + len(batch.inferences), self.counted + batch.seconds.runs)


def pack_tally(before: Tally, after: Tally) -> bytes:
    """A part that says how much was written before a frame, and with it: by that a reader knows what it lacks."""
    since_ms = max(0, after.until_ns - before.until_ns) // TALLY_STEP_NS
    own = after.inferences - before.inferences, after.counted - before.counted
    return pack_part(TALLY, b"".join(map(varint, (since_ms, before.inferences, before.counted, *own))))


def tallies_of(payload: bytes, until_ns: int) -> tuple[Tally, Tally] | None:
    """What `pack_tally` said; None: a writer of an earlier version did not. Raises ValueError."""
    for kind, data in split(payload):
        if kind == TALLY:
            since_ms, inferences, counted, own, own_counted = _varints(data)
            before = Tally(until_ns - since_ms * TALLY_STEP_NS, inferences, counted)
            return before, Tally(until_ns, inferences + own, counted + own_counted)
    return None


def _varints(data: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    return numbers


def split(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a payload: kind and content. Raises ValueError where one is cut short."""
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


def deflated(payload: bytes, reference: bytes = b"") -> bytes:
    """It can be inflated with the same reference."""
    stream = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS, zdict=reference)
    return stream.compress(payload) + stream.flush()


def inflated(packed: bytes, size: int, reference: bytes = b"") -> bytes:
    """Raises ValueError where that is not `size` bytes that were deflated with this reference."""
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=reference)
    try:
        payload = stream.decompress(packed, size) if size else b""
    except zlib.error as error:
        raise ValueError(f"not deflated: {error}") from None
    if len(payload) < size:
        raise ValueError("shorter than it says")
    return payload
