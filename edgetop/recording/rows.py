"""Operations on the rows of any table, and checks that rows are plausible.

Rows have the types of a `Batch`: structured arrays, `Seconds`, or tuples of events or profiling rounds. Sessions come
from other people and from failing SD cards. An implausible row could make an analysis raise, run for ever or fill the
memory, so such rows are left out.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.events import Severity
from edgetop.session.operators import joined as joined_bursts
from edgetop.session.records import (
    FINISH_REASONS,
    NO_INFERENCES,
    NO_READINGS,
    NO_REQUESTS,
    PHASES,
    REQUEST,
    Inferences,
    Requests,
    join,
)
from edgetop.session.seconds import NO_SECONDS, NS, TOKEN_SECOND, Seconds, StreamSeconds, concatenate

NO_ROWS: dict[str, Any] = {
    "inferences": NO_INFERENCES,
    "readings": NO_READINGS,
    "operators": (),
    "events": (),
    "seconds": NO_SECONDS,
}
TABLES = tuple(NO_ROWS)  # that every session has
NO_ROWS["requests"] = NO_REQUESTS
ALL_TABLES = tuple(NO_ROWS)  # with those that only some sessions have
FIELDS = {name: "bursts" if name == "operators" else name for name in ALL_TABLES}  # field of a batch for each table

LATE_NS, ALL_BUT = 5 * NS, 0.9
MAX_SESSION_NS = 10 * 366 * 86_400 * NS
MAX_TEXT = 100_000
MAX_VALUE = 1e30  # of a reading; no quantity is larger in its unit, and sums of squares stay finite

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]


@frozen
class Span:
    """A part of a session's time, from `begin_ns` up to but without `end_ns`."""

    begin_ns: int = -(2**62)
    end_ns: int = 2**62

    def holds(self, t_ns: Times) -> Mask:
        return np.asarray((t_ns >= self.begin_ns) & (t_ns < self.end_ns))

    def touches(self, first_ns: int, last_ns: int) -> bool:
        """Whether the span overlaps the time from `first_ns` to `last_ns`, both included."""
        return last_ns >= self.begin_ns and first_ns < self.end_ns

    def in_steps_of(self, step_ns: int) -> "Span":
        """Return the span, widened to multiples of `step_ns`, for rows that cannot be divided, such as seconds.

        >>> Span(1_500, 2_001).in_steps_of(1_000)
        Span(begin_ns=1000, end_ns=3000)
        """
        return Span(self.begin_ns // step_ns * step_ns, -(-self.end_ns // step_ns) * step_ns)


WHOLE = Span()


@frozen
class Piece:
    """A part of a table: consecutive rows, which `read` reads from the disk. Unreadable rows are left out."""

    first_ns: int  # the earliest time of a row
    last_ns: int  # the latest
    rows: int  # upper bound of the number of rows
    read: Callable[[], Any]


def times(rows: Any) -> Any:
    """Return an array with the session time in ns of each row of any table of a `Batch`."""
    if isinstance(rows, tuple):
        return np.array([row.t_ns for row in rows], np.int64)
    return (rows.rows if isinstance(rows, Seconds) else rows)["t_ns"]


def joined(name: str, pieces: Sequence[Any]) -> Any:
    """Return the rows of consecutive parts of the table `name` as one part. A divided profiling round is joined."""
    if not pieces:
        return NO_ROWS[name]
    if name == "seconds":
        return concatenate(pieces)
    if name in ("operators", "events"):
        rows = (row for piece in pieces for row in piece)
        return joined_bursts(rows) if name == "operators" else tuple(rows)
    return join(pieces)


def between(rows: Any, begin: int, end: int) -> Any:
    """Return the rows at positions `begin` to `end - 1`. `rows` is any table of a `Batch`."""
    if isinstance(rows, Seconds):
        place = np.arange(len(rows))
        return rows.where((place >= begin) & (place < end))
    return rows[begin:end]


def where(rows: Any, wanted: Mask) -> Any:
    """Return the rows for which `wanted` is true. `rows` is any table of a `Batch`."""
    if wanted.all():
        return rows
    if isinstance(rows, tuple):
        return tuple(row for row, is_wanted in zip(rows, wanted, strict=True) if is_wanted)
    return rows.where(wanted) if isinstance(rows, Seconds) else rows[wanted]


def within(span: Span, rows: Any) -> Any:
    """Return the rows whose time lies in `span`. `rows` is any table of a `Batch`."""
    return where(rows, span.holds(times(rows))) if len(rows) else rows


def in_order(rows: Any) -> Any:
    """Return the rows sorted by time, in case another program wrote them in another order.

    `rows` is any table of a `Batch`. Duplicate seconds are dropped. Other rows are sorted only if a row is far out of
    order.
    """
    if len(rows) < 2:
        return rows
    t_ns = times(rows)
    if isinstance(rows, Seconds):
        return rows if (np.diff(t_ns) > 0).all() else rows.take(np.unique(t_ns, return_index=True)[1])
    late_ns = int((np.maximum.accumulate(t_ns) - t_ns).max())
    lasts_ns = int(t_ns.max() - t_ns.min())
    # Small differences are normal, since edgetop writes these rows in the order of their creation.
    if lasts_ns < LATE_NS or late_ns < ALL_BUT * lasts_ns:
        return rows
    order = np.argsort(t_ns, kind="stable")
    return tuple(rows[place] for place in order) if isinstance(rows, tuple) else rows[order]


def sound(name: str, rows: Any) -> Any:
    """Return only the plausible rows of the table `name`. Event messages that are too long are cut."""
    if not len(rows):
        return rows
    if name == "events":
        kept = (e for e in rows if -NS <= e.t_ns < MAX_SESSION_NS and e.severity in get_args(Severity))
        return tuple(
            e if len(e.message) <= MAX_TEXT else replace(e, message=e.message[:MAX_TEXT] + "...") for e in kept
        )
    if name == "operators":
        return tuple(b for b in rows if are_sound_operators(np.array([b.t_ns]), b.calls, b.total_ns).all())
    if name == "seconds":
        return where(rows, _are_sound_seconds(rows) & _have_sound_streams(rows))
    mask = _in_time(rows["t_ns"])
    if name == "readings":
        return where(rows, mask & (np.abs(rows["value"]) < MAX_VALUE))  # false for NaN
    return where(rows, mask & (_are_sound_requests if name == "requests" else _are_sound_inferences)(rows))


def _are_sound_inferences(inferences: Inferences) -> Mask:
    latency, wait = inferences["latency_ns"], inferences["wait_ns"]
    mask: Mask = (inferences["phase"] < len(PHASES)) & (latency >= 0) & (latency < MAX_SESSION_NS)
    return np.asarray(mask & (np.abs(wait) < MAX_SESSION_NS))


def _are_sound_requests(requests: Requests) -> Mask:
    mask: Mask = (requests["phase"] < len(PHASES)) & (requests["finish"] < len(FINISH_REASONS))
    for name in REQUEST.names or ():
        if name.endswith("_ns") and name != "t_ns":
            mask &= np.abs(requests[name]) < MAX_SESSION_NS
        elif REQUEST[name] == np.dtype("<i4"):
            mask &= requests[name] >= 0
    return mask


def _in_time(t_ns: Times) -> Mask:
    """Return, for each session time, whether it is plausible: below MAX_SESSION_NS, and not below -1 s."""
    # Rounding may give a time of up to one second before the session's origin.
    return np.asarray((t_ns >= -NS) & (t_ns < MAX_SESSION_NS))


def are_sound_operators(t_ns: Times, calls: Times, total_ns: Times) -> Mask:
    """Return, for each row of `operators`, whether it is plausible. The parameters are three columns of that table."""
    return _in_time(t_ns) & (total_ns >= 0) & (total_ns < MAX_SESSION_NS) & (calls > 0)


def _have_sound_streams(seconds: Seconds) -> Mask:
    """Return, for each second, whether the rows of its streams are plausible and add up to its number of inferences."""
    streams = seconds.streams
    if streams is None:
        return np.ones(len(seconds), np.bool_)
    unsound = streams.owner[~_are_sound_seconds(streams.seconds)]
    return np.asarray(add_up(seconds, streams) & (np.bincount(unsound, minlength=len(seconds)) == 0))


def add_up(seconds: Seconds, streams: StreamSeconds) -> Mask:
    """Return, for each second, whether the rows of its streams add up to its number of inferences.

    The rows must also be in ascending order of stream, without duplicates, and have the second's time.
    """
    rows, owner = streams.seconds.rows, streams.owner
    fits = rows["t_ns"] == seconds.rows["t_ns"][owner]
    fits &= np.diff(owner * 256 + streams.number, prepend=-1) > 0
    mask = np.bincount(owner[~fits], minlength=len(seconds)) == 0
    has_rows = np.diff(streams.offsets) > 0
    for name in ("count", "errors"):
        mask &= ~has_rows | (np.bincount(owner, rows[name], len(seconds)) == seconds.rows[name])
    return np.asarray(mask)


def _are_sound_seconds(seconds: Seconds) -> Mask:
    """Return, for each second, whether its values and its histogram are plausible."""
    rows = seconds.rows
    mask: Mask = _in_time(rows["t_ns"]) & (rows["t_ns"] % NS == 0) & np.isfinite(rows["m2_ns2"])
    for name in ("count", "errors", "sum_ns", "jitter_sum_ns", "jitter_count", "m2_ns2"):
        mask &= rows[name] >= 0
    buckets = (seconds.bucket < 0) | (seconds.bucket >= histogram.SIZE) | (seconds.bucket_count < 0)
    second = np.repeat(np.arange(len(rows)), np.diff(seconds.offsets))
    mask &= np.bincount(second[buckets], minlength=len(rows)) == 0
    mask &= np.bincount(second, weights=seconds.bucket_count, minlength=len(rows)) == rows["count"]
    if seconds.tokens is not None:
        for name in TOKEN_SECOND.names or ():
            mask &= seconds.tokens.rows[name] >= 0  # false for NaN
        mask &= _are_sound_seconds(seconds.tokens.itl) & _are_sound_seconds(seconds.tokens.ttft)
    return mask if seconds.response is None else mask & _are_sound_seconds(seconds.response)


def sound_batch(batch: Batch) -> Batch:
    """Return a batch with only its plausible rows."""
    kept = {field: sound(name, getattr(batch, field)) for name, field in FIELDS.items()}
    return replace(batch, until_ns=min(batch.until_ns, MAX_SESSION_NS), **kept)


def release_memory() -> None:
    """Give back to the system about 20 MiB that Arrow and the C library keep for later use.

    Call this after reading rows. With C libraries other than glibc (malloc_trim(3)), only Arrow's memory is given back.
    """
    if pool := getattr(sys.modules.get("pyarrow"), "default_memory_pool", None):  # None: another thread imports it now
        pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
