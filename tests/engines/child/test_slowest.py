"""What the kernel counted around a slow inference: asked rarely, and told of what stands out."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.child.placement import Placement
from edgetop.engines.child.slowest import ENOUGH, LEAST, WINDOW_NS, Slowest, _Beside
from tests.support.waiting import PATIENCE_S

MS = 1_000_000


class Heard:
    """An outlet that keeps what it is sent."""

    def __init__(self) -> None:
        self.said: list[tuple[int, dict[str, Any]]] = []

    def send(self, kind: int, message: dict[str, Any]) -> None:
        self.said.append((kind, message))


def latencies_told(heard: Heard) -> list[int]:
    return [message["latency_ns"] for _, message in heard.said]


class Run:
    """One thread's watch, with inferences back to back from 0; looked at between every two."""

    def __init__(self, schedstat: str = "/proc/thread-self/schedstat") -> None:
        self.heard = Heard()
        self.slowest = Slowest(self.heard, schedstat)
        self.now_ns = 0
        self.asked = 0
        self._slow_ns = self.slowest.checkpoint(0)

    def infer(self, latency_ns: int) -> None:
        start_ns, self.now_ns = self.now_ns, self.now_ns + latency_ns
        if latency_ns > self._slow_ns:
            self.asked += 1
            self._slow_ns = self.slowest.note(start_ns, self.now_ns)
        self._slow_ns = self.slowest.checkpoint(self.now_ns)

    def end(self) -> list[int]:
        self.slowest.close()
        return latencies_told(self.heard)


def test_the_slowest_of_a_window_is_told_when_it_is_over() -> None:
    run = Run()
    for latency_ns in (10 * MS, 30 * MS, 20 * MS):
        run.infer(latency_ns)
    assert run.heard.said == []
    for _ in range(5):
        run.infer(10 * MS)
    (kind, message), *_ = run.heard.said
    assert kind == message_frames.SLOW
    assert (message["t_ns"], message["latency_ns"]) == (10 * MS, 30 * MS)
    run.end()


def test_a_spike_is_reported_among_many_alike() -> None:
    run = Run()
    for _ in range(6_000):
        run.infer(10 * MS)
    before = len(run.heard.said)
    run.infer(50 * MS)
    assert run.end()[before:] == [50 * MS]


def test_of_a_level_that_scatters_few_windows_are_told() -> None:
    run = Run()
    for i in range(300):
        run.infer(WINDOW_NS + (i * 7919 % 1009) * 40_000)
    at_first = len(run.heard.said)
    assert at_first >= ENOUGH / 2  # of half a minute
    for i in range(30_000):
        run.infer(WINDOW_NS + (i * 7919 % 1009) * 40_000)
    assert len(run.end()) - at_first <= 2 * (ENOUGH * 5 + LEAST * 30_000)


def test_after_a_rise_of_the_level_what_stands_out_is_few_again() -> None:
    run = Run()
    for _ in range(1_000):
        run.infer(WINDOW_NS)
    for _ in range(1_000):
        run.infer(3 * WINDOW_NS)
    assert len(run.end()) <= 300


def test_what_is_not_slow_asks_the_kernel_no_more_often() -> None:
    run = Run()
    for latency_ns in (30 * MS, 20 * MS, 30 * MS, 10 * MS):
        run.infer(latency_ns)
    assert run.asked == 1
    run.end()


def test_what_was_counted_lies_between_the_last_look_and_the_end(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("1000 500 3\n")
    run = Run(str(file))
    file.write_text("2000 12000500 4\n")
    run.infer(20 * MS)
    run.end()
    assert run.heard.said[0][1]["waited_ns"] == 12 * MS
    assert run.heard.said[0][1]["span_ns"] == 20 * MS


@pytest.mark.parametrize("content", ["0 0 0\n", "", "a b c\n"])
def test_a_kernel_that_keeps_no_account_leaves_the_wait_unknown(tmp_path: Path, content: str) -> None:
    file = tmp_path / "schedstat"
    file.write_text(content)
    run = Run(str(file))
    run.infer(20 * MS)
    run.end()
    assert run.heard.said[0][1]["waited_ns"] is None


def test_a_kernel_without_the_file_leaves_the_wait_unknown(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "none"))
    run.infer(20 * MS)
    run.end()
    assert run.heard.said[0][1]["waited_ns"] is None


def test_page_faults_of_the_inference_are_counted() -> None:
    run = Run()
    touched = bytearray(64 * 2**20)  # pages that nobody had before
    run.infer(20 * MS)
    run.end()
    assert touched
    assert run.heard.said[0][1]["minor_faults"] > 0


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_watch_leaves_no_descriptor_behind() -> None:
    before = descriptors()
    for _ in range(3):
        Run().end()
    assert descriptors() == before


def test_a_thread_beside_others_counts_its_own_alone() -> None:
    """Another thread's page faults are none of its inferences'."""
    found: list[int] = []

    def watch() -> None:
        run = Run()
        ready.set()
        done.wait(PATIENCE_S)
        run.infer(20 * MS)
        run.end()
        found.append(run.heard.said[0][1]["minor_faults"])

    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    ready.wait(PATIENCE_S)
    touched = bytearray(64 * 2**20)
    done.set()
    thread.join(PATIENCE_S)
    assert touched
    assert found[0] < 1_000


def processors(folder: Path, name: str, *values: str) -> str:
    for cpu, value in enumerate(values):
        file = folder / f"cpu{cpu}" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value + "\n")
    return str(folder)


@pytest.mark.parametrize("name", ["cpu_capacity", "cpufreq/cpuinfo_max_freq"])
def test_the_capacity_of_a_cpu_is_that_of_the_usual_one(tmp_path: Path, name: str) -> None:
    placement = Placement(processors(tmp_path, name, "400", "1000"))
    assert placement.capacity(0) is None
    for _ in range(3):
        placement.settle(1)
    assert (placement.capacity(0), placement.capacity(1), placement.capacity(7)) == (0.4, 1.0, None)
    for _ in range(30_000):
        placement.settle(0)
    assert placement.capacity(0) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("values", [(), ("1024", "1024"), ("0", "1024"), ("x", "1024")])
def test_cpus_that_are_alike_or_unknown_have_no_capacity(tmp_path: Path, values: tuple[str, ...]) -> None:
    placement = Placement(processors(tmp_path, "cpu_capacity", *values))
    placement.settle(1)
    assert placement.capacity(0) is placement.capacity(1) is None


def test_cpus_that_are_taken_away_are_noticed() -> None:
    allowed = os.sched_getaffinity(0)
    placement = Placement()
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert placement.lost_cpus() == len(allowed) - 1
        assert placement.cpu() == min(allowed)
    finally:
        os.sched_setaffinity(0, allowed)
    assert placement.lost_cpus() == 0


def test_moves_to_another_cpu_are_counted() -> None:
    """In another process, because the count of a process begins once."""
    program = """
import os
from edgetop.engines.child.placement import Placement, count_migrations
allowed = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, allowed[:1])
count_migrations()
placement = Placement()
before = placement.migrations()
for cpu in allowed[-1:] + allowed[:1]:
    os.sched_setaffinity(0, [cpu])
print(before, placement.migrations(), len(allowed))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after, cpus = done.stdout.split()
    assert before == "None" or int(after) - int(before) == (2 if int(cpus) > 1 else 0)


def test_a_slow_inference_is_sent_with_its_placement(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("1000 500 3\n")
    run = Run(str(file))
    run.infer(20 * MS)
    run.end()
    message = run.heard.said[0][1]
    assert message["lost_cpus"] == 0
    assert message["migrations"] in (0, 1)
    assert message["capacity"] is None or message["capacity"] > 0


def idle_of(run: Run) -> list[int]:
    run.end()
    return [message["idle_ns"] for _, message in run.heard.said]


def test_an_inference_in_which_nothing_ran_was_idle_beyond_the_usual() -> None:
    """Time is made up here, and the process hardly runs: so all of it is idle, except in the first ones."""
    run = Run()
    run.slowest._idle.share = 0.0  # as in an engine that computes on the CPU
    run.infer(20 * MS)
    assert idle_of(run)[0] == pytest.approx(20 * MS, rel=0.1)


def test_the_loop_sleeps_if_it_neither_runs_nor_waits_for_a_cpu(tmp_path: Path) -> None:
    """Time is made up here: of 20 ms, the loop waits 5 ms for a CPU, and hardly runs."""
    file = tmp_path / "schedstat"
    file.write_text("1000 0 3\n")
    run = Run(str(file))
    run.slowest._slept.share = 0.0  # as in an engine that computes on the CPU
    file.write_text(f"1000 {5 * MS} 4\n")
    run.infer(20 * MS)
    run.end()
    message = run.heard.said[0][1]
    assert message["slept_ns"] == pytest.approx(15 * MS, rel=0.1)
    assert (message["waited_ns"], message["loop_major_faults"]) == (5 * MS, 0)


@pytest.mark.parametrize(
    ("others_ms", "cpus", "lacking_ms"),
    [(60, 4, 0), (20, 4, 32), (56, 4, 0), (20, 2, 6), (20, 1, 0)],
)
def test_others_that_run_less_than_usual_beside_the_loop_lack_time(others_ms: int, cpus: int, lacking_ms: int) -> None:
    """Two workers run beside the loop for all of 30 ms, as far as there are CPUs; a tick of the timer is left out."""
    beside = _Beside()
    for _ in range(3):
        assert beside.lacking(30 * MS, 60 * MS, cpus) == 0
    assert beside.lacking(30 * MS, others_ms * MS, cpus) == pytest.approx(lacking_ms * MS, abs=MS)


def test_a_worker_that_stands_still_while_the_loop_spins_lacks_time() -> None:
    """In a process of its own, whose main thread is the loop; the worker computes without Python's lock."""
    program = """if True:
        import hashlib, threading, time
        from edgetop.engines.child.slowest import Slowest

        class Outlet:
            said = []
            def send(self, kind, message):
                self.said.append(message)

        stands, data = threading.Event(), bytes(2_000_000)
        may_run = threading.Event()
        may_run.set()

        def work():
            while not stands.is_set():
                may_run.wait()
                hashlib.sha256(data).digest()

        def infer(ms, slowest):
            begin, spent = time.monotonic_ns(), time.thread_time_ns()
            while time.thread_time_ns() - spent < ms * 1_000_000:
                hashlib.sha256(data).digest()
            return slowest.note(begin, time.monotonic_ns())

        slowest = Slowest(Outlet())
        slowest._placement.cpus = lambda: 2
        worker = threading.Thread(target=work)
        worker.start()
        for _ in range(5):
            slowest.checkpoint(time.monotonic_ns())
            infer(50, slowest)
        may_run.clear()
        slowest.checkpoint(time.monotonic_ns())
        infer(200, slowest)
        stands.set()
        may_run.set()
        worker.join()
        slowest.close()
        print(Outlet.said[-1]["lacking_ns"] // 1_000_000, slowest._beside.ratio)
    """
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lacking_ms, ratio = map(float, printed.stdout.split())
    assert 0.3 * 200 * ratio < lacking_ms <= 200


def test_what_happened_in_a_pause_before_is_not_counted(tmp_path: Path) -> None:
    file = tmp_path / "schedstat"
    file.write_text("1000 0 3\n")
    run = Run(str(file))
    file.write_text(f"1000 {5 * MS} 4\n")
    run.now_ns = 100 * MS
    run.slowest.rested(run.now_ns)
    run.infer(20 * MS)
    run.end()
    message = run.heard.said[0][1]
    assert (message["waited_ns"], message["span_ns"]) == (0, 20 * MS)


def test_an_engine_that_always_rests_is_not_idle() -> None:
    run = Run()
    for _ in range(20):
        run.infer(20 * MS)
    assert max(idle_of(run)) < 2 * MS


def test_the_input_array_is_reported() -> None:
    heard = Heard()
    slowest = Slowest(heard, place=lambda: (3, 16))
    slowest.checkpoint(0)
    slowest.note(0, 20 * MS)
    slowest.close()
    assert (heard.said[0][1]["input"], heard.said[0][1]["inputs"]) == (3, 16)
