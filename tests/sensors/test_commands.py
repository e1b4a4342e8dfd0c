"""A board's commands: run where they are, read where they were captured, and never waited for without end."""

import os
from pathlib import Path

import pytest

from edgetop.sensors.root import Output, Root, run_command
from tests.support.trees import plant

HOST = Root()


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is searched first for commands."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def write_command(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_what_a_command_prints_and_how_it_ends(on_path: Path) -> None:
    write_command(on_path, "vcgencmd", 'echo "throttled=0x0 $*"; echo noise >&2; exit 3')
    assert run_command(HOST, "vcgencmd", "get_throttled") == Output("throttled=0x0 get_throttled", 3)


def test_a_command_that_hangs_is_ended(on_path: Path) -> None:
    write_command(on_path, "vcgencmd", "sleep 1000; echo late")  # its own child holds the pipe too
    with pytest.raises(TimeoutError, match=r"vcgencmd did not answer within 0\.05 s"):
        run_command(HOST, "vcgencmd", timeout_s=0.05)


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        run_command(HOST, "edgetop-has-no-such-command")


def test_a_captured_board_answers_from_its_files(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "commands/vcgencmd_get_throttled": "throttled=0x50000\n",
            "commands/vcgencmd_pmic_read_adc": "error=1\n",
            "commands/vcgencmd_pmic_read_adc.exit": "255\n",
        },
    )
    assert run_command(root, "vcgencmd", "get_throttled") == Output("throttled=0x50000", 0)
    assert run_command(root, "vcgencmd", "pmic_read_adc") == Output("error=1", 255)


def test_a_captured_board_never_runs_a_command(tmp_path: Path, on_path: Path) -> None:
    ran = tmp_path / "ran"
    write_command(on_path, "vcgencmd", f"touch {ran}")
    with pytest.raises(FileNotFoundError):
        run_command(Root(tmp_path), "vcgencmd")
    assert not ran.exists()
