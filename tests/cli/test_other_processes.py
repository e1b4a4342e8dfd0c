"""The process that takes the CPU is found by its name, and changed only if this user may."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from edgetop.cli.running.other_processes import OtherProcesses
from tests.support.waiting import PATIENCE_S

NAME = f"hog-{os.getpid():011d}"  # of 15 characters, as many as the kernel keeps; a name for each worker


@pytest.fixture
def hog() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a name of its own, which waits."""
    code = f"open('/proc/self/comm', 'w').write({NAME!r}); print(flush=True); import signal; signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.kill()


def test_a_process_is_described_by_its_command_line_and_age(hog: subprocess.Popen[bytes]) -> None:
    found = OtherProcesses().find(NAME)
    assert found is not None
    assert (found.pid, found.may_control) == (hog.pid, True)
    assert found.command.startswith(f"{sys.executable} -c ")
    assert 0 < found.age_s < 60
    assert found.user == psutil.Process().username()
    assert OtherProcesses().find("no-such-name") is None


def test_its_priority_is_lowered_and_it_is_asked_to_end(hog: subprocess.Popen[bytes]) -> None:
    processes = OtherProcesses()
    found = processes.find(NAME)
    assert found is not None
    before = os.getpriority(os.PRIO_PROCESS, hog.pid)
    said = processes.lower_priority(found)
    assert os.getpriority(os.PRIO_PROCESS, hog.pid) == min(before + 10, 19)
    assert said.endswith(f"niceness {before} to {min(before + 10, 19)}")
    assert processes.end(found) == f"process {hog.pid} {found.name}: SIGTERM was sent"
    assert hog.wait(PATIENCE_S) == -signal.SIGTERM
    assert processes.end(found) == f"process {hog.pid} {found.name}: it has ended"
