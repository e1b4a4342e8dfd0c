"""Exports that the user starts on the screen: `edgetop export` in another process, at a low priority."""

import contextlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from edgetop.cli.terminal import edgetop_command
from edgetop.recording.export.export_formats import FORMATS, default_path
from edgetop.ui.screen_settings import Export

NICENESS = 10


class ExportProcess:
    """An export in another process.

    The process has a low priority, and keeps Arrow out of the memory of the screen's process.
    """

    def __init__(self, recording: Path, form: str, to: Path) -> None:
        self._process = subprocess.Popen(  # noqa: S603  this interpreter and our own program
            edgetop_command("export", str(recording), "--to", form, "-o", str(to)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl+C and the end of the terminal do not end the export
        )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

        self._result: tuple[bool, str] | None = None

    def result(self) -> tuple[bool, str] | None:
        if self._result is None and self._process.poll() is not None:
            _, said = self._process.communicate()
            lines = said.decode("utf-8", "replace").strip().splitlines() or ["the export ended without a message"]
            words = "; ".join(line.removeprefix("edgetop: ") for line in lines)
            self._result = self._process.returncode == 0, words
        return self._result


class SessionExporter:
    @property
    def forms(self) -> Mapping[str, str]:
        return {name: form.what for name, form in FORMATS.items()}

    def begin(self, recording: Path, form: str) -> Export:
        """Start to export `recording` in the format `form`, such as `csv`, and return the running export.

        The output goes to the current folder under the session's name. Existing files are kept: a number is appended.
        """
        path = Path.cwd() / default_path(recording, form)
        number, free = 2, path
        while free.exists():
            number, free = number + 1, path.with_name(f"{path.stem}-{number}{path.suffix}")
        return ExportProcess(recording, form, free)
