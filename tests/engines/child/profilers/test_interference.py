"""What others take from an inference is seen in the kernel's counters, and not in how long it took."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from edgetop.engines.child.profilers.interference import SLICE_NS, Interference, InterferenceWatch, measured, stolen_ns

MS = 1_000_000


@pytest.mark.parametrize(
    ("interference", "run_ms", "disturbs"),
    [
        (Interference(0, 0), 10, False),
        (Interference(1, MS // 10), 10, False),  # 1 %
        (Interference(1, MS), 10, True),
        (Interference(0, MS), 10, False),  # threads that are woken wait a little, though nobody took their CPU
        (Interference(0, 3 * MS), 10, True),
        (Interference(1, None), 10, True),  # the kernel keeps no account of waiting
        (Interference(0, None), 10, False),
        (Interference(1, None), 1000, False),
    ],
)
def test_interference_is_relative_to_the_inference_time(
    interference: Interference, run_ms: int, disturbs: bool
) -> None:
    assert interference.disturbs(run_ms * MS) is disturbs


@pytest.fixture
def shared_cpu() -> Iterator[None]:
    """This process on one CPU, together with another that never rests."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        burner.kill()
        burner.wait()
        os.sched_setaffinity(0, before)


def work(for_ns: int) -> None:
    until = time.thread_time_ns() + for_ns
    while time.thread_time_ns() < until:
        pass


@pytest.mark.slow
@pytest.mark.usefixtures("shared_cpu")
def test_a_process_that_takes_the_cpu_is_seen() -> None:
    watch = InterferenceWatch()
    _, took, interference = measured(lambda: work(100 * MS))
    assert interference.preempted > 0
    assert interference.disturbs(took)
    assert watch.was_busy()
    assert Interference(interference.preempted, None).disturbs(SLICE_NS)


def test_stolen_time_is_a_time_or_unknown(tmp_path: object) -> None:
    now = stolen_ns()
    assert now is None or now >= 0
    assert stolen_ns(f"{tmp_path}/none") is None
