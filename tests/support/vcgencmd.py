"""A `vcgencmd` for PATH with the real one's answers and errors, and a live Raspberry Pi to run it on.

As the real one it complains on standard output and ends with 255 (raspberrypi/utils,
vcgencmd/vcgencmd.c).
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.sensors.root import Root
from tests.support.trees import plant

NOT_REGISTERED = 'vc_gencmd_read_response returned -1\nerror=1 error_msg="Command not registered"'
NO_DEVICE = "Can't open device file: /dev/vcio\nTry creating a device file with: sudo mknod /dev/vcio c 100 0"
PI = {"proc/device-tree/compatible": "raspberrypi,4-model-b\0brcm,bcm2711\0"}


class Vcgencmd:
    """The command, whose answers a test may change, and what it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._answers = folder / "answers"
        self._answers.mkdir()
        self._asked = folder / "asked"
        self._asked.touch()
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        script = bin_folder / "vcgencmd"
        script.write_text(
            f"""#!/bin/sh
printf '%s\\n' "$*" >> {self._asked}
file="{self._answers}/$(echo "$*" | tr ' ' _)"
if [ -p "$file.hangs" ]; then read -r line < "$file.hangs"; fi
if [ -f "{self._answers}/all" ]; then cat "{self._answers}/all"; exit 255; fi
if [ -f "$file" ]; then cat "$file"; exit 0; fi
cat "{self._answers}/.unknown"; exit 255
"""
        )
        script.chmod(0o755)
        (self._answers / ".unknown").write_text(f"{NOT_REGISTERED}\n")
        monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")

    def answers(self, question: str, text: str) -> None:
        (self._answers / question.replace(" ", "_")).write_text(f"{text}\n")

    def refuses_everything(self, text: str) -> None:
        (self._answers / "all").write_text(f"{text}\n")

    def recovers(self) -> None:
        (self._answers / "all").unlink()

    def hangs_on(self, question: str) -> None:
        os.mkfifo(self._pipe(question))

    def lets_go(self, question: str) -> None:
        """Those that hang on it end, if any still do."""
        with contextlib.suppress(OSError):
            fd = os.open(self._pipe(question), os.O_WRONLY | os.O_NONBLOCK)
            os.write(fd, b"\n")
            os.close(fd)

    def _pipe(self, question: str) -> Path:
        return self._answers / f"{question.replace(' ', '_')}.hangs"

    @property
    def asked(self) -> list[str]:
        """Every command line so far, without the command's own name."""
        return self._asked.read_text().splitlines()


def live_pi(tree: Path, files: Mapping[str, str | bytes] | None = None) -> Root:
    """A Raspberry Pi on which commands are run, though its files lie in a folder."""
    root = plant(tree, {**PI, **(files or {})})
    root.is_host = True
    return root
