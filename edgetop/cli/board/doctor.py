"""`edgetop doctor`: check whether this board is fit to measure on."""

import contextlib

import click
from click import IntRange

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Value, needs, not_beside, option, taken
from edgetop.engines.child.adapters import names_text
from edgetop.errors import EXIT_DONE, EXIT_PROBLEM_FOUND, ReaderLeftError

EXAMPLES = """\b
Examples:
  edgetop doctor
  edgetop doctor --governor schedutil --power-mode 15W      settings of production
  edgetop doctor --json | jq '.checks[] | select(.status == "problem")'
  edgetop doctor --engine-python /usr/bin/python3
  edgetop doctor --sysroot board/                           a captured board
  edgetop doctor --roofline --threads 4                     measure peak FLOP/s and bandwidth
"""

OF_ROOFLINE = needs("roofline")
THIS_MACHINE = not_beside("sysroot", advice="it concerns this machine, --sysroot another one")


OPTIONS = (
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help doctor)."),
    option("--governor", metavar="NAME", help="cpufreq governor that production uses."),
    option("--power-mode", metavar="NAME", help="nvpmodel power mode that production uses, by name or id."),
    option(
        "--engine-python", type=PATH, metavar="PATH", help="Look for runtimes in this Python interpreter.",
        rules=[THIS_MACHINE],
    ),
    option("--sysroot", type=PATH, metavar="DIR", help="Check a captured board instead of this one."),
    option(
        "--roofline", is_flag=True, help="Also measure peak FLOP/s and bandwidth with each runtime, for 2 s each.",
        rules=[THIS_MACHINE],
    ),
    option(
        "--engine", metavar="NAME", help=f"Runtime for --roofline: {names_text('onnx', 'tflite')}.",
        shell_complete=completion.engines, rules=[OF_ROOFLINE],
    ),
    option(
        "--provider", "providers", type=text.with_options, multiple=True, metavar="NAME",
        help="Provider for --roofline.",
        shell_complete=completion.providers, rules=[OF_ROOFLINE],
    ),
    option(
        "--delegate", "delegates", type=text.with_options, multiple=True, metavar="PATH",
        help="Delegate for --roofline.",
        rules=[OF_ROOFLINE],
    ),
    option(
        "--threads", type=IntRange(0, 1024), default=0, show_default=True,
        help="Number of threads for --roofline; 0 for the default of the runtime.",
        rules=[OF_ROOFLINE],
    ),
)  # fmt: skip


@click.command("doctor", params=[*OPTIONS], epilog=EXAMPLES)
def command(**options: Value) -> int:
    """Check for settings that would distort a measurement, and print the commands that fix them.

    Benchmarks should run with the settings of production: give those as options, and the board
    is checked against them. Nothing is changed. The checks take about two seconds.

    The exit code is 0 without problems (there may be warnings), and 1 with at least one problem.
    """
    from edgetop.cli.board.diagnosis import DoctorOptions, diagnose, document, lines  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415

    diagnosis = diagnose(taken(DoctorOptions, options))
    with contextlib.suppress(ReaderLeftError):  # the exit code still says whether there is a problem
        if options["as_json"]:
            print_json(document(diagnosis))
        else:
            print_text("\n".join(lines(diagnosis)))
    if diagnosis.left_out:
        click.echo(f"Skipped, because these checks need the real machine: {', '.join(diagnosis.left_out)}", err=True)
    return EXIT_PROBLEM_FOUND if diagnosis.status == "problem" else EXIT_DONE
