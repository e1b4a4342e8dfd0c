"""Rows of a table in the types of a batch: structured arrays, `Seconds`, and tuples of events or bursts."""

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.session.operators import joined as joined_bursts
from edgetop.session.records import NO_INFERENCES, NO_READINGS
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate

NO_ROWS: dict[str, Any] = {
    "inferences": NO_INFERENCES,
    "readings": NO_READINGS,
    "operators": (),
    "events": (),
    "seconds": NO_SECONDS,
}
TABLES = tuple(NO_ROWS)
FIELDS = {"operators": "bursts"}  # of a batch, where it is not named as its table

LATE_NS, ALL_BUT = 5 * NS, 0.9


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a session's time: from `begin_ns` up to, not including, `end_ns`."""

    begin_ns: int = -(2**62)
    end_ns: int = 2**62

    def holds(self, t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        return np.asarray((t_ns >= self.begin_ns) & (t_ns < self.end_ns))

    def touches(self, first_ns: int, last_ns: int) -> bool:
        """Whether it overlaps the time from `first_ns` to `last_ns`."""
        return last_ns >= self.begin_ns and first_ns < self.end_ns

    def in_steps_of(self, step_ns: int) -> "Span":
        """Widened to whole steps.

        >>> Span(1_500, 2_001).in_steps_of(1_000)
        Span(begin_ns=1000, end_ns=3000)
        """
        return Span(self.begin_ns // step_ns * step_ns, -(-self.end_ns // step_ns) * step_ns)

    def in_seconds(self) -> "Span":
        """Widened to whole seconds, since rows of `seconds` cannot be divided."""
        return self.in_steps_of(NS)


WHOLE = Span()


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive rows of a table, read when they are needed. Unreadable rows are left out."""

    first_ns: int  # the earliest time in it
    last_ns: int
    rows: int  # at most
    read: Callable[[], Any]


def times(rows: Any) -> Any:
    """The `t_ns` of each row."""
    if isinstance(rows, tuple):
        return np.array([row.t_ns for row in rows], np.int64)
    return (rows.rows if isinstance(rows, Seconds) else rows)["t_ns"]


def joined(name: str, pieces: Sequence[Any]) -> Any:
    """Join consecutive pieces of a table; a burst may be cut at the end of a piece."""
    if not pieces:
        return NO_ROWS[name]
    if name == "seconds":
        return concatenate(pieces)
    if name in ("operators", "events"):
        rows = (row for piece in pieces for row in piece)
        return joined_bursts(rows) if name == "operators" else tuple(rows)
    return np.concatenate(pieces)


def between(rows: Any, begin: int, end: int) -> Any:
    """The rows from one position to another."""
    if isinstance(rows, Seconds):
        place = np.arange(len(rows))
        return rows.where((place >= begin) & (place < end))
    return rows[begin:end]


def within(span: Span, rows: Any) -> Any:
    """The rows whose time lies in `span`."""
    held = span.holds(times(rows)) if len(rows) else np.empty(0, bool)
    if held.all():
        return rows
    if isinstance(rows, tuple):
        return tuple(row for row, is_held in zip(rows, held, strict=True) if is_held)
    return rows.where(held) if isinstance(rows, Seconds) else rows[held]


def in_order(rows: Any) -> Any:
    """Sort rows that another program may have written in another order; ours are in order of creation.

    Seconds are always sorted, without duplicates. Among other rows some are late, so they are sorted only if a row is
    nearly as late as the time that all of them span.
    """
    if len(rows) < 2:
        return rows
    t_ns = times(rows)
    if isinstance(rows, Seconds):
        return rows if (np.diff(t_ns) > 0).all() else rows.take(np.unique(t_ns, return_index=True)[1])
    late_ns = int((np.maximum.accumulate(t_ns) - t_ns).max())
    lasts_ns = int(t_ns.max() - t_ns.min())
    if lasts_ns < LATE_NS or late_ns < ALL_BUT * lasts_ns:
        return rows
    order = np.argsort(t_ns, kind="stable")
    return tuple(rows[place] for place in order) if isinstance(rows, tuple) else rows[order]


def release_memory() -> None:
    """Return the memory that Arrow and the C library cache for the next rows, which may be minutes away: 20 MiB.

    By itself glibc returns only the end of its heap (malloc_trim(3)); musl and others have no such call.
    """
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
