"""Encode batches (parts of a session's data) for a link between a board and a viewer.

A batch has the form of a frame of the journal (the files that a running session appends to), with two additions: the
aggregates of a long history, and the analysis that the board itself has made. All batches of one sender form one
deflate stream, so repeated content costs little. The decoder raises ValueError for impossible values, and unpacks at
most `MAX_UNPACKED` bytes of a batch.
"""

import itertools
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.recording.packing import pack, pack_part, split, unpack
from edgetop.recording.rows import MAX_SESSION_NS, add_up, sound_batch
from edgetop.relay.relay_frames import MAX_PAYLOAD
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.byte_shuffle import Columns, pack_table
from edgetop.session.distinct import distinct
from edgetop.session.event_kinds import UnknownEvent
from edgetop.session.events import Event
from edgetop.session.operators import OperatorInfo
from edgetop.session.records import AGGREGATE, Readings
from edgetop.session.seconds import NO_SECONDS, NS, TOKEN_SECOND, Seconds

# Up to where a viewer has the session: (number of the journal's segment, bytes of the segment, session time in ns).
Position = tuple[int, int, int]
NOWHERE: Position = (-1, -1, -1)  # within the history; a viewer that loses the link there starts again

MAX_UNPACKED = 8 * 1024 * 1024
MAX_NUMBERS = 200_000  # in one column
MAX_SENSORS = 512
MAX_OPERATORS = 20_000  # in one burst
MAX_TEXT = 2_000
MAX_POSITION = 2**31  # of a token in its context
_POSITIONS = ("position_mean", "position_max", "active_position")
OLD_S = 602  # age of a second from which no window reaches it: the longest window, and a second at each end

_BEGINS, _GOES_ON = b"\1", b"\0"  # first byte of a batch: whether it begins a new deflate stream
_HEAD = struct.Struct("<qB3q")  # until_ns, restart, and the position after the batch
_AGGREGATES, _JUDGED = 100, 101  # kinds of parts, in addition to those of a journal


class Encoder:
    """Encodes the batches of one sender. To decode a batch, all earlier ones must have been decoded."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(6, wbits=-zlib.MAX_WBITS)
        self._mark = _BEGINS

    def encode(self, batch: Batch, position: Position) -> bytes:
        payload = _HEAD.pack(batch.until_ns, batch.restart, *position) + pack(batch)
        if len(batch.aggregates):
            payload += pack_part(_AGGREGATES, pack_table(batch.aggregates))
        if batch.judged is not None:
            payload += pack_part(_JUDGED, json.dumps(batch.judged).encode())
        mark, self._mark = self._mark, _GOES_ON
        return mark + self._stream.compress(payload) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class Decoder:
    """Decodes the batches of one Encoder, or of several in succession.

    After a ValueError, do not use the object any more.
    """

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)

    def decode(self, packed: bytes) -> tuple[Batch, Position]:
        """Return the batch in the bytes `packed`, and the sender's position after this batch.

        The position is (segment of the journal, bytes in the segment, session time in ns). Raises ValueError if the
        bytes are invalid.
        """
        assert len(packed) <= MAX_PAYLOAD
        if packed[:1] == _BEGINS:
            self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            payload = self._stream.decompress(packed[1:], MAX_UNPACKED)
        except zlib.error as error:
            raise ValueError(f"not deflated: {error}") from None
        if self._stream.unconsumed_tail or len(payload) < _HEAD.size:
            raise ValueError("a batch is longer or shorter than it can be")
        until_ns, restart, *position = _HEAD.unpack_from(payload)
        _require(-NS <= until_ns < MAX_SESSION_NS and restart in (0, 1))
        try:
            parts = split(payload[_HEAD.size :])
            batch = unpack(parts, until_ns, most_numbers=MAX_NUMBERS)
            if _AGGREGATES in parts:
                batch = replace(batch, aggregates=Columns(parts[_AGGREGATES], MAX_NUMBERS).take_table(AGGREGATE))
            if _JUDGED in parts:  # the analysis checks its contents
                batch = replace(batch, judged=json.loads(parts[_JUDGED]))
                _require(isinstance(batch.judged, dict))
        except (ArithmeticError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"not a batch: {error}") from None
        _check(batch)
        return replace(_shortened(batch), restart=bool(restart)), (position[0], position[1], position[2])


def _require(claim: Any) -> None:
    if not claim:
        raise ValueError("a batch that cannot be true")


def _lie(values: npt.NDArray[Any], low: int, high: int) -> bool:
    return not len(values) or (int(values.min()) >= low and int(values.max()) <= high)


def _check(batch: Batch) -> None:
    sound = sound_batch(replace(batch, seconds=NO_SECONDS))
    for name in ("inferences", "readings", "events", "bursts"):
        _require(len(getattr(sound, name)) == len(getattr(batch, name)))
    _require(batch.manifest is None or len(batch.manifest.sensors) <= MAX_SENSORS)
    _require(_lie(batch.readings["sensor"], 0, MAX_SENSORS - 1))
    for burst in batch.bursts:
        _require(len(burst) <= MAX_OPERATORS and 0 <= burst.number < 2**31)
        _require(all(n is None or n >= 0 for info in burst.infos for n in (info.flops, info.bytes)))
    rows = batch.aggregates
    _require(all(_lie(rows[name], -NS, MAX_SESSION_NS - 1) for name in ("t_ns", "until_ns")))
    _require(_lie(rows["sensor"], 0, MAX_SENSORS - 1) and (rows["count"] > 0).all())
    _require((rows["until_ns"] >= rows["t_ns"]).all())
    _check_seconds(batch.seconds, batch.until_ns)


def _check_seconds(seconds: Seconds, until_ns: int) -> None:
    """Raise ValueError if a row of the table has impossible values. `until_ns` is the session time at the batch's end.

    The histograms must count as many latencies as there are inferences: in all rows together, and in each recent row.
    """
    rows, response = seconds.rows, seconds.response
    _require(_lie(rows["t_ns"], -NS, MAX_SESSION_NS - 1) and (rows["t_ns"] % NS == 0).all())
    _require(_lie(seconds.bucket, 0, histogram.SIZE - 1) and _lie(seconds.bucket_count, 0, 2**31 - 1))
    row = np.repeat(np.arange(len(rows)), np.diff(seconds.offsets))
    counted = np.bincount(row, weights=seconds.bucket_count, minlength=len(rows))
    _require(counted.sum() == rows["count"].sum(dtype=np.int64))
    # In rows older than `OLD_S` seconds, `past` may have merged the histograms of several rows into one.
    _require((counted == rows["count"])[rows["t_ns"] > until_ns - OLD_S * NS].all())
    for name in ("count", "errors", "sum_ns", "jitter_sum_ns", "jitter_count"):
        _require((rows[name] >= 0).all())
    if response is not None:
        _check_seconds(response, until_ns)
        _require(response.response is None)
        _require(all((response.rows[name] == rows[name]).all() for name in ("t_ns", "count")))
    if (tokens := seconds.tokens) is not None:
        for times in (tokens.itl, tokens.ttft):
            _check_seconds(times, until_ns)
            _require((times.rows["t_ns"] == rows["t_ns"]).all() and times.response is None)
        _require(all((tokens.rows[name] >= 0).all() for name in TOKEN_SECOND.names or ()))
        _require(all((tokens.rows[name] <= MAX_POSITION).all() for name in _POSITIONS))
    if (streams := seconds.streams) is not None:
        _check_seconds(streams.seconds, until_ns)
        _require(add_up(seconds, streams).all())
        held = np.diff(np.append(0, np.cumsum(streams.seconds.bucket_count))[streams.seconds.offsets])
        counted, of_rows = (np.bincount(streams.number, each, 256) for each in (held, streams.seconds.rows["count"]))
        _require((counted == of_rows).all())  # no stream has the histogram of another one


def _shortened(batch: Batch) -> Batch:
    """Return a copy of the batch in which the texts of events and operators are cut to `MAX_TEXT` characters."""
    infos: dict[int, tuple[OperatorInfo, ...]] = {}  # by id, since bursts share them
    for burst in batch.bursts:
        if id(burst.infos) not in infos:
            infos[id(burst.infos)] = tuple(_cut(info, "name", "op_type", "provider", "origin") for info in burst.infos)
    return replace(
        batch,
        events=tuple(_cut(_of_short_kind(event), "source", "message") for event in batch.events),
        bursts=tuple(replace(burst, infos=infos[id(burst.infos)]) for burst in batch.bursts),
    )


def _of_short_kind(event: Event) -> Event:
    return replace(event, body=_cut(event.body, "kind")) if isinstance(event.body, UnknownEvent) else event


def _cut(value: Any, *names: str) -> Any:
    """Return a copy of an event or operator with the texts of the fields `names` cut to `MAX_TEXT` characters."""
    long = {name: text[:MAX_TEXT] for name in names if len(text := getattr(value, name) or "") > MAX_TEXT}
    return replace(value, **long) if long else value


# How much of a live session is sent. Seconds, the manifest, and all events except log lines are always sent. Single
# inferences are sent if there are few. If there are many, only the last one is sent, to show that the engine is alive,
# and the viewer computes its windows from seconds, accurate to 1 %. If there are more readings than a screen can show,
# the first, the lowest, the highest and the last of each second are sent: charts and extremes stay exact, and means
# change slightly.

# Most per second.
SINGLE_HZ = 120
READINGS_HZ = 200
LOG_HZ = 10

MAX_SINGLE = 4_096  # most single inferences of one batch, whatever time it covers
# Most rows in one frame.
READINGS_AT_ONCE, AGGREGATES_AT_ONCE, SECONDS_AT_ONCE, EVENTS_AT_ONCE, BURSTS_AT_ONCE = 8_192, 2_048, 128, 250, 16
STREAMS_AT_ONCE, BUCKETS_AT_ONCE = 1_024, 100_000  # rows of streams, and buckets of their histograms


def thinned(batch: Batch, span_s: float) -> Batch:
    """Return the data of `batch` that a screen needs. `span_s` is how many seconds the batch covers.

    If there are many inferences, only the last is kept. If there are many sensor readings, only the extremes are kept.
    """
    is_few = len(batch.inferences) <= min(SINGLE_HZ * max(span_s, 1.0), MAX_SINGLE)
    return replace(
        batch,
        inferences=batch.inferences if is_few else batch.inferences[-1:],
        readings=_extremes(batch.readings) if len(batch.readings) > READINGS_HZ * span_s else batch.readings,
        events=tuple(_with_fewer_lines(batch.events, max(1, int(LOG_HZ * span_s)))),
    )


def _extremes(readings: Readings) -> Readings:
    """Return each sensor's first, lowest, highest and last reading in each second, in the original order."""
    place = np.arange(len(readings))
    group = readings["t_ns"] // NS * 2**16 + readings["sensor"]
    by_time = np.lexsort((place, group))
    by_value = np.lexsort((place, readings["value"], group))
    ends = np.flatnonzero(np.diff(group[by_time], append=np.iinfo(np.int64).max))
    starts = np.append(0, ends[:-1] + 1)
    chosen = distinct(np.concatenate([by_time[starts], by_time[ends], by_value[starts], by_value[ends]]))
    extremes: Readings = readings[chosen]
    return extremes


def _with_fewer_lines(events: tuple[Event, ...], lines: int) -> Iterator[Event]:
    """Yield all events except the log lines before the last `lines` ones. Long messages are cut.

    One further event stands for all log lines that were left out.
    """
    dropped = sum(event.kind == "log" for event in events) - lines
    for event in events:
        if event.kind == "log" and dropped > 0:
            dropped -= 1
            if not dropped:
                yield replace(
                    event, severity="info", source="edgetop", message="... log lines left out: too many to send"
                )
            continue
        yield event if len(event.message) <= MAX_TEXT else replace(event, message=event.message[:MAX_TEXT])


def in_pieces(batch: Batch) -> Iterator[Batch]:
    """Yield `batch` as several batches, each small enough for one frame. The first has all individual inferences."""
    cuts = _cuts(batch.seconds)
    for number in itertools.count():
        first = number == 0
        piece = Batch(
            until_ns=batch.until_ns,
            inferences=batch.inferences if first else batch.inferences[:0],
            seconds=batch.seconds.between(*cuts[number : number + 2]) if number + 1 < len(cuts) else NO_SECONDS,
            readings=batch.readings[slice(*_range(number, READINGS_AT_ONCE))],
            events=batch.events[slice(*_range(number, EVENTS_AT_ONCE))],
            manifest=batch.manifest if first else None,
            restart=batch.restart and first,
            judged=batch.judged if first else None,
            aggregates=batch.aggregates[slice(*_range(number, AGGREGATES_AT_ONCE))],
            bursts=batch.bursts[slice(*_range(number, BURSTS_AT_ONCE))],
        )
        if not first and piece.is_empty:
            return
        yield piece


def _range(number: int, length: int) -> tuple[int, int]:
    return number * length, (number + 1) * length


def _cuts(seconds: Seconds) -> list[int]:
    """Return the row numbers at which to cut the table so that each piece fits into a frame, such as [0, 128, 200].

    The first number is 0, and the last is the number of rows.
    """
    share = np.full(len(seconds), 1 / SECONDS_AT_ONCE)  # of a frame, that a second needs
    if (tokens := seconds.tokens) is not None:
        for times in (tokens.itl, tokens.ttft):
            share = np.maximum(share, np.diff(times.offsets) / BUCKETS_AT_ONCE)
    if (streams := seconds.streams) is not None:
        share = np.maximum(share, np.diff(streams.offsets) / STREAMS_AT_ONCE)
        for rows in filter(None, (streams.seconds, streams.seconds.response)):
            share = np.maximum(share, np.diff(rows.offsets[streams.offsets]) / BUCKETS_AT_ONCE)
    cuts, filled = [0], 0.0
    for place, needed in enumerate(share.tolist()):
        if filled and filled + needed > 1:
            cuts.append(place)
            filled = 0.0
        filled += needed
    return [*cuts, len(seconds)]
