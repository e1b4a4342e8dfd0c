"""Where the time of a frame goes, from the readings of its stages."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.program_frames import BETWEEN, Frames
from edgetop.session.batch import Batch
from edgetop.session.manifest import SensorInfo, Watched
from edgetop.session.records import READING
from edgetop.wording.frame_words import frame_words
from tests.support.clocks import ManualClock
from tests.support.sessions import begun

IDS = ("temp/cpu", "stage/capture", "frame/between", "stage/inference", "frame/total", "drop/frames")


def batch(rows, deadline_ns=None, **more):
    readings = np.zeros(len(rows), READING)
    readings["sensor"], readings["value"] = zip(*rows, strict=True)
    sensors = tuple(SensorInfo(name, "ms", "the program") for name in IDS)
    return Batch(
        10**9,
        readings=readings,
        manifest=replace(begun(ManualClock(), sensors=sensors), watched=Watched((), deadline_ns=deadline_ns)),
    )


def folded(*batches):
    frames = Frames()
    for one in batches:
        frames.fold(one)
    return frames.view()


def test_stages_add_up_and_late_frames_are_counted():
    view = folded(
        batch([(0, 50), (1, 5), (2, 1), (3, 10), (4, 16)], 20_000_000),
        batch([(1, 9), (2, 1), (3, 20), (4, 30), (5, 1), (5, 1)], 20_000_000),
    )
    assert [(stage.id, stage.mean_ms) for stage in view.stages] == [
        ("stage/capture", 7), ("stage/inference", 15), (BETWEEN, 1),
    ]  # fmt: skip
    assert sum(stage.share for stage in view.stages) == pytest.approx(1)
    assert (view.misses, view.dropped, view.deadline_ms, view.total.count) == (1, 2, 20, 2)
    assert frame_words(view).endswith("50.0 % over the deadline of 20 ms (1); 2 dropped")


def test_without_a_deadline_none_is_late():
    view = folded(batch([(4, 16)]))
    assert (view.misses, view.deadline_ms) == (None, None)


def test_a_program_without_stages_has_no_frames():
    assert folded(batch([(0, 50)])) is None


def test_times_that_no_frame_can_take_do_not_count():
    view = folded(batch([(1, 1e300), (1, -5), (1, 5), (4, 16), (4, -1e18), (5, -1e18)]))
    assert [(stage.name, stage.mean_ms, stage.count) for stage in view.stages] == [("capture", 5, 1)]
    assert (view.total.count, view.dropped) == (1, 0)
