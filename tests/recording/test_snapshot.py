"""A session is opened while its writer goes on: as it is at one moment, and without disturbing it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgetop.recording.compaction import run_job
from edgetop.recording.journal import FellBehindError, TableJob
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import WriterLock
from edgetop.session.batch import Batch, merge
from edgetop.session.seconds import NS, concatenate
from tests.support.recordings import back_to_back, content, first_manifest, played, session, until, with_phases
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    """Half a minute, as a conductor hands it on."""
    return list(session(with_phases(back_to_back(1_500, 20e6)), seed=4))


def test_a_live_session_is_read_as_it_is_and_not_touched(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 10_000
    for batch in until(batches, 20):
        recorder.write(batch)
    before = content(folder)
    recording = Recording(folder)
    assert recording.is_live
    assert recording.manifest.state == "live"
    back = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    assert content(folder) == before
    assert back.inferences["t_ns"][-1] > 19 * NS
    assert not [event for event in back.events if event.kind == "recovered"]
    for batch in batches[len(until(batches, 20)) :]:
        recorder.write(batch)
    manifest = batches[-1].manifest
    assert manifest
    recorder.finish(manifest)
    assert played(folder).inferences.tobytes() == merge(batches).inferences.tobytes()


@pytest.mark.thorough
def test_a_snapshot_taken_at_any_moment_holds_each_row_once(tmp_path: Path) -> None:
    given = back_to_back(300_000, 20e3)
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 150_000
    recorder.write(Batch(0, manifest=first_manifest()))
    for tick, piece in enumerate(np.array_split(given, 30), 1):
        recorder.write(Batch(tick * NS, piece))
        back = merge(list(Recording(folder).play(inferences=True)))
        assert back.inferences.tobytes() == given[: len(back.inferences)].tobytes()
        assert len(back.inferences) == tick * 10_000
    recorder.discard()


def test_a_snapshot_stays_whole_while_the_writer_goes_on(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 10_000
    for batch in until(batches, 20):
        recorder.write(batch)
    playing = Recording(folder).play(inferences=True, step_s=1)
    seen = [next(playing)]
    for batch in batches[len(until(batches, 20)) :]:
        recorder.write(batch)
    manifest = batches[-1].manifest
    assert manifest
    recorder.finish(manifest)
    back = merge([*seen, *playing])
    assert back.inferences.tobytes() == merge(batches).inferences[: len(back.inferences)].tobytes()
    assert back.inferences["t_ns"][-1] > 19 * NS


@pytest.mark.thorough
def test_a_snapshot_stays_whole_while_its_pieces_are_joined(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 3_000
    recorder._tables_after_ns = 2**62
    for batch in until(batches, 20):
        recorder.write(batch)
    recorder._progress = run_job(folder, TableJob(recorder._journal_file.number, piece_bytes=1_000))
    assert len(list(folder.glob("journal/inferences-*.partial"))) > 2
    recording = Recording(folder)
    manifest = batches[-1].manifest
    assert manifest
    recorder.finish(manifest)
    back = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    assert back.inferences.tobytes() == merge(until(batches, 20)).inferences[: len(back.inferences)].tobytes()
    assert back.inferences["t_ns"][-1] > 19 * NS


@pytest.mark.parametrize("does", mostly_thorough(["finishes", "compacts"], "finishes"))
def test_a_writer_moves_no_row_of_a_session_being_opened(does: str, tmp_path: Path) -> None:
    """At each file that opening looks at, the writer does all that it has to do."""
    command = [sys.executable, "-c", MEANWHILE, does, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 5


MEANWHILE = """
import sys
from pathlib import Path
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.session.batch import merge
from tests.support.recordings import first_manifest, session, back_to_back

does, home = sys.argv[1:]
batches = list(session(back_to_back(200, 20e6)))
whole = merge(batches).inferences
armed = None

def hook(event, arguments):
    global armed
    if armed and event == "open" and str(arguments[0]).startswith(str(armed[1].folder)):
        armed[0] -= 1
        if not armed[0]:
            recorder, armed = armed[1], None
            if does == "finishes":
                recorder.finish(batches[-1].manifest)
            if does == "compacts":
                recorder._segment = recorder._tables_after_ns = 0
                recorder._compact()

sys.addaudithook(hook)
for count in range(1, 100):
    recorder = Recorder(Path(home) / f"{count}.edgetop", first_manifest())
    recorder._journal_file.segment_bytes = 1_000
    for place, batch in enumerate(batches):
        recorder.write(batch)
        if place > len(batches) / 2:
            recorder._tables_after_ns = 2**62
    armed = [count, recorder]
    recording = Recording(recorder.folder)
    is_over = bool(armed)
    armed = None
    back = merge(list(recording.play(inferences=True))).inferences
    assert recording.problems == [], recording.problems
    assert back.tobytes() == whole[: len(back)].tobytes()
    assert len(back) >= len(whole) - 30
    if is_over:
        print(count)
        break
"""


@pytest.mark.parametrize("tables_after_ns", [0, 2**62])
def test_what_follows_a_snapshot_is_what_it_lacks(tmp_path: Path, batches: list[Batch], tables_after_ns: int) -> None:
    """`tables_after_ns`: until then, the segments of the journal stay."""
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 10_000 if tables_after_ns == 0 else 3_000
    recorder._tables_after_ns = tables_after_ns
    for batch in until(batches, 11):
        recorder.write(batch)
    recording = Recording(folder)
    seen = merge(list(recording.play(inferences=True)))
    follower, read = recording.follow(), []
    for batch in batches[len(until(batches, 11)) :]:
        recorder.write(batch)
        read += follower.read()
    followed = merge(read)
    whole = merge(batches)
    both = np.concatenate([seen.inferences, followed.inferences])
    assert both.tobytes() == whole.inferences[: len(both)].tobytes()
    assert concatenate([seen.seconds, followed.seconds]).rows.tobytes() == whole.seconds.rows.tobytes()
    assert seen.events + followed.events == whole.events
    recorder.discard()


def test_what_is_written_before_a_snapshot_is_read_is_left_to_who_follows(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    begun = until(batches, 11)
    for batch in begun:
        recorder.write(batch)
    recording = Recording(folder)
    for batch in batches[len(begun) :]:
        recorder.write(batch)
    seen = merge(list(recording.play(inferences=True)))
    followed = merge(list(recording.follow().read()))
    whole = merge(batches)
    both = np.concatenate([seen.inferences, followed.inferences])
    assert len(seen.inferences) < len(both)
    assert both.tobytes() == whole.inferences[: len(both)].tobytes()
    assert seen.events + followed.events == whole.events
    recorder.discard()


def test_who_follows_too_slowly_is_told_so(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder._journal_file.segment_bytes = 10_000
    recorder.write(batches[0])
    follower = Recording(folder).follow()
    for batch in batches[1:]:
        recorder.write(batch)
    with pytest.raises(FellBehindError):
        list(follower.read())
    recorder.discard()


def test_a_live_writer_excludes_writers_and_recoveries(tmp_path: Path, batches: list[Batch]) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest())
    recorder.write(batches[0])
    with pytest.raises(Exception, match="another edgetop is writing it"):
        WriterLock(folder)
    assert Recording(folder).is_live
    recorder.discard()
