"""What else runs: judged by its load, named, and edgetop itself left out."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from edgetop.doctor import state_checks
from edgetop.doctor.state_checks import watch_processes
from edgetop.sensors.competitors import HIDDEN
from tests.support.facts import facts, row
from tests.support.waiting import wait_until


@pytest.mark.parametrize(("percent", "status"), [(0.0, "ok"), (9.0, "ok"), (10.0, "warning"), (50.0, "problem")])
def test_how_much_is_too_much(tmp_path: Path, percent: float, status: str) -> None:
    (check,) = state_checks.check_background(facts(tmp_path, busy={"cron": percent}))
    assert check.status == status


def test_the_loudest_are_named_and_cannot_act(tmp_path: Path) -> None:
    busy = {"a": 20.0, "\x1b[31m": 30.0, "b": 0.4, "c": 5.0, "d": 4.0}
    (check,) = state_checks.check_background(facts(tmp_path, busy=busy))
    assert check.found == r"59 % of a core: \x1b[31m 30 %, a 20 %, c 5 %"


@pytest.mark.parametrize("unseen", ["hidepid", "container"])
def test_what_cannot_be_seen_is_said_and_counts_in_the_total(tmp_path: Path, unseen: str) -> None:
    for percent, status in ((0.0, "ok"), (80.0, "problem")):
        (check,) = state_checks.check_background(facts(tmp_path, busy={"a": 5.0, HIDDEN: percent}, unseen=unseen))
        assert (check.status, check.found.startswith(f"{percent + 5:.0f} % of a core")) == (status, True)
        assert "they count in the total only" in check.found


@pytest.mark.slow
def test_what_is_hidden_is_what_the_kernel_counts_beyond_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here nothing is listed, so that a busy process is hidden."""
    monkeypatch.setattr(state_checks, "why_unseen", lambda: "hidepid")
    monkeypatch.setattr(state_checks, "_used_by_others", dict)
    busy: dict[str, float] = {}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process, watch_processes(busy, 0.0):
        own = psutil.Process(process.pid)
        wait_until(lambda: sum(own.cpu_times()[:2]) > 0.3)
        process.kill()
    assert busy[HIDDEN] > 5


def test_processes_that_cannot_be_listed_are_unknown(tmp_path: Path) -> None:
    (check,) = state_checks.check_background(facts(tmp_path))
    assert check.found.startswith("unknown")


def test_stolen_time_is_reported_where_there_is_some(tmp_path: Path) -> None:
    stolen = [
        state_checks.check_background(facts(tmp_path, busy={}, rows=(row("load/steal", x),)))[1:] for x in (0.5, 7.0)
    ]
    assert [[check.name for check in checks] for checks in stolen] == [[], ["steal"]]


SPIN = """
import subprocess, sys, time
open("/proc/self/comm", "w").write(sys.argv[1])
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
if sys.argv[2:]:
    subprocess.run([sys.executable, "-c", *sys.argv[2:]])
else:
    print(flush=True)
    time.sleep(60)  # until it is killed: it must still be there when it is counted
"""


@pytest.mark.slow
def test_the_load_of_others_is_measured_but_not_of_own_helpers() -> None:
    busy: dict[str, float] = {}
    own, other = f"own-{os.getpid()}", f"other-{os.getpid()}"  # this test may run elsewhere on the machine too
    argv = [sys.executable, "-c", SPIN, own, SPIN, other]  # a child of ours, which starts one that is not
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        with watch_processes(busy, at_least_s=0.0):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGKILL)
    assert 0 < busy[other] <= 110
    assert own not in busy
