"""`edgetop sensors`: list the sensors of this board, the missing ones, and how to get the missing ones."""

from pathlib import Path

import click

from edgetop.cli import options as text
from edgetop.cli.companions import PATH, needs, not_beside, option

EXAMPLES = """\b
Examples:
  edgetop sensors                              every sensor, its value and the cost of reading it
  edgetop sensors --watch --refresh 2s         the same, repeated every 2 s
  edgetop sensors --json | jq '.missing'
  edgetop sensors --capture board.tar.gz       save the board as a file, to send to someone
  edgetop sensors --sysroot board/             read the sensors of an unpacked capture
"""


LIST = not_beside("capture", message="--capture cannot be combined with --json or --watch")
A_CAPTURE = needs("capture", message="{} needs --capture FILE.tar.gz")


OPTIONS = (
    option(
        "--json", "as_json", is_flag=True,
        help="Print one JSON document (edgetop help sensors); with --watch, one per line.",
        rules=[LIST],
    ),
    option(
        "--watch", is_flag=True, help="Read repeatedly, each sensor at its own rate, until Ctrl+C.",
        rules=[LIST],
    ),
    option(
        "--refresh", type=text.duration, default="1s", show_default=True, help="Interval of --watch.",
        rules=[needs("watch")],
    ),
    option("--sysroot", type=PATH, metavar="DIR", help="Read a captured board instead of this one."),
    option("--capture", type=PATH, metavar="FILE.tar.gz", help="Save this board as an archive, after asking."),
    option("--yes", is_flag=True, help="With --capture: do not ask.", rules=[A_CAPTURE]),
    option("--force", is_flag=True, help="With --capture: overwrite the file.", rules=[A_CAPTURE]),
)  # fmt: skip


@click.command("sensors", params=[*OPTIONS], epilog=EXAMPLES)
def command(
    *, as_json: bool, watch: bool, refresh: int, sysroot: Path | None, capture: Path | None, yes: bool, force: bool
) -> None:
    """List every sensor with its value, source and cost, and every missing one with the reason and a fix.

    A sensor without a value has the reason in its note. Rates take a second to measure. The command does
    not need root; sensors that only root may read are listed as missing.
    """
    from edgetop.cli.running.session_board import board_root  # noqa: PLC0415  --help needs none of it

    root = board_root(sysroot)
    if capture is not None:
        from edgetop.cli.board.capture import capture_board  # noqa: PLC0415

        capture_board(root, capture, yes=yes, force=force)
        return
    from edgetop.cli.board.sensor_table import list_once, watch_on  # noqa: PLC0415
    from edgetop.sensors.survey import survey_board  # noqa: PLC0415

    survey = survey_board(root)
    if watch:
        watch_on(survey, refresh / 1e9, as_json=as_json)
    else:
        list_once(survey, as_json=as_json)
