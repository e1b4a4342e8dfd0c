"""Prepare the past of a session for a new viewer: the last minutes in full, older data coarse.

The last eleven minutes have every second and reading, because charts and percentiles of ten minutes need them. Older
data become at most 2,048 merged seconds with about a hundred histograms, and 256 aggregates of each sensor. Counts,
sums, extremes and histograms stay exact. The board analyses the past itself (a judgement), because it has all data.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgetop.formatting import quantity
from edgetop.recording.reader import Recording
from edgetop.recording.rows import Span
from edgetop.relay import relay_frames
from edgetop.relay.encoding import MAX_SINGLE, NOWHERE, SECONDS_AT_ONCE, STREAMS_AT_ONCE, Encoder, in_pieces, thinned
from edgetop.relay.relay_frames import Frame
from edgetop.session.batch import Batch
from edgetop.session.engine_events import ProfileBurst, ProfileBursts
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.operators import BASELINE_BURSTS
from edgetop.session.records import AGGREGATE, NO_AGGREGATES, NO_INFERENCES, Aggregates, Inferences, Readings
from edgetop.session.seconds import (
    ABSENT,
    NS,
    TOKEN_SECOND,
    Seconds,
    StreamSeconds,
    TokenSeconds,
    concatenate,
    summed,
)
from edgetop.session.typed_json import JsonValue

FINE_S = 660  # part that is sent in full: the longest window or chart of seconds, and a minute
STEP_S = 60
CONTEXT_S = 128  # first seconds of that part which the judgement covers too, as a reference for a later slowdown
JUDGED_AT_ONCE_S, JUDGED_STEP_S = 240, 10
HISTOGRAMS = 128  # most histograms of the coarse part; each of the 64 blocks of `analysis.precision` holds some whole
COARSE_ROWS = 2_048  # most rows of seconds in the coarse part: as many as the timeline of a whole session keeps
AGGREGATES = 256  # most aggregates of each sensor
FEW_STREAMS = 8  # up to so many, a row of seconds covers the same time as with one
MAX_EVENTS, MAX_LOG_LINES = 2_000, 200  # a screen keeps a thousand
MAX_LONGER = 16  # operators that took longer in slow profiled inferences
MOST_JOINED = 8_192  # most seconds in one histogram, whose counts are int32: 4e8 inferences at 50,000 a second


Judged = Mapping[str, JsonValue]
# Judges a session from its start up to the given second or shortly after; returns None if no judgement can be sent.
Judge = Callable[[Iterator[Batch], int], Judged | None]


def past_frames(folder: Path, judge: Judge | None = None) -> Iterator[Frame]:
    """Yield the past of a session as frames: first a PLACE (where the journal goes on), then a BATCH for each part.

    `folder` is the session's folder. `judge` analyses the session; None for no analysis. Raises InputError if the
    session cannot be read.
    """
    with Recording(folder) as recording:
        segment, offset = recording.follow().place if recording.is_live else (0, 0)
        place = {"segment": segment, "offset": offset, "until_ns": recording.end_ns, "live": recording.is_live}
        yield Frame(relay_frames.PLACE, json.dumps(place).encode())
        encoder = Encoder()
        for batch in past(recording, judge):
            yield Frame(relay_frames.BATCH, encoder.encode(batch, NOWHERE))


def past(recording: Recording, judge: Judge | None = None) -> Iterator[Batch]:
    """Yield the session up to now as batches, with the older, coarse part first.

    The first batch also has the manifest, and its `restart` is true. `judge` analyses the session; None for no
    analysis.
    """
    end_ns = recording.end_ns
    fine_ns = max(0, end_ns // NS - FINE_S) * NS
    first = True
    for batch in chain(_coarse(recording, fine_ns) if fine_ns else (), _found(recording, fine_ns, judge)):
        manifest = recording.manifest if first else None
        yield replace(batch, until_ns=end_ns if fine_ns else batch.until_ns, manifest=manifest, restart=first)
        first = False


def _coarse(recording: Recording, until_ns: int) -> Iterator[Batch]:
    span = Span(-NS, until_ns)
    aggregates = _aggregates(recording.rows("readings", span), until_ns)
    events = _selected_events(recording.rows("events", span))
    bursts = tuple(next(recording.rows("operators", span), ())[:BASELINE_BURSTS])  # the baseline for later ones
    yield from in_pieces(Batch(aggregates=aggregates, events=events, bursts=bursts))
    for seconds in _joined_seconds(recording.rows("seconds", span), until_ns, _streams_in(recording.manifest)):
        yield Batch(seconds=seconds)


def _streams_in(manifest: Manifest) -> int:
    """Return how many streams have their own figures in each second of the session, from 1 to 256."""
    if manifest.ab:
        return 2
    return min(max(1, len(manifest.watched.streams)), 256) if manifest.watched else 1


def _found(recording: Recording, fine_ns: int, judge: Judge | None) -> Iterator[Batch]:
    """Yield all batches of the recording from the session time `fine_ns` on, without merging inferences or seconds.

    The first batch carries what `judge` makes of the earlier batches; it carries nothing if `judge` is None or fails.
    """
    late_ns = fine_ns + CONTEXT_S * NS
    judged = None
    if judge and fine_ns:
        with contextlib.suppress(ValueError, LookupError, TypeError, ArithmeticError):  # a defect: judge later
            judged = judge(_all(recording, late_ns), late_ns // NS)
    for batch in _fine(recording, fine_ns):
        yield replace(batch, judged=judged)
        judged = None


def _all(recording: Recording, late_ns: int) -> Iterator[Batch]:
    """Yield the batches of the whole session, for analysis. After the session time `late_ns`, batches are shorter."""
    yield from recording.play(step_s=JUDGED_AT_ONCE_S, span=Span(end_ns=late_ns))
    # Short batches let the analysis stop close to `late_ns`.
    for batch in recording.play(step_s=JUDGED_STEP_S, span=Span(late_ns)):
        yield replace(batch, manifest=None, restart=False)


def _fine(recording: Recording, begin_ns: int) -> Iterator[Batch]:
    singles = _last_inferences(recording, begin_ns)
    given_ns = -NS
    for batch in recording.play(step_s=STEP_S, span=Span(begin_ns or -NS)):
        until_ns = max(batch.until_ns, given_ns)
        t_ns = singles["t_ns"]
        mine = singles[(t_ns >= given_ns) & ((t_ns < until_ns) | (until_ns == recording.end_ns))]
        given_ns = until_ns
        yield from in_pieces(thinned(replace(batch, inferences=mine), STEP_S))


def _joined_seconds(pieces: Iterator[Seconds], until_ns: int, streams: int = 1) -> Iterator[Seconds]:
    """Yield tables whose rows each cover several seconds: more seconds in a longer session, or with more `streams`.

    `pieces` are tables with one row a second, which end at the session time `until_ns`. The p50 of a row is the
    weighted mean of the seconds' p50, and its p99 their highest p99.
    """
    width = every_s = 1
    while max(HISTOGRAMS, COARSE_ROWS * FEW_STREAMS // max(FEW_STREAMS, streams)) * width * NS < until_ns:
        width *= 2
    while HISTOGRAMS * every_s * NS < until_ns:
        every_s *= 2
    for seconds in _portions(pieces, min(min(SECONDS_AT_ONCE, STREAMS_AT_ONCE // streams) * width, MOST_JOINED)):
        yield _joined(summed(seconds, every_s), width)


def _portions(pieces: Iterator[Seconds], rows: int) -> Iterator[Seconds]:
    """Yield the rows of the tables `pieces` in tables of exactly `rows` rows. The last table may be shorter."""
    waiting: list[Seconds] = []
    for piece in pieces:
        waiting.append(piece)
        if sum(map(len, waiting)) >= rows:
            joined = concatenate(waiting)
            place = np.arange(len(joined))
            whole = len(joined) // rows
            for number in range(whole):
                yield joined.where(place // rows == number)
            waiting = [joined.where(place // rows == whole)]
    if any(map(len, waiting)):
        yield concatenate(waiting)


def _joined(seconds: Seconds, width: int) -> Seconds:
    """Return the table with its rows of one second merged into rows of `width` seconds.

    The latency histograms must already be merged, over at least `width` seconds.
    """
    if width == 1:
        return seconds
    starts = _starts(seconds.rows, width)
    joined = _merged(seconds, starts)
    if seconds.tokens is not None:
        joined = replace(joined, tokens=_merged_tokens(seconds.tokens, starts))
    if seconds.streams is None:
        return joined
    return replace(joined, streams=_merged_streams(seconds.streams, starts, joined.rows["t_ns"]))


def _merged_tokens(tokens: TokenSeconds, starts: npt.NDArray[np.int64]) -> TokenSeconds:
    """Return the table with each group of successive rows merged.

    `starts` are the row numbers at which groups begin.
    """
    rows, between = tokens.rows, tokens.itl.rows["count"].astype(np.float64)
    joined = np.zeros(len(starts), TOKEN_SECOND)
    # The `active` fields, about simultaneous requests, stay 0, which means unknown.
    for name in ("requests", "tokens_in", "tokens_cached", "prefill_ns", "tokens_out"):
        joined[name] = np.add.reduceat(rows[name], starts)
    joined["position_max"] = np.maximum.reduceat(rows["position_max"], starts)
    weighted = np.add.reduceat(rows["position_mean"] * between, starts)
    joined["position_mean"] = weighted / np.maximum(np.add.reduceat(between, starts), 1.0)
    return TokenSeconds(joined, _merged(tokens.itl, starts), _merged(tokens.ttft, starts))


def _starts(rows: npt.NDArray[np.void], width: int) -> npt.NDArray[np.int64]:
    return np.flatnonzero(np.diff(rows["t_ns"] // (width * NS), prepend=-2))


def _merged(seconds: Seconds, starts: npt.NDArray[np.int64]) -> Seconds:
    """Return the table with each group of successive rows merged.

    `starts` are the row numbers at which groups begin.
    """
    offsets = np.append(seconds.offsets[starts], seconds.offsets[-1])
    response = None if seconds.response is None else _merged(seconds.response, starts)
    return Seconds(_joined_rows(seconds.rows, starts), offsets, seconds.bucket, seconds.bucket_count, response)


def _merged_streams(
    streams: StreamSeconds, starts: npt.NDArray[np.int64], t_ns: npt.NDArray[np.int64]
) -> StreamSeconds:
    """Return the table with each group of successive seconds merged, for each stream apart.

    `starts` are the positions of the seconds at which the groups begin, and `t_ns` the session times there.
    """
    key = (np.searchsorted(starts, streams.owner, side="right") - 1) * 256 + streams.number
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    owner, number = np.divmod(key[order][first], 256)
    merged = _merged(streams.seconds.take(order), first)
    for rows in filter(None, (merged, merged.response)):
        rows.rows["t_ns"] = t_ns[owner]
    offsets = np.append(0, np.cumsum(np.bincount(owner, minlength=len(starts)))).astype(np.int32)
    return StreamSeconds(offsets, number.astype(np.uint8), merged)


def _joined_rows(rows: npt.NDArray[np.void], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Return one merged row for each group of successive rows, with the time of the group's first row.

    `starts` are the row numbers at which the groups begin.
    """
    joined: npt.NDArray[np.void] = rows[starts].copy()
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))
    for name in ("count", "errors", "sum_ns", "jitter_sum_ns", "jitter_count"):
        joined[name] = np.add.reduceat(rows[name], starts)
    missed = np.maximum(rows["deadline_misses"], 0)
    has_deadline = np.maximum.reduceat(rows["deadline_misses"], starts) >= 0
    joined["deadline_misses"] = np.where(has_deadline, np.add.reduceat(missed, starts), ABSENT)
    for place, part in enumerate(np.split(rows, starts[1:])):
        for name, run in zip(_RUNS, _joined_runs(part), strict=True):
            joined[name][place] = run
    held = rows["count"] > 0
    lowest = np.where(held, rows["min_ns"], np.iinfo(np.int64).max)
    joined["min_ns"] = np.where(joined["count"] > 0, np.minimum.reduceat(lowest, starts), ABSENT)
    for name in ("max_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns"):
        joined[name] = np.maximum.reduceat(rows[name], starts)  # ABSENT is less than any time
    count = np.maximum(joined["count"], 1).astype(np.float64)
    weighted = np.where(held, rows["p50_ns"] * rows["count"].astype(np.float64), 0.0)
    middle = np.add.reduceat(weighted, starts) / count
    joined["p50_ns"] = np.where(joined["count"] > 0, middle.astype(np.int64), ABSENT)
    mean = (joined["sum_ns"] / count)[group]
    apart = np.where(held, rows["sum_ns"] / np.maximum(rows["count"], 1) - mean, 0.0)
    joined["m2_ns2"] = np.add.reduceat(rows["m2_ns2"] + rows["count"] * apart * apart, starts)
    return joined


_RUNS = ("miss_run_first", "miss_run_last", "miss_run_longest")


def _joined_runs(rows: npt.NDArray[np.void]) -> tuple[int, int, int]:
    """Return the lengths of three runs of missed deadlines: at the beginning of the rows,
    at their end, and the longest.

    All three are ABSENT if no row has these numbers.
    """
    rows = rows[rows["miss_run_longest"] != ABSENT]
    if not len(rows):
        return ABSENT, ABSENT, ABSENT
    first = None  # until an inference was in time
    run = longest = 0
    for count, first_run, last_run, longest_run in rows[["count", *_RUNS]].tolist():
        run += first_run
        longest = max(longest, run, longest_run)
        if first_run < count:
            first = run if first is None else first
            run = last_run
    return run if first is None else first, run, longest


def _aggregates(pieces: Iterator[Readings], until_ns: int) -> Aggregates:
    """Return the count, lowest, mean, highest and last reading of each sensor in each span of time, sorted by time.

    `until_ns` is the session time at the end of the readings. A longer session has longer spans.
    """
    width_ns = NS
    while AGGREGATES * width_ns < until_ns:
        width_ns *= 2
    found = [_aggregated(readings, width_ns) for readings in pieces if len(readings)]
    joined = np.concatenate([NO_AGGREGATES, *found])
    by_time: Aggregates = joined[np.argsort(joined["t_ns"], kind="stable")]
    return by_time


def _aggregated(readings: Readings, width_ns: int) -> Aggregates:
    order = np.lexsort((readings["t_ns"], readings["t_ns"] // width_ns, readings["sensor"]))
    rows = readings[order]
    group = rows["t_ns"] // width_ns * 2**16 + rows["sensor"]
    starts = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    ends = np.append(starts[1:], len(rows))
    found = np.zeros(len(starts), AGGREGATE)
    found["t_ns"], found["until_ns"] = rows["t_ns"][starts], rows["t_ns"][ends - 1]
    found["sensor"], found["count"] = rows["sensor"][starts], ends - starts
    found["low"] = np.minimum.reduceat(rows["value"], starts)
    found["high"] = np.maximum.reduceat(rows["value"], starts)
    found["mean"] = np.add.reduceat(rows["value"], starts) / found["count"]
    found["last"] = rows["value"][ends - 1]
    return found


def _selected_events(pieces: Iterator[tuple[Event, ...]]) -> tuple[Event, ...]:
    """Return the events to send: at most `MAX_EVENTS`, the last log lines, and the events of profiling.

    All profiling rounds after the first `BASELINE_BURSTS` share one event with their sum, and one for each operator
    that took longer in some of them.
    """
    events = [event for piece in pieces for event in piece]
    lines = [event for event in events if event.kind == "log"][-MAX_LOG_LINES:]
    bursts = [(event, event.body) for event in events if isinstance(event.body, ProfileBurst)]
    happened = [event for event in events if event.kind not in ("log", "profile-burst")]
    # Keep the first events too: they have the session's phases and missing sensors.
    half = MAX_EVENTS // 2
    if len(happened) > MAX_EVENTS:
        happened = [*happened[:half], *happened[-half:]]
    chosen = [*happened, *lines, *(event for event, _ in bursts[:BASELINE_BURSTS])]
    later = [burst for _, burst in bursts[BASELINE_BURSTS:]]
    if later:  # with their number, and the time that they took from the measurement
        sums = [_sum_of(later), *_longer_in(later)]
        chosen += [replace(bursts[-1][0], body=body, message=quantity(len(later), "burst")) for body in sums]
    return tuple(sorted(chosen, key=lambda event: event.t_ns))


def _sum_of(bursts: Sequence[ProfileBurst]) -> ProfileBursts:
    """Return the totals of several profiling rounds. Threads count only in rounds that no other process disturbed."""
    uses = [burst.threads for burst in bursts if burst.threads and not burst.disturbed_runs]
    summed = {name: sum(getattr(use, name) for use in uses) for name in ("all_ns", "wait_ns", "moves")}
    return ProfileBursts(
        count=len(bursts),
        duration_ns=sum(burst.duration_ns for burst in bursts),
        left_out_runs=sum(burst.left_out_runs for burst in bursts),
        disturbed_runs=sum(burst.disturbed_runs for burst in bursts),
        threads=replace(uses[-1], **summed) if uses else None,
        slow_runs=sum(burst.slow_ns is not None and not burst.averaged for burst in bursts) or None,
    )


def _longer_in(bursts: Sequence[ProfileBurst]) -> Iterator[ProfileBursts]:
    """Yield totals for each operator that made inferences slow, beginning with the operator that did so most often.

    At most `MAX_LONGER` operators are yielded.
    """
    by_name: dict[str, list[ProfileBurst]] = {}
    for burst in bursts:
        if burst.slow_ns is not None and burst.longer and not burst.averaged:
            by_name.setdefault(burst.longer, []).append(burst)
    for name, those in sorted(by_name.items(), key=lambda item: -len(item[1]))[:MAX_LONGER]:
        shares = [min(max(float(burst.longer_share or 0.0), 0.0), 1.0) for burst in those]
        yield ProfileBursts(
            longer=name,
            longer_runs=len(those),
            longer_ns=max(burst.longer_ns or 0 for burst in those),
            longer_share=sum(shares) / len(shares),
        )


def _last_inferences(recording: Recording, fine_ns: int) -> Inferences:
    """Return the individual inferences of the last whole seconds, at most `MAX_SINGLE`, and none before `fine_ns`."""
    begins, held = [], []
    for seconds in recording.rows("seconds", Span(max(fine_ns, recording.end_ns - STEP_S * NS))):
        begins.append(seconds.rows["t_ns"])
        held.append(seconds.rows["count"].astype(np.int64) + seconds.rows["errors"])
    if not begins:
        return NO_INFERENCES
    after = np.cumsum(np.concatenate(held)[::-1])[::-1]  # inferences from each second to the end
    few = np.flatnonzero(after <= MAX_SINGLE)
    if not len(few):
        return NO_INFERENCES
    begin_ns = int(np.concatenate(begins)[few[0]])
    last: Inferences = NO_INFERENCES
    for rows in recording.rows("inferences", Span(begin_ns)):
        last = np.concatenate([last, rows])[-MAX_SINGLE:]
    return last
