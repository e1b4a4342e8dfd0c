"""Which sensors can tell why a model slows down, and what of the machine decides what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgetop.analysis.event_index import EventIndex
from edgetop.analysis.slowdowns.causes import Channel, channels
from edgetop.analysis.tracks import Bools, Floats, Tracks
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.trips import trips_c

KINDS = frozenset({"freq", "freqcap", "cooling", "throttle", "volt", "pressure", "rate"})
IDS = frozenset({"mem/cgroup-left", "load/cpu", "load/engine", "load/edgetop", "load/others", "load/steal"})


@dataclass(frozen=True, slots=True)
class Machine:
    """What of the board and of the load decides what a signal says."""

    governor: str | None = None
    cores: int | None = None
    cpus: float | None = None  # that a container allows
    threads: int = 0  # of each stream; 0: as the runtime has it
    streams: int = 1
    is_paced: bool = False
    is_program: bool = False  # whose load is its own

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
    return Machine(
        board.governor, board.cores, cpus, manifest.engine.threads, load.streams, is_paced, manifest.watched is not None
    )


def _matters(info: SensorInfo) -> bool:
    return info.kind in KINDS or info.id in IDS


class Signals:
    """What could tell why: sensors, each a row of what is looked up of them, the channels made of them, and events."""

    def __init__(self, tracks: Tracks) -> None:
        self.infos: tuple[SensorInfo, ...] = ()  # of the rows
        self.trips_c: dict[int, float] = {}  # of the zones that have one, by their rows
        self.channels: tuple[Channel, ...] = ()
        self.events = EventIndex()
        self.machine = Machine()
        self._tracks = tracks
        self._places: list[int] = []  # of the rows, in the manifest

    def register(self, manifest: Manifest) -> None:
        """The sensors as the manifest has them now: more than before, or the same."""
        self.machine = machine_of(manifest)
        trips = trips_c(manifest)
        self._places = [place for place, info in enumerate(manifest.sensors) if _matters(info) or place in trips]
        self.infos = tuple(manifest.sensors[place] for place in self._places)
        self.trips_c = {row: trips[place] for row, place in enumerate(self._places) if place in trips}
        self.channels = channels(self.infos, self.trips_c)

    def held(self, begin_s: int, end_s: int, rows: Sequence[int] | None = None) -> tuple[Floats, Bools]:
        """What was known in each of these seconds, and where it was read just then. Shapes (sensors, seconds).

        `rows`: only of these.
        """
        places = self._places if rows is None else [self._places[row] for row in rows]
        return self._tracks.held(places, begin_s, end_s)
