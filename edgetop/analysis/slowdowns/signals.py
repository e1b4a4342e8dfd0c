"""The last quarter of an hour of what sensors read, a value a second: where evidence is looked for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.records import Readings, in_pieces
from edgetop.session.seconds import NS

SIZE_S = 1_024
SET = 0.5  # of a flag, which is 0 or 1
STICKY = "-sticky"
HOLD_S = 12  # a value stands for so long: sources are read every 1 to 5 s
MOST_SENSORS = 65_536  # that a reading can name
KINDS = frozenset({"freq", "freqcap", "cooling", "throttle", "volt", "pressure", "rate"})
IDS = frozenset({"mem/cgroup-left", "load/cpu", "load/engine", "load/edgetop", "load/others", "load/steal"})

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.uint32]

NOWHERE: Places = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Machine:
    """What of the board and of the load decides what a signal says."""

    governor: str | None = None
    cores: int | None = None
    cpus: float | None = None  # that a container allows
    threads: int = 0  # of each stream; 0: as the runtime has it
    streams: int = 1
    is_paced: bool = False

    @property
    def usable(self) -> float | None:
        """CPUs that the engine may use; None: not known."""
        return min((count for count in (self.cores, self.cpus) if count), default=None)

    @property
    def wanted(self) -> int:
        """CPUs that the engine asks for at least."""
        return max(1, self.threads) * max(1, self.streams)


def machine_of(manifest: Manifest) -> Machine:
    board, load = manifest.board, manifest.load
    is_paced = load.is_paced or bool(load.delay_ns or load.duty_off_ns)
    cpus = manifest.constraints.cpus
    return Machine(board.governor, board.cores, cpus, manifest.engine.threads, load.streams, is_paced)


def is_flag(info: SensorInfo) -> bool:
    """Whether it says that a limit is in force now, not that one was since boot."""
    return info.kind == "throttle" and not info.label.endswith(STICKY)


def _matters(info: SensorInfo) -> bool:
    return info.kind in KINDS or info.id in IDS or "passive" in (info.trips or {})


LARGEST = float(np.finfo(np.float32).max)  # a damaged file may hold more


class Signals:
    """A ring of seconds for every sensor that could tell why; the last reading of a second counts."""

    def __init__(self) -> None:
        self.infos: tuple[SensorInfo, ...] = ()  # of the rows
        self.machine = Machine()
        self._row_of = np.full(MOST_SENSORS, -1, np.int64)  # by the sensor's place in the manifest; -1: none
        self._values: npt.NDArray[np.float32] = np.empty((0, SIZE_S), np.float32)
        self._newest_s = -1

    def know(self, infos: Sequence[SensorInfo], machine: Machine | None = None) -> None:
        """The sensors as the manifest has them now: more than before, or the same."""
        self.machine = machine or self.machine
        wanted = [place for place, info in enumerate(infos) if _matters(info)]
        self._row_of = np.full(MOST_SENSORS, -1, np.int64)
        self._row_of[wanted] = np.arange(len(wanted))
        self.infos = tuple(infos[place] for place in wanted)
        more = np.full((max(0, len(wanted) - len(self._values)), SIZE_S), np.nan, np.float32)
        self._values = np.concatenate([self._values, more])

    def relevant(self, readings: Readings) -> Places:
        """Where those are that are kept, in the order of their seconds.

        Their places, for a day of them takes as much as all that is made of it.
        """
        found, begin, in_order, last_s = [NOWHERE], 0, True, 0
        for piece in in_pieces(readings):
            is_kept = (self._row_of.take(piece["sensor"]) >= 0) & (piece["t_ns"] >= 0)
            places = np.flatnonzero(is_kept)
            second = piece["t_ns"][places] // NS
            if len(second):
                in_order = in_order and int(second[0]) >= last_s and bool((second[1:] >= second[:-1]).all())
                last_s = int(second[-1])
                found.append((begin + places).astype(np.uint32))
            begin += len(piece)
        kept = np.concatenate(found)
        return kept if in_order else kept[np.argsort(readings["t_ns"][kept] // NS, kind="stable")]

    def add(self, readings: Readings) -> None:
        """Relevant ones; what is older than the ring is left out."""
        if not len(readings):
            return
        second = readings["t_ns"] // NS
        newest = max(self._newest_s, int(second[-1]))
        cleared = np.arange(max(self._newest_s + 1, newest - SIZE_S + 1), newest + 1)
        self._values[:, cleared % SIZE_S] = np.nan
        self._newest_s = newest
        fresh = second > newest - SIZE_S
        row = self._row_of[readings["sensor"]]
        self._values[row[fresh], second[fresh] % SIZE_S] = np.clip(readings["value"][fresh], -LARGEST, LARGEST)

    def held(self, begin_s: int, end_s: int, rows: Sequence[int] | None = None) -> tuple[Floats, Bools]:
        """What was known in each of these seconds, and where it was read just then. Shapes (sensors, seconds).

        `rows`: only of these.
        """
        second = np.arange(begin_s - HOLD_S, end_s)
        inside = (second > self._newest_s - SIZE_S) & (second <= self._newest_s) & (second >= 0)
        kept = self._values if rows is None else self._values[list(rows)]
        values = np.where(inside, kept[:, second % SIZE_S], np.nan).astype(np.float64)
        was_read = ~np.isnan(values)
        place = np.where(was_read, np.arange(len(second)), -1)
        last = np.maximum.accumulate(place, axis=1)
        held = np.take_along_axis(values, np.maximum(last, 0), axis=1)
        held[(last < 0) | (np.arange(len(second)) - last > HOLD_S)] = np.nan
        return held[:, HOLD_S:], was_read[:, HOLD_S:]
