"""`edgetop self-test`: run each part of this installation once, and list what it lacks."""

import contextlib

import click

from edgetop.cli import options as text
from edgetop.cli.companions import option
from edgetop.errors import EXIT_DONE, EXIT_PROBLEM_FOUND, ReaderLeftError

EXAMPLES = """\b
Examples:
  edgetop self-test
  edgetop self-test --timeout 5m           on an emulated board
  edgetop self-test --json | jq '.lacks'
"""

OPTIONS = (
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help install)."),
    option(
        "--timeout", type=text.duration, default="60s", show_default=True, metavar="TIME",
        help="Time limit; what is not done by then is a problem.",
    ),
)  # fmt: skip


@click.command("self-test", params=[*OPTIONS], epilog=EXAMPLES)
def command(*, as_json: bool, timeout: int) -> int:
    """Run each part of this installation once: engine, recording, report, screen; list what it lacks.

    The built-in model runs on ONNX Runtime and LiteRT, if installed. Its sessions are recorded in a private folder,
    which is removed, and are read back, reported and drawn. Your settings and recordings stay as they are.
    This takes about five seconds, and twice as long on a small board.

    The exit code is 0 if every part works, and 1 otherwise. What this installation lacks is no failure.
    """
    from edgetop.cli.board.installation_checks import document, lines, self_test  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text  # noqa: PLC0415
    from edgetop.cli.viewing import aborted_by_signals  # noqa: PLC0415

    with aborted_by_signals():
        result = self_test(timeout / 1e9)
    with contextlib.suppress(ReaderLeftError):  # the exit code still says whether there is a problem
        if as_json:
            print_json(document(result))
        else:
            print_text("\n".join(lines(result)))
    return EXIT_PROBLEM_FOUND if result.status == "problem" else EXIT_DONE
