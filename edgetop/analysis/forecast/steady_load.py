"""Finds how long the load and the cooling have been as they are now. A thermal model is valid only for this time."""

import math
from collections.abc import Sequence

import numpy as np

from edgetop.analysis.tracks import Bools, ReadingBlocks, Tracks, hold_last
from edgetop.frozen import frozen
from edgetop.session.manifest import SensorInfo
from edgetop.session.median import median

# Time that gives the present usual load. Choice. Larger: a change is seen late; smaller: a blip is usual.
RECENT_S = 16
# The same in blocks, if these are longer. Choice: the median of five survives two blips. Larger: a change is seen
# late; smaller: a blip is usual.
LEAST_RECENT = 5
# Shortest difference of the load that counts. Choice: heat hardly notices a shorter one. Larger: a pause that cools
# the board is missed; smaller: blips end a steady load, and the forecast is silent.
LASTS_S = 10
# The same in blocks. Choice. Larger: a change in long blocks is missed; smaller: one block ends a steady load.
LEAST_LASTING = 2
# Difference in usual deviations that counts. Choice: loads have heavy tails. Larger: a load that changed is called
# steady; smaller: a load that scatters is never steady.
SCATTERS = 5.0
# Difference as a share that counts, by kind. Choice: a fan's speed and power fluctuate, caps are set. Larger: a load
# that changed is called steady, and the forecast is wrong; smaller: a load that fluctuates is never steady.
SHARES = {"load": 0.2, "power": 0.15, "fan": 0.15, "freqcap": 0.02}
# Difference that counts at least, by kind, in % of a core, W, RPM, MHz and states. Choice. Larger: a small load that
# changed is called steady; smaller: an idle board is never steady.
LEAST = {"load": 25.0, "power": 0.2, "fan": 150.0, "freqcap": 1.0, "cooling": 0.45}
HEATING = frozenset({"load", "power", "freqcap"})  # the others cool
STEPPED = frozenset({"freqcap", "cooling"})  # they are set, and have no blips
# Factor by which a coarser resolution must reach back further to be used. Choice. Larger: old readings are missing in
# the fit; smaller: a resolution that shows no more is used.
LONGER = 1.05
# Number of differences from which a load goes up and down, so that there is no forecast. Choice. Larger: a forecast
# of a load in cycles; smaller: two changes silence it.
ALTERNATES = 3
ALTERNATES_AT = 1  # The resolution at which that is checked.
THERMAL = frozenset({"throttle/thermal", "throttle/soft-temp-limit"})

BLOCKS = 128  # of each width, the latest
WIDTHS_S = (1, 4, 16, 64)


@frozen
class Steady:
    """A span of time with a steady load, in session seconds.

    The span was found in readings that were averaged over blocks of WIDTHS_S[level] seconds.
    """

    level: int
    from_s: int
    until_s: int
    only_rose: bool  # it began with more load and no more cooling, or nothing was different before

    @property
    def length_s(self) -> int:
        return self.until_s - self.from_s


def is_fan(info: SensorInfo) -> bool:
    return info.kind == "cooling" and not info.throttles and "fan" in info.label


def is_throttling(info: SensorInfo) -> bool:
    return info.id in THERMAL or (info.kind == "cooling" and bool(info.throttles))


def is_drive(info: SensorInfo) -> bool:
    """Whether the sensor measures a source of heat (CPU load, power, clock cap), or cooling (a fan)."""
    is_total = info.kind == "power" and info.role == "total"
    return info.id == "load/cpu" or is_total or info.kind in ("fan", "freqcap") or is_fan(info)


class History:
    """Gives the readings that a forecast needs, as means over blocks of time.

    The sensors measure temperature, load, cooling and throttling. `infos` are all sensors of the board.
    """

    def __init__(self, tracks: Tracks, infos: Sequence[SensorInfo] = ()) -> None:
        self._tracks = tracks
        self.places = [  # of the rows, in the manifest; any zone may be one that throttles
            place for place, info in enumerate(infos) if info.kind == "temp" or is_drive(info) or is_throttling(info)
        ]
        self.infos = tuple(infos[place] for place in self.places)  # of the rows
        self._throttling = [row for row, info in enumerate(self.infos) if is_throttling(info)]
        self._drives = np.array([row for row, info in enumerate(self.infos) if is_drive(info)], np.int64)
        kinds = [self.infos[row].kind for row in self._drives]
        self._share = np.array([SHARES.get(kind, 0.0) for kind in kinds])
        self._least = np.array([LEAST[kind] for kind in kinds])
        self._is_stepped = np.array([kind in STEPPED for kind in kinds], np.bool_)
        self._heats = np.array([kind in HEATING for kind in kinds], np.bool_)

    def blocks(self, level: int, from_s: float, until_s: int, row: int | None = None) -> ReadingBlocks:
        """Return the mean readings of each complete time block between two session seconds, `from_s` and `until_s`.

        A time block is WIDTHS_S[level] seconds long. `row`: the index in `infos` of the only sensor to return, together
        with the mean time of its readings in each block. None returns all sensors, without these times.
        """
        places = self.places if row is None else [self.places[row]]
        return self._tracks.blocks(places, WIDTHS_S[level], from_s, until_s, BLOCKS, timed=row is not None)

    def is_throttled(self, blocks: ReadingBlocks) -> Bools:
        """Return an array that says for each block whether the board was throttled because of heat."""
        return np.asarray((np.nan_to_num(blocks.mean[self._throttling]) > 0).any(axis=0))

    def _only_rose(self, blocks: ReadingBlocks, at: int) -> bool:
        """Whether all loads stayed or rose, and all cooling stayed or became weaker, at the time block with index `at`.

        The mean from this time block on is compared with the mean of the time blocks just before it. Small changes do
        not count.
        """
        mean = blocks.mean[self._drives]
        if not at or not len(mean):
            return True
        mean = hold_last(mean)
        before, after = mean[:, max(0, at - RECENT_S) : at].mean(axis=1), mean[:, at:].mean(axis=1)
        allowed = np.maximum(self._share * np.abs(before), self._least)
        more = np.where(self._heats, after - before, before - after)
        return bool((~(more < -allowed)).all())

    def only_cooling_changes(self, blocks: ReadingBlocks) -> bool:
        has_changed = np.asarray(self._changes(blocks).any(axis=1))
        return bool(has_changed.any() and not has_changed[self._heats].any())

    def _changes(self, blocks: ReadingBlocks) -> Bools:
        """Return an array that says in which time blocks each source of heat or cooling differs from its present value.

        The result has the shape (sources, time blocks).
        """
        mean = hold_last(blocks.mean[self._drives])
        recent = mean[:, -max(LEAST_RECENT, RECENT_S // blocks.width_s) :]
        usual = median(recent, axis=1)  # NaN if it was not read throughout: no value differs from that
        scatter = 1.4826 * median(np.abs(recent - usual[:, None]), axis=1)
        usual[self._is_stepped], scatter[self._is_stepped] = mean[self._is_stepped, -1], 0.0
        allowed = np.maximum(np.maximum(self._share * np.abs(usual), self._least), SCATTERS * scatter)
        off = np.abs(mean - usual[:, None]) > allowed[:, None]
        least = max(LEAST_LASTING, math.ceil(LASTS_S / blocks.width_s))
        off[~self._is_stepped] = _lasting(off[~self._is_stepped], least)
        return np.asarray(off)

    def steady_span(self, from_s: float, until_s: int) -> Steady | None:
        """Return the longest time of steady load that ends at `until_s`, or None if there is none.

        There is none if nothing was read between `from_s` and `until_s`, or if the load goes up and down all the time.
        Both arguments are seconds of the session.
        """
        best: Steady | None = None
        has_change = False
        for level in range(len(WIDTHS_S)):
            if has_change and level > ALTERNATES_AT:
                break
            blocks = self.blocks(level, from_s, until_s)
            size, width_s = blocks.mean.shape[1], blocks.width_s
            if not size:
                continue
            is_other = np.asarray(self._changes(blocks).any(axis=0)) | self.is_throttled(blocks)
            if np.count_nonzero(np.diff(is_other.astype(np.int8), prepend=0) > 0) >= ALTERNATES:
                return None
            others = np.flatnonzero(is_other)
            first = int(others[-1]) + 1 if len(others) else 0
            rose = self._only_rose(blocks, first if first < size else 0)
            span = Steady(level, (blocks.first + first) * width_s, (blocks.first + size) * width_s, rose)
            # A change in narrow blocks counts, even if wide ones do not show it.
            if not has_change and (best is None or span.length_s > LONGER * best.length_s):
                best = span
            has_change = has_change or bool(len(others))
        return best


def _lasting(off: Bools, least: int) -> Bools:
    """Return a copy of `off` that keeps, in each row, only runs of at least `least` successive True values.

    >>> _lasting(np.array([[True, False, True, True]]), 2).tolist()
    [[False, False, True, True]]
    """
    lasting = np.zeros_like(off)
    if off.shape[1] >= least:
        runs = np.lib.stride_tricks.sliding_window_view(off, least, axis=1).all(axis=2)
        for shift in range(least):
            lasting[:, shift : shift + runs.shape[1]] |= runs
    return lasting
