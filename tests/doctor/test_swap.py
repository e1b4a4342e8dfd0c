"""Swap in use is a warning, memory that is nearly gone too."""

from pathlib import Path

import pytest

from edgetop.doctor import state_checks
from tests.support.facts import facts

MEMORY = "MemTotal: 8000000 kB\nMemAvailable: {available} kB\nSwapTotal: {total} kB\nSwapFree: {free} kB\n"


def judged(tree: Path, available: int = 6_000_000, total: int = 2_000_000, free: int = 2_000_000) -> list[str]:
    text = MEMORY.format(available=available, total=total, free=free)
    checks = state_checks.check_memory(facts(tree, {"proc/meminfo": text, "proc/sys/vm/swappiness": "60\n"}))
    return [check.status for check in checks]


def test_no_swap_and_unused_swap_are_ok(tmp_path: Path) -> None:
    assert judged(tmp_path) == ["ok", "ok"]
    assert judged(tmp_path, total=0, free=0) == ["ok", "ok"]


def test_used_swap_is_a_warning(tmp_path: Path) -> None:
    assert judged(tmp_path, free=1_000_000) == ["warning", "ok"]


def test_a_little_that_was_put_there_once_is_ok(tmp_path: Path) -> None:
    assert judged(tmp_path, free=1_990_000) == ["ok", "ok"]


def test_little_memory_is_a_warning(tmp_path: Path) -> None:
    assert judged(tmp_path, available=700_000) == ["ok", "warning"]


@pytest.mark.parametrize("text", ["", "garbage\n", "MemTotal: many kB\n"])
def test_what_meminfo_does_not_tell_is_unknown(tmp_path: Path, text: str) -> None:
    for check in state_checks.check_memory(facts(tmp_path, {"proc/meminfo": text})):
        assert check.found.startswith("unknown")
