"""`edgetop watch`: the inferences of a program that makes them itself, on the same screen."""

import sys
from pathlib import Path
from typing import Any

import click

from edgetop.cli import run
from edgetop.cli.companions import Companion, not_beside
from edgetop.errors import InputError
from edgetop.taps.program import ProgramSpec, WatchedProgram

EXAMPLES = """\b
Examples:
  edgetop watch -- python3 app.py --camera 0
  edgetop watch --deadline 33ms --alert throttled -- python3 app.py
  edgetop watch --headless --duration 10m --fail-if 'p99>33ms' -- ./detector
  edgetop watch --duration 1m --against model.onnx -- python3 app.py
  edgetop help watch                            how the calls are seen
"""

# Options of `run` that are about a model that edgetop runs itself.
_NOT_OF_WATCH = {
    *(
        "model",
        "engine",
        "engine_python",
        "providers",
        "delegates",
        "no_xnnpack",
        "batch",
        "threads",
        "inputs",
        "shapes",
    ),
    *("seed", "require_full_delegation", "warmup_runs", "warmup_time", "idle_baseline", "isolation", "profile_every"),
    *("engine_cpus", "rate", "arrivals", "streams", "delay", "duty", "limits", "keep_outputs"),
}

PARAMS = (
    click.Option(
        ["--app-output"], type=click.Path(path_type=Path), metavar="FILE",
        help="Append what the program prints to FILE. Default: program.log of the session, and the events.",
    ),
    click.Option(["--follow-children"], is_flag=True, help="Watch the programs that this one starts, too."),
    Companion(
        ["--against"], type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="MODEL",
        help="When the program has ended, run MODEL in a loop for 20 s, and say why the program is slower.",
        rules=[not_beside("no_record", "no_raw", "as_json", "detach")],
    ),
    *(param for param in run.command.params if param.name not in _NOT_OF_WATCH),
    click.Argument(["command"], nargs=-1, type=click.UNPROCESSED, required=True),
)  # fmt: skip


@click.command(
    "watch", params=list(PARAMS), epilog=EXAMPLES, context_settings={"allow_interspersed_args": False},
)  # fmt: skip
def command(
    command: tuple[str, ...], app_output: Path | None, against: Path | None, *, follow_children: bool, **options: Any
) -> int:
    """Start a program and watch the inferences that it makes; nothing in it is changed.

    COMMAND is the program with its arguments, after --. Its exit status is that of edgetop.
    """
    from edgetop.cli.leaving import terminal_for  # noqa: PLC0415  --help needs none of it
    from edgetop.paths import cache_home  # noqa: PLC0415
    from edgetop.taps.preload import library  # noqa: PLC0415

    defaults = run.command.make_context("run", []).params
    given = {name: value for name, value in options.items() if value is not None}
    shows = options["headless"] and app_output is None
    spec = ProgramSpec(
        command,
        options["duration"],
        options["runs"],
        follow_children=follow_children,
        output=None if app_output is None else _writable(app_output),
        preload=library(cache_home()),
        stdout=(sys.stderr if options["as_json"] else sys.stdout).fileno() if shows else None,
        stderr=sys.stderr.fileno() if shows else None,
    )
    program = WatchedProgram(spec)
    whole = {**defaults, **given, "profile_every": 0, "program": program}
    terminal = terminal_for(whole)
    from edgetop.cli.watch import watch  # noqa: PLC0415  only now: the process that waits for the run stays small

    end = watch(whole, terminal)
    if against and end.folder and not (end.error or end.interrupted):
        from edgetop.cli.gap import loop_after  # noqa: PLC0415

        loop_after(end.folder, against)
    if program.exit_status and not program.was_stopped:
        return program.exit_status
    return end.exit_code()


def _writable(path: Path) -> Path:
    try:
        path.open("ab").close()
    except OSError as error:
        raise InputError(f"--app-output {path}: cannot be written: {error.strerror}") from None
    return path.absolute()
