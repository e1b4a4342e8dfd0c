"""Temporary files: a full disk is told by the folder that helps, and nothing is left behind."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgetop.cli.scratch_folder import scratch_folder
from edgetop.errors import EXIT_NOT_WRITTEN, OutputError
from tests.support.commands import environment
from tests.support.recordings import record
from tests.support.scripts import measured


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _fill(folder: Path, number: int) -> None:
    (folder / "part").write_text("x")
    raise OSError(number, os.strerror(number), str(folder / "whole"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told_with_what_helps(place: Path, number: int) -> None:
    with pytest.raises(OutputError) as told, scratch_folder("bundle") as folder:
        _fill(folder, number)
    assert told.value.exit_code == EXIT_NOT_WRITTEN
    assert str(told.value).startswith(f"{place}: temporary files cannot be written: {os.strerror(number)} (")
    assert "TMPDIR=" in str(told.value)
    assert list(place.iterdir()) == []


def test_other_errors_are_passed_on_and_the_folder_is_removed(place: Path) -> None:
    with pytest.raises(FileNotFoundError), scratch_folder("bundle") as folder:
        (folder / "none").read_text()
    with scratch_folder("fit") as folder:
        assert folder.name.startswith("edgetop-fit-")
    assert list(place.iterdir()) == []


@pytest.mark.slow
def test_a_bundle_that_does_not_fit_its_temporary_folder_names_tmpdir(tmp_path: Path) -> None:
    """Files of at most a kilobyte stand in for a full disk (setrlimit(2): EFBIG)."""
    record(tmp_path / "one.edgetop", measured(20).end().batches)
    command = ["sh", "-c", 'ulimit -f 2; exec "$0" -m edgetop bundle one.edgetop', sys.executable]
    whole = environment(tmp_path, TMPDIR=str(tmp_path), PYTHONDONTWRITEBYTECODE="1")  # else modules are cut as well
    done = subprocess.run(command, cwd=tmp_path, env=whole, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (EXIT_NOT_WRITTEN, "", 1)
    assert "TMPDIR=" in done.stderr
    assert "with -o" not in done.stderr
