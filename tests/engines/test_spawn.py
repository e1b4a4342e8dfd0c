"""How a process ended, in words that say what is known and no more."""

import signal
from pathlib import Path

import pytest

from edgetop.engines.spawn import OomWatch, explain_exit


def vmstat(path: Path, kills: int | str) -> Path:
    path.write_text(f"nr_free_pages 12\noom_kill_other 99\noom_kill {kills}\npgfault 7\n")
    return path


@pytest.fixture
def nothing_seen(tmp_path: Path) -> OomWatch:
    return OomWatch(vmstat(tmp_path / "vmstat", 3))


def test_the_oom_killer_struck_when_its_count_rose(tmp_path: Path) -> None:
    path = vmstat(tmp_path / "vmstat", 3)
    oom_watch = OomWatch(path)
    assert not oom_watch.struck()
    vmstat(path, 4)
    assert oom_watch.struck()
    assert "out of memory" in explain_exit(-signal.SIGKILL, oom_watch)


@pytest.mark.parametrize("before", ["none", "garbage"])
def test_without_a_count_nobody_is_accused(before: str, tmp_path: Path) -> None:
    path = tmp_path / "vmstat"
    if before == "garbage":
        vmstat(path, "many")
    oom_watch = OomWatch(path)
    vmstat(path, 4)
    assert not oom_watch.struck()


def test_a_count_that_went_away_accuses_nobody(tmp_path: Path) -> None:
    path = vmstat(tmp_path / "vmstat", 3)
    oom_watch = OomWatch(path)
    path.unlink()
    assert not oom_watch.struck()


@pytest.mark.parametrize("status", [0, 1, 3])
def test_an_exit_of_its_own_is_told_with_its_status(status: int, nothing_seen: OomWatch) -> None:
    assert explain_exit(status, nothing_seen) == f"it ended by itself with exit status {status}"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, "killed by SIGKILL (not by the kernel's OOM killer)"),
        (signal.SIGSEGV, "killed by SIGSEGV (it crashed in native code)"),
        (signal.SIGILL, "killed by SIGILL (an instruction this CPU has not"),
        (signal.SIGABRT, "killed by SIGABRT (the runtime gave up"),
        (signal.SIGBUS, "killed by SIGBUS (it crashed in native code, or"),
        (signal.SIGTERM, "killed by SIGTERM"),
        (signal.SIGRTMIN + 3, f"killed by signal {signal.SIGRTMIN + 3}"),
    ],
)
def test_a_signal_is_told_by_its_name_and_what_it_means(number: int, said: str, nothing_seen: OomWatch) -> None:
    assert explain_exit(-number, nothing_seen).startswith(said)


def test_who_may_have_no_more_memory_died_at_its_limit(tmp_path: Path) -> None:
    path = vmstat(tmp_path / "vmstat", 3)
    oom_watch = OomWatch(path, limit=30 * 2**20)
    assert not oom_watch.limit_struck(-signal.SIGKILL)
    assert explain_exit(-signal.SIGKILL, oom_watch) == "killed by SIGKILL (not by the kernel's OOM killer)"
    vmstat(path, 4)
    assert oom_watch.limit_struck(-signal.SIGKILL)
    assert not oom_watch.limit_struck(-signal.SIGSEGV)
    told = "out of memory at its limit of 30 MiB (SIGKILL of the kernel's OOM killer)"
    assert explain_exit(-signal.SIGKILL, oom_watch) == told
