"""The work of `edgetop fleet`: start and stop runs on boards, wait for answers, and show or print the boards' state."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from edgetop.cli.boards.fleet_boards import start, stop
from edgetop.cli.companions import given_names
from edgetop.cli.config import screen_settings
from edgetop.cli.output import print_text
from edgetop.cli.running import run
from edgetop.cli.screen_options import ScreenChoices
from edgetop.cli.viewing import noted_signals, require_screen
from edgetop.cli.watching.attach import connector, watch_remote
from edgetop.errors import (
    EXIT_DONE,
    EXIT_ENGINE_DIED,
    EXIT_GATE_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EdgetopError,
    InputError,
)
from edgetop.feeds.fleet_feed import Address, BoardView, Fleet
from edgetop.feeds.remote import Connect
from edgetop.frozen import frozen
from edgetop.session.clock import SystemClock
from edgetop.session.seconds import NS
from edgetop.session.session_summary import to_json
from edgetop.session.typed_json import Document
from edgetop.ui.characters import CharacterSet
from edgetop.ui.panes.fleet_pane import board_lines
from edgetop.ui.panes.pane import Area
from edgetop.ui.screen_settings import FleetListing, ScreenSettings
from edgetop.wording.rule_words import gate_of

LOOK_S = 0.2
UTC = "%Y-%m-%dT%H:%M:%SZ"
LAST_ORDERS_S = 3.0
MAX_EVENTS = 200
TABLE_CELLS = 118
# Options of `run` that concern this machine, or that need a user at the board.
NOT_THERE = (
    "detach", "output", "no_record", "notify", "hooks", "alerts", "live", "refresh", "theme", "ascii_only", "junit",
    "config_file", "gates", "fail_fast", "preset",
)  # fmt: skip


@frozen
class FleetOptions:
    """The parsed options of `edgetop fleet`."""

    file: Path | None
    groups: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    gates: tuple["FleetGate", ...]
    headless: bool
    as_json: bool
    patience: int | None  # ns; None: one minute
    remote_command: str
    refresh: int | None  # ns
    theme: str | None
    ascii_only: bool | None
    config_file: Path | None


def stop_all(boards: Sequence[Address], more: Sequence[str], *, as_json: bool) -> int:
    """Stop the runs of all boards, and return the exit code.

    `more` are the words after `stop` on the command line. Raises InputError if there are any. `as_json` prints JSON
    instead of text.
    """
    if more:
        raise InputError(f"stop {more[0]}: stop accepts no arguments", "name boards before it")
    done = []
    for one in stop(boards):
        done.append(one)
        print_text(f"{one.address.name}: {one.reason or one.said or 'stopped'}", err=as_json)
    if as_json:
        named = [{"name": one.address.name, "ok": not one.reason, "reason": one.reason or None} for one in done]
        click.echo(json.dumps({"boards": named}))
    return EXIT_USAGE if any(one.reason for one in done) else EXIT_DONE


def watch(boards: Sequence[Address], run_words: Sequence[str] | None, options: FleetOptions) -> int:
    """Show the boards or print their state, and return the exit code.

    `run_words` are the arguments of `edgetop run`, which is first started on each board; None to start nothing.
    """
    model = None if run_words is None else _model(run_words)
    settings = None
    if not (options.headless or options.as_json):
        require_screen("edgetop fleet --json prints the state of all boards, --headless prints lines")
        settings = screen_settings(
            ScreenChoices(options.refresh, options.theme, options.ascii_only, options.config_file)
        )
    refused: dict[str, str] = {}
    if model:
        boards, refused = _start(boards, model, run_words or ())
    code, views = _watch(boards, refused, options, settings)
    if code:
        return code
    if not model:
        return EXIT_DONE if settings else exit_code_of_answers(views)
    if any(view.word in ("ENGINE DIED", "PROGRAM DIED") for view in views):
        return EXIT_ENGINE_DIED
    return EXIT_USAGE if refused or any(view.has_failed for view in views) else EXIT_DONE


def exit_code_of_answers(views: Sequence[BoardView]) -> int:
    """Return EXIT_DONE if a board in `views` has answered. Otherwise, print a line on stderr and return EXIT_USAGE."""
    if any(view.summary or view.state == "idle" for view in views):
        return EXIT_DONE
    first = views[0]
    print_text(f"edgetop: no board answered: {first.address.name}: {first.reason or first.word.lower()}", err=True)
    return EXIT_USAGE


def _model(words: Sequence[str]) -> Path:
    """Return the path of the model in `words`, the arguments of `run`.

    Raises InputError if `run` or `fleet` does not accept these arguments.
    """
    parsed = run.command.make_context("edgetop fleet run", list(words))
    for param in run.command.params:
        if param.name in NOT_THERE and param.name in given_names(parsed):
            raise InputError(f"run {max(param.opts, key=len)}: cannot be used with fleet", "edgetop help fleet")
    model: Path | None = parsed.params["model"]
    if model is None:
        raise InputError("run: no model is given", "edgetop fleet -f boards.toml run model.onnx --duration 10m")
    return model


def _start(boards: Sequence[Address], model: Path, words: Sequence[str]) -> tuple[list[Address], dict[str, str]]:
    """Start a session on each board. Return `(addresses, failures)`.

    `addresses` has an address for each board; it names the new session, if one was started. `failures` is a dict from
    the name of a board to the reason why no session was started there.

    `words` are the arguments of `run`. Raises InputError if the model cannot be read.
    """
    placed, refused = {board.name: board for board in boards}, {}
    for one in start(boards, model, [word for word in words if word != str(model)]):
        placed[one.address.name] = one.address
        if one.reason:
            refused[one.address.name] = one.reason
        print_text(f"{one.address.name}: {one.reason or f'runs as {one.address.target.session}'}", err=True)
    return list(placed.values()), refused


def _watch(
    boards: Sequence[Address], refused: dict[str, str], options: FleetOptions, settings: ScreenSettings | None
) -> tuple[int, list[BoardView]]:
    """Show the boards on the screen, or print their state. Return the exit code and the last state of each board.

    `refused` has, by board name, the reason why a board is not contacted. `settings` are the settings of the screen;
    None for no screen.
    """
    gates = options.gates

    def connect(address: Address) -> Connect:
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


def _as_lines(fleet: Fleet, options: FleetOptions, come: Sequence[int]) -> None:
    """Print the state of all boards, once each board has answered, or with --headless once all sessions are over.

    `come` has the signals that have arrived. The first signal ends the wait.
    """
    patience_s, began_ns = (options.patience or 60 * NS) / NS, fleet.clock.monotonic_ns()
    said: dict[str, str] = {}

    def is_over(view: BoardView) -> bool:
        waited_s = (fleet.clock.monotonic_ns() - began_ns) / NS if view.age_s is None else view.age_s
        return view.state in ("over", "refused") or waited_s > patience_s

    while True:
        is_enough = all(map(is_over, fleet.views())) if options.headless else have_answered(fleet)
        is_last = bool(come) or is_enough
        for view in fleet.views("name") if options.headless else ():
            if view.state not in ("connecting", "refused") and said.get(view.address.name) != view.word:
                said[view.address.name] = view.word
                print_text(f"{view.address.name}: {view.word}{f': {view.details}' if view.details else ''}", err=True)
        if is_last:
            break
        time.sleep(LOOK_S)
    if options.as_json:
        click.echo(json.dumps(document(fleet, options.gates)))
    else:
        print_text("\n".join(table(fleet.views())))


def _on_screen(fleet: Fleet, settings: ScreenSettings, come: Sequence[int]) -> None:
    """Show all boards on the screen. If the user opens a board, show that board until the user returns.

    `come` has the signals that have arrived. The first signal closes the screen.
    """
    from edgetop.ui.app import show_fleet  # noqa: PLC0415  loads Textual

    listing = FleetListing()
    while not come:
        failure = show_fleet(fleet, settings, listing, leave_now=lambda: bool(come))
        if failure:
            raise InputError(f"the screen failed: {failure}", "the runs continue")
        if not listing.opened:
            return
        view = next(board.view for board in fleet.boards if board.address.name == listing.opened)
        address = view.address
        target = replace(address.target, session=view.place or address.target.session)
        try:
            watch_remote(target, replace(settings, is_visited=True), address.command)
        except EdgetopError as error:
            listing.note = str(error)


@frozen
class FleetGate:
    text: str  # the gate as the user wrote it
    is_of_all: bool  # whether it fails only if it holds on every board
    gate: str  # the gate that each board judges


def parse_fleet_gate(text: str) -> FleetGate:
    """Return the condition in a text such as `any throttled`, `all p99>33ms` or `throttled`.

    With `any`, the default, the command fails if the condition is true of one board. With `all`, it fails only if the
    condition is true of all boards. Raises ValueError, which says how to write a condition.

    >>> parse_fleet_gate("all p99>33ms").gate
    'p99>33ms'
    """
    match = re.fullmatch(r"\s*(?:(any|all)\s+)?(.*)", text, re.DOTALL)
    assert match
    return FleetGate(text.strip(), match[1] == "all", gate_of(match[2], "a gate; begin with any or all, and").text)


def failing(gate: FleetGate, views: Sequence[BoardView]) -> dict[str, str]:
    """Return why the condition `gate` (of `--fail-if`) has failed, by the name of the board.

    The result has only boards in `views` on which the condition has failed. A board that has sent no data counts as
    failed.
    """
    found = {}
    for view in views:
        failed = view.summary.failed_gates if view.summary else None
        if failed is None:
            found[view.address.name] = f"{gate.gate}: unknown: {view.word.lower()}"
        elif gate.gate in failed:
            found[view.address.name] = failed[gate.gate]
    return found


def print_failed(gates: Sequence[FleetGate], views: Sequence[BoardView]) -> bool:
    """Print to stderr each condition in `gates` (`--fail-if`) that has failed. Return whether any has failed.

    `views` has the state of each board.
    """
    has_failed = False
    for gate in gates:
        found = failing(gate, views)
        if len(found) == len(views) if gate.is_of_all else found:
            has_failed = True
            for name, reason in found.items():
                print_text(f"edgetop: gate failed: {gate.text}: {name}: {reason}", err=True)
    return has_failed


def document(fleet: Fleet, gates: Sequence[FleetGate]) -> Document:
    """Return the JSON document that `fleet --json` prints. Its keys are a contract (edgetop help fleet).

    `gates` are the conditions of `--fail-if`.
    """
    views, now, now_ns = fleet.views("name"), fleet.clock.utc(), fleet.clock.monotonic_ns()
    events = [
        {
            "utc": time.strftime(UTC, time.gmtime(now.timestamp() - (now_ns - logged.t_ns) / NS)),
            "board": logged.board, "severity": logged.happened.severity, "text": logged.happened.text,
        }
        for logged in fleet.log()[:MAX_EVENTS]
    ]  # fmt: skip
    return {
        "boards": [
            {
                "name": view.address.name, "host": view.address.target.host, "group": view.address.group,
                "labels": dict(view.address.labels), "state": view.state, "reason": view.reason or None,
                "edgetop": view.version or None, "age_s": None if view.age_s is None else round(view.age_s, 1),
                "summary": to_json(view.summary) if view.summary else None,
            }
            for view in views
        ],
        "gates": [
            {"expr": gate.text, "ok": len(found) < len(views) if gate.is_of_all else not found, "boards": found}
            for gate in gates for found in [failing(gate, views)]
        ],
        "events": events,
    }  # fmt: skip


def table(views: Sequence[BoardView]) -> list[str]:
    """Return the lines of a table of the boards, in ASCII."""
    lines = board_lines(views, Area(TABLE_CELLS, len(views) + 1, CharacterSet(ascii_only=True)))
    return ["".join(span.text for span in of).rstrip() for of in lines]


def have_answered(fleet: Fleet) -> bool:
    """Whether each board has sent a summary or has failed."""
    return all(view.summary or view.has_failed for view in fleet.views())
