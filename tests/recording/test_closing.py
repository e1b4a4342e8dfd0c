"""A recording that is closed leaves no file open, whatever was read of it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.feeds.attach_feed import AttachFeed
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.by_time import RecordingByTime
from edgetop.recording.reader import Recording
from tests.support.clocks import ManualClock
from tests.support.descriptors import open_files
from tests.support.recordings import record
from tests.support.relays import LiveRecording
from tests.support.scripts import measured
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("closing") / "s.edgetop", measured(30).end().batches)


def _replayed(recording: Recording) -> object:
    feed = ReplayFeed(recording, ManualClock())
    feed.read()
    feed.seek(10**10)
    feed.read()
    return feed


def _open_in(folder: Path) -> set[str]:
    return {one for one in open_files() if str(folder) in one}


READ: dict[str, Callable[[Recording], object]] = {
    "nothing": lambda recording: None,
    "played": lambda recording: list(recording.play(inferences=True)),
    "begun to play": lambda recording: (playing := recording.play(step_s=1), next(playing)),
    "replayed": _replayed,
    "by time": lambda recording: (by_time := RecordingByTime(recording), by_time.whole()),
    "pieces": lambda recording: recording.pieces("seconds"),
}


@pytest.mark.parametrize("name", READ)
def test_a_closed_recording_has_no_open_file(recorded: Path, name: str) -> None:
    with Recording(recorded) as recording:
        held = READ[name](recording)
    assert _open_in(recorded) == set()
    recording.close()  # a second time
    assert recording.manifest.duration_ns
    assert recording.problems == []
    del held


def test_a_live_recording_that_is_closed_can_still_be_followed(tmp_path: Path) -> None:
    script = measured(5)
    live = LiveRecording(tmp_path / "s.edgetop", script.batches)
    before = _open_in(live.folder)
    with Recording(live.folder) as recording:
        follower = recording.follow()
        list(recording.play())
    # One is the follower's own; the recorder beside opens files for a moment.
    wait_until(lambda: len(_open_in(live.folder) - before) <= 1)
    seen = len(script.batches)
    live.put(*script.measure(5).batches[seen:])
    assert sum(len(batch.seconds) for batch in follower.read()) >= 1


def test_a_session_that_was_attached_to_and_is_over_has_only_its_folder_open(recorded: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(recorded, tmp_path / "s.edgetop")
    feed = AttachFeed(folder, ManualClock())
    feed.read()
    assert [one.partition(" ")[2] for one in _open_in(folder)] == [str(folder)]
    del feed
    assert _open_in(folder) == set()
