"""Child runs: `edgetop run` or `watch` in a process of its own, for the commands that run many sessions."""

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

        A gate may still have failed.
        """
        return self.code in (0, EXIT_GATE_FAILED) and self.end_reason in ("duration", "runs", "exit")


class ChildRun:
    """A run in a child process, which finishes its recording and ends if this process is killed."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
    ) -> None:
        """Start `edgetop ARGUMENTS`. Its output goes to unnamed files in `folder`.

        `environment`: the variables of the run; None for those of this process. `program`: the command to watch.
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
        """Wait until the run ends and return its outcome.

        `look` is called repeatedly while waiting. If it raises, the run is asked to end cleanly and gets `patience_s`
        seconds to do so.
        """
        with self._log, self._result:
            try:
                while not self._has_ended():
                    look()
            except BaseException:
                self.stop()
                until_s = time.monotonic() + patience_s
                while not self._has_ended() and time.monotonic() < until_s:
                    pass
                raise
            return self._outcome()

    def _has_ended(self) -> bool:
        """Wait up to `LOOK_S` for the process to end; return whether it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LOOK_S)
        return self._process.returncode is not None

    def stop(self) -> None:
        """End the run cleanly, so that its recording is finished. A suspended run (SIGSTOP) is continued first."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the run at once and wait for its end. Its recording stays unfinished."""
        self._process.kill()
        self._process.wait()

    @property
    def progress(self) -> str:
        """Return the latest progress line of the run."""
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
    """Wait until the run ends, showing its progress.

    Raises EdgetopError if the run failed, and KeyboardInterrupt if it was stopped.
    """
    try:
        outcome = child.run(lambda: show_progress(f"  {formatting.cut(formatting.clean(child.progress), 70)}"))
    finally:
        show_progress("")
    if not outcome.is_complete:
        error = InputError if outcome.code == InputError.exit_code else EdgetopError
        raise error(f"{session.name}: {outcome.reason or f'it ended: {outcome.end_reason}'}")


def show_progress(line: str) -> None:
    """Replace the progress line on stderr, if stderr is a terminal."""
    with contextlib.suppress(OSError):  # the terminal may have closed
        if sys.stderr.isatty():
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)
