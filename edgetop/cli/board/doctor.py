"""`edgetop doctor`: is this board fit to measure on?"""

import contextlib
from typing import Any

import click
from click import IntRange

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, needs, not_beside, option
from edgetop.errors import EXIT_DONE, EXIT_PROBLEM_FOUND, ReaderLeftError

EXAMPLES = """\b
Examples:
  edgetop doctor
  edgetop doctor --governor schedutil --power-mode 15W      what production runs
  edgetop doctor --json | jq '.checks[] | select(.status == "problem")'
  edgetop doctor --engine-python /usr/bin/python3
  edgetop doctor --sysroot board/                           a captured board
  edgetop doctor --roofline --threads 4                     what it can do at most, for edgetop run and ops
"""

OF_ROOFLINE = needs("roofline")
THIS_MACHINE = not_beside("sysroot", advice="it asks this machine, and --sysroot names another")


OPTIONS = (
    option("--json", "as_json", is_flag=True, help="One JSON document (edgetop help doctor)."),
    option("--governor", metavar="NAME", help="The cpufreq governor that production runs."),
    option("--power-mode", metavar="NAME", help="The power mode that production runs: a name or id of nvpmodel."),
    option(
        "--engine-python", type=PATH, metavar="PATH", help="Look for runtimes in this Python interpreter.",
        rules=[THIS_MACHINE],
    ),
    option("--sysroot", type=PATH, metavar="DIR", help="Check a captured board instead of this one."),
    option(
        "--roofline", is_flag=True, help="Also measure the peak FLOP/s and bandwidth with each runtime, 2 s each.",
        rules=[THIS_MACHINE],
    ),
    option(
        "--engine", metavar="NAME", help="--roofline: this runtime: onnxruntime, litert or tflite-runtime.",
        shell_complete=completion.engines, rules=[OF_ROOFLINE],
    ),
    option(
        "--provider", "providers", type=text.with_options, multiple=True, metavar="NAME", help="--roofline: on this.",
        shell_complete=completion.providers, rules=[OF_ROOFLINE],
    ),
    option(
        "--delegate", "delegates", type=text.with_options, multiple=True, metavar="PATH", help="--roofline: on this.",
        rules=[OF_ROOFLINE],
    ),
    option(
        "--threads", type=IntRange(0, 1024), default=0, show_default=True, help="--roofline: 0: the runtime's default.",
        rules=[OF_ROOFLINE],
    ),
)  # fmt: skip


@click.command("doctor", params=[*OPTIONS], epilog=EXAMPLES)
def command(**options: Any) -> int:
    """Look for what would make a measurement wrong, and name the command that fixes it.

    Benchmarks should run under the settings of production: name them, and the board is
    judged against them. Nothing is changed. Takes about two seconds.

    Exit code 0: no problem, though perhaps warnings. 1: at least one problem.
    """
    from edgetop.cli.board.diagnosis import diagnose, document, lines  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415

    diagnosis = diagnose(options)
    with contextlib.suppress(ReaderLeftError):  # the board is judged all the same
        if options["as_json"]:
            print_json(document(diagnosis))
        else:
            print_text("\n".join(lines(diagnosis)))
    if diagnosis.left_out:
        click.echo(f"Left out, since they ask the machine and not a capture: {', '.join(diagnosis.left_out)}", err=True)
    return EXIT_PROBLEM_FOUND if diagnosis.status == "problem" else EXIT_DONE
