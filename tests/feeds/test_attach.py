"""Who attaches to a session sees what its own screen shows, whenever he comes, and to the end."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.verdict_reasons import State
from edgetop.control.control_socket import Answer
from edgetop.control.server import ControlServer
from edgetop.feeds.attach_feed import LATE_NS, AttachFeed
from edgetop.feeds.feed_protocol import Can
from edgetop.recording.journal import SILENT_NS
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import SOCKET, Retention
from edgetop.session.batch import Batch
from edgetop.session.events import Order
from edgetop.session.seconds import NS
from tests.support.clocks import ManualClock
from tests.support.recordings import back_to_back, kill, session, with_phases
from tests.support.scripts import OrderLog
from tests.support.sessions import differences, folded, session_id
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

WINDOWS_NS = (10 * NS, 60 * NS, 600 * NS, None)


class Writer:
    """A session that is recorded by another, batch by batch."""

    def __init__(self, folder: Path, batches: Sequence[Batch], segment_bytes: int | None = None) -> None:
        self.folder = folder
        self._left = list(batches)
        self._manifests = [batch.manifest for batch in batches if batch.manifest]
        self._recorder = Recorder(folder, self._manifests[0], Retention())
        if segment_bytes is not None:
            self._recorder._journal_file.segment_bytes = segment_bytes
        self.write(1)

    def write(self, count: int) -> None:
        for batch in self._left[:count]:
            self._recorder.write(batch)
        del self._left[:count]
        if self._recorder._waiting:
            self._recorder._journal()

    def finish(self) -> None:
        self.write(len(self._left))
        self._recorder.finish(self._manifests[-1])

    def die(self) -> None:
        kill(self._recorder)

    def __del__(self) -> None:
        self.die()


class Viewer:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.feed = AttachFeed(folder, self.clock)
        self.analysis = Analysis()
        self.restarts = 0

    def look(self) -> Batch | None:
        batch = self.feed.read()
        if batch is not None:
            self.analysis.fold(batch)
            self.restarts += batch.restart
        return batch

    def views(self) -> list[object]:
        return [self.analysis.view(window).freeze() for window in WINDOWS_NS]


def made(seed: int, count: int = 400, latency_ms: float = 20) -> list[Batch]:
    return list(session(with_phases(back_to_back(count, latency_ms * 1e6, seed)), seed))


def assert_sees(viewer: Viewer, batches: Sequence[Batch]) -> None:
    seen = folded(batches)
    assert differences(viewer.views(), [seen.view(window) for window in WINDOWS_NS]) == []


@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))  # shrinking is slow
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 200),
    latency_ms=st.floats(0.5, 40),
    looks=st.lists(st.integers(0, 12), max_size=4),
    came_after=st.integers(0, 20),
    segment_bytes=st.sampled_from([None, 4_000]),
)
def test_a_viewer_that_attaches_any_time_sees_what_the_run_shows(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    latency_ms: float,
    looks: list[int],
    came_after: int,
    segment_bytes: int | None,
) -> None:
    batches = made(seed, count, latency_ms)
    writer = Writer(tmp_path_factory.mktemp("attach") / "s.edgetop", batches, segment_bytes)
    writer.write(came_after)
    viewer = Viewer(writer.folder)
    viewer.look()
    for look in looks:
        assert_sees(viewer, batches[: len(batches) - len(writer._left)])
        writer.write(look)
        while viewer.look():
            pass
    writer.finish()
    while viewer.look():
        pass
    assert viewer.feed.is_over
    assert_sees(viewer, batches)
    assert viewer.look() is None


def test_several_watch_at_once_and_see_the_same(tmp_path: Path) -> None:
    batches = made(1)
    writer = Writer(tmp_path / "s.edgetop", batches)
    viewers = [Viewer(writer.folder) for _ in range(3)]
    while writer._left:
        writer.write(5)
        for viewer in viewers:
            viewer.look()
    writer.finish()
    for viewer in viewers:
        while viewer.look():
            pass
        assert_sees(viewer, batches)


def test_who_was_there_at_the_end_does_not_begin_anew(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "s.edgetop", made(2))
    writer.write(20)
    viewer = Viewer(writer.folder)
    viewer.look()
    viewer.analysis.reset()
    writer.finish()
    while viewer.look():
        pass
    assert viewer.feed.is_over
    assert viewer.restarts == 1
    assert viewer.analysis._since_reset is not None


def test_who_slept_while_the_journal_became_tables_begins_anew(tmp_path: Path) -> None:
    batches = made(3)
    writer = Writer(tmp_path / "s.edgetop", batches, segment_bytes=500)
    viewer = Viewer(writer.folder)
    viewer.look()
    writer.write(30)
    while viewer.look():
        pass
    assert viewer.restarts == 2
    assert_sees(viewer, batches[:31])


def test_a_killed_session_is_recovered_and_seen_to_its_end(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "s.edgetop", made(4))
    writer.write(20)
    viewer = Viewer(writer.folder)
    viewer.look()
    writer.die()
    assert viewer.look() is None
    assert not viewer.feed.is_over
    viewer.clock.advance(SILENT_NS / NS + 0.1)
    batch = viewer.look()
    assert batch is not None
    assert batch.restart
    assert viewer.feed.is_over
    assert viewer.analysis.view(None).verdict.state is State.CUT_SHORT


def test_a_session_that_is_over_is_shown_as_it_ended(tmp_path: Path) -> None:
    batches = made(5)
    writer = Writer(tmp_path / "s.edgetop", batches)
    writer.finish()
    viewer = Viewer(writer.folder)
    assert not viewer.feed.is_over
    viewer.look()
    assert viewer.feed.is_over
    assert viewer.feed.can == Can.NOTHING
    assert_sees(viewer, batches)


def test_silence_is_told_and_so_is_that_it_is_over(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "s.edgetop", made(6))
    viewer = Viewer(writer.folder)
    viewer.look()
    assert viewer.feed.trouble == ""
    viewer.clock.advance(LATE_NS / NS + 1)
    viewer.look()
    assert viewer.feed.trouble == "no data for 6.0s"
    writer.write(3)
    viewer.look()
    assert viewer.feed.trouble == ""
    writer.finish()


def test_a_session_that_is_removed_is_told_and_over(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "s.edgetop", made(7))
    viewer = Viewer(writer.folder)
    viewer.look()
    shutil.rmtree(writer.folder)
    assert viewer.look() is None
    assert viewer.feed.is_over
    assert "not a recorded session" in viewer.feed.trouble
    writer.die()


def test_orders_reach_the_session_without_a_wait(tmp_path: Path) -> None:
    writer, asked = Writer(tmp_path / "s.edgetop", made(8)), OrderLog()
    server = ControlServer(writer.folder, asked)
    server.start()
    viewer = Viewer(writer.folder)
    viewer.look()
    assert viewer.feed.can == Can.VISIT | Can.ORDERS
    for order, told in (
        (lambda: viewer.feed.order(Order("mark", "door")), Order("mark", "door")),
        (lambda: viewer.feed.order(Order("pause")), Order("pause")),
        (lambda: viewer.feed.order(Order("resume")), Order("resume")),
        (lambda: viewer.feed.order(Order("profile")), Order("profile")),
        (lambda: viewer.feed.order(Order("stop")), Order("stop")),
    ):
        order()
        wait_until(lambda told=told: told in asked.asked)
    server.finish(Answer(end_reason="user"))
    viewer.feed.close(10)
    assert viewer.feed.trouble == ""
    assert len(asked.asked) == 5
    writer.finish()


def test_with_no_listener_keys_are_absent_and_refusals_reported(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "s.edgetop", made(9))
    viewer = Viewer(writer.folder)
    assert viewer.feed.can == Can.VISIT
    (writer.folder / SOCKET).touch()  # of one that was killed
    viewer.feed.order(Order("mark", "x"))
    viewer.feed.close(10)
    assert viewer.feed.trouble == "cannot mark: s.edgetop: is not running, or takes no orders"
    viewer.clock.advance(60)
    writer.write(1)
    viewer.look()
    viewer.look()
    assert viewer.feed.trouble == ""
    writer.finish()


def test_a_journal_that_cannot_be_true_is_shown_as_far_as_it_can(tmp_path: Path) -> None:
    batches = made(10)
    writer = Writer(tmp_path / "s.edgetop", batches)
    viewer = Viewer(writer.folder)
    viewer.look()
    later = batches[5]
    spoilt = later.inferences.copy()
    spoilt["latency_ns"] = -1
    readings = later.readings.copy()
    readings["sensor"] = 60_000
    writer._left[:0] = [Batch(later.until_ns, spoilt, readings=readings)]
    writer.write(1)
    batch = viewer.look()
    assert batch is not None
    assert len(batch.inferences) == 0
    viewer.views()
    writer.die()


def test_who_attached_goes_on_with_the_session_that_follows(tmp_path: Path) -> None:
    """A run that rotates: the engine runs on in another session."""
    first, second = (list(session(with_phases(back_to_back(400, 10_000_000, seed)))) for seed in (1, 2))
    clock = second[0].manifest.clock
    later = replace(clock, origin_monotonic_ns=clock.origin_monotonic_ns + NS)
    next_one = replace(second[0].manifest, id=session_id("b"), name="b", clock=later)
    second = [replace(batch, manifest=batch.manifest and next_one) for batch in second]
    last = replace(first[-1].manifest, followed_by=session_id("b"))
    one = Writer(tmp_path / "a.edgetop", [*first[:-1], replace(first[-1], manifest=last)])
    viewer = Viewer(one.folder)
    other = Writer(tmp_path / "b.edgetop", second)
    one.finish()
    wait_until(lambda: viewer.look() is None and viewer.analysis.manifest.name == "b")
    other.write(3)
    viewer.look()
    assert (viewer.analysis.manifest.name, viewer.feed.name, viewer.feed.is_over) == ("b", other.folder, False)
    assert Can.STOP not in viewer.feed.can or (other.folder / SOCKET).exists()
    other.finish()
