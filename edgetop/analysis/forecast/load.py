"""Since when the load, and what cools, have been as they are now: a thermal model holds for no longer than that."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgetop.analysis.tracks import Bools, ReadingBlocks, Tracks, hold_last
from edgetop.session.manifest import SensorInfo

RECENT_S, LEAST_RECENT = 16, 5  # seconds, and blocks, that tell what is usual now
LASTS_S, LEAST_LASTING = 10, 2  # so long and so many blocks it was different before: less is a blip
SCATTERS = 5.0  # of the deviations that are usual
# By how much of itself, and at least, a drive may differ and still be the same.
SHARES = {"load": 0.2, "power": 0.15, "fan": 0.15, "freqcap": 0.02, "cooling": 0.0}
LEAST = {"load": 25.0, "power": 0.2, "fan": 150.0, "freqcap": 1.0, "cooling": 0.45}
HEATING = frozenset({"load", "power", "freqcap"})  # the others cool
STEPPED = frozenset({"freqcap", "cooling"})  # set by somebody: they have no blips
LONGER = 1.05  # a coarser view must reach back further by as much
ALTERNATES, ALTERNATES_AT = 3, 1  # times that it was different, in the last minutes too: it goes up and down
THERMAL = frozenset({"throttle/thermal", "throttle/soft-temp-limit"})

BLOCKS = 128  # of each width, the latest
WIDTHS_S = (1, 4, 16, 64)


@dataclass(frozen=True, slots=True)
class Steady:
    """A span of steady load, seen in blocks of one width."""

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
    """Whether it tells how much heat there is, or what carries it away."""
    return (
        info.id == "load/cpu"
        or (info.kind == "power" and info.role == "total")
        or info.kind in ("fan", "freqcap")
        or is_fan(info)
    )


def matters(info: SensorInfo) -> bool:
    """Whether a forecast needs it: any zone may be one that throttles."""
    return info.kind == "temp" or is_drive(info) or is_throttling(info)


class History:
    """What the sensors that a forecast needs have read, at several resolutions."""

    def __init__(self, tracks: Tracks) -> None:
        self.infos: tuple[SensorInfo, ...] = ()  # of the rows
        self.places: list[int] = []  # of the rows, in the manifest
        self._tracks = tracks

    def register(self, infos: Sequence[SensorInfo]) -> None:
        self.places = [place for place, info in enumerate(infos) if matters(info)]
        self.infos = tuple(infos[place] for place in self.places)

    def blocks(self, level: int, from_s: float, until_s: int, row: int | None = None) -> ReadingBlocks:
        """The whole blocks of that of WIDTHS_S within this time; as many as there are. Of one row, with its times."""
        places = self.places if row is None else [self.places[row]]
        return self._tracks.blocks(places, WIDTHS_S[level], from_s, until_s, BLOCKS, timed=row is not None)


class Drives:
    """The rows of a history that tell of load and cooling."""

    def __init__(self, infos: Sequence[SensorInfo]) -> None:
        self._rows = np.array([row for row, info in enumerate(infos) if is_drive(info)], np.int64)
        kinds = [infos[row].kind for row in self._rows]
        self._share = np.array([SHARES[kind] for kind in kinds])
        self._least = np.array([LEAST[kind] for kind in kinds])
        self._is_stepped = np.array([kind in STEPPED for kind in kinds], np.bool_)
        self._heats = np.array([kind in HEATING for kind in kinds], np.bool_)
        self._throttling = [row for row, info in enumerate(infos) if is_throttling(info)]

    def is_throttled(self, blocks: ReadingBlocks) -> Bools:
        """Of each block, whether heat slowed the board in it."""
        return np.asarray((np.nan_to_num(blocks.mean[self._throttling]) > 0).any(axis=0))

    def only_rose(self, blocks: ReadingBlocks, at: int) -> bool:
        """Whether from that block on there was as much load as before it, or more, and as little cooling, or less."""
        mean = blocks.mean[self._rows]
        if not at or not len(mean):
            return True
        mean = hold_last(mean)
        before, after = mean[:, max(0, at - RECENT_S) : at].mean(axis=1), mean[:, at:].mean(axis=1)
        allowed = np.maximum(self._share * np.abs(before), self._least)
        more = np.where(self._heats, after - before, before - after)
        return bool((~(more < -allowed)).all())

    def differs(self, blocks: ReadingBlocks) -> Bools:
        """Of each block, whether load or cooling were others than at the end."""
        return np.asarray(self._changes(blocks).any(axis=0)) | self.is_throttled(blocks)

    def only_cooling_changes(self, blocks: ReadingBlocks) -> bool:
        has_changed = np.asarray(self._changes(blocks).any(axis=1))
        return bool(has_changed.any() and not has_changed[self._heats].any())

    def _changes(self, blocks: ReadingBlocks) -> Bools:
        """Of each drive and block, whether it was another than at the end."""
        mean = hold_last(blocks.mean[self._rows])
        recent = mean[:, -max(LEAST_RECENT, RECENT_S // blocks.width_s) :]
        usual = np.median(recent, axis=1)  # NaN where it was not read throughout: nothing differs from that
        scatter = 1.4826 * np.median(np.abs(recent - usual[:, None]), axis=1)
        usual[self._is_stepped], scatter[self._is_stepped] = mean[self._is_stepped, -1], 0.0
        allowed = np.maximum(np.maximum(self._share * np.abs(usual), self._least), SCATTERS * scatter)
        off = np.abs(mean - usual[:, None]) > allowed[:, None]
        lasting = off.copy()
        least = max(LEAST_LASTING, math.ceil(LASTS_S / blocks.width_s))
        lasting[~self._is_stepped] = _lasting(off[~self._is_stepped], least)
        return np.asarray(lasting)


def _lasting(off: Bools, least: int) -> Bools:
    """Those in a row with others of them, so many together."""
    found = np.zeros_like(off)
    if off.shape[1] >= least:
        runs = np.lib.stride_tricks.sliding_window_view(off, least, axis=1).all(axis=2)
        for shift in range(least):
            found[:, shift : shift + runs.shape[1]] |= runs
    return found


def steady_span(history: History, drives: Drives, from_s: float, until_s: int) -> Steady | None:
    """The longest one that ends there, in the narrowest blocks that reach back so far.

    None where nothing was read, or where the load goes up and down all the time.
    """
    best: Steady | None = None
    is_found = False
    for level in range(len(WIDTHS_S)):
        if is_found and level > ALTERNATES_AT:
            break
        blocks = history.blocks(level, from_s, until_s)
        size, width_s = blocks.mean.shape[1], blocks.width_s
        if not size:
            continue
        is_other = drives.differs(blocks)
        if np.count_nonzero(np.diff(is_other.astype(np.int8), prepend=0) > 0) >= ALTERNATES:
            return None
        others = np.flatnonzero(is_other)
        first = int(others[-1]) + 1 if len(others) else 0
        rose = drives.only_rose(blocks, first if first < size else 0)
        found = Steady(level, (blocks.first + first) * width_s, (blocks.first + size) * width_s, rose)
        # A change that narrow blocks show is one, though wide ones may pass over it.
        if not is_found and (best is None or found.length_s > LONGER * best.length_s):
            best = found
        is_found = is_found or bool(len(others))
    return best
