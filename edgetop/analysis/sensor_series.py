"""The timelines of a view: along the axis of a lens, and of a view of earlier with nothing in them that came later."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgetop.analysis.lens import Lens
from edgetop.analysis.thermal import along
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks
from edgetop.session.seconds import NS

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis, MonitorView


def sensor_series(tracks: Tracks, axis: Axis, kinds: Sequence[str]) -> dict[str, Points]:
    """Of every sensor of these kinds, by its id."""
    ids = [track.info.id for track in tracks.views(*kinds)] if kinds else []
    return {sensor_id: points for sensor_id in ids if (points := tracks.points(sensor_id, axis)) is not None}


def view_along(analysis: "Analysis", view: "MonitorView", lens: Lens, kinds: Sequence[str]) -> "MonitorView":
    """A view of earlier through another lens. Of latency, a second that was not over had no place in it."""
    now_s, tracks = view.progress.now_ns / NS, analysis.tracks
    axis = lens.axis(now_s, whole=view.latency.window_ns is None)
    thermal, leading = along(view.thermal, tracks, axis), view.power.leading
    power = tracks.points(leading.track.info.id, axis) if leading else None
    return replace(
        view,
        latency=replace(view.latency, points=analysis.latency_of(view.latency).points(axis).until(now_s // 1)),
        thermal=replace(
            thermal,
            hottest_points=_until(now_s, thermal.hottest_points),
            clock_points=_until(now_s, thermal.clock_points),
        ),
        power=replace(view.power, points=_until(now_s, power)),
        memory=replace(view.memory, rss_points=_until(now_s, tracks.points("mem/rss", axis))),
        burst_marks=analysis.operators.marks(axis).until(now_s),
        sensor_series={name: points.until(now_s) for name, points in sensor_series(tracks, axis, kinds).items()},
    )


def _until(second: float, points: Points | None) -> Points | None:
    return None if points is None else points.until(second)
