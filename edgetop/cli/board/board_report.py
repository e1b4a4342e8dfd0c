"""`edgetop board-report`: measure a board for about five minutes and write one file to send to edgetop's developers."""

from pathlib import Path

import click

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, option

EXAMPLES = """\b
Examples:
  edgetop board-report                         ask before each step that loads the board or needs root
  edgetop board-report --yes --duration 2m     do not ask, and take about two minutes
  tar xzOf board-report.tar.gz report.json     read the figures before you send the file
"""

OPTIONS = (
    option(
        "-o", "--output", type=PATH, default="board-report.tar.gz", show_default=True, metavar="FILE.tar.gz",
        help="File to write.",
    ),
    option(
        "--duration", type=text.duration, default="5m", show_default=True, metavar="TIME",
        help="About how long all steps take together. A slow board takes up to 20 minutes more.",
    ),
    option("--yes", is_flag=True, help="Do not ask. sudo is used only if it needs no password."),
    option("--force", is_flag=True, help="Overwrite the file."),
)  # fmt: skip


@click.command("board-report", params=[*OPTIONS], epilog=EXAMPLES)
def command(*, output: Path, duration: int, yes: bool, force: bool) -> int:
    """Measure this board and write one file about it: checks, sensors, a capture, a short soak, the observer effect.

    The steps are those of `edgetop doctor`, `edgetop sensors` and `edgetop sensors --capture`, then a run of the
    built-in model on ONNX Runtime and on LiteRT, if installed, and runs in turn with and without edgetop. The steps
    that load the board use all cores, as any model does; settings are not changed. Names of users, hosts and
    cgroups, serial numbers, addresses, ids in paths, and paths of yours are removed. At the end, the contents of
    the file are listed. Nothing is sent.
    """
    from edgetop.cli.board.report_making import make_report  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.viewing import aborted_by_signals  # noqa: PLC0415

    with aborted_by_signals():
        return make_report(output, duration / 1e9, yes=yes, force=force)
