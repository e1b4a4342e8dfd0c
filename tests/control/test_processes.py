"""Who holds a lock, as the kernel knows it; no file says whom a signal is for."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgetop.control.control_socket import give
from edgetop.control.lock_holders import end_holder, is_stopped, lock_holder
from edgetop.errors import EdgetopError
from edgetop.recording.session_folder import SOCKET
from edgetop.session.events import Order
from tests.support.waiting import PATIENCE_S, wait_until

OPENS = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); print(flush=True); time.sleep(60)"
HOLD = OPENS.replace("print", "fcntl.flock(f, fcntl.LOCK_EX); print")
LISTENS = (
    "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); "
    "print(flush=True); time.sleep(60)"
)


@contextmanager
def started(code: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_the_process_that_holds_a_lock_is_found_and_ended(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with started(OPENS, lock) as other, started(HOLD, lock) as holder:
        assert lock_holder(lock) == holder.pid
        assert end_holder(lock) == holder.pid
        assert holder.wait(PATIENCE_S) == -signal.SIGTERM
        assert lock_holder(lock) is None
        assert end_holder(lock) is None
        assert other.poll() is None


@pytest.mark.slow
def test_a_lock_that_may_be_another_file_says_nothing(tmp_path: Path) -> None:
    lock, link, twin = tmp_path / "lock", tmp_path / "link", tmp_path / "twin"
    with started(HOLD, lock):
        link.symlink_to(lock)
        assert lock_holder(link) is None
        os.link(lock, twin)  # as a file elsewhere that a service of the system has locked
        assert lock_holder(lock) is lock_holder(twin) is None
        twin.unlink()
        assert lock_holder(lock) is not None
        if os.geteuid() == 0:
            os.chown(lock, 65534, 65534)
            assert lock_holder(lock) is None
    assert lock_holder(tmp_path / "none") is None


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process of another user")
def test_a_holder_of_another_user_is_none(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    lock.chmod(0o666)
    code = "import os; os.setuid(65534); " + HOLD
    with started(code, lock):
        assert lock_holder(lock) is None


@pytest.mark.slow
def test_a_stop_of_a_stopped_process_says_so_at_once(tmp_path: Path) -> None:
    with started(LISTENS, tmp_path / SOCKET) as process:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.pid))
        with pytest.raises(EdgetopError, match=rf"process {process.pid}.* is stopped, .*kill -CONT {process.pid}"):
            give(tmp_path, Order("stop"))
    assert not is_stopped(process.pid)
    assert not is_stopped(0)
