"""Memory: how much the engine holds, of which kinds, how much it may hold, and the traffic when it is short."""

# ruff: noqa: RUF009  `_of` makes fields of a dataclass

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from edgetop.analysis.growth import GrowthView
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.formatting import rounded
from edgetop.session.events import Event


@dataclass(frozen=True, slots=True)
class StageView:
    """The engine's memory at the end of a step of its run: a part of the JSON document."""

    stage: str  # "interpreter", "runtime", "model", "first" or "steady"
    rss_mib: float
    anon_mib: float | None  # None: the kernel does not say
    file_mib: float | None


def _of(sensor_id: str) -> Any:
    """Declare a field of `MemoryView` with its sensor."""
    return field(metadata={"sensor": sensor_id})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """The memory views, all in MiB, except rates. None: the board has no such sensor."""

    rss: TrackView | None = _of("mem/rss")
    anon: TrackView | None = _of("mem/rss-anon")
    file: TrackView | None = _of("mem/rss-file")
    shmem: TrackView | None = _of("mem/rss-shmem")
    peak: TrackView | None = _of("mem/rss-peak")
    pss: TrackView | None = _of("mem/pss")
    uss: TrackView | None = _of("mem/uss")
    swap: TrackView | None = _of("mem/swap")
    accelerator: TrackView | None = _of("mem/accelerator")  # the engine's part of the GPU's memory
    system_accelerator: TrackView | None = _of("mem/system-accelerator")  # that of all processes
    available: TrackView | None = _of("mem/system-available")
    system_swap: TrackView | None = _of("mem/system-swap")  # swapped out, of all processes
    cgroup: TrackView | None = _of("mem/cgroup")
    cgroup_limit: TrackView | None = _of("mem/cgroup-limit")
    cgroup_left: TrackView | None = _of("mem/cgroup-left")
    oom_kills: TrackView | None = _of("rate/oom-kills")  # 1/s, of the engine's cgroup
    swap_in: TrackView | None = _of("rate/swap-in")  # pages/s, of the system
    swap_out: TrackView | None = _of("rate/swap-out")
    major_faults: TrackView | None = _of("rate/major-faults")  # 1/s, of the engine
    board_mib: float | None  # how much memory the board has
    stages: tuple[StageView, ...]  # in the order of the run
    rss_points: Points | None
    growth: GrowthView
    room: TrackView | None  # what is left to the limit of the cgroup or of the board's memory, whichever is nearer

    @property
    def gpu(self) -> TrackView | None:
        """The engine's part of the GPU's memory or, where only that is known, all processes'."""
        return self.accelerator or self.system_accelerator


class MemoryStages:
    """Folds the events in which the engine reports its memory."""

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
    return rounded(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def room(tracks: Tracks) -> TrackView | None:
    """Return what is left to the limit of the cgroup or of the board's memory, whichever is nearer."""
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
        **{of.name: tracks.one(of.metadata["sensor"]) for of in fields(MemoryView) if of.metadata},
        board_mib=None if board_bytes is None else board_bytes / 2**20,
        stages=stages,
        rss_points=tracks.points("mem/rss", axis),
        growth=growth or GrowthView(),
        room=room(tracks),
    )
