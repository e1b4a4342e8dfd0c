"""Tests see the same environment, whoever runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import plain_environment
from tests.support.commands import ROOT

HOSTILE = {
    "PYTHONPATH": "/nowhere", "PYTHONWARNINGS": "error", "PYTHONSAFEPATH": "1", "NO_COLOR": "1", "COLUMNS": "40",
    "LINES": "9", "LANG": "C", "LC_ALL": "POSIX", "TERM": "dumb", "XDG_CONFIG_HOME": "/nowhere",
    "XDG_STATE_HOME": "/nowhere", "XDG_RUNTIME_DIR": "/nowhere", "LD_PRELOAD": "", "OMP_NUM_THREADS": "1",
    "TMUX": "/nowhere,1,0", "SUDO_UID": "1",
}  # fmt: skip


def test_tests_see_the_callers_tools_and_nothing_that_changes_what_programs_do() -> None:
    own = {"PATH": "/bin", "HOME": "/home/anna", "https_proxy": "http://proxy", "PIP_INDEX_URL": "http://index"}
    assert plain_environment.plain(HOSTILE | own) == own | {"LANG": "C.UTF-8", "TERM": "xterm-256color"}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [pytest.param(0, marks=pytest.mark.thorough), 1])
def test_a_run_of_tests_has_that_environment(workers: int, tmp_path: Path) -> None:
    home = tmp_path / "home"  # which is not there: nobody can write to it, not even root
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, f"{__file__}::test_this_run")
    done = subprocess.run(
        [sys.executable, *map(str, options)], umask=0o077,
        cwd=ROOT, env={**os.environ, **HOSTILE, "HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not home.exists()


def test_this_run() -> None:
    before = os.umask(plain_environment.UMASK)
    assert before == plain_environment.UMASK
    assert {name for name in HOSTILE if os.environ.get(name, "/nowhere/") == HOSTILE[name]} == set()
    assert os.access(os.environ["HOME"], os.W_OK)
