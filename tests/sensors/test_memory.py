"""Memory: of a real process, of edgetop itself, of the system."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgetop.sensors import memory_sensors
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Source
from tests.support.trees import plant

pytestmark = pytest.mark.slow

HOLDS_MIB = 40


@contextmanager
def process_that_holds_memory() -> Iterator[int]:
    script = f"import sys; held = bytearray(b'x') * ({HOLDS_MIB} << 20); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == "ready\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def values(found: Found) -> dict[str, float | Gap]:
    return {
        info.id: value for source in found.sources for info, value in zip(source.sensors, source.read(), strict=True)
    }


def named(found: Found, name: str) -> Source:
    (source,) = (source for source in found.sources if source.name == name)
    return source


def test_the_memory_of_a_real_process_is_read() -> None:
    with process_that_holds_memory() as pid:
        read = values(memory_sensors.discover_engine(pid, shares_process=False))
    mib = {sensor: value for sensor, value in read.items() if isinstance(value, float)}
    parts = {"mem/rss-anon", "mem/rss-file", "mem/rss-shmem"}
    assert set(mib) == {"mem/rss", "mem/rss-peak", "mem/swap", "mem/pss", "mem/uss", "mem/edgetop", *parts}
    assert sum(mib[part] for part in parts) == mib["mem/rss"]
    assert mib["mem/rss-anon"] > HOLDS_MIB > mib["mem/rss-shmem"]
    assert HOLDS_MIB < mib["mem/rss"] <= mib["mem/rss-peak"] < HOLDS_MIB + 100
    assert HOLDS_MIB < mib["mem/uss"] <= mib["mem/pss"] <= mib["mem/rss"]


def test_the_engine_is_not_counted_as_edgetops_own_memory() -> None:
    with process_that_holds_memory() as pid:
        (without,) = named(memory_sensors.discover_engine(pid, shares_process=False), "edgetop memory").read()
        (including,) = memory_sensors.own_memory(engine_pid=None).read()
    assert isinstance(without, float)
    assert isinstance(including, float)
    assert including - without > HOLDS_MIB


def test_the_children_of_children_are_counted() -> None:
    grandchild = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"
    with subprocess.Popen(
        [sys.executable, "-c", grandchild], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        assert process.pid in memory_sensors.listed_children(os.getpid())
        (inner,) = memory_sensors.listed_children(process.pid)
        assert memory_sensors.searched_children(process.pid) == [inner]
        resident = memory_sensors.resident_bytes(process.pid) + memory_sensors.resident_bytes(inner)
        (including,) = memory_sensors.own_memory(engine_pid=None).read()
        (without,) = memory_sensors.own_memory(engine_pid=process.pid).read()
        assert resident > 10 << 20
        assert including - without == pytest.approx(resident / (1 << 20), abs=3.0)
        process.communicate("\n")
    assert memory_sensors.resident_bytes(inner) == 0
    assert memory_sensors.listed_children(process.pid) == memory_sensors.searched_children(process.pid) == []


def test_a_process_that_ended_is_a_gap_and_never_nothing() -> None:
    with process_that_holds_memory() as pid:
        found = memory_sensors.discover_engine(pid, shares_process=False)
    for name in ("engine memory", "engine memory share"):
        with pytest.raises(OSError):
            named(found, name).read()


def test_a_dead_unreaped_process_has_no_memory_and_not_zero() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    read = named(memory_sensors.discover_engine(process.pid, shares_process=False), "engine memory").read()
    process.wait()
    assert {type(value) for value in read} == {Gap}


def test_without_a_rollup_only_the_share_is_missing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    found = memory_sensors.discover_engine(process.pid, shares_process=False)
    assert [missing.what for missing in found.missing] == ["mem/pss, mem/uss"]
    assert [source.name for source in found.sources] == ["engine memory", "edgetop memory"]


def test_an_engine_within_edgetop_says_whose_memory_it_shows() -> None:
    found = memory_sensors.discover_engine(os.getpid(), shares_process=True)
    assert "mem/edgetop" not in values(found)
    assert all("edgetop's own memory included" in str(info.note) for s in found.sources for info in s.sensors)


def test_what_is_unique_is_clean_and_dirty_together() -> None:
    assert memory_sensors.unique_mib({"Private_Clean": 1024, "Private_Dirty": 512}) == 1.5


@pytest.mark.parametrize("fields", [{}, {"Private_Clean": 1024}, {"Private_Dirty": 1024}])
def test_what_is_unique_is_not_invented_from_half_of_it(fields: dict[str, int]) -> None:
    assert isinstance(memory_sensors.unique_mib(fields), Gap)


def test_the_memory_the_system_has_left_is_read(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/meminfo": "MemTotal:        8257536 kB\nMemAvailable:    6433280 kB\n"})
    assert values(memory_sensors.discover(root)) == {"mem/system-available": 6282.5}


@pytest.mark.parametrize(
    ("total", "free", "told"),
    [(2_029_576, 1_833_992, 191.0), (0, 0, 0.0), (8, 8, 0.0)],
    ids=["some", "no swap", "none"],
)
def test_the_swap_in_use_is_what_is_not_free(tmp_path: Path, total: int, free: int, told: float) -> None:
    """191 of 1982 MB, as tegrastats says on a Nano."""
    meminfo = f"MemAvailable: 6433280 kB\nSwapCached: 5132 kB\nSwapTotal: {total} kB\nSwapFree: {free} kB\n"
    assert values(memory_sensors.discover(plant(tmp_path, {"proc/meminfo": meminfo})))["mem/system-swap"] == told


def test_swap_with_more_free_than_there_is_is_a_gap(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/meminfo": "MemAvailable: 64 kB\nSwapTotal: 8 kB\nSwapFree: 12 kB\n"})
    assert isinstance(values(memory_sensors.discover(root))["mem/system-swap"], Gap)


def test_swap_that_meminfo_does_not_tell_is_no_sensor(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/meminfo": "MemAvailable: 64 kB\nSwapTotal: 8 kB\n"})
    assert "mem/system-swap" not in values(memory_sensors.discover(root))


@pytest.mark.parametrize(
    "content",
    ["", "MemFree: 12 kB\n", "MemAvailable: -5 kB\n", "MemAvailable: ² kB\n", f"MemAvailable: {'9' * 400} kB\n"],
)
def test_a_meminfo_without_the_figure_is_a_gap(tmp_path: Path, content: str) -> None:
    (value,) = values(memory_sensors.discover(plant(tmp_path, {"proc/meminfo": content}))).values()
    assert isinstance(value, Gap)
    assert "MemAvailable" in value.reason


def test_no_meminfo_is_told_as_missing(tmp_path: Path) -> None:
    assert [missing.what for missing in memory_sensors.discover(Root(tmp_path)).missing] == ["system memory"]


def test_more_available_memory_than_there_is_is_a_gap(tmp_path: Path) -> None:
    """A broken lxcfs gives such a file."""
    root = plant(tmp_path, {"proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 2097152 kB\n"})
    (value,) = values(memory_sensors.discover(root)).values()
    assert value == Gap("MemAvailable is above MemTotal: 2048 of 1024 MiB")
