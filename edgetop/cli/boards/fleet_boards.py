"""Finds the boards of `edgetop fleet`, and starts or stops a model on all boards at once.

Boards are named on the command line or in a TOML file. Each board has its own ssh connection. A failed board is shown
with the reason. The model is copied once to each board, into a folder named by the model's SHA-256, and verified
there with `sha256sum`.
"""

import contextlib
import hashlib
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from edgetop.cli.config import SettingError, read_settings
from edgetop.errors import InputError
from edgetop.feeds.fleet_feed import Address
from edgetop.feeds.ssh import NOT_FOUND, SSH_FAILED, Target, command_line, not_found, parse_target
from edgetop.formatting import clean, cut
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint
from edgetop.paths import as_component

MAX_BOARDS = 500
KEYS = ("ssh", "group", "labels", "command")
_NAME = re.compile(r"[\w.@+-]{1,40}")
AT_ONCE = 16
COPY_S, START_S, STOP_S, LOOK_S = 1800.0, 900.0, 120.0, 60.0  # timeouts; building an engine may take minutes
MAX_SAID, MAX_QUOTED = 64 * 1024, 300
_IN_CACHE = (
    'd="${XDG_CACHE_HOME:-$HOME/.cache}/edgetop/models/%(sum)s"; f="$d/%(name)s"; '
    'sum() { echo "%(sum)s  $1" | sha256sum -c - >/dev/null 2>&1; }; '
)
_IS_THERE = _IN_CACHE + 'sum "$f" && echo "$f"; true'
_COPY = _IN_CACHE + (
    'mkdir -p "$d" && cat > "$f.part" && { sum "$f.part" || { rm -f "$f.part"; '
    'echo "the copy has another SHA-256 than the model, or sha256sum is missing" >&2; exit 1; }; } '
    '&& mv "$f.part" "$f" && echo "$f"'
)
_RECORDED = re.compile(r"recorded in (/.+\.edgetop)$", re.MULTILINE)


def addresses(targets: Sequence[str], file: Path | None, command: str) -> list[Address]:
    """Return the addresses of the boards in `targets`, from the command line, and in the TOML `file`.

    `targets` are texts such as "ssh:pi@desk". `command` starts edgetop on each board, unless the file gives another
    command for the board. Raises InputError if a board is invalid, or if there are none.
    """
    found = [Address(target.host, target, command=command) for target in map(parse_target, targets)]
    if file is not None:
        try:
            found += _of_file(read_settings(file), command)
        except SettingError as error:
            raise InputError(f"{file}: {error}", "edgetop help fleet") from None
    names = [address.name for address in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{twice}: two boards have this name", "give each board its own name in boards.toml")
    if not found:
        raise InputError("no boards", "edgetop fleet ssh:pi@a ssh:pi@b, or -f boards.toml")
    if len(found) > MAX_BOARDS:
        raise InputError(f"{len(found)} boards: a fleet has at most {MAX_BOARDS}")
    return found


def _of_file(document: Mapping[str, object], command: str) -> list[Address]:
    for key in document:
        if key != "boards":
            raise SettingError(f"unknown key {key} (a board is a table: [boards.NAME])")
    boards = document.get("boards")
    if not isinstance(boards, dict):
        raise SettingError("has no boards; write [boards.desk-1] and below it ssh = 'pi@host'")
    return [_board(name, table, command) for name, table in boards.items()]


def _board(name: str, table: object, command: str) -> Address:
    where = f"boards.{name}"
    if not _NAME.fullmatch(name):
        raise SettingError(f"{where}: a name has at most 40 letters, digits, -, _, . or @")
    if not isinstance(table, dict):
        raise SettingError(f"{where}: is not a table")
    for key in table:
        if key not in KEYS:
            raise SettingError(f"{where}: unknown key {key} ({nearest_hint(key, KEYS)})")
    texts = {key: table.get(key, "") for key in ("ssh", "group", "command")}
    labels = table.get("labels", {})
    if not isinstance(labels, dict) or not all(isinstance(text, str) for text in (*texts.values(), *labels.values())):
        raise SettingError(f"{where}: ssh, group and command must be strings, labels a table of strings")
    try:
        target = parse_target(f"ssh:{texts['ssh'].removeprefix('ssh:')}")
    except InputError as error:
        raise SettingError(f"{where}: ssh = '[USER@]HOST[:SESSION]': {error}") from None
    return Address(name, target, texts["group"], labels, texts["command"] or command)


def chosen(boards: Sequence[Address], groups: Sequence[str], labels: Sequence[tuple[str, str]]) -> list[Address]:
    """Return the boards that are in one of `groups` and have all of `labels`, which are `(key, value)` pairs.

    Empty `groups` or `labels` accept every board. Raises InputError if no board remains.
    """
    known = {board.group for board in boards if board.group}
    for group in groups:
        if group not in known:
            raise InputError(f"--group {group}: no board is in it", nearest_hint(group, known) if known else "")
    wanted = set(labels)
    found = [of for of in boards if wanted <= set(of.labels.items()) and (of.group in groups or not groups)]
    if not found:
        raise InputError("no board has these labels", "edgetop help fleet")
    return found


class CannotError(Exception):
    """Raised if a board cannot do what was requested. The message is one line with the reason."""


@frozen
class Done:
    address: Address
    reason: str = ""  # why the order failed; "" if it was carried out
    said: str = ""  # output of the board


def _there(address: Address, command: str, timeout_s: float, model: Path | None = None) -> list[str]:
    """Run the shell command `command` on the board. Return the lines of its output (stdout and stderr).

    `model` is a file for the command's standard input; None for no input. Raises CannotError if the command fails, or
    has not ended after `timeout_s` seconds.
    """
    with contextlib.ExitStack() as stack:
        stdin = stack.enter_context(model.open("rb")) if model else subprocess.DEVNULL
        try:
            process = subprocess.Popen(  # noqa: S603  an argument list, and `--` before the host
                command_line(address.target, command, attended=False), stdin=stdin, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise CannotError(f"ssh cannot be started: {error.strerror}") from None
        stack.enter_context(process)
        timer = threading.Timer(timeout_s, process.kill)
        timer.daemon = True
        timer.start()
        stack.callback(timer.cancel)
        assert process.stdout
        said = process.stdout.read(MAX_SAID)
        if process.stdout.read(1):
            process.kill()
            raise CannotError("it prints too much to be edgetop")
        code = process.wait()
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    if code < 0:
        raise CannotError(f"no answer within {timeout_s:.0f} s")
    if code == NOT_FOUND:
        raise CannotError(not_found(address.command, address.target))
    if code:
        quoted = cut(clean(lines[-1].removeprefix("edgetop: ")), MAX_QUOTED) if lines else ""
        silent = f"ssh could not reach {address.target}" if code == SSH_FAILED else f"exit code {code}"
        raise CannotError(quoted or silent)
    return lines


def _shell(script: str) -> str:
    """Return a command that runs `script` with sh, whatever the login shell on the board is."""
    return f"sh -c {shlex.quote(script)}"


def _each(boards: Sequence[Address], do: Callable[[Address], Done]) -> Iterator[Done]:
    """Call `do` for each board, for at most 16 boards at the same time. Yield each result when it is ready."""

    def done(address: Address) -> Done:
        try:
            return do(address)
        except CannotError as error:
            return Done(address, str(error))

    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        for future in as_completed([pool.submit(done, address) for address in boards]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def stop(boards: Sequence[Address]) -> Iterator[Done]:
    def on(address: Address) -> Done:
        session = f" -- {shlex.quote(address.target.session)}" if address.target.session else ""
        lines = _there(address, f"{address.command} stop{session}", STOP_S)
        return Done(address, said=clean(lines[-1]) if lines else "")

    return _each(boards, on)


def start(boards: Sequence[Address], model: Path, options: Sequence[str]) -> Iterator[Done]:
    """Start a model on all boards. Yield a result for each board, with the new session's address.

    `options` are options of `edgetop run`. Raises InputError if the model cannot be read.
    """
    try:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{model}: cannot be read: {error.strerror}") from None
    place = {"sum": digest, "name": as_component(re.sub(r"[^A-Za-z0-9._-]", "_", model.name))}

    def on(address: Address) -> Done:
        found = _paths(_there(address, _shell(_IS_THERE % place), LOOK_S))
        found = found or _paths(_there(address, _shell(_COPY % place), COPY_S, model))
        if not found:
            raise CannotError("it did not confirm the copy")
        words = shlex.join([*options, "--detach"])
        lines = _there(address, f"{address.command} run {shlex.quote(found[-1])} {words}", START_S)
        match = _RECORDED.search("\n".join(lines))
        if not match:
            raise CannotError("the run began, but did not report its recording")
        return Done(replace(address, target=Target(address.target.host, match[1])))

    return _each(boards, on)


def _paths(lines: Sequence[str]) -> list[str]:
    """Return the lines of a board's output that are paths. Start-up files of a shell may print other lines."""
    return [line for line in lines if line.startswith("/")]
