"""A batch on a link: what a journal's frame holds of it, and beside it what the board made of a long past.

All batches of one sender are one deflate stream, so that what is the same in each of them costs little. Whoever
decodes believes nothing: what cannot be true is a ValueError, and a payload that would grow beyond what a batch can
be is never unpacked.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.recording.packing import pack, pack_part, split, unpack
from edgetop.recording.soundness import MAX_SESSION_NS, sound_batch
from edgetop.relay.wire import MAX_PAYLOAD
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.byte_shuffle import Columns, pack_table
from edgetop.session.events import Event
from edgetop.session.operators import Burst, OperatorInfo
from edgetop.session.records import STRETCH, Readings, Stretches
from edgetop.session.seconds import NO_SECONDS, NS, Seconds

# Where a viewer stands: a segment of the journal, the bytes of it that were sent, and the session's time.
Position = tuple[int, int, int]
NOWHERE: Position = (-1, -1, -1)  # in the middle of a past: who is cut off there begins anew

MAX_UNPACKED = 8 * 1024 * 1024
MAX_NUMBERS = 200_000  # of one column
MAX_SENSORS = 512
MAX_OPERATORS = 20_000  # of a burst
MAX_TEXT = 2_000
OLD_S = 602  # more than the longest window, and the seconds at its ends

_BEGINS, _GOES_ON = b"\1", b"\0"  # the stream
_HEAD = struct.Struct("<qB3q")  # until_ns, whether it begins anew, the position behind it
_STRETCHES, _JUDGED = 100, 101  # kinds of parts, beside those of a journal


class Encoder:
    """Of one sender: what it says is understood only with all that it said before."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(6, wbits=-zlib.MAX_WBITS)
        self._mark = _BEGINS

    def encode(self, batch: Batch, position: Position) -> bytes:
        payload = _HEAD.pack(batch.until_ns, batch.restart, *position) + pack(batch)
        if len(batch.stretches):
            payload += pack_part(_STRETCHES, pack_table(batch.stretches))
        if batch.judged is not None:
            payload += pack_part(_JUDGED, json.dumps(batch.judged).encode())
        mark, self._mark = self._mark, _GOES_ON
        return mark + self._stream.compress(payload) + self._stream.flush(zlib.Z_SYNC_FLUSH)


class Decoder:
    """The other end of one Encoder after another. Raises ValueError; nothing after that can be understood."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=-zlib.MAX_WBITS)

    def decode(self, packed: bytes) -> tuple[Batch, Position]:
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
            batch = _read(payload[_HEAD.size :], until_ns)
        except (ArithmeticError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"not a batch: {error}") from None
        _check(batch)
        return replace(_shortened(batch), restart=bool(restart)), (position[0], position[1], position[2])


def _read(parts: bytes, until_ns: int) -> Batch:
    kinds = dict(split(parts))
    _require(len(kinds) == sum(1 for _ in split(parts)))
    batch = unpack(parts, until_ns, most_numbers=MAX_NUMBERS)
    if _STRETCHES in kinds:
        batch = replace(batch, stretches=Columns(kinds[_STRETCHES], MAX_NUMBERS).take_table(STRETCH))
    if _JUDGED in kinds:  # whoever goes on from it checks what it says
        judged = json.loads(kinds[_JUDGED])
        _require(isinstance(judged, dict))
        batch = replace(batch, judged=judged)
    return batch


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
    _check_stretches(batch.stretches)
    _check_seconds(batch.seconds, batch.until_ns)


def _check_stretches(rows: Stretches) -> None:
    _require(all(_lie(rows[name], -NS, MAX_SESSION_NS - 1) for name in ("t_ns", "until_ns")))
    _require(_lie(rows["sensor"], 0, MAX_SENSORS - 1) and (rows["count"] > 0).all())
    _require((rows["until_ns"] >= rows["t_ns"]).all())


def _check_seconds(seconds: Seconds, until_ns: int) -> None:
    """An old row, which no window reaches, may have its histogram added to that of another one (`past`)."""
    rows, response = seconds.rows, seconds.response
    _require(_lie(rows["t_ns"], -NS, MAX_SESSION_NS - 1) and (rows["t_ns"] % NS == 0).all())
    _require(_lie(seconds.bucket, 0, histogram.SIZE - 1) and _lie(seconds.bucket_count, 0, 2**31 - 1))
    row = np.repeat(np.arange(len(rows)), np.diff(seconds.offsets))
    counted = np.bincount(row, weights=seconds.bucket_count, minlength=len(rows))
    _require(counted.sum() == rows["count"].sum(dtype=np.int64))
    _require((counted == rows["count"])[rows["t_ns"] > until_ns - OLD_S * NS].all())
    for name in ("count", "errors", "sum_ns", "jitter_sum_ns", "jitter_count"):
        _require((rows[name] >= 0).all())
    if response is not None:
        _check_seconds(response, until_ns)
        _require(response.response is None)
        _require(all((response.rows[name] == rows[name]).all() for name in ("t_ns", "count")))


def _shortened(batch: Batch) -> Batch:
    """With texts no longer than a person would read."""
    return replace(batch, events=tuple(map(_short_event, batch.events)), bursts=tuple(_short_bursts(batch.bursts)))


def _short_event(event: Event) -> Event:
    texts = {name: getattr(event, name)[:MAX_TEXT] for name in ("kind", "source", "message")}
    return replace(event, **texts)


def _short_bursts(bursts: tuple[Burst, ...]) -> Iterator[Burst]:
    for burst in bursts:
        infos = burst.infos
        if any(len(text) > MAX_TEXT for info in infos for text in _texts(info).values()):
            infos = tuple(map(_short_info, infos))
        yield replace(burst, infos=infos)


def _short_info(info: OperatorInfo) -> OperatorInfo:
    return replace(info, **{name: text[:MAX_TEXT] for name, text in _texts(info).items()})  # type: ignore[arg-type]


def _texts(info: OperatorInfo) -> dict[str, str]:
    texts = {"name": info.name, "op_type": info.op_type, "provider": info.provider}
    return texts if info.origin is None else {**texts, "origin": info.origin}


# What of a live session a screen needs: all of it where it is little, a bounded part where it is much.
# Seconds, events other than log lines, and the manifest always pass. Single inferences pass while there are few; of
# many only the last, which says that the engine lives: windows are then made of seconds, good to 1 %. Of readings
# beyond any screen's resolution the first, the lowest, the highest and the last of each second pass: charts and
# extremes are the same, means are near.

# In a second.
SINGLE_HZ = 120
READINGS_HZ = 200
LOG_HZ = 10

MAX_SINGLE = 4_096  # inferences of one batch, whatever time it spans
# What one frame takes.
READINGS_AT_ONCE, STRETCHES_AT_ONCE, SECONDS_AT_ONCE, EVENTS_AT_ONCE, BURSTS_AT_ONCE = 8_192, 2_048, 128, 250, 16


def thinned(batch: Batch, span_s: float) -> Batch:
    """`span_s`: how long it took to become what it is."""
    is_few = len(batch.inferences) <= min(SINGLE_HZ * max(span_s, 1.0), MAX_SINGLE)
    return replace(
        batch,
        inferences=batch.inferences if is_few else batch.inferences[-1:],
        readings=_extremes(batch.readings) if len(batch.readings) > READINGS_HZ * span_s else batch.readings,
        events=tuple(_with_fewer_lines(batch.events, max(1, int(LOG_HZ * span_s)))),
    )


def _extremes(readings: Readings) -> Readings:
    """Of each sensor and second the first, the lowest, the highest and the last one, in their order."""
    place = np.arange(len(readings))
    group = readings["t_ns"] // NS * 2**16 + readings["sensor"]
    by_time = np.lexsort((place, group))
    by_value = np.lexsort((place, readings["value"], group))
    ends = np.flatnonzero(np.diff(group[by_time], append=np.iinfo(np.int64).max))
    starts = np.append(0, ends[:-1] + 1)
    chosen = np.unique(np.concatenate([by_time[starts], by_time[ends], by_value[starts], by_value[ends]]))
    extremes: Readings = readings[chosen]
    return extremes


def _with_fewer_lines(events: tuple[Event, ...], lines: int) -> Iterator[Event]:
    """Without the first log lines of too many, and without the end of those too long for a screen."""
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
    """The same as batches of which each fits into a frame. Single inferences come with the first."""
    number = 0
    while True:
        piece = Batch(
            until_ns=batch.until_ns,
            inferences=batch.inferences if not number else batch.inferences[:0],
            seconds=_rows(batch.seconds, number),
            readings=batch.readings[_slice(number, READINGS_AT_ONCE)],
            events=batch.events[_slice(number, EVENTS_AT_ONCE)],
            manifest=batch.manifest if not number else None,
            restart=batch.restart and not number,
            judged=batch.judged if not number else None,
            stretches=batch.stretches[_slice(number, STRETCHES_AT_ONCE)],
            bursts=batch.bursts[_slice(number, BURSTS_AT_ONCE)],
        )
        if number and piece.is_empty:
            return
        yield piece
        number += 1


def _slice(number: int, length: int) -> slice:
    return slice(number * length, (number + 1) * length)


def _rows(seconds: Seconds, number: int) -> Seconds:
    place = np.arange(len(seconds))
    return seconds.where(place // SECONDS_AT_ONCE == number)
