"""The runs of a sweep over a program: checks before the first run, and the reason why a run failed."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from edgetop.cli.companions import Given
from edgetop.cli.comparing.sweep_program import DASHES, filled
from edgetop.cli.running import session_parts
from edgetop.cli.running.child_run import Outcome
from edgetop.cli.running.run_request import RunRequest
from edgetop.cli.running.session_board import log_spec
from edgetop.cli.watching import watch
from edgetop.cli.watching.watch_session import limited_cpus, watch_request
from edgetop.errors import InputError
from edgetop.files import open_regular
from edgetop.formatting import clean, shortened
from edgetop.recording.session_folder import PROGRAM_LOG
from edgetop.runner.cgroup_limits import enclosed
from edgetop.runner.engine_limit import limit_of
from edgetop.sweep_plan import Settings
from edgetop.taps.watched_program import ProgramSpec, WatchedProgram

LAST_BYTES, LAST_CELLS = 4096, 120  # of a program's output, for the reason why it failed


def checked(combinations: Sequence[Settings], options: Sequence[str], command: Sequence[str]) -> RunRequest:
    """Return the request of the first run whose command line is valid.

    The command lines are checked in the order of the runs. `combinations` are the settings of the runs. `options` are
    the words of the options for each run. `command` is the program with placeholders, such as `["python3", "app.py",
    "{model}"]`. Raises InputError if no run can start.
    """
    given = _parsed(options)
    is_contained = bool(given["container"] or given["dockerfile"])
    first: InputError | None = None
    for one in combinations:
        request = watch_request(given, WatchedProgram(ProgramSpec(filled(command, one))))
        try:
            if not is_contained:  # its programs are in the image
                session_parts.refuse_absent(request, None)
        except InputError as error:
            first = first or error
            continue
        log_spec(request.board.power_log)
        return request
    assert first
    raise first


def refuse_unlimitable(options: Sequence[str]) -> None:
    """Raise InputError if this machine cannot apply the `--limit` in `options` to a program.

    `options` are the words of the options for each run. If these options run the program in a container, the image of
    the container is made here: pulled or built, and set up.
    """
    given = _parsed(options)
    limit = limit_of(given["limits"])
    limited_cpus(limit, frozenset(os.sched_getaffinity(0)))
    if given["container"] or given["dockerfile"]:
        from edgetop.cli.watching.contained import image_of  # noqa: PLC0415  few programs run in one

        image_of(given["container"], given["dockerfile"], given["setup"], given["container_args"])
        return
    with enclosed(limit):
        pass


def _parsed(options: Sequence[str]) -> Given:
    words = [*options, "--headless", "--json", DASHES, "true"]
    context: click.Context = watch.command.make_context("watch", words)
    return context.params


def why_failed(outcome: Outcome, session: Path) -> str:
    """Return why a run failed: how the program ended, and the last line that it printed.

    `session` is the folder of the run's recording.
    """
    if outcome.report is None or outcome.end_reason is None:
        return outcome.reason or "it wrote no report"
    verdict, last = outcome.report["verdict"]["first"], _last_line(session / PROGRAM_LOG)
    return f"{verdict}; its last line: {last}" if last else str(verdict)


def _last_line(path: Path) -> str:
    with suppress(OSError):
        fd = open_regular(path)
        try:
            size = os.fstat(fd).st_size
            text = os.pread(fd, LAST_BYTES, max(0, size - LAST_BYTES)).decode("utf-8", "replace")
        finally:
            os.close(fd)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return shortened(clean(lines[-1]), LAST_CELLS) if lines else ""
    return ""
