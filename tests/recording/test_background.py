"""A recorder on its own thread: nothing waits for the disk, nothing is lost in silence."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edgetop.errors import RecordingError
from edgetop.recording.recorder import MAX_QUEUED_INFERENCES, BackgroundRecorder
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from tests.support.recordings import first_manifest
from tests.support.scripted_engine import inferences
from tests.support.waiting import PATIENCE_S, wait_until


class SlowRecorder:
    """Takes a batch when the test lets it."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.batches: list[Batch] = []
        self.news: list[Event] = []
        self.calls: list[str] = []
        self.defect: Exception | None = None
        self.error: RecordingError | None = None

    def write(self, batch: Batch) -> tuple[Event, ...]:
        self.goes_on.wait(PATIENCE_S)
        self.batches.append(batch)
        if self.defect:
            raise self.defect
        news, self.news = self.news, []
        return tuple(news)

    def finish(self, manifest: Manifest) -> None:
        self.calls.append("finish")
        if self.error:
            raise self.error

    def prepare_end(self) -> None:
        self.calls.append("prepare")

    def discard(self) -> None:
        self.calls.append("discard")


@pytest.fixture
def slow() -> Iterator[SlowRecorder]:
    recorder = SlowRecorder()
    yield recorder
    recorder.goes_on.set()


def test_who_writes_does_not_wait_and_finish_does(slow: SlowRecorder) -> None:
    background = BackgroundRecorder(slow)
    given = [Batch(i, inferences([i])) for i in range(50)]
    for batch in given:
        assert background.write(batch) == ()
    assert slow.batches == []
    slow.goes_on.set()
    background.finish(first_manifest())
    assert slow.batches == given
    assert slow.calls == ["finish"]


def test_news_of_the_recorder_are_told_by_a_later_write(slow: SlowRecorder) -> None:
    slow.goes_on.set()
    slow.news = [read_event(0, "recording-failed", "critical", "edgetop", "full")]
    background = BackgroundRecorder(slow)
    background.write(Batch(0))
    (event,) = wait_until(lambda: background.write(Batch(1)))
    assert event.kind == "recording-failed"
    background.discard()
    assert slow.calls == ["discard"]


def test_what_waits_is_bounded_and_what_is_given_up_is_told(slow: SlowRecorder) -> None:
    background = BackgroundRecorder(slow)
    large = np.repeat(inferences([1]), MAX_QUEUED_INFERENCES // 4)
    news = [event for i in range(7) for event in background.write(Batch(i, large))]
    assert [event.kind for event in news] == ["recording-behind"]
    slow.goes_on.set()
    wait_until(lambda: len(slow.batches) == 7)
    (event,) = background.write(Batch(8, inferences([2])))
    assert event.kind == "recording-caught-up"
    assert event.body.count == 3 * len(large)
    with pytest.raises(RecordingError, match=f"{3 * len(large)} inferences missing"):
        background.finish(first_manifest())
    assert len(merge(slow.batches).inferences) == 4 * len(large) + 1
    assert slow.calls == ["finish"]


def test_events_too_late_for_the_run_are_in_the_recording(slow: SlowRecorder) -> None:
    background = BackgroundRecorder(slow)
    background.write(Batch(7))
    slow.news = [read_event(5, "recording-failed", "critical", "edgetop", "full")]
    slow.goes_on.set()
    background.finish(first_manifest())
    assert [(b.until_ns, [e.kind for e in b.events]) for b in slow.batches] == [(7, []), (7, ["recording-failed"])]


def test_the_next_write_raises_a_defect_and_recording_goes_on(slow: SlowRecorder) -> None:
    slow.defect = ValueError("a defect")
    slow.goes_on.set()
    background = BackgroundRecorder(slow)
    background.write(Batch(0))

    def raised() -> bool:
        try:
            background.write(Batch(1))
        except ValueError:
            return True
        return False

    wait_until(raised)
    background.finish(first_manifest())
    assert [batch.until_ns for batch in slow.batches[:2]] == [0, 1]


def test_what_could_not_be_recorded_is_the_outcome(slow: SlowRecorder) -> None:
    slow.error = RecordingError("/x: cannot be recorded")
    slow.goes_on.set()
    background = BackgroundRecorder(slow)
    with pytest.raises(RecordingError):
        background.finish(first_manifest())


def test_the_end_is_prepared_behind_what_was_given(slow: SlowRecorder) -> None:
    background = BackgroundRecorder(slow)
    background.write(Batch(1))
    background.prepare_end()
    assert slow.calls == []
    slow.goes_on.set()
    wait_until(lambda: slow.calls == ["prepare"])
    assert [batch.until_ns for batch in slow.batches] == [1]
    background.discard()
