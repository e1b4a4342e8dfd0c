"""Whoever writes the tables, here or in a process: the same comes of it, and nothing is lost where it is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.errors import RecordingError
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import Retention, WriterLock, is_live
from edgetop.recording.table_writer import ChildTableWriter, InlineTableWriter, TableWriter
from edgetop.session import helper_load
from edgetop.session.batch import merge
from tests.support.processes import is_running
from tests.support.recordings import back_to_back, first_manifest, played, record, session
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

BATCHES = list(session(back_to_back(300, 20e6)))
WHOLE = merge(BATCHES)
LAST = next(batch.manifest for batch in reversed(BATCHES) if batch.manifest)


@pytest.fixture(params=[InlineTableWriter, ChildTableWriter])
def writer(request: pytest.FixtureRequest) -> TableWriter:
    made: TableWriter = request.param()
    return made


def begun(folder: Path, writer: TableWriter, keep: Retention | None = None) -> Recorder:
    """Everything is in the journal."""
    recorder = Recorder(folder, first_manifest(), keep, writer)
    for batch in BATCHES:
        recorder.write(batch)
    return recorder


def assert_whole(folder: Path) -> None:
    back = played(folder)
    assert back.inferences.tobytes() == WHOLE.inferences.tobytes()
    assert back.readings.tobytes() == WHOLE.readings.tobytes()
    assert back.seconds.rows.tobytes() == WHOLE.seconds.rows.tobytes()
    assert back.events == WHOLE.events


def test_segments_become_rows_during_the_run_and_at_its_end(tmp_path: Path, writer: TableWriter) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = Recorder(folder, first_manifest(), None, writer)
    recorder._journal_file.segment_bytes = 2_000
    for batch in BATCHES[:20]:
        recorder.write(batch)
        if writer.is_busy:
            recorder._collect(wait=True)
    assert (folder / "journal/inferences-0000.partial").exists()
    assert {path.stat().st_mode & 0o777 for path in (folder / "journal").iterdir()} == {0o600}
    for batch in BATCHES[20:]:
        recorder.write(batch)
    recorder.prepare_end()
    assert recorder.finish(LAST) is None
    assert_whole(folder)


def test_the_limit_is_kept(tmp_path: Path, writer: TableWriter) -> None:
    limit = 400_000
    batches = list(session(back_to_back(90_000, 40e3)))
    folder = record(tmp_path / "s.edgetop", batches, Retention(max_bytes=limit), writer)
    assert limit * 0.4 < sum(path.stat().st_size for path in folder.iterdir()) < limit
    back = played(folder).inferences
    assert back.tobytes() == merge(batches).inferences[-len(back) :].tobytes()


def test_a_failure_is_told_as_the_system_tells_it(tmp_path: Path, writer: TableWriter) -> None:
    folder = tmp_path / "s.edgetop"
    recorder = begun(folder, writer)
    (folder / "journal/readings-0000.partial").symlink_to("/dev/full")
    with pytest.raises(RecordingError, match="cannot be recorded: Too many levels of symbolic links: its tables"):
        recorder.finish(LAST)
    (folder / "journal/readings-0000.partial").unlink()
    assert_whole(folder)


def killed_when_it_works(writer: ChildTableWriter) -> int:
    assert writer._process
    writer._process.send_signal(signal.SIGKILL)
    return writer._process.pid


def test_a_process_that_is_killed_is_asked_again_at_the_end(tmp_path: Path) -> None:
    writer = ChildTableWriter()
    recorder = begun(tmp_path / "s.edgetop", writer)
    recorder.prepare_end()
    killed_when_it_works(writer)
    recorder.finish(LAST)
    assert_whole(tmp_path / "s.edgetop")


class AlwaysKilled(ChildTableWriter):
    def begin(self, *order: object) -> None:
        super().begin(*order)
        killed_when_it_works(self)


def test_the_next_reader_completes_what_the_end_could_not_write(tmp_path: Path) -> None:
    recorder = begun(tmp_path / "s.edgetop", AlwaysKilled())
    with pytest.raises(RecordingError, match="the process that writes the tables was killed by SIGKILL"):
        recorder.finish(LAST)
    assert_whole(tmp_path / "s.edgetop")


def test_a_process_killed_during_the_run_delays_the_tables(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "s.edgetop", first_manifest(), None, AlwaysKilled())
    recorder._journal_file.segment_bytes = 2_000
    events = [event for batch in BATCHES for event in written(recorder, batch)]
    assert [event.kind for event in events] == ["tables-delayed"]
    recorder._tables = InlineTableWriter()
    recorder.finish(LAST)
    assert played(tmp_path / "s.edgetop").inferences.tobytes() == WHOLE.inferences.tobytes()


def written(recorder: Recorder, batch: object) -> tuple:
    news = recorder.write(batch)
    if recorder._tables.is_busy:
        wait_until(lambda: recorder._tables._process.poll() is not None)
    return news


HOLDS = """
import sys
from pathlib import Path
from edgetop.recording.recorder import Recorder
from edgetop.recording.table_writer import ChildTableWriter
from tests.support.recordings import back_to_back, first_manifest, session

writer = ChildTableWriter()
recorder = Recorder(Path(sys.argv[1]), first_manifest(), None, writer)
recorder._journal_file.segment_bytes = 5_000
for batch in session(back_to_back(300, 20e6)):
    recorder.write(batch)
    if writer.is_busy:
        recorder._collect(wait=True)
assert list(Path(sys.argv[1]).glob("journal/*.partial"))
recorder.prepare_end()
assert "pyarrow" not in sys.modules
print(writer._process.pid, flush=True)
sys.stdin.read()
"""


def test_the_process_has_the_lock_and_ends_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "s.edgetop")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        helper = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not is_live(tmp_path / "s.edgetop"))
    wait_until(lambda: not is_running(helper))
    assert_whole(tmp_path / "s.edgetop")


def test_its_cpu_time_is_edgetops_own_load(tmp_path: Path) -> None:
    before = helper_load.spent_s()
    record(tmp_path / "s.edgetop", BATCHES, None, ChildTableWriter())
    assert before + 0.05 < helper_load.spent_s() < before + 30


def test_a_session_that_is_discarded_ends_its_process(tmp_path: Path) -> None:
    writer = ChildTableWriter()
    recorder = begun(tmp_path / "s.edgetop", writer)
    recorder.prepare_end()
    assert writer._process
    pid = writer._process.pid
    recorder.discard()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list(tmp_path.iterdir()) == []


def test_the_lock_is_let_go_when_all_is_written(tmp_path: Path) -> None:
    record(tmp_path / "s.edgetop", BATCHES, None, ChildTableWriter())
    WriterLock(tmp_path / "s.edgetop").release()
