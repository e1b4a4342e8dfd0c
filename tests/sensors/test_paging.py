"""Swap traffic and major faults: rates of counters, of the system and of the engine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import memory_sensors
from edgetop.sensors.counters import FIRST
from edgetop.sensors.memory_sensors import engine_faults, system_paging
from edgetop.sensors.process_table import parse_stat
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant


def vmstat(swapped_in: int, swapped_out: int, faults: int) -> dict[str, str]:
    lines = f"nr_free_pages 12\npswpin {swapped_in}\npswpout {swapped_out}\npgfault 9\npgmajfault {faults}\n"
    return {"proc/vmstat": lines}


def test_swap_traffic_and_faults_of_the_system_are_rates(tmp_path: Path) -> None:
    at_s = iter((100.0, 104.0))
    source = system_paging(plant(tmp_path, vmstat(10, 20, 30)), lambda: next(at_s))
    assert {type(value) for value in source.read()} == {Gap}
    plant(tmp_path, vmstat(14, 40, 30))
    assert [info.id for info in source.sensors] == ["rate/swap-in", "rate/swap-out", "rate/system-major-faults"]
    assert source.read() == [1.0, 5.0, 0.0]


def test_counters_that_leap_are_gaps(tmp_path: Path) -> None:
    """One of the system's, and the engine's."""
    cpu = {"proc/stat": "cpu0 0 0\ncpu1 0 0\n"}
    root = plant(tmp_path, vmstat(0, 0, 0) | cpu | {"proc/4711/stat": stat(0)})
    at_s = iter((0.0, 0.0, 1.0, 1.0))
    system, engine = system_paging(root, lambda: next(at_s)), engine_faults(4711, root=root, now=lambda: next(at_s))
    assert [*system.read(), *engine.read()] == [FIRST] * 4
    plant(tmp_path, vmstat(2**32, 4, 0) | {"proc/4711/stat": stat(10**9)})
    swapped, out, _ = system.read()
    (faults,) = engine.read()
    assert isinstance(swapped, Gap)
    assert out == 4.0
    assert isinstance(faults, Gap)


def test_a_counter_that_is_not_there_is_a_gap_of_its_own(tmp_path: Path) -> None:
    at_s = iter((100.0, 101.0))
    source = system_paging(plant(tmp_path, {"proc/vmstat": "pgmajfault 3\n"}), lambda: next(at_s))
    source.read()
    assert source.read() == [Gap("no pswpin in the file"), Gap("no pswpout in the file"), 0.0]


def test_no_vmstat_is_told_as_missing(tmp_path: Path) -> None:
    assert [missing.what for missing in memory_sensors.discover_paging(Root(tmp_path)).missing] == ["swap traffic"]


def stat(faults: object, command: str = "python3") -> str:
    return f"4711 ({command}) S 1 4711 4711 0 -1 4194560 900 77 {faults} 88 5 3 0 0 20 0 1 0 55\n"


@pytest.mark.parametrize("command", ["python3", "a b) S (", ") 1 2 3", ""])
def test_faults_are_found_behind_any_name_of_the_command(command: str) -> None:
    assert parse_stat(stat(12, command)).major_faults == 12


def test_faults_of_the_engine_are_a_rate(tmp_path: Path) -> None:
    at_s = iter((10.0, 10.5))
    source = engine_faults(4711, root=Root(tmp_path), now=lambda: next(at_s))
    plant(tmp_path, {"proc/4711/stat": stat(12)})
    assert isinstance(source.read()[0], Gap)
    plant(tmp_path, {"proc/4711/stat": stat(15)})
    assert source.read() == [6.0]


def test_faults_of_a_real_process_are_read() -> None:
    (source,) = memory_sensors.discover_engine_faults(os.getpid(), shares_process=True).sources
    source.read()
    (value,) = source.read()
    assert isinstance(value, float)
    assert value >= 0


def test_a_process_that_ended_has_no_faults_to_tell() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (source,) = memory_sensors.discover_engine_faults(process.pid, shares_process=False).sources
    with pytest.raises(FileNotFoundError):
        source.read()


ODD = st.sampled_from(("", "x", "-1", "9" * 400, "²", "1_0", "\0", "٣"))


@settings(deadline=None, max_examples=50)
@given(odd=ODD | st.text(max_size=20), whole=st.text(max_size=60))
def test_no_content_makes_up_a_value(tmp_path_factory: pytest.TempPathFactory, odd: str, whole: str) -> None:
    tree = tmp_path_factory.getbasetemp() / "paging"
    system = system_paging(plant(tree, {"proc/vmstat": f"pswpin {odd}\npswpout 1\npgmajfault {odd}\n"}))
    engine = engine_faults(1, root=Root(tree))
    for content in (stat(odd), whole):
        plant(tree, {"proc/1/stat": content})
        for source in (system, engine):
            values = read_source(source)
            if not isinstance(values, Gap):
                assert all(isinstance(value, Gap) or value >= 0 for value in values)
