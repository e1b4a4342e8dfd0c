"""The operators' shares of the time of an inference, and the precision of these shares, from profiling rounds.

A profiling round (`Burst`) is a few instrumented inferences. The estimate of a share is its median over the rounds, so
an undetected disturbance of one round does not move it. The interval follows from the differences between rounds, so it
does show such a disturbance. Rounds that are known to be disturbed are left out.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from edgetop.analysis.blocks import LEAST_FREEDOM, T_975
from edgetop.frozen import frozen
from edgetop.session.median import median
from edgetop.session.operators import LEAST_AVERAGED, LEAST_BURSTS, LEAST_RUNS, Burst, Operator, OperatorInfo

MAX_OPERATORS = 20_000  # Most operators that are told apart: a runtime may invent any number of names.
# A session of a day has thousands of rounds. Neighbours are joined in pairs until there are at most this many groups.
MOST_GROUPS = 64

# Half width of the 95 % interval below which the share of an operator is settled, whatever the share is. Choice: half a
# percentage point is no difference to act on. Larger: shares of small operators change after they are shown as settled;
# smaller: small operators never settle.
SETTLED_SHARE = 0.005
# Half width of the 95 % interval below which a share is settled, as a part of the share. Choice: a fifth keeps the
# order of the largest operators. Larger: operators change places after they are shown as settled; smaller: many rounds
# of profiling are needed.
SETTLED_PART = 0.20
# Standard error of a median divided by that of a mean: sqrt(pi/2) for many normal values, and less for few (Kenney and
# Keeping 1962, Mathematics of Statistics, part 1, section 14.9).
MEDIAN_ERROR = math.sqrt(math.pi / 2)
# Half width of the 95 % interval of the profiler's overhead below which the overhead is known, as a part of it. Choice:
# a fifth. Larger: an overhead is shown that may be half of that; smaller: short sessions have none.
OVERHEAD_KNOWN = 0.20

Key = tuple[str, str, str]  # (name, type, provider).
Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]


@frozen
class OperatorView:
    position: int  # Position in run order.
    name: str
    op_type: str
    provider: str
    calls: float  # Calls per inference.
    share: float  # Share of the time of all operators, over the last rounds.
    change: float | None  # Change of its time against the baseline: 0.1 is 10 % longer; None if unknown.
    flops: int | None = None  # FLOPs of one call; None if unknown.
    bytes: int | None = None  # Bytes that one call moves; None if unknown.
    origin: str | None = None  # Its name in the model's file; None if unknown.
    share_ci95: Interval | None = None  # None if there are too few rounds.
    settled: bool = True  # Whether there are enough undisturbed rounds and inferences, and the interval is narrow.


@frozen
class BurstInfo:
    """The figures of one profiling round: a few instrumented inferences that run together."""

    runs: int
    run_ns: int  # Median time of a whole instrumented inference.
    disturbed: bool = False  # Whether other processes disturbed every inference of the round.
    averaged: bool = False  # Whether another tool averaged over all inferences, so that their spread is unknown.
    # Median time of the plain, undisturbed inferences just before the round; None if unknown.
    plain_ns: int | None = None


class Tally:
    """Adds up the time and the calls of each operator over profiling rounds."""

    def __init__(self) -> None:
        self.runs = self.bursts = 0
        self.is_disturbed = self._is_averaged = False
        self._infos: dict[Key, OperatorInfo] = {}  # In run order.
        self._places: dict[Key, int] = {}
        # Floats, because numbers in a damaged file cannot overflow them; exact up to 100 days.
        self._calls = np.zeros(0)
        # For each group of rounds: number of rounds, number of inferences, sum of `run_ns`, and each operator's time.
        self._groups: list[tuple[int, int, int, Floats]] = []
        # For the last round: its operators, which of its rows count, and their places here.
        self._last: tuple[tuple[OperatorInfo, ...], Places, Places] | None = None

    def add(self, burst: Burst, info: BurstInfo) -> None:
        self.runs += info.runs
        self.bursts += 1
        self.is_disturbed |= info.disturbed
        self._is_averaged |= info.averaged and info.runs >= LEAST_AVERAGED
        if self._last is None or self._last[0] is not burst.infos:
            self._last = (burst.infos, *self._find(burst.infos))
        _, rows, places = self._last
        self._calls += np.bincount(places, burst.calls[rows], minlength=len(self._calls))
        ns = np.bincount(places, burst.total_ns[rows], minlength=len(self._calls)).astype(np.float64)
        self._groups.append((1, info.runs, info.run_ns, ns))
        if len(self._groups) > MOST_GROUPS:
            self._join()

    def _join(self) -> None:
        """Halve the number of groups of profiling rounds, by adding up neighbouring groups in pairs.

        With an odd number of groups, the last group stays alone.
        """
        pairs = zip(self._groups[::2], self._groups[1::2], strict=False)
        last = self._groups[len(self._groups) // 2 * 2 :]
        self._groups = [
            (a[0] + b[0], a[1] + b[1], a[2] + b[2], _longer(a[3], len(b[3])) + _longer(b[3], len(a[3])))
            for a, b in pairs
        ]
        self._groups += last

    def _find(self, infos: tuple[OperatorInfo, ...]) -> tuple[Places, Places]:
        """Return two arrays: the positions in `infos` of the operators to add up, and their rows in the sums.

        A new operator gets a row. When MAX_OPERATORS operators have a row, further operators are ignored.
        """
        for info in infos:
            key = key_of(info)
            if key not in self._places and len(self._places) < MAX_OPERATORS:
                self._places[key] = len(self._places)
            if key in self._places and (key not in self._infos or info.origin is not None):
                self._infos[key] = info
        self._calls = _longer(self._calls, len(self._places))
        places = np.array([self._places.get(key_of(info), -1) for info in infos], np.int64)
        rows = np.flatnonzero(places >= 0)
        return rows, places[rows]

    @property
    def is_enough(self) -> bool:
        """Whether there are enough profiling rounds to base advice on the shares."""
        is_enough = self.bursts >= LEAST_BURSTS and self.runs >= LEAST_RUNS and not self.is_disturbed
        return is_enough or self._is_averaged

    @property
    def run_ns(self) -> float | None:
        """Return the median time of a whole instrumented inference in ns, or None before the first profiling round."""
        return float(median([run_ns / bursts for bursts, _, run_ns, _ in self._groups])) if self._groups else None

    def _times(self) -> Floats:
        """Return the time in ns of each operator (column) in one inference, for each group of rounds (row)."""
        rows = [_longer(ns, len(self._places)) / max(runs, 1) for _, runs, _, ns in self._groups]
        return np.array(rows).reshape(len(self._groups), len(self._places))

    def means_ns(self) -> dict[Key, float]:
        """Return the time in ns of each operator in one instrumented inference, as a dict by `(name, type, provider)`.

        Each time is the median over groups of profiling rounds. The dict is empty before the first round.
        """
        if not self._groups:
            return {}
        return dict(zip(self._places, median(self._times(), axis=0).tolist(), strict=True))

    def views(self, baseline: "Tally | None" = None) -> tuple[OperatorView, ...]:
        """Return the figures of all operators, in the order in which they run.

        `baseline`: the sums of earlier profiling rounds, against which the change of each operator's time is computed;
        None for figures without a change.
        """
        if not self._groups:
            return ()
        times = self._times()
        shares = times / np.maximum(times.sum(axis=1, keepdims=True), 1.0)
        middle = median(shares, axis=0)
        whole = float(middle.sum()) or 1.0
        halves = half_widths(shares)
        now, then = self.means_ns(), baseline.means_ns() if baseline else {}
        views = []
        for position, (key, info) in enumerate(self._infos.items()):
            share = float(middle[position]) / whole
            half = None if halves is None else float(halves[position]) / whole
            is_narrow = half is not None and half <= max(SETTLED_SHARE, SETTLED_PART * share)
            settled = self._is_averaged or (self.is_enough and is_narrow)
            views.append(
                OperatorView(
                    position=position,
                    name=info.name,
                    op_type=info.op_type,
                    provider=info.provider,
                    calls=float(self._calls[position]) / max(self.runs, 1),
                    share=share,
                    change=now[key] / then[key] - 1 if settled and then.get(key) else None,
                    flops=info.flops,
                    bytes=info.bytes,
                    origin=info.origin,
                    share_ci95=None if half is None else (max(0.0, share - half), min(1.0, share + half)),
                    settled=settled,
                )
            )
        return tuple(views)


def half_widths(values: Floats) -> Floats | None:
    """Return half of the 95 % interval of the median of each column of `values`, or None if there are too few rows.

    The interval is computed by Student's t from the standard deviation. So one outlier makes the interval wide, and the
    share is not settled.
    """
    count = len(values)
    if count < LEAST_BURSTS:
        return None
    t = T_975[min(count - 1 - LEAST_FREEDOM, len(T_975) - 1)]
    return np.asarray(t * MEDIAN_ERROR * values.std(axis=0, ddof=1) / math.sqrt(count))


def overhead_ratio(bursts: Sequence[BurstInfo]) -> float | None:
    """Return the time of instrumented inferences divided by the time of plain inferences, or None if it is unknown.

    For each undisturbed round, the median of its inferences is divided by the median of the plain inferences just
    before the round. The ratio is unknown if there are too few rounds, if the rounds differ too much, or if
    instrumented inferences seem to be faster, which is impossible.
    """
    ratios = np.array([of.run_ns / of.plain_ns for of in bursts if of.plain_ns and not of.disturbed])
    halves = half_widths(ratios.reshape(-1, 1))
    if halves is None:
        return None
    ratio, half = float(median(ratios)), float(halves[0])
    return None if half > OVERHEAD_KNOWN * ratio or ratio + half < 1 else ratio


def key_of(operator: OperatorInfo | Operator | OperatorView) -> Key:
    """Return the identity of an operator: its name, type and provider."""
    return operator.name, operator.op_type, operator.provider


def _longer(values: Floats, length: int) -> Floats:
    """Return `values`, padded with zeros to the length `length`."""
    return np.append(values, np.zeros(max(0, length - len(values))))
