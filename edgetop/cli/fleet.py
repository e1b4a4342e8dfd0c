"""`edgetop fleet`: many boards on one screen, over ssh."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli import screen_options as screen
from edgetop.cli.companions import needs, option
from edgetop.errors import (
    EXIT_DONE,
    EXIT_ENGINE_DIED,
    EXIT_GATE_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EdgetopError,
    InputError,
)

if TYPE_CHECKING:
    from edgetop.cli.fleet_result import FleetGate
    from edgetop.feeds.conversation import Connect
    from edgetop.feeds.fleet import Address, BoardView, Fleet
    from edgetop.ui.settings import ScreenSettings

EXAMPLES = """\b
Examples:
  edgetop fleet ssh:pi@a ssh:pi@b
  edgetop fleet -f boards.toml --group desk
  edgetop fleet -f boards.toml --json --fail-if 'any throttled' --fail-if 'any p99>33ms'
  edgetop fleet -f boards.toml run model.onnx --duration 10m --headless
  edgetop fleet -f boards.toml stop
"""
ORDERS = ("run", "stop")
LAST_ORDERS_S = 3.0
OWN = {"--json": False, "--headless": False, "--fail-if": True, "--patience": True}  # wherever; has it a value?
# Of `run`: what it does here, or what makes no sense on a board that nobody sits at.
NOT_THERE = (
    "detach", "output", "no_record", "notify", "hooks", "alerts", "live", "refresh", "theme", "ascii_only", "junit",
    "config_file", "gates", "fail_fast",
)  # fmt: skip


class FleetCommand(click.Command):
    """A command whose last words may be an order: `stop`, or `run` with the arguments of that command."""

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
    """Options that are fleet's own may stand behind the order too."""
    kept: list[str] = []
    words = iter(order)
    for word in words:
        if word.partition("=")[0] in OWN:
            args = [*args, word, *([next(words, "")] if OWN.get(word) else [])]
        else:
            kept.append(word)
    return args, kept


def fleet_gate(given: str) -> "FleetGate":
    """`any p99>33ms`."""
    from edgetop.cli.fleet_result import parse_fleet_gate  # noqa: PLC0415  --help needs none of it

    try:
        return parse_fleet_gate(given)
    except ValueError as error:
        raise click.BadParameter(f"{error} (edgetop help fleet)") from None


OPTIONS = (
    option(
        "-f", "--file", "file", type=click.Path(path_type=Path), metavar="FILE",
        help="A file of boards, in TOML (edgetop help fleet).",
    ),
    option("--group", "groups", multiple=True, metavar="NAME", help="Only boards of this group. Repeatable."),
    option(
        "--label", "labels", type=text.label, multiple=True, metavar="KEY=VALUE",
        help="Only boards with this label. Repeatable.",
    ),
    option(
        "--fail-if", "gates", type=fleet_gate, multiple=True, metavar="GATE",
        help="Exit with 1 where this holds: 'any throttled', 'all p99>33ms'. Repeatable.",
    ),
    option("--headless", is_flag=True, help="No screen: lines on stderr until every session is over."),
    option(
        "--json", "as_json", is_flag=True,
        help="One JSON document: as soon as each board has answered or, with --headless, at the end.",
    ),
    option(
        "--patience", type=text.duration, metavar="TIME", rules=[needs("headless")],
        help="With --headless: wait so long for a board of which nothing comes. Default: 1m.",
    ),
    option("--remote-command", default="edgetop", metavar="TEXT", help="How edgetop is called there."),
    screen.REFRESH, screen.THEME, screen.ASCII, screen.CONFIG,
)  # fmt: skip


@click.command("fleet", params=[*OPTIONS], cls=FleetCommand, epilog=EXAMPLES)
@click.argument(
    "targets", nargs=-1, metavar="[ssh:[USER@]HOST]... [run MODEL|stop]", shell_complete=completion.fleet_orders
)
@click.pass_context
def command(ctx: click.Context, /, targets: tuple[str, ...], **options: Any) -> int:
    """Watch many boards on one screen, a line each, the worst first.

    ssh starts `edgetop relay` on each board, which judges its own session and sends a summary once a second; nothing
    listens on a port. Keys and agents of ssh are used, passwords are not asked for.

    run MODEL copies the model to each board, starts `edgetop run` there and shows it; stop ends the runs.
    """
    from edgetop.cli.fleet_boards import addresses, chosen  # noqa: PLC0415  --help needs none of it

    boards = addresses(targets, options["file"], options["remote_command"])
    boards = chosen(boards, options["groups"], options["labels"])
    order: list[str] = ctx.obj
    if order[:1] == ["stop"]:
        return _stop(boards, order[1:], as_json=options["as_json"])
    model = _model(order[1:]) if order else None
    settings = None if options["headless"] or options["as_json"] else _settings(options)
    refused: dict[str, str] = {}
    if model:
        boards, refused = _start(boards, model, order[1:])
    code, views = _watch(boards, refused, options, settings)
    if code:
        return code
    if not model:
        return EXIT_DONE if settings else _answered(views)
    if any(view.word == "ENGINE DIED" for view in views):
        return EXIT_ENGINE_DIED
    return EXIT_USAGE if refused or any(view.has_failed for view in views) else EXIT_DONE


def _answered(views: "Sequence[BoardView]") -> int:
    """Return the exit code: EXIT_USAGE, with a line on stderr for scripts, where no board answered."""
    from edgetop.cli.output import print_text  # noqa: PLC0415  as above

    if any(view.summary or view.state == "idle" for view in views):
        return EXIT_DONE
    print_text(
        f"edgetop: no board answered: {views[0].address.name}: {views[0].reason or views[0].word.lower()}", err=True
    )
    return EXIT_USAGE


def _settings(options: dict[str, Any]) -> "ScreenSettings":
    from edgetop.cli.viewing import require_screen, screen_settings  # noqa: PLC0415  as above

    require_screen("edgetop fleet --json prints how all boards are, --headless lines")
    return screen_settings(
        options["refresh"], options["theme"], options["ascii_only"], config_file=options["config_file"]
    )


def _stop(boards: "Sequence[Address]", more: Sequence[str], *, as_json: bool) -> int:
    from edgetop.cli.fleet_boards import stop  # noqa: PLC0415  as above
    from edgetop.cli.output import print_text  # noqa: PLC0415

    if more:
        raise InputError(f"stop {more[0]}: takes no words", "name boards before it")
    done = []
    for one in stop(boards):
        done.append(one)
        print_text(f"{one.address.name}: {one.reason or one.said or 'stopped'}", err=as_json)
    if as_json:
        named = [{"name": one.address.name, "ok": not one.reason, "reason": one.reason or None} for one in done]
        click.echo(json.dumps({"boards": named}))
    return EXIT_USAGE if any(one.reason for one in done) else EXIT_DONE


def _model(words: Sequence[str]) -> Path:
    """Raises InputError where `run` would not take these words, or not here."""
    from edgetop.cli import run  # noqa: PLC0415  as above
    from edgetop.cli.companions import given_names  # noqa: PLC0415

    parsed = run.command.make_context("edgetop fleet run", list(words))
    for param in run.command.params:
        if param.name in NOT_THERE and param.name in given_names(parsed):
            raise InputError(f"run {max(param.opts, key=len)}: not with fleet", "edgetop help fleet")
    model: Path | None = parsed.params["model"]
    if model is None:
        raise InputError("run: which model?", "edgetop fleet -f boards.toml run model.onnx --duration 10m")
    return model


def _start(boards: "Sequence[Address]", model: Path, words: Sequence[str]) -> "tuple[list[Address], dict[str, str]]":
    """Each as its session, and why some have none. Raises InputError where the model cannot be read."""
    from edgetop.cli.fleet_boards import start  # noqa: PLC0415  as above
    from edgetop.cli.output import print_text  # noqa: PLC0415

    placed, refused = {board.name: board for board in boards}, {}
    for one in start(boards, model, [word for word in words if word != str(model)]):
        placed[one.address.name] = one.address
        if one.reason:
            refused[one.address.name] = one.reason
        print_text(f"{one.address.name}: {one.reason or f'runs as {one.address.target.session}'}", err=True)
    return list(placed.values()), refused


def _watch(
    boards: "Sequence[Address]", refused: dict[str, str], options: dict[str, Any], settings: "ScreenSettings | None"
) -> "tuple[int, list[BoardView]]":
    """The exit code, and how the boards were in the end."""
    from edgetop.cli.attach import connector  # noqa: PLC0415  as above
    from edgetop.cli.fleet_result import print_failed  # noqa: PLC0415
    from edgetop.cli.viewing import noted_signals  # noqa: PLC0415
    from edgetop.feeds.fleet import Fleet  # noqa: PLC0415
    from edgetop.session.clock import SystemClock  # noqa: PLC0415

    gates = options["gates"]

    def connect(address: "Address") -> "Connect":
        return connector(address.target, address.command, on_line=lambda _line: None)

    fleet = Fleet(boards, connect, list(dict.fromkeys(gate.gate for gate in gates)), SystemClock(), refused)
    with noted_signals() as come:
        fleet.start()
        try:
            if settings:
                _on_screen(fleet, settings, come)
            else:
                _as_lines(fleet, options, come)
            views = fleet.views()
        finally:
            fleet.close(LAST_ORDERS_S)
    if come and not settings:
        return EXIT_INTERRUPTED, views
    return EXIT_GATE_FAILED if print_failed(gates, views) else EXIT_DONE, views


def _as_lines(fleet: "Fleet", options: dict[str, Any], come: Sequence[int]) -> None:
    from edgetop.cli.fleet_result import are_over, document, follow, have_answered, table  # noqa: PLC0415  as above
    from edgetop.cli.output import print_text  # noqa: PLC0415

    is_headless = options["headless"]
    is_enough = are_over(fleet, (options["patience"] or 60_000_000_000) / 1e9)
    follow(fleet, lambda: bool(come) or (is_enough() if is_headless else have_answered(fleet)), says=is_headless)
    if options["as_json"]:
        click.echo(json.dumps(document(fleet, options["gates"])))
    else:
        print_text("\n".join(table(fleet.views())))


def _on_screen(fleet: "Fleet", settings: "ScreenSettings", come: Sequence[int]) -> None:
    """The fleet, and in turns a board that was opened there."""
    from edgetop.cli.attach import watch_remote  # noqa: PLC0415  as above
    from edgetop.ui.app import show_fleet  # noqa: PLC0415
    from edgetop.ui.settings import FleetListing  # noqa: PLC0415

    listing = FleetListing()
    while not come:
        failure = show_fleet(fleet, settings, listing, leave_now=lambda: bool(come))
        if failure:
            raise InputError(f"the screen failed: {failure}", "the runs go on")
        if not listing.opened:
            return
        view = next(board.view for board in fleet.boards if board.address.name == listing.opened)
        address = view.address
        target = replace(address.target, session=view.place or address.target.session)
        try:
            watch_remote(target, replace(settings, is_visited=True), address.command)
        except EdgetopError as error:
            listing.note = str(error)
