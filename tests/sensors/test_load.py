"""CPU load: a difference of two readings, in percent of one core."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from edgetop.sensors import cpu_load
from edgetop.sensors.cpu_load import process_load
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap, Missing, Source, sensor
from tests.support.trees import plant
from tests.support.waiting import wait_until

TICKS = os.sysconf("SC_CLK_TCK")


def stat(*fields: int) -> dict[str, str]:
    return {"proc/stat": f"cpu  {' '.join(map(str, fields))}\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 12\n"}


def system(root: Root) -> Source:
    (source,) = cpu_load.discover(root).sources
    return source


def read_timed(source: Source) -> tuple[Sequence[float | Gap], float, float]:
    """The values, and the times between which they were read."""
    begin = time.monotonic()
    values = source.read()
    return values, begin, time.monotonic()


def test_the_systems_load_leaves_out_idle_and_iowait(tmp_path: Path) -> None:
    before = (100, 10, 50, 9000, 500, 5, 5, 20, 40, 4)
    # user nice system idle iowait irq softirq steal guest guest_nice; guest is in user already.
    after = tuple(x + dx for x, dx in zip(before, (40, 10, 20, 7000, 3000, 10, 20, 50, 40, 9), strict=True))
    times = iter([0.0, 2.0])
    (source,) = cpu_load.discover(plant(tmp_path, stat(*before)), lambda: next(times)).sources
    first = source.read()
    plant(tmp_path, stat(*after))
    assert [type(value) for value in first] == [Gap, Gap]
    assert source.read() == pytest.approx([100 * 100 / TICKS / 2, 100 * 50 / TICKS / 2])


def test_a_system_counter_that_went_back_is_a_gap_of_its_own(tmp_path: Path) -> None:
    times = iter([0.0, 2.0])
    root = plant(tmp_path, stat(100, 0, 0, 0, 0, 0, 0, 50))
    (source,) = cpu_load.discover(root, lambda: next(times)).sources
    source.read()
    plant(tmp_path, stat(200, 0, 0, 0, 0, 0, 0, 40))
    busy, steal = source.read()
    assert isinstance(busy, float)
    assert steal == Gap("the counter went back")


@pytest.mark.parametrize(
    "content", ["", "\n", "cpu", "cpu  1 2 3 4 5 6 7\n", "cpu  1 2 3 4 5 6 7 x\n", "cpu0 1 2 3 4 5 6 7 8\n",
                "intr 1 2 3 4 5 6 7 8\n", f"cpu {'9' * 400} 2 3 4 5 6 7 8\n"],
)  # fmt: skip
def test_a_stat_file_without_a_whole_cpu_line_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError):
        system(plant(tmp_path, {"proc/stat": content})).read()


def test_no_stat_is_told_as_missing(tmp_path: Path) -> None:
    assert [missing.what for missing in cpu_load.discover(Root(tmp_path)).missing] == ["system load"]


def cpu_s(pid: int) -> float:
    return sum(psutil.Process(pid).cpu_times()[:2])


@pytest.mark.slow
def test_a_busy_process_is_told_from_an_idle_one() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    idle = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        loads = {
            process: cpu_load.discover_engine(process.pid, shares_process=False).sources[0] for process in (busy, idle)
        }
        wait_until(lambda: cpu_s(busy.pid) > 0.2)  # past the start of the interpreters
        for source in loads.values():
            source.read()
        before = cpu_s(busy.pid)
        wait_until(lambda: cpu_s(busy.pid) > before + 0.2)
        (high,), (low,) = loads[busy].read(), loads[idle].read()
    finally:
        for process in (busy, idle):
            process.kill()
            process.wait()
    assert isinstance(high, float)
    assert isinstance(low, float)
    assert low < high
    assert high > 5


def test_a_process_that_ended_is_a_gap() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    engine, _ = cpu_load.discover_engine(process.pid, shares_process=False).sources
    engine.read()
    process.kill()
    process.wait()
    assert engine.read() == [Gap("the process is gone")]


def test_a_process_that_ended_at_once_is_missing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    found = cpu_load.discover_engine(process.pid, shares_process=False)
    assert [source.name for source in found.sources] == ["load/edgetop"]
    assert found.missing == (Missing("load/engine", "the process is gone"),)


def test_process_time_is_a_share_of_the_clock() -> None:
    spent, times = iter((1.0, 1.5, 1e9)), iter((10.0, 12.0, 13.0))
    source = process_load(sensor("load", "engine", "here"), lambda: next(spent), lambda: next(times))
    source.read()
    assert source.read() == [25.0]
    (leap,) = source.read()
    assert isinstance(leap, Gap)
    assert "leapt" in leap.reason


def test_an_engine_within_edgetop_is_told_apart_and_says_how() -> None:
    engine, own = cpu_load.discover_engine(os.getpid(), shares_process=True).sources
    assert [engine.sensors[0].id, own.sensors[0].id] == ["load/engine", "load/edgetop"]
    assert engine.sensors[0].note == own.sensors[0].note
    assert "threads" in str(engine.sensors[0].note)


@pytest.mark.parametrize("leap", [766_654_662, 10**9])
def test_a_counter_that_leaps_is_a_gap_and_the_next_rate_is_right(tmp_path: Path, leap: int) -> None:
    """The steal counter of some guests leaps."""
    times = iter([0.0, 1.0, 2.0])
    (source,) = cpu_load.discover(plant(tmp_path, stat(0, 0, 0, 0, 0, 0, 0, 0)), lambda: next(times)).sources
    source.read()
    plant(tmp_path, stat(TICKS // 2, 0, 0, 0, 0, 0, 0, leap))
    busy, steal = source.read()
    assert busy == pytest.approx(50.0)
    assert isinstance(steal, Gap)
    assert "leapt" in steal.reason
    plant(tmp_path, stat(TICKS // 2 + leap, 0, 0, 0, 0, 0, 0, leap + TICKS // 4))
    busy, steal = source.read()
    assert isinstance(busy, Gap)
    assert steal == pytest.approx(25.0)


def test_a_load_is_at_most_that_of_all_cpus(tmp_path: Path) -> None:
    times = iter([0.0, 1.0])
    (source,) = cpu_load.discover(plant(tmp_path, stat(0, 0, 0, 0, 0, 0, 0, 0)), lambda: next(times)).sources
    source.read()
    plant(tmp_path, stat(TICKS + 2, 0, 0, 0, 0, 0, 0, 0))
    assert source.read() == [100.0, 0.0]
