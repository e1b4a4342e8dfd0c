"""Images and containers that edgetop makes before a program is watched, and that none of them stays by accident."""

from pathlib import Path

import pytest

from edgetop.runner.container_images import can_preload
from edgetop.taps.container_runtime import Image, Runtime


def test_a_trial_that_does_not_end_in_time_leaves_no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, calls = tmp_path / "docker", tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n[ "$1" = rm ] || exec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setattr("edgetop.runner.container_images.TRIAL_S", 0.1)
    image = Image(id="sha256:1", name="one", python_path="", preload="", entrypoint=(), command=(), user="", folder="")
    assert not can_preload(Runtime("docker", str(program)), image, tmp_path / "library.so")
    run, removal = calls.read_text().splitlines()
    name = next(word for word in run.split() if word.startswith("--name=")).removeprefix("--name=")
    assert removal == f"rm --force {name}"
