"""The writer's lock: it says whether a writer lives, whatever became of it."""

import fcntl
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgetop.errors import RecordingError
from edgetop.recording.session_folder import LOCK, WriterLock
from tests.support.waiting import PATIENCE_S

HOLD = """
import sys
from pathlib import Path
from edgetop.recording.session_folder import WriterLock
lock = WriterLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    with pytest.raises(RecordingError, match=f"{tmp_path}: another edgetop is writing it"):
        WriterLock(tmp_path)
    lock.release()


def test_a_lock_that_was_let_go_can_be_taken(tmp_path: Path) -> None:
    for _ in range(2):
        lock = WriterLock(tmp_path)
        lock.release()
        lock.release()  # twice is once


def test_a_refusal_leaves_the_lock_with_its_holder(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    for _ in range(2):
        with pytest.raises(RecordingError):
            WriterLock(tmp_path)
    lock.release()


@pytest.mark.slow
def test_a_writer_that_is_killed_lets_go(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "held\n"
        with pytest.raises(RecordingError):
            WriterLock(tmp_path)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        WriterLock(tmp_path).release()


def test_a_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    command = [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, close_fds=False) as child:
        assert child.stdin
        assert child.stdout
        assert child.stdout.readline() == "up\n"
        lock.release()
        WriterLock(tmp_path).release()
        assert child.poll() is None
        child.stdin.close()


def test_what_a_dead_writer_left_is_completed_by_one_at_a_time(tmp_path: Path) -> None:
    first = WriterLock(tmp_path, for_recovery=True)
    taken: queue.SimpleQueue[WriterLock] = queue.SimpleQueue()
    second = threading.Thread(target=lambda: taken.put(WriterLock(tmp_path, for_recovery=True)))
    second.start()
    with pytest.raises(queue.Empty):
        taken.get(timeout=0.1)
    first.release()
    taken.get(timeout=PATIENCE_S).release()
    second.join()


def test_a_lock_of_a_holder_not_yet_identified_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever completes a session holds it alone only after saying so."""
    other = WriterLock(tmp_path, for_recovery=True)
    (tmp_path / LOCK).write_bytes(b"")
    flock, asked = fcntl.flock, []

    def told_meanwhile(fd: int, operation: int) -> None:
        asked.append(operation)
        if len(asked) == 1:
            (tmp_path / LOCK).write_bytes(b"\n")
            raise BlockingIOError
        other.release()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", told_meanwhile)
    WriterLock(tmp_path, for_recovery=True).release()
    assert asked == [fcntl.LOCK_SH | fcntl.LOCK_NB, fcntl.LOCK_EX]


def test_a_live_writer_is_not_waited_for(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    for _ in range(2):
        with pytest.raises(RecordingError):
            WriterLock(tmp_path, for_recovery=True)
    assert (tmp_path / LOCK).read_bytes() == b""
    lock.release()
