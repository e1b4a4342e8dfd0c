"""What of a live session a screen needs: all of it where it is little, a bounded part where it is much.

Seconds, events other than log lines, and the manifest always pass. Single inferences pass while
there are few; of many only the last, which says that the engine lives: windows are then made of
seconds, good to 1 %. Of readings beyond any screen's resolution the first, the lowest, the
highest and the last of each second pass: charts and extremes are the same, means are near.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.records import Inferences, Readings
from edgetop.session.seconds import NS, Seconds

# In a second.
SINGLE_HZ = 120
READINGS_HZ = 200
LOG_HZ = 10

MAX_TEXT = 2_000  # characters of a message
MAX_SINGLE = 4_096  # inferences of one batch, whatever time it spans
# What one frame takes.
READINGS_AT_ONCE, STRETCHES_AT_ONCE, SECONDS_AT_ONCE, EVENTS_AT_ONCE, BURSTS_AT_ONCE = 8_192, 2_048, 128, 250, 16


def thinned(batch: Batch, span_s: float) -> Batch:
    """`span_s`: how long it took to become what it is."""
    return replace(
        batch,
        inferences=_few(batch.inferences, span_s),
        readings=_extremes(batch.readings) if len(batch.readings) > READINGS_HZ * span_s else batch.readings,
        events=tuple(_with_fewer_lines(batch.events, max(1, int(LOG_HZ * span_s)))),
    )


def _few(inferences: Inferences, span_s: float) -> Inferences:
    return inferences if len(inferences) <= min(SINGLE_HZ * max(span_s, 1.0), MAX_SINGLE) else inferences[-1:]


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
