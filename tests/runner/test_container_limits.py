"""The limits of a container: options of its runtime, and whether its cgroup has them."""

import os
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.runner.container_limits import limit_options, why_unlimited
from edgetop.runner.engine_limit import Limit
from edgetop.sensors.root import Root
from tests.support.trees import plant

MOUNT = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
HERE = frozenset(os.sched_getaffinity(0))
PID = os.getpid()
GROUP = "sys/fs/cgroup/libpod-1"
LIMIT = Limit(memory_bytes=64 * 2**20, quota_pct=50.0, io_bytes_per_s=10_000_000)


def machine(folder: Path, **files: str) -> Root:
    known = {
        f"proc/{PID}/cgroup": "0::/libpod-1\n",
        f"proc/{PID}/stat": f"{PID} (a) R 1\n",
        "proc/self/cgroup": "0::/desk\n",
        "proc/self/mountinfo": MOUNT,
        "sys/fs/cgroup/cgroup.controllers": "cpu io memory\n",
        "sys/block/vda/dev": "254:0\n",
        "sys/block/vda/device/model": "x\n",
        f"{GROUP}/memory.max": f"{64 * 2**20}\n",
        f"{GROUP}/cpu.max": "50000 100000\n",
        f"{GROUP}/io.max": "254:0 rbps=10000000 wbps=10000000 riops=max wiops=max\n",
    }
    plant(folder, known | {name.replace("__", "/"): text for name, text in files.items()})
    return Root(folder)


def test_each_limit_is_an_option(tmp_path: Path) -> None:
    options = list(limit_options(LIMIT, HERE, machine(tmp_path)))
    assert options == [
        "--memory=67108864", "--memory-swap=67108864", "--cpu-period=100000", "--cpu-quota=50000",
        "--device-read-bps=/dev/vda:10000000", "--device-write-bps=/dev/vda:10000000",
    ]  # fmt: skip


def test_disk_traffic_is_refused_where_only_a_part_of_it_can_be_limited(tmp_path: Path) -> None:
    root = machine(tmp_path, **{"sys/fs/cgroup/cgroup.controllers": "cpu memory\n"})
    with pytest.raises(InputError, match=r"no io\.max"):
        list(limit_options(LIMIT, HERE, root))


def test_limits_that_are_in_force_give_no_sentence(tmp_path: Path) -> None:
    assert why_unlimited(LIMIT, HERE, PID, machine(tmp_path)) == ""
    assert why_unlimited(Limit(cpus=1), HERE, PID, machine(tmp_path)) == ""


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("memory.max", "max\n", "its memory is not limited: its cgroup has max"),
        ("cpu.max", "max 100000\n", "its CPU time is not limited: its cgroup has max 100000"),
        ("io.max", "\n", "its disk traffic is not limited: its cgroup has no limit"),
    ],
)
def test_a_limit_that_is_not_in_force_is_named(tmp_path: Path, file: str, text: str, sentence: str) -> None:
    assert why_unlimited(LIMIT, HERE, PID, machine(tmp_path, **{f"{GROUP}/{file}": text})) == sentence


@pytest.mark.parametrize("stat", ["", f"{PID} (a) Z 1\n"], ids=["gone", "zombie"])
def test_a_process_that_has_ended_is_not_judged(tmp_path: Path, stat: str) -> None:
    """In version 1, it is in the root cgroup then."""
    files = {f"proc/{PID}/stat": stat, f"{GROUP}/memory.max": "max\n"}
    assert why_unlimited(LIMIT, HERE, PID, machine(tmp_path, **files)) == ""


def test_more_cpus_than_allowed_are_named(tmp_path: Path) -> None:
    assert "more CPUs" in why_unlimited(Limit(cpus=1), frozenset(), PID, machine(tmp_path))


def test_version_1_is_read_too(tmp_path: Path) -> None:
    mounts = "31 20 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    files = {f"proc/{PID}/cgroup": "2:memory:/libpod-1\n", "proc/self/mountinfo": mounts}
    limit = Limit(memory_bytes=64 * 2**20)
    there = {"sys/fs/cgroup/memory/libpod-1/memory.limit_in_bytes": "67108864\n"}
    assert why_unlimited(limit, HERE, PID, machine(tmp_path / "a", **files, **there)) == ""
    assert "has no limit" in why_unlimited(limit, HERE, PID, machine(tmp_path / "b", **files))
