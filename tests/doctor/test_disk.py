"""The disk of the recordings: how long a flush takes, how much room there is, and nothing left behind."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from edgetop.doctor import machine_checks
from edgetop.doctor.machine_checks import BLOCK, Disk
from tests.support.facts import facts

GOOD = Disk(Path("/rec"), "ext4", 50 << 30, (0.002, 0.003, 0.02))


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "ok"),
        ({"free_bytes": 500 << 20}, "warning"),
        ({"free_bytes": 50 << 20}, "problem"),
        ({"flush_s": (0.2, 0.2, 0.2)}, "warning"),
        ({"flush_s": (2.0,)}, "problem"),
        ({"flush_s": (0.001, 0.001, 2.0)}, "ok"),
        ({"file_system": "tmpfs"}, "warning"),
        ({"file_system": "tmpfs", "free_bytes": 50 << 20}, "problem"),
        ({"file_system": "nfs4"}, "warning"),
        ({"file_system": None}, "ok"),
    ],
)
def test_how_a_disk_is_judged(changes: dict[str, object], status: str) -> None:
    assert machine_checks.judge_disk(replace(GOOD, **changes)).status == status  # type: ignore[arg-type]


def test_the_probe_is_bounded_and_leaves_nothing(tmp_path: Path) -> None:
    found = machine_checks.measure(tmp_path, "ext4")
    assert 1 <= len(found.flush_s) <= 10
    assert all(seconds > 0 for seconds in found.flush_s)
    assert list(tmp_path.iterdir()) == []


def test_a_slow_disk_is_not_asked_again_and_again(tmp_path: Path) -> None:
    clock = itertools.count(0.0, 1.5)
    found = machine_checks.measure(tmp_path, None, now_s=lambda: next(clock))
    assert found.flush_s == (1.5, 1.5)


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    mountinfo = {"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda rw\n"}
    (check,) = machine_checks.check_disk(facts(tmp_path / "tree", mountinfo, recordings=tmp_path / "state/edgetop"))
    assert check.found.startswith(f"{tmp_path} (ext4)")
    assert not (tmp_path / "state").exists()


def test_a_folder_that_cannot_be_looked_at_is_judged_by_the_one_above(tmp_path: Path) -> None:
    """As below the home of another user. Root may look there, but for no name this long."""
    mountinfo = {"proc/self/mountinfo": "1 0 8:1 / / rw - ext4 /dev/sda rw\n"}
    (check,) = machine_checks.check_disk(
        facts(tmp_path / "tree", mountinfo, recordings=tmp_path / ("n" * 300) / "edgetop")
    )
    assert check.found.startswith(f"{tmp_path} (ext4)")


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    mountinfo = {"proc/self/mountinfo": ""}
    (check,) = machine_checks.check_disk(facts(tmp_path, mountinfo, recordings=Path("/proc/self")))
    assert check.status == "problem"
    assert "cannot be written" in check.found


def test_the_file_system_is_that_of_the_mount_below_all_others(tmp_path: Path) -> None:
    inner = tmp_path / "a b"
    inner.mkdir()
    lines = [
        "1 0 8:1 / / rw - ext4 /dev/sda rw",
        f"2 1 0:5 / {str(inner).replace(' ', chr(92) + '040')} rw shared:3 - tmpfs tmpfs rw",
        "3 1 0:6 / /elsewhere rw - nfs4 host:/ rw",
        "garbage",
    ]
    assert machine_checks.file_system(inner, "\n".join(lines)) == "tmpfs"
    assert machine_checks.file_system(inner, "\n".join(reversed(lines))) == "tmpfs"
    assert machine_checks.file_system(tmp_path, "\n".join(lines)) == "ext4"
    assert machine_checks.file_system(tmp_path, "") is None


def test_a_block_is_what_the_journal_writes_at_a_time() -> None:
    assert len(BLOCK) * 10 <= 1 << 20
