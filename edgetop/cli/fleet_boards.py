"""The boards of a fleet: named on the command line, or in a file of boards (TOML)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetop.cli.config import SettingError, read_toml
from edgetop.errors import InputError
from edgetop.feeds.fleet import Address
from edgetop.feeds.ssh import parse_target
from edgetop.nearest import nearest_hint

MAX_BOARDS = 500
KEYS = ("ssh", "group", "labels", "command")
_NAME = re.compile(r"[\w.@+-]{1,40}")


def addresses(targets: Sequence[str], file: Path | None, command: str) -> list[Address]:
    """Return the boards of the command line, named by their hosts, and of the file. `command`: edgetop's name there.

    Raises InputError.
    """
    found = [Address(target.host, target, command=command) for target in map(parse_target, targets)]
    if file is not None:
        try:
            found += _of_file(read_toml(file), command)
        except SettingError as error:
            raise InputError(f"{file}: {error}", "edgetop help fleet") from None
    names = [address.name for address in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{twice}: is named twice", "give each a name of its own in boards.toml")
    if not found:
        raise InputError("no boards", "edgetop fleet ssh:pi@a ssh:pi@b, or -f boards.toml")
    if len(found) > MAX_BOARDS:
        raise InputError(f"{len(found)} boards: a fleet has at most {MAX_BOARDS}")
    return found


def _of_file(document: Mapping[str, Any], command: str) -> list[Address]:
    for key in document:
        if key != "boards":
            raise SettingError(f"unknown key {key} (a board is a table: [boards.NAME])")
    boards = document.get("boards")
    if not isinstance(boards, dict):
        raise SettingError("has no boards; write [boards.desk-1] and below it ssh = 'pi@host'")
    return [_board(name, table, command) for name, table in boards.items()]


def _board(name: str, table: Any, command: str) -> Address:
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
        raise SettingError(f"{where}: ssh, group and command are texts, labels a table of texts")
    try:
        target = parse_target(f"ssh:{texts['ssh'].removeprefix('ssh:')}")
    except InputError as error:
        raise SettingError(f"{where}: ssh = '[USER@]HOST[:SESSION]': {error}") from None
    return Address(name, target, texts["group"], labels, texts["command"] or command)


def chosen(boards: Sequence[Address], groups: Sequence[str], labels: Sequence[tuple[str, str]]) -> list[Address]:
    """Return the boards in one of these groups with all of these labels. Raises InputError where there is none."""
    known = {board.group for board in boards if board.group}
    for group in groups:
        if group not in known:
            raise InputError(f"--group {group}: no board is in it", nearest_hint(group, known) if known else "")
    wanted = set(labels)
    found = [of for of in boards if wanted <= set(of.labels.items()) and (of.group in groups or not groups)]
    if not found:
        raise InputError("no board has these labels", "edgetop help fleet")
    return found
