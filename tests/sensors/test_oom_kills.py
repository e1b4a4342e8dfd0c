"""Which processes the OOM killer has killed in a cgroup, by its files and the kernel's log."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.sensors.oom_kills import OomKill, OomKills

# As Linux 6.18 prints them, with the path of the cgroup as its log has it.
CONSTRAINT = (
    "6,700,9000,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/up/{group},task_memcg=/up/{group},task=py,pid={pid},uid=0\n"
)
KILLED = (
    "3,701,9001,-;Memory cgroup out of memory: Killed process {pid} (py (x)) total-vm:200000kB, anon-rss:80000kB, "
    "file-rss:1920kB, shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0\n SUBSYSTEM=x;y\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    group = tmp_path / "edgetop-1-0"
    group.mkdir()
    (group / "memory.events").write_text("max 3\noom_kill 0\n")
    (group / "cgroup.procs").write_text("")
    return group


@pytest.fixture
def log(tmp_path: Path) -> Iterator[int]:
    """The writing end of a log whose records are read once, as those of /dev/kmsg."""
    os.mkfifo(tmp_path / "kmsg")
    reader = os.open(tmp_path / "kmsg", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "kmsg", os.O_WRONLY)
    yield writer
    os.close(writer)
    os.close(reader)


def killed(folder: Path, count: int) -> None:
    (folder / "memory.events").write_text(f"max 9\noom_kill {count}\n")


def record(log: int, pid: int, group: str = "edgetop-1-0") -> None:
    os.write(log, (CONSTRAINT.format(pid=pid, group=group) + KILLED.format(pid=pid)).encode())


def test_name_and_size_are_those_of_the_log(folder: Path, log: int, tmp_path: Path) -> None:
    kills = OomKills(folder, "memory.events", tmp_path / "kmsg", tmp_path)
    assert kills.new() == []
    record(log, 11, "another")
    record(log, 12)
    killed(folder, 1)
    assert kills.new() == [OomKill(12, "py (x)", 81920 * 1024)]
    assert kills.new() == []
    kills.close()


def living(tmp_path: Path, folder: Path, *pids: int) -> None:
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    for pid in pids:
        (tmp_path / str(pid)).mkdir(exist_ok=True)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (app{pid}) S 1 7 7 0 -1 0 9 0 1 0 5 3 0 0 20 0 1 0 47 0")


def test_without_a_log_it_is_the_process_that_went(folder: Path, tmp_path: Path) -> None:
    kills = OomKills(folder, "memory.events", tmp_path / "absent", tmp_path)
    living(tmp_path, folder, 4_000_011, 4_000_012)
    assert kills.new() == []
    living(tmp_path, folder, 4_000_012)
    killed(folder, 1)
    assert kills.new() == [OomKill(4_000_011, "app4000011", 0, is_exact=False)]
    killed(folder, 3)
    assert kills.new() == [OomKill(None, None, None, is_exact=False)]


def test_a_kernel_that_does_not_count_kills_reports_none(folder: Path, tmp_path: Path) -> None:
    (folder / "memory.events").write_text("max 3\n")
    kills = OomKills(folder, "memory.events", tmp_path / "absent", tmp_path)
    assert kills.new() == []
    (folder / "memory.events").unlink()
    assert kills.new() == []
