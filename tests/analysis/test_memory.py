"""Memory: each figure is its own sensor's, and absent where the board has none."""

import numpy as np

from edgetop.analysis.memory_use import MemoryStages, StageView, view_memory
from edgetop.analysis.timeline import Axis
from edgetop.analysis.tracks import Tracks
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.typed_json import JsonValue
from tests.support.sessions import make_manifest, make_readings, make_sensor

IDS = ("mem/rss", "mem/rss-peak", "mem/pss", "mem/uss", "mem/swap", "mem/system-available")
AXIS = Axis(0, 60)


def tracks_of(*ids: str) -> Tracks:
    """Each sensor's only value is its place."""
    tracks = Tracks()
    readings = make_readings(*((0, place, float(place)) for place in range(len(ids))))
    tracks.fold(Batch(manifest=make_manifest(*map(make_sensor, ids)), readings=readings))
    return tracks


def test_every_figure_is_that_of_its_sensor() -> None:
    memory = view_memory(tracks_of(*IDS), 4 * 2**30, AXIS)
    shown = (memory.rss, memory.peak, memory.pss, memory.uss, memory.swap, memory.available)
    assert [track and track.info.id for track in shown] == list(IDS)
    assert [track and track.value for track in shown] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


ALSO = {
    "mem/rss-anon": "anon", "mem/rss-file": "file", "mem/rss-shmem": "shmem", "mem/accelerator": "accelerator",
    "mem/system-accelerator": "system_accelerator", "mem/cgroup": "cgroup", "mem/cgroup-limit": "cgroup_limit",
    "mem/cgroup-left": "cgroup_left", "rate/oom-kills": "oom_kills", "rate/swap-in": "swap_in",
    "rate/swap-out": "swap_out", "rate/major-faults": "major_faults",
}  # fmt: skip


def test_so_is_every_other() -> None:
    memory = view_memory(tracks_of(*ALSO), None, AXIS)
    assert {getattr(memory, name).info.id: name for name in ALSO.values()} == ALSO


def test_the_gpus_part_is_the_engines_and_else_all_processes() -> None:
    both = view_memory(tracks_of("mem/system-accelerator", "mem/accelerator"), None, AXIS)
    assert both.gpu == both.accelerator
    assert view_memory(tracks_of("mem/system-accelerator"), None, AXIS).gpu is not None
    assert view_memory(tracks_of("mem/rss"), None, AXIS).gpu is None


def test_the_room_is_that_which_ends_first() -> None:
    board_first = view_memory(tracks_of("mem/system-available", "mem/cgroup-left"), None, AXIS)
    assert board_first.room == board_first.available
    cgroup_first = view_memory(tracks_of("mem/cgroup-left", "mem/system-available"), None, AXIS)
    assert cgroup_first.room == cgroup_first.cgroup_left


def test_what_cannot_be_read_ends_nowhere() -> None:
    tracks = tracks_of("mem/cgroup-left", "mem/system-available")
    tracks.fold(Batch(events=(read_event(0, "sensor-lost", "warning", "sensor mem/cgroup-left", "gone"),)))
    memory = view_memory(tracks, None, AXIS)
    assert memory.room == memory.available


def told(stage: str, **data: JsonValue) -> Event:
    return read_event(0, "engine-memory", "info", "engine", "words", {"stage": stage, **data})


def test_stages_stand_in_the_order_in_which_they_came() -> None:
    stages = MemoryStages()
    stages.fold([told("runtime", rss_mib=46, anon_mib=22.0, file_mib=24.0), told("model", rss_mib=56.5)])
    assert stages.views() == (StageView("runtime", 46.0, 22.0, 24.0), StageView("model", 56.5, None, None))


def test_what_tells_no_size_is_no_stage() -> None:
    stages = MemoryStages()
    stages.fold([told("model"), told("first", rss_mib="5"), told("steady", rss_mib=True)])
    stages.fold([read_event(0, "phase", "info", "engine", "words", {"stage": "model", "rss_mib": 5.0})])
    assert stages.views() == ()


def test_the_boards_memory_is_in_mib() -> None:
    assert view_memory(tracks_of(), 4 * 2**30, AXIS).board_mib == 4096.0
    assert view_memory(tracks_of(), None, AXIS).board_mib is None


def test_what_the_board_has_no_sensor_for_is_none() -> None:
    memory = view_memory(tracks_of("mem/edgetop"), None, AXIS)
    assert memory.rss is memory.peak is memory.pss is memory.uss is memory.swap is memory.available is None
    assert memory.rss_points is None


def test_the_chart_is_of_the_engines_resident_set() -> None:
    points = view_memory(tracks_of("mem/pss", "mem/rss"), None, AXIS).rss_points
    assert points is not None
    assert np.nanmax(points.top) == 1.0
