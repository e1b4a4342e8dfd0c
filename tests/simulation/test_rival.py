"""The competing process is real, obeys, and never outlives the one that started it."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from edgetop.simulation.virtual_board import Rival
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

CPU = max(os.sched_getaffinity(0))

PARENT = """
import sys, time
from edgetop.simulation.virtual_board import Rival
rival = Rival([int(sys.argv[1])])
rival.compete(True)
print(rival.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def start():
    started = []

    def start():
        started.append(Rival([CPU]))
        return started[-1]

    yield start
    for rival in started:
        rival.close()


@pytest.fixture
def rival(start):
    return start()


def cpu_s(process):
    times = process.cpu_times()
    return times.user + times.system


def wakes(rival):
    return psutil.Process(rival.pid).num_ctx_switches().voluntary


def test_it_competes_when_it_is_told_to_and_where(rival):
    process = psutil.Process(rival.pid)
    wait_until(lambda: process.name() == "demo-rival")
    assert process.cpu_affinity() == [CPU]
    idle_s = cpu_s(process)
    rival.compete(True)
    wait_until(lambda: cpu_s(process) > idle_s + 0.05)


def test_it_rests_when_it_is_told_to(start):
    rival, busy = start(), start()
    for one in (rival, busy):
        one.compete(True)
        wait_until(lambda one=one: wakes(one) > 20)
    rival.compete(False)

    def sleeps_while_the_other_wakes():
        before, goal = wakes(rival), wakes(busy) + 20
        wait_until(lambda: wakes(busy) > goal)
        return wakes(rival) == before

    wait_until(sleeps_while_the_other_wakes)


def test_it_has_its_starter_s_priority(rival):
    assert psutil.Process(rival.pid).nice() == os.getpriority(os.PRIO_PROCESS, 0)


def test_closing_ends_it_even_while_it_competes(rival):
    rival.compete(True)
    rival.close()
    assert not psutil.pid_exists(rival.pid)


def test_one_that_somebody_ended_is_no_trouble(rival):
    os.kill(rival.pid, signal.SIGKILL)
    rival._process.wait()
    rival.compete(True)
    rival.compete(False)


def test_it_ends_with_a_starter_that_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(CPU)], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
