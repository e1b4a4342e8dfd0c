"""The board of a session (real, captured or simulated) and its sensors, including those of `--i2c` and power logs."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from edgetop.cli.output import print_text
from edgetop.cli.running.run_request import BoardRequest, DemoSubject, PowerLogRequest, RunRequest
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.runner.cooldown import Cooldown, Heat, cool_down
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.hwmon import discover_one_wire
from edgetop.sensors.i2c import CADENCE_S, open_monitors
from edgetop.sensors.log_formats import FORMATS, INTERVAL_S, TEGRASTATS
from edgetop.sensors.power_log import BIN_S, LogSpec, follow, is_tegrastats
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, join, paced, sampled
from edgetop.session.clock import SystemClock
from edgetop.session.manifest import Board

if TYPE_CHECKING:
    from edgetop.simulation.virtual_board import VirtualBoard

TRAFFIC = "net", "disk"  # kinds of sensors of the board that are part of the usage

LINE_EVERY_S = 5.0  # interval of progress lines while cooling down, if stderr is not a terminal
CAPTURED = "tree"  # folder of the board's files in a capture (edgetop sensors --capture)


def board_root(sysroot: Path | None) -> Root:
    """Return where the files of the board are: `/`, or the folder `sysroot` with files captured on another board.

    Raises InputError if `sysroot` is not a folder.
    """
    if sysroot is None:
        return Root()
    if not sysroot.is_dir():
        raise InputError(f"--sysroot {sysroot}: no such folder", "unpack a capture with tar -xzf first")
    unpacked = (sysroot / CAPTURED).is_dir() and not (sysroot / "proc").exists() and not (sysroot / "sys").exists()
    return Root(sysroot / CAPTURED if unpacked else sysroot)


@frozen
class FileBoard:
    """A board that is known from its system files: this machine, or files captured on another board."""

    root: Root
    page_path: None = None  # a virtual board has a shared page here, which the engine maps

    def identity(self) -> Board:
        return read_board(self.root)

    def discover(self) -> Found:
        """Return the sensors found in the files of the board."""
        return discover_board(self.root)

    def engine_started(self, pid: int) -> None:
        pass

    def start(self, report: Callable[[str], None]) -> None:
        """Do nothing. Only a simulated board must be started."""


BoardInUse: TypeAlias = "FileBoard | VirtualBoard"


@contextlib.contextmanager
def open_board(request: RunRequest) -> Iterator[BoardInUse]:
    """Open the board of a request: this machine, captured files, or a simulated board.

    Raises InputError if `--sysroot` is not a folder, or if a simulated board cannot create its files.
    """
    subject = request.subject
    if not isinstance(subject, DemoSubject):
        yield FileBoard(board_root(request.board.sysroot))
        return
    from edgetop.simulation.virtual_board import VirtualBoard  # noqa: PLC0415  no session but a demo needs it

    board = VirtualBoard(
        subject.scenario,
        subject.speed,
        ambient_c=request.keeping.ambient_c,
        cpus=subject.model.cpus,
        state_file=subject.board_state,
    )
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(board)
        except OSError as error:
            raise InputError(
                f"the virtual board cannot be created: {error.strerror}", "its files go into $XDG_RUNTIME_DIR"
            ) from None
        yield board


def cool_board(request: RunRequest, board: BoardInUse, sensors: Found) -> Cooldown | None:
    """Let the board rest as `--cooldown` and `--cooldown-to` ask, and return how long it took and how warm it is now.

    None if neither option was given. Progress is printed on stderr.
    """
    target_c, longest_s = request.board.cooldown_to_c, request.board.cooldown_max_ns / 1e9
    rest_s = request.board.cooldown_ns / 1e9
    if target_c is None and not rest_s:
        return None
    say = partial(print_text, err=True, ascii_only=bool(request.showing.screen.ascii_only))
    board.start(lambda text: say(f"edgetop: {text}"))
    rest = f"for {rest_s:g} s" if rest_s else ""
    until = "" if target_c is None else f"to {target_c:.1f} °C, {longest_s:.0f} s at most"
    say(f"edgetop: cooling down {' and '.join(filter(None, (rest, until)))}")

    shown_s = time.monotonic()

    def show(heat: Heat) -> None:
        nonlocal shown_s
        if sys.stderr.isatty():
            click.echo(f"\r  {clean(heat.sensor)} {heat.celsius:.1f} C\x1b[K", nl=False, err=True)
        elif time.monotonic() > shown_s + LINE_EVERY_S:
            shown_s = time.monotonic()
            of = "" if target_c is None else f" of {target_c:.1f}"
            say(f"edgetop: cooling down: {heat.sensor} {heat.celsius:.1f} °C{of}")

    done = cool_down(sensors, target_c, longest_s, SystemClock(), time.sleep, show, rest_s=rest_s)
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    if done.reached is None and rest_s:
        say(f"edgetop: rested for {done.seconds:.0f} s; no temperature can be read")
    elif done.reached is None:
        say("edgetop: no temperature can be read, so there was no wait for the board to cool")
    else:
        still = "" if done.is_cool else "still "
        say(f"edgetop: {still}{done.reached.celsius:.1f} °C after {done.seconds:.0f} s")
    return done


def find_sensors(asked: BoardRequest, board: Found, root: Root, now_ns: Callable[[], int]) -> Found:
    """Return the sensors of the board, together with those of `--i2c` and of a power log.

    `board` holds the sensors already found in the files under `root`. `now_ns()` returns the session time in ns. Raises
    InputError if a requested sensor cannot be read.
    """
    hz = asked.hz
    monitors = open_monitors(asked.i2c, root, 1 / hz if hz else CADENCE_S)
    log = follow(spec, now_ns, 1 / hz if hz else BIN_S) if (spec := log_spec(asked.power_log)) else Found()
    taken = {info.id for source in board.sources for info in source.sensors}
    for info in (info for source in monitors.sources for info in source.sensors):
        if info.id in taken:
            raise InputError(f"--i2c: the board has a sensor {info.label} of its own", "give yours another NAME")
    board = sampled(board, asked.sample_s, TRAFFIC)
    return join([paced(board, hz), paced(monitors, hz), log])


def with_one_wire(sensor_id: str | None, board: Found, root: Root) -> Found:
    """Return the sensors of `board`, plus the 1-wire probe with the id `sensor_id`, if the board has such a probe.

    1-wire probes are slow, and are read only if `--ambient` names them.
    """
    named = [one for one in discover_one_wire(root).sources if one.sensors[0].id == sensor_id] if sensor_id else []
    return Found((*board.sources, *named), tuple(one for one in board.missing if not named or one.what != sensor_id))


def refuse_unknown_ambient(sensor_id: str | None, board: Found) -> None:
    """Raise InputError if `board` has no sensor of the room temperature with the id `sensor_id`.

    If `sensor_id` is None, do nothing.
    """
    have = [info.id for source in board.sources for info in source.sensors if info.kind == "ambient"]
    if sensor_id is None or sensor_id in have:
        return
    advice = f"it has {', '.join(map(clean, have))}" if have else "give the temperature itself, such as 35C"
    raise InputError(f"--ambient {clean(sensor_id)}: the board has no such sensor", advice)


def log_spec(asked: PowerLogRequest | None) -> LogSpec | None:
    """Return the path, format and timing of the power log, or None if no log was requested.

    Raises InputError if its format is not known, or if an interval is given for a log that has its own times.
    """
    if asked is None:
        return None
    log_format = asked.format
    if log_format is None and is_tegrastats(asked.path):
        log_format = TEGRASTATS
    if log_format is None:
        raise InputError("--power-log needs --power-log-format", "choose one of " + ", ".join(FORMATS))
    if asked.interval_ns is not None and log_format != TEGRASTATS:
        raise InputError(f"--power-log-interval: the rows of a {log_format} log have their time", "omit the option")
    interval_s = INTERVAL_S if asked.interval_ns is None else asked.interval_ns / 1e9
    return LogSpec(asked.path, log_format, asked.volts, asked.offset_s, interval_s)
