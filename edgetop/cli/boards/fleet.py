"""`edgetop fleet`: watch many boards on one screen, over ssh."""

from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import PATH, Value, needs, option, taken

if TYPE_CHECKING:
    from edgetop.cli.boards.fleet_run import FleetGate

EXAMPLES = """\b
Examples:
  edgetop fleet ssh:pi@a ssh:pi@b
  edgetop fleet -f boards.toml --group desk
  edgetop fleet -f boards.toml --json --fail-if 'any throttled' --fail-if 'any p99>33ms'
  edgetop fleet -f boards.toml run model.onnx --duration 10m --headless
  edgetop fleet -f boards.toml stop
"""
ORDERS = ("run", "stop")
OWN = {"--json": False, "--headless": False, "--fail-if": True, "--patience": True}  # option -> whether it has a value


class FleetCommand(click.Command):
    """The click command of `edgetop fleet`. Its arguments may end with `stop`, or with `run MODEL ...`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        valued = {name for param in self.params if isinstance(param, click.Option) and not param.is_flag
                  for name in param.opts}  # fmt: skip
        place = next(
            (i for i, word in enumerate(args) if word in ORDERS and (not i or args[i - 1] not in valued)), None
        )
        ctx.obj = []
        if place is not None:
            args, ctx.obj = _sorted_out(args[:place], args[place:])
        return super().parse_args(ctx, args)


def _sorted_out(args: list[str], order: list[str]) -> tuple[list[str], list[str]]:
    """Move options of `fleet` from `order` to `args`, and return both lists as `(args, order)`.

    `args` are the words on the command line before `run` or `stop`. `order` is the word `run` or `stop` with all words
    after it.
    """
    kept: list[str] = []
    words = iter(order)
    for word in words:
        if word.partition("=")[0] in OWN:
            args = [*args, word, *([next(words, "")] if OWN.get(word) else [])]
        else:
            kept.append(word)
    return args, kept


def fleet_gate(given: str) -> "FleetGate":
    """Return the condition that a user gave with --fail-if, such as `any p99>33ms`."""
    from edgetop.cli.boards.fleet_run import parse_fleet_gate  # noqa: PLC0415  --help needs none of it

    try:
        return parse_fleet_gate(given)
    except ValueError as error:
        raise click.BadParameter(f"{error} (edgetop help fleet)") from None


OPTIONS = (
    option(
        "-f", "--file", "file", type=PATH, metavar="FILE",
        help="File of boards, in TOML (edgetop help fleet).",
    ),
    option("--group", "groups", multiple=True, metavar="NAME", help="Use only boards of this group. Repeatable."),
    option(
        "--label", "labels", type=text.label, multiple=True, metavar="KEY=VALUE",
        help="Use only boards with this label. Repeatable.",
    ),
    option(
        "--fail-if", "gates", type=fleet_gate, multiple=True, metavar="GATE",
        help="Exit with code 1 if this holds: 'any throttled', 'all p99>33ms'. Repeatable.",
    ),
    option("--headless", is_flag=True, help="Print lines on stderr until every session is over, without a screen."),
    option(
        "--json", "as_json", is_flag=True,
        help="Print one JSON document when each board has answered or, with --headless, at the end.",
    ),
    option(
        "--patience", type=text.duration, metavar="TIME", rules=[needs("headless")],
        help="With --headless: wait this long for a silent board. Default: 1m.",
    ),
    option("--remote-command", default="edgetop", metavar="TEXT", help="Command that starts edgetop on the boards."),
    screen.REFRESH, screen.THEME, screen.ASCII, screen.CONFIG,
)  # fmt: skip


@click.command("fleet", params=[*OPTIONS], cls=FleetCommand, epilog=EXAMPLES)
@click.argument(
    "targets", nargs=-1, metavar="[ssh:[USER@]HOST]... [run MODEL|stop]", shell_complete=completion.fleet_orders
)
@click.pass_context
def command(ctx: click.Context, /, targets: tuple[str, ...], **given: Value) -> int:
    """Watch many boards on one screen: a line per board, the worst first.

    ssh starts `edgetop relay` on each board, which judges its own session and sends a summary once a second. No
    port is opened. ssh must work without a password, by keys or an agent.

    `run MODEL` copies the model to each board, starts `edgetop run` there and shows it. `stop` ends the runs.
    """
    from edgetop.cli.boards.fleet_boards import addresses, chosen  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.boards.fleet_run import FleetOptions, stop_all, watch  # noqa: PLC0415

    options = taken(FleetOptions, given)
    boards = addresses(targets, options.file, options.remote_command)
    boards = chosen(boards, options.groups, options.labels)
    order: list[str] = ctx.obj
    if order[:1] == ["stop"]:
        return stop_all(boards, order[1:], as_json=options.as_json)
    return watch(boards, order[1:] if order else None, options)
