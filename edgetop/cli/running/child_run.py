"""Runs `edgetop run` or `edgetop watch` in a child process, for commands that need many sessions, such as a sweep."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import click

from edgetop import formatting
from edgetop.cli.terminal import edgetop_command, signal_at_parents_end
from edgetop.errors import EXIT_GATE_FAILED, EdgetopError, InputError
from edgetop.files import parse_json
from edgetop.frozen import frozen
from edgetop.session.typed_json import Document

MAX_LOG_BYTES = 100_000
LOOK_S = 0.5
ERROR_PREFIX = "edgetop: "  # begins the line that a failed command prints


@frozen
class Outcome:
    code: int
    report: Document | None  # the document of `report --json`; None if the run wrote none
    reason: str  # why the run failed; "" if it did not fail

    @property
    def end_reason(self) -> str | None:
        return None if self.report is None else self.report["session"]["end_reason"]

    @property
    def is_complete(self) -> bool:
        """Whether the run measured for the whole requested time, or its program ended by itself without an error.

        True also if the run is complete but one of its gates (`--fail-if`) failed.
        """
        return self.code in (0, EXIT_GATE_FAILED) and self.end_reason in ("duration", "runs", "exit")


class ChildRun:
    """An edgetop command in a child process. If this process is killed, the child finishes its recording and ends."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
    ) -> None:
        """Start `edgetop ARGUMENTS` without a screen. Its output goes to unnamed temporary files in `folder`.

        `arguments` are the words after `edgetop`, such as `["run", "m.onnx"]`. `cwd` is the working folder of the
        child; None for the working folder of this process. `environment` holds the child's environment variables; None
        for the variables of this process. `program` is the command line of a program to watch; () for none.
        """
        self._log, self._result = (tempfile.TemporaryFile(dir=folder, buffering=0) for _ in range(2))  # noqa: SIM115  closed by run
        self._process = subprocess.Popen(  # noqa: S603  this very program
            edgetop_command(*arguments, "--headless", "--json", *(("--", *program) if program else ())),
            stdin=subprocess.DEVNULL,
            stdout=self._result,
            stderr=self._log,
            cwd=cwd,
            env=environment,
            start_new_session=True,  # Ctrl+C and a hang-up of the terminal are for this process to answer
            preexec_fn=partial(signal_at_parents_end, signal.SIGTERM),  # noqa: PLW1509  no thread runs here
        )

    def run(self, look: Callable[[], None], patience_s: float = math.inf) -> Outcome:
        """Wait until the child ends, and return its exit code, its report, and why it failed.

        `look` is called about twice a second while waiting. If `look` raises, the child is asked to end cleanly. The
        child gets `patience_s` seconds to end, and then the exception is raised again.
        """
        with self._log, self._result:
            try:
                while not self.has_ended(LOOK_S):
                    look()
            except BaseException:
                self.stop()
                until_s = time.monotonic() + patience_s
                while not self.has_ended(LOOK_S) and time.monotonic() < until_s:
                    pass
                raise
            return self._outcome()

    def has_ended(self, wait_s: float = 0.0) -> bool:
        """Wait up to `wait_s` seconds for the process to end. Return whether it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        return self._process.returncode is not None

    def stop(self) -> None:
        """Ask the run to end cleanly, so that it finishes its recording.

        A suspended run (SIGSTOP) is continued first.
        """
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the run and wait until it is gone. Its recording stays unfinished."""
        self._process.kill()
        self._process.wait()

    @property
    def progress(self) -> str:
        """Return the latest progress line that the run printed on stderr, or ""."""
        return self._last_line.rpartition("\r")[2].strip()

    @property
    def _last_line(self) -> str:
        return next((line for line in reversed(self._text().splitlines()) if line.strip()), "")

    def _text(self) -> str:
        log = self._log.fileno()
        # Read without moving the file position, which the run shares and writes at.
        end = os.pread(log, MAX_LOG_BYTES, max(0, os.fstat(log).st_size - MAX_LOG_BYTES))
        return end.decode("utf-8", "replace")

    def _outcome(self) -> Outcome:
        code = self._process.wait()
        report = None
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._result.fileno()).st_size
            report = parse_json(os.pread(self._result.fileno(), size, 0))
        errors = [line for line in self._text().splitlines() if line.startswith(ERROR_PREFIX)]
        reason = errors[-1].removeprefix(ERROR_PREFIX) if errors and code not in (0, EXIT_GATE_FAILED) else ""
        if code < 0:
            reason = f"edgetop was killed by signal {-code}"
        elif code and not reason and code != EXIT_GATE_FAILED:
            reason = self._last_line or f"exit code {code}"
        for notice in (report or {}).get("warnings", ()):
            if notice["code"] == "provider-dropped":
                reason = reason or notice["message"]
        return Outcome(code, report, reason)


def run_to_end(child: ChildRun, session: Path) -> None:
    """Wait until `child` ends, and show its progress line on stderr meanwhile.

    `session` is the path of its recording. An error message begins with the name of that path. Raises EdgetopError if
    the run failed or ended early.
    """
    try:
        outcome = child.run(lambda: show_progress(f"  {formatting.cut(formatting.clean(child.progress), 70)}"))
    finally:
        show_progress("")
    if not outcome.is_complete:
        error = InputError if outcome.code == InputError.exit_code else EdgetopError
        raise error(f"{session.name}: {outcome.reason or f'it ended: {outcome.end_reason}'}")


def show_progress(line: str) -> None:
    """Replace the progress line on stderr by `line`, if stderr is a terminal. "" clears it."""
    with contextlib.suppress(OSError):  # the terminal may have closed
        if sys.stderr.isatty():
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)
