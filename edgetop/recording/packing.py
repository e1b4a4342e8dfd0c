"""Encoding of a batch as the payload of a journal frame, and decoding.

A payload consists of parts. Each part has a number for its kind, and contains columns of numbers or JSON. No code here
needs Arrow, so a process that records all day does not load it.

Times are stored as differences, and numbers byte by byte (`session.byte_shuffle`), which deflates well. Each payload is
deflated with a part of an earlier payload, the reference, as its dictionary, because successive payloads are similar. A
frame needs its reference and no other frame, so a damaged frame spoils only itself.
"""

import json
import struct
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.recording.journal_frames import varint
from edgetop.session.batch import Batch
from edgetop.session.byte_shuffle import Columns, pack_steps, pack_table
from edgetop.session.byte_shuffle import pack as pack_numbers
from edgetop.session.event_codec import data_of, read_event
from edgetop.session.events import Event
from edgetop.session.manifest_codec import from_json, to_json
from edgetop.session.operators import Burst, OperatorInfo
from edgetop.session.records import INFERENCE, PHASES, READING, REQUEST, Inferences, Readings, Requests
from edgetop.session.seconds import OF_ACTIVE, SECOND, TOKEN_SECOND, Seconds, StreamSeconds, TokenSeconds

# Kinds 1 to 4 and 6 to 9 are taken: development versions wrote them.
MANIFEST, INTERVAL, TALLY, INFERENCES, READINGS, EVENTS, SECONDS, BURSTS, PARTIAL = 0, 5, 10, 11, 12, 13, 14, 15, 16
# The streams of SECONDS and of PARTIAL. They are parts of their own, so that an older edgetop can read the rest.
STREAMS, PARTIAL_STREAMS = 17, 18
# The tokens of SECONDS, and the requests to a language model.
TOKENS, REQUESTS = 19, 20
# Those fields of TOKENS that older versions do not know.
ACTIVE = 21
MAX_NUMBERS = 8 * 1024 * 1024  # most numbers of one column, which then takes 64 MiB
LEVEL = 1  # of zlib; higher levels take twice the time and save 3 %

_REQUEST_FIELDS = [name for name in REQUEST.names or () if name != "_"]
_TOKEN_FIELDS = [name for name in TOKEN_SECOND.names or () if name not in OF_ACTIVE]
_TOKEN_SECOND = np.dtype([(name, TOKEN_SECOND[name]) for name in _TOKEN_FIELDS])
_ACTIVE_SECOND = np.dtype([(name, TOKEN_SECOND[name]) for name in OF_ACTIVE])
_REQUEST = np.dtype([(name, REQUEST[name]) for name in _REQUEST_FIELDS])
_PART = struct.Struct("<BI")  # kind, bytes
_INTERVAL = struct.Struct("<q")
_INFO_FIELDS = tuple(field.name for field in fields(OperatorInfo))
TALLY_STEP_NS = 1_000_000  # precision of a tally's time; finer digits would differ, and cost space, in each batch

Parts = Mapping[int, bytes]  # the parts of a payload by kind


def pack(batch: Batch) -> bytes:
    """Return a batch as the payload of a journal frame, without `restart` and `until_ns`."""
    # Parts that change least from batch to batch come first: the beginning of a payload helps to compress later
    # payloads.
    parts: tuple[tuple[int, Any, Callable[[Any], bytes]], ...] = (
        (READINGS, batch.readings, _pack_readings),
        (EVENTS, batch.events, _pack_events),
        (SECONDS, batch.seconds, _pack_seconds),
        (STREAMS, _streams_of(batch.seconds), _pack_streams),
        (TOKENS, batch.seconds.tokens or (), _pack_tokens),
        (ACTIVE, batch.seconds.tokens or (), _pack_active),
        (BURSTS, batch.bursts, _pack_bursts),
        (REQUESTS, batch.requests[_REQUEST_FIELDS], pack_table),
        (INFERENCES, batch.inferences, _pack_inferences),
    )
    packed = b"".join(pack_part(kind, put(rows)) for kind, rows, put in parts if len(rows))
    return packed if batch.manifest is None else packed + pack_part(MANIFEST, _json(to_json(batch.manifest)))


def pack_part(kind: int, data: bytes) -> bytes:
    return _PART.pack(kind, len(data)) + data


def split(payload: bytes) -> Parts:
    """Return the parts of a payload as bytes, by the number of each part's kind.

    Raises ValueError if a part is incomplete or occurs twice.
    """
    parts: dict[int, bytes] = {}
    offset = 0
    while offset < len(payload):
        if offset + _PART.size > len(payload):
            raise ValueError("a part of a batch is cut short")
        kind, size = _PART.unpack_from(payload, offset)
        offset += _PART.size
        if offset + size > len(payload):
            raise ValueError("a part of a batch is cut short")
        if kind in parts:
            raise ValueError("a part of a batch occurs twice")
        parts[kind] = payload[offset : offset + size]
        offset += size
    return parts


def unpack(
    parts: Parts,
    until_ns: int,
    wanted: Collection[str] | None = None,
    most_inferences: int | None = None,
    *,
    most_numbers: int = MAX_NUMBERS,
) -> Batch:
    """Return the batch that the parts of a payload contain. Raises ValueError if a part is invalid.

    `until_ns` is the session time at the batch's end. `wanted` are the names of the fields to decode; None means all.
    If the parts have more than `most_inferences` inferences, the batch has only the very last one. A column with
    more than `most_numbers` numbers is invalid.
    """
    fields = {
        name: read(parts[kind], most_numbers)
        for kind, (name, read) in READERS.items()
        if kind in parts and (wanted is None or name in wanted)
    }
    if STREAMS in parts and "seconds" in fields:
        fields["seconds"] = _with_streams(fields["seconds"], parts[STREAMS], most_numbers)
    if TOKENS in parts and "seconds" in fields:
        fields["seconds"] = _with_tokens(fields["seconds"], parts, most_numbers)
    batch = Batch(until_ns=until_ns, **fields)
    if most_inferences is None or len(batch.inferences) <= most_inferences:
        return batch
    return replace(batch, inferences=batch.inferences[-1:])


def encodable(text: str) -> str:
    r"""Return the text with lone surrogates escaped, since UTF-8 cannot encode them.

    Python puts lone surrogates into file names that are not valid UTF-8.

    >>> encodable("net\udcff.onnx")
    'net\\udcff.onnx'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested beyond measure") from None


_BESIDE_START = ("latency_ns", "wait_ns", "stream", "phase", "ok")


def _pack_inferences(inferences: Inferences) -> bytes:
    """Return inferences as bytes, with each start stored as the pause since the end of the previous inference."""
    pause_ns = inferences["t_ns"].copy()
    pause_ns[1:] -= (inferences["t_ns"] + inferences["latency_ns"])[:-1]
    names = (*_BESIDE_START, "variant") if inferences["variant"].any() else _BESIDE_START  # only A/B sessions have it
    return b"".join(map(pack_numbers, (pause_ns, *(inferences[name] for name in names))))


def _read_inferences(data: bytes, most: int) -> Inferences:
    columns = Columns(data, most)
    pause_ns = columns.take()
    inferences = inferences_of(pause_ns, lambda _: columns.take(len(pause_ns)))
    if not columns.is_over:
        inferences["variant"] = columns.take(len(pause_ns))
    return inferences


def inferences_of(pause_ns: npt.NDArray[np.int64], column: Callable[[str], npt.ArrayLike]) -> Inferences:
    """Return inferences, made from the pauses between them and their other columns.

    `pause_ns` has the time from the end of the previous inference to the start of each inference, and is overwritten.
    `column` returns the values of a column by name. Raises ValueError if a phase is unknown.
    """
    inferences = np.zeros(len(pause_ns), INFERENCE)
    for name in _BESIDE_START:
        inferences[name] = column(name)
    pause_ns[1:] += inferences["latency_ns"][:-1]
    inferences["t_ns"] = np.cumsum(pause_ns)
    if len(inferences) and inferences["phase"].max() >= len(PHASES):
        raise ValueError("an inference of no known phase")
    return inferences


def _pack_readings(rows: Readings) -> bytes:
    return pack_steps(rows["t_ns"]) + pack_steps(rows["sensor"]) + rows["value"].tobytes()


def _read_readings(data: bytes, most: int) -> Readings:
    columns = Columns(data, most)
    t_ns = columns.take_steps()
    readings = np.empty(len(t_ns), READING)
    readings["t_ns"], readings["sensor"] = t_ns, columns.take_steps(len(t_ns))
    readings["value"] = np.frombuffer(columns.rest(8 * len(t_ns)), "<f8")
    return readings


def _pack_seconds(seconds: Seconds) -> bytes:
    """Return seconds as bytes: the columns of service times, then the columns of response times if there are any."""
    return (
        pack_table(seconds.rows)
        + pack_numbers(np.diff(seconds.offsets))
        + pack_steps(seconds.bucket)
        + pack_numbers(seconds.bucket_count)
        + (_pack_seconds(seconds.response) if seconds.response else b"")
    )


def _read_seconds(data: bytes, most: int) -> Seconds:
    return _take_both(Columns(data, most))


def _take_both(columns: Columns) -> Seconds:
    """Decode all of `columns` into seconds, with response times if there are any.

    Raises ValueError if the response times are of other seconds.
    """
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


def _streams_of(seconds: Seconds) -> StreamSeconds | tuple[()]:
    return () if seconds.streams is None else seconds.streams


def _pack_streams(streams: StreamSeconds) -> bytes:
    """Return the separate statistics of each stream (model) as bytes."""
    # The number of rows of each second, the stream number of each row, and the rows.
    return pack_numbers(np.diff(streams.offsets)) + pack_numbers(streams.number) + _pack_seconds(streams.seconds)


def _with_streams(seconds: Seconds, data: bytes, most: int) -> Seconds:
    """Return `seconds` with separate statistics of each stream (model), decoded from `data`.

    A column may have up to `most` values. Raises ValueError if `data` does not fit `seconds`.
    """
    columns = Columns(data, most)
    lengths = columns.take(len(seconds))
    number = columns.take()
    rows = _take_both(columns)
    if (lengths < 0).any() or (lengths > 256).any() or int(lengths.sum()) != len(number) or len(rows) != len(number):
        raise ValueError("streams of other seconds")
    if len(number) and not 0 <= number.min() <= number.max() <= 255:
        raise ValueError("the number of a stream does not fit")
    if (rows.response is None) is not (seconds.response is None):
        raise ValueError("streams with or without response time, unlike their seconds")
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return replace(seconds, streams=StreamSeconds(offsets, number.astype(np.uint8), rows) if len(number) else None)


def _pack_tokens(tokens: TokenSeconds) -> bytes:
    return pack_table(tokens.rows[_TOKEN_FIELDS]) + _pack_seconds(tokens.itl) + _pack_seconds(tokens.ttft)


def _pack_active(tokens: TokenSeconds) -> bytes:
    return pack_table(tokens.rows[list(OF_ACTIVE)])


def _with_tokens(seconds: Seconds, parts: Parts, most: int) -> Seconds:
    """Return `seconds` with the figures of their tokens, decoded from the parts TOKENS and ACTIVE.

    A column may have up to `most` values. Raises ValueError if the figures do not fit `seconds`.
    """
    columns = Columns(parts[TOKENS], most)
    plain, itl, ttft = columns.take_table(_TOKEN_SECOND), _take_seconds(columns), _take_seconds(columns)
    columns.rest(0)
    rows = np.zeros(len(plain), TOKEN_SECOND)
    for name in _TOKEN_FIELDS:
        rows[name] = plain[name]
    # Older versions wrote no part ACTIVE.
    if ACTIVE in parts:
        columns = Columns(parts[ACTIVE], most)
        active = columns.take_table(_ACTIVE_SECOND)
        columns.rest(0)
        if len(active) != len(rows):
            raise ValueError("tokens of other seconds")
        for name in OF_ACTIVE:
            rows[name] = active[name]
    if any(len(part) != len(seconds) for part in (rows, itl, ttft)):
        raise ValueError("tokens of other seconds")
    return replace(seconds, tokens=TokenSeconds(rows, itl, ttft))


def _read_requests(data: bytes, most: int) -> Requests:
    columns = Columns(data, most)
    requests = columns.take_table(_REQUEST)
    columns.rest(0)
    whole = np.zeros(len(requests), REQUEST)
    for name in _REQUEST.names or ():
        whole[name] = requests[name]
    return whole


def _pack_bursts(bursts: tuple[Burst, ...]) -> bytes:
    """Return profiling rounds as JSON bytes, with operators only if they differ from those of the previous round."""
    plain, infos = [], None
    for burst in bursts:
        same, infos = burst.infos == infos, burst.infos
        rows = ((getattr(info, name) for name in _INFO_FIELDS) for info in infos)  # astuple() takes five times as long
        named = None if same else [[encodable(v) if isinstance(v, str) else v for v in row] for row in rows]
        plain.append([burst.t_ns, burst.number, named, burst.calls.tolist(), burst.total_ns.tolist()])
    return _json(plain)


def _read_bursts(data: bytes, _: int) -> tuple[Burst, ...]:
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
    costs = [None if number is None else _whole(number) for number in (flops, moved)]
    return OperatorInfo(name, op_type, provider, costs[0], costs[1], origin)


def _whole(number: Any) -> int:
    if type(number) is not int or abs(number) >= 2**63:
        raise ValueError("not a number of 64 bits")
    return number


def _pack_events(events: Sequence[Event]) -> bytes:
    texts = ("kind", "severity", "source", "message")
    return _json([[e.t_ns, *(encodable(getattr(e, of)) for of in texts), data_of(e.body)] for e in events])


def _read_events(data: bytes, _: int) -> tuple[Event, ...]:
    events = []
    try:
        for t_ns, *texts, details in _parsed(data):
            kind, severity, source, message = texts
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("the text of an event is no text")
            events.append(read_event(_whole(t_ns), kind, severity, source, message, details))
    except TypeError as error:
        raise ValueError(f"not an event: {error}") from None
    return tuple(events)


# For each kind: the field of a batch, and the function that decodes it. Its second argument is the largest accepted
# length of a column.
READERS: Mapping[int, tuple[str, Callable[[bytes, int], Any]]] = {
    MANIFEST: ("manifest", lambda data, _: from_json(_parsed(data))),
    INFERENCES: ("inferences", _read_inferences),
    READINGS: ("readings", _read_readings),
    EVENTS: ("events", _read_events),
    SECONDS: ("seconds", _read_seconds),
    BURSTS: ("bursts", _read_bursts),
    REQUESTS: ("requests", _read_requests),
}


def pack_interval(fsync_interval_ns: int) -> bytes:
    """Return a payload part with the interval of the writer's syncs to the disk: a recovery thus knows what may be
    lost.
    """
    return pack_part(INTERVAL, _INTERVAL.pack(fsync_interval_ns))


def interval_of(parts: Parts) -> int | None:
    data = parts.get(INTERVAL, b"")
    return int(_INTERVAL.unpack(data)[0]) if len(data) == _INTERVAL.size else None


def pack_partial(second: Seconds) -> bytes:
    """Return payload parts with a second that is not complete yet, or b"" if `second` has no row."""
    if not len(second):
        return b""
    streams = b"" if second.streams is None else pack_part(PARTIAL_STREAMS, _pack_streams(second.streams))
    return pack_part(PARTIAL, _pack_seconds(second)) + streams


def partial_of(parts: Parts) -> Seconds | None:
    """Return the incomplete second among a payload's parts, or None without one.

    Raises ValueError if the part is invalid.
    """
    if PARTIAL not in parts:
        return None
    second = _read_seconds(parts[PARTIAL], MAX_NUMBERS)
    return _with_streams(second, parts[PARTIAL_STREAMS], MAX_NUMBERS) if PARTIAL_STREAMS in parts else second


@frozen
class Tally:
    """How much data a writer had written to its journal at one moment."""

    until_ns: int = 0
    inferences: int = 0  # single inferences
    counted: int = 0  # inferences that the written seconds count, errors included

    def after(self, batch: Batch) -> "Tally":
        """Return this tally, increased by the data of `batch`."""
        return Tally(batch.until_ns, self.inferences + len(batch.inferences), self.counted + batch.seconds.runs)


def pack_tally(before: Tally, after: Tally) -> bytes:
    """Return a payload part that says how much had been written before a frame, and after it."""
    since_ms = max(0, after.until_ns - before.until_ns) // TALLY_STEP_NS
    own = after.inferences - before.inferences, after.counted - before.counted
    return pack_part(TALLY, b"".join(map(varint, (since_ms, before.inferences, before.counted, *own))))


def tallies_of(parts: Parts, until_ns: int) -> tuple[Tally, Tally]:
    """Return how much had been written before the frame with these parts, and after it.

    `until_ns` is the frame's session time. Raises ValueError if the part with the tallies is missing or incomplete.
    """
    numbers, number, shift = [], 0, 0
    for byte in parts.get(TALLY, b""):
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    since_ms, inferences, counted, own, own_counted = numbers
    before = Tally(until_ns - since_ms * TALLY_STEP_NS, inferences, counted)
    return before, Tally(until_ns, inferences + own, counted + own_counted)


def deflated(payload: bytes, reference: bytes = b"") -> bytes:
    """Return `payload`, deflated with `reference` as the dictionary. `inflated` needs the same `reference`."""
    stream = zlib.compressobj(LEVEL, wbits=-zlib.MAX_WBITS, zdict=reference)
    return stream.compress(payload) + stream.flush()


def inflated(packed: bytes, size: int, reference: bytes = b"") -> bytes:
    """Return the original payload, which has `size` bytes. `reference` is the dictionary that `deflated` got.

    Raises ValueError if the data is invalid or shorter.
    """
    stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS, zdict=reference)
    try:
        payload = stream.decompress(packed, size) if size else b""
    except zlib.error as error:
        raise ValueError(f"not deflated: {error}") from None
    if len(payload) < size:
        raise ValueError("shorter than it says")
    return payload
