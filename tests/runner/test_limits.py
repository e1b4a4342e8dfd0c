"""Limits of the engine: which cgroup is made for it, with what in it, and that it goes again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.runner.cgroup_limits import Enclosure, enclosed
from edgetop.runner.engine_limit import Limit, joined, limit_of, refuse_unlimiting
from edgetop.sensors.root import Root
from tests.support.trees import plant
from tests.support.waiting import wait_until

MIB = 2**20
V2_MOUNT = "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1_MOUNTS = "".join(f"38 32 0:33 / /sys/fs/cgroup/{c} rw - cgroup cgroup rw,{c}\n" for c in ("memory", "cpu"))
GROUPS = "sys/fs/cgroup"
BOTH = Limit(memory_bytes=512 * MIB, quota_pct=150, period_us=10_000)


def v2(tmp_path: Path, enabled_in_own: str = "", enabled_above: str = "cpu memory") -> Root:
    """edgetop is in /a/b."""
    return plant(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": V2_MOUNT,
            f"{GROUPS}/cgroup.controllers": "cpuset cpu io memory pids\n",
            f"{GROUPS}/a/cgroup.subtree_control": f"{enabled_above}\n",
            f"{GROUPS}/a/b/cgroup.subtree_control": f"{enabled_in_own}\n",
        },
    )


def v1(tmp_path: Path) -> Root:
    """edgetop is in /x of memory, and at the top of cpu; version 2 has no controller."""
    files = {
        "proc/self/cgroup": "4:memory:/x\n1:cpu:/\n0::/\n",
        "proc/self/mountinfo": V1_MOUNTS + V2_MOUNT.replace("/cgroup rw", "/cgroup/unified rw"),
        f"{GROUPS}/unified/cgroup.controllers": "hugetlb\n",
        f"{GROUPS}/memory/x/tasks": "",
    }
    root = plant(tmp_path, files)
    (tmp_path / GROUPS / "cpu").mkdir()
    return root


def made(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / GROUPS).rglob("edgetop-*"))


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def emptied(*folders: Path) -> None:
    """As the kernel does: a cgroup's files never keep it from being removed."""
    for folder in folders:
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()


def run_in(enclosure: Enclosure) -> int:
    """The process id of a command that was started there."""
    done = subprocess.run([*enclosure.prefix, "sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_without_a_limit_of_memory_or_time_nothing_is_made(tmp_path: Path) -> None:
    with enclosed(Limit(cpus=2), Root(tmp_path)) as enclosure:
        assert enclosure == Enclosure()


@pytest.mark.slow
def test_version_2_below_its_own_group_where_that_is_allowed(tmp_path: Path) -> None:
    root = v2(tmp_path, enabled_in_own="cpu memory")
    with enclosed(BOTH, root) as enclosure:
        (folder,) = made(tmp_path)
        assert (enclosure.way, folder.parent.name) == ("cgroup v2", "b")
        pid = run_in(enclosure)
        limits = {"memory.max": str(512 * MIB), "memory.swap.max": "0", "cpu.max": "15000 10000"}
        assert content(folder) == {**limits, "cgroup.procs": f"{pid}\n"}
        emptied(folder)
    assert made(tmp_path) == []


@pytest.mark.slow
def test_version_2_beside_its_own_group_if_none_fits_below(tmp_path: Path) -> None:
    root = v2(tmp_path)
    own = tmp_path / GROUPS / "a/b/cgroup.subtree_control"
    own.unlink()
    own.mkdir()  # a write fails, as of a group with processes in it
    with enclosed(Limit(memory_bytes=MIB), root):
        (folder,) = made(tmp_path)
        assert folder.parent.name == "a"
        assert "cpu.max" not in content(folder)
        emptied(folder)


@pytest.mark.slow
def test_version_2_enables_what_is_not_enabled(tmp_path: Path) -> None:
    root = v2(tmp_path, enabled_in_own="pids")
    with enclosed(BOTH, root):
        assert (tmp_path / GROUPS / "a/b/cgroup.subtree_control").read_text() == "+cpu +memory"
        emptied(*made(tmp_path))


@pytest.mark.slow
def test_version_1_has_a_group_for_each_controller(tmp_path: Path) -> None:
    with enclosed(BOTH, v1(tmp_path)) as enclosure:
        cpu, memory = made(tmp_path)
        assert enclosure.way == "cgroup v1"
        assert (cpu.parent.name, memory.parent.name) == ("cpu", "x")
        pid = run_in(enclosure)
        assert content(cpu) == {
            "cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "15000", "cgroup.procs": f"{pid}\n"
        }  # fmt: skip
        assert content(memory) == {
            "memory.limit_in_bytes": str(512 * MIB), "memory.memsw.limit_in_bytes": str(512 * MIB),
            "memory.swappiness": "0", "cgroup.procs": f"{pid}\n",
        }  # fmt: skip
        emptied(cpu, memory)
    assert made(tmp_path) == []


@pytest.mark.slow
def test_only_a_killed_edgetops_groups_are_removed(tmp_path: Path) -> None:
    root = v2(tmp_path, enabled_in_own="cpu memory")
    above = tmp_path / GROUPS / "edgetop-999999-7"
    above.mkdir()
    left, living = (tmp_path / GROUPS / f"a/b/edgetop-{pid}-0" for pid in (999_999, 4711))
    for folder in (left, living, tmp_path / "proc/4711"):
        folder.mkdir()
    with enclosed(BOTH, root):
        assert not left.exists()
        assert not above.exists()
        emptied(*made(tmp_path))
    assert made(tmp_path) == [living]


REFUSED = {
    "no cgroups": {"proc/self/cgroup": "", "proc/self/mountinfo": ""},
    "no such controller": {
        "proc/self/cgroup": "0::/\n", "proc/self/mountinfo": V2_MOUNT, f"{GROUPS}/cgroup.controllers": "pids\n"
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_where_none_can_be_made_the_error_says_what_helps(case: str, tmp_path: Path) -> None:
    root = plant(tmp_path, REFUSED[case])
    with pytest.raises(InputError, match=r"no cgroup can be made here that limits (cpu|memory).*\((run|docker)"):
        enclosed(BOTH, root).__enter__()
    assert made(tmp_path) == []


@pytest.mark.slow
def test_one_that_cannot_be_entered_is_refused_and_removed(tmp_path: Path) -> None:
    root = v1(tmp_path)
    (tmp_path / GROUPS / "cpu").rmdir()  # after memory there is none for cpu
    with pytest.raises(InputError, match="limits cpu"):
        enclosed(Limit(quota_pct=50), root).__enter__()
    assert made(tmp_path) == []


SYSTEMD_RUN = """#!/bin/sh
echo "$@" >> {log}
for last; do :; done
case "$last" in
memory.max) echo {memory} ;;
cpu.max) echo 15000 10000 ;;
esac
"""


def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: object) -> Root:
    """A machine that systemd runs; what its scopes allow is printed by a program in the place of systemd-run."""
    program = tmp_path / "bin/systemd-run"
    plant(tmp_path, {"bin/systemd-run": SYSTEMD_RUN.format(log=tmp_path / "asked", memory=memory)})
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return plant(tmp_path, {"run/systemd/system/x": "", "proc/self/cgroup": "", "proc/self/mountinfo": ""})


@pytest.mark.slow
def test_where_systemd_runs_the_machine_it_is_a_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = systemd(tmp_path, monkeypatch, 512 * MIB)
    with enclosed(BOTH, root) as enclosure:
        assert enclosure.way == "systemd scope"
    asked = " ".join(enclosure.prefix[1:])
    assert "--scope --quiet --collect" in asked
    assert ("--user" in asked) == (os.geteuid() != 0)
    for each in (f"MemoryMax={512 * MIB}", "MemorySwapMax=0", "CPUQuota=150%", "CPUQuotaPeriodSec=10000us"):
        assert f"-p {each}" in asked


@pytest.mark.slow
def test_a_scope_whose_limit_is_not_in_force_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = systemd(tmp_path, monkeypatch, "max")
    with pytest.raises(InputError, match="no cgroup can be made"):
        enclosed(BOTH, root).__enter__()


DISK = {"sys/block/vda/dev": "254:0\n", "sys/block/vda/device/x": "", "sys/block/loop0/dev": "7:0\n"}
IO = Limit(io_bytes_per_s=10 * MIB)


@pytest.mark.slow
def test_disk_traffic_is_limited_for_each_whole_disk(tmp_path: Path) -> None:
    root = v2(tmp_path, enabled_in_own="io")
    plant(tmp_path, DISK)
    with enclosed(IO, root):
        (folder,) = made(tmp_path)
        assert (folder / "io.max").read_text() == f"254:0 rbps={10 * MIB} wbps={10 * MIB}"
        emptied(folder)


def test_disk_traffic_without_io_max_or_without_a_disk_is_refused(tmp_path: Path) -> None:
    root = v1(tmp_path)
    with pytest.raises(InputError, match="no disk whose traffic"):
        enclosed(IO, root).__enter__()
    plant(tmp_path, DISK)
    with pytest.raises(InputError, match=r"have no io\.max"):
        enclosed(IO, root).__enter__()
    assert made(tmp_path) == []


@pytest.mark.slow
def test_swap_that_was_asked_for_is_allowed(tmp_path: Path) -> None:
    with enclosed(Limit(memory_bytes=MIB, swap_bytes=2 * MIB), v2(tmp_path, enabled_in_own="memory")):
        (folder,) = made(tmp_path)
        assert (folder / "memory.swap.max").read_text() == str(2 * MIB)
        emptied(folder)
    with enclosed(Limit(memory_bytes=MIB, swap_bytes=2 * MIB), v1(tmp_path / "1")):
        (folder,) = made(tmp_path / "1")
        assert (folder / "memory.memsw.limit_in_bytes").read_text() == str(3 * MIB)
        assert not (folder / "memory.swappiness").exists()
        emptied(folder)


@pytest.mark.slow
def test_cgroups_that_the_program_made_in_it_are_removed_too(tmp_path: Path) -> None:
    with enclosed(Limit(memory_bytes=MIB), v2(tmp_path, enabled_in_own="memory")):
        (folder,) = made(tmp_path)
        emptied(folder)
        (folder / "a b/c").mkdir(parents=True)
        (folder / "d").mkdir()
    assert made(tmp_path) == []


KILLED_INSIDE = """
import os, signal, sys
from pathlib import Path
from edgetop.runner.cgroup_limits import enclosed
from edgetop.runner.engine_limit import Limit
from edgetop.sensors.root import Root
with enclosed(Limit(memory_bytes=2**20), Root(Path(sys.argv[1]))):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_the_cgroup_of_a_killed_edgetop_is_removed_once_it_is_empty(tmp_path: Path) -> None:
    root = v2(tmp_path, enabled_in_own="memory")
    assert subprocess.run([sys.executable, "-c", KILLED_INSIDE, str(tmp_path)], check=False).returncode == -9
    (folder,) = made(tmp_path)  # its files keep it, as a process would
    (folder / "a b/c").mkdir(parents=True)
    emptied(folder)
    wait_until(lambda: not made(tmp_path))
    assert root.exists("proc/self/cgroup")


def test_several_limits_are_one() -> None:
    assert joined([{"cpus": 2}, {"memory_bytes": 7}]) == Limit(cpus=2, memory_bytes=7)
    with pytest.raises(ValueError, match="memory is limited twice"):
        joined([{"memory_bytes": 7}, {"memory_bytes": 8}])


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (Limit(memory_bytes=2**30 + 1), "memory: 1,024 MiB limits nothing, because this machine has 1,024 MiB"),
        (Limit(quota_pct=401), "quota: 401% limits nothing, because this machine has 4 CPUs"),
    ],
)
def test_a_limit_above_what_the_machine_has_is_refused(limit: Limit, said: str) -> None:
    with pytest.raises(InputError, match=said):
        refuse_unlimiting(limit, 2**30, 4)


def test_a_limit_of_all_that_the_machine_has_is_one() -> None:
    refuse_unlimiting(Limit(memory_bytes=2**30, quota_pct=400), 2**30, 4)
    with pytest.raises(InputError, match="limits nothing"):
        limit_of([{"memory_bytes": 99 * 2**40}])
