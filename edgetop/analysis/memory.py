"""Memory: what the engine holds and what that is made of, what it may hold, and the traffic of its lack."""

from collections.abc import Iterable
from dataclasses import dataclass

from edgetop.analysis.growth import GrowthView
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.session.events import Event


@dataclass(frozen=True, slots=True)
class StageView:
    """What the engine held in MiB at the end of a step of its run."""

    stage: str  # "interpreter", "runtime", "model", "first" or "steady"
    rss_mib: float
    anon_mib: float | None  # None: the kernel does not say
    file_mib: float | None


@dataclass(frozen=True, slots=True)
class MemoryView:
    """All in MiB, but for the rates. None: no such sensor here."""

    rss: TrackView | None
    anon: TrackView | None
    file: TrackView | None
    shmem: TrackView | None
    peak: TrackView | None
    pss: TrackView | None
    uss: TrackView | None
    swap: TrackView | None
    accelerator: TrackView | None  # the engine's part of the GPU's memory
    system_accelerator: TrackView | None  # that of all processes
    available: TrackView | None
    system_swap: TrackView | None  # what of all processes is swapped out
    cgroup: TrackView | None
    cgroup_limit: TrackView | None
    cgroup_left: TrackView | None
    oom_kills: TrackView | None  # 1/s, of the engine's cgroup
    swap_in: TrackView | None  # pages/s, of the system
    swap_out: TrackView | None
    major_faults: TrackView | None  # 1/s, of the engine
    board_mib: float | None  # how much memory the board has
    stages: tuple[StageView, ...]  # in the order in which the engine came to them
    rss_points: Points | None
    growth: GrowthView
    room: TrackView | None  # what is left of that which ends first: the limit of the cgroup, or the board's memory

    @property
    def gpu(self) -> TrackView | None:
        """The engine's part of the GPU's memory or, where only that is known, all processes'."""
        return self.accelerator or self.system_accelerator


class MemoryStages:
    """Folds the events in which the engine tells what it holds."""

    def __init__(self) -> None:
        self._stages: dict[str, StageView] = {}

    def fold(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind == "engine-memory" and (rss := _number(event, "rss_mib")) is not None:
                stage = str(event.data.get("stage"))
                self._stages[stage] = StageView(stage, rss, _number(event, "anon_mib"), _number(event, "file_mib"))

    def views(self) -> tuple[StageView, ...]:
        return tuple(self._stages.values())


def _number(event: Event, key: str) -> float | None:
    value = event.data.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def room(tracks: Tracks) -> TrackView | None:
    """What is left of that which ends first: the limit of the cgroup, or the board's memory."""
    available = tracks.one("mem/system-available")
    left = (tracks.one("mem/cgroup-left"), available)
    known = [track for track in left if track and track.value is not None and not track.is_lost]
    return min(known, key=lambda track: track.value or 0.0, default=available)


def view_memory(
    tracks: Tracks,
    board_bytes: int | None,
    axis: Axis,
    stages: tuple[StageView, ...] = (),
    growth: GrowthView | None = None,
) -> MemoryView:
    return MemoryView(
        rss=tracks.one("mem/rss"),
        anon=tracks.one("mem/rss-anon"),
        file=tracks.one("mem/rss-file"),
        shmem=tracks.one("mem/rss-shmem"),
        peak=tracks.one("mem/rss-peak"),
        pss=tracks.one("mem/pss"),
        uss=tracks.one("mem/uss"),
        swap=tracks.one("mem/swap"),
        accelerator=tracks.one("mem/accelerator"),
        system_accelerator=tracks.one("mem/system-accelerator"),
        available=tracks.one("mem/system-available"),
        system_swap=tracks.one("mem/system-swap"),
        cgroup=tracks.one("mem/cgroup"),
        cgroup_limit=tracks.one("mem/cgroup-limit"),
        cgroup_left=tracks.one("mem/cgroup-left"),
        oom_kills=tracks.one("rate/oom-kills"),
        swap_in=tracks.one("rate/swap-in"),
        swap_out=tracks.one("rate/swap-out"),
        major_faults=tracks.one("rate/major-faults"),
        board_mib=None if board_bytes is None else board_bytes / 2**20,
        stages=stages,
        rss_points=tracks.points("mem/rss", axis),
        growth=growth or GrowthView(),
        room=room(tracks),
    )
