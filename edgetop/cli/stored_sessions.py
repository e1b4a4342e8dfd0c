"""The list of sessions on the screen. Other edgetop commands do its work, each in its own process at a low priority.

So the process of a run does not load Arrow and is not slowed down, and the list shows the same as the commands do.
"""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from edgetop import formatting
from edgetop.cli.terminal import edgetop_command
from edgetop.errors import EdgetopError
from edgetop.formatting import UNKNOWN, or_unknown
from edgetop.paths import recordings_home
from edgetop.recording.renaming import rename_session
from edgetop.session.typed_json import Document
from edgetop.ui.screen_settings import StoredSession

T = TypeVar("T")
NICENESS = 10
LOOK_S = 0.2  # interval at which a shown session is checked for its end


class CommandWork(Generic[T]):
    """An edgetop command in another process, at a low priority."""

    def __init__(self, parse: Callable[[str], T], *arguments: str, columns: int | None = None) -> None:
        """Start the command `edgetop ARGUMENTS`.

        `parse` makes the result from the output of the command. `columns` is the width of that output in characters;
        None for its default. Raises OSError if the command cannot be started.
        """
        self._parse = parse
        self._result: T | str | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  no pipe, which would have to be emptied all the time
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with this object
        environment = {**os.environ, **({} if columns is None else {"COLUMNS": str(columns)})}
        self._process = subprocess.Popen(  # noqa: S603  this interpreter and our own program
            edgetop_command(*arguments), env=environment, stdin=subprocess.DEVNULL, stdout=self._output,
            stderr=self._errors, start_new_session=True,
        )  # fmt: skip
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, NICENESS)

    def result(self) -> T | str | None:
        if self._result is None and self._process.poll() is not None:
            output, errors = map(_content, (self._output, self._errors))
            self._result = _reason(errors) if self._process.returncode else self._parse(output)
        return self._result

    def cancel(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._output.close()
        self._errors.close()


def _content(file: BinaryIO) -> str:
    """Return the whole text of a file, and close it."""
    with file:
        file.seek(0)
        return file.read().decode("utf-8", "replace")


def _reason(errors: str) -> str:
    """Return what a command printed to stderr, as one line."""
    lines = errors.strip().splitlines() or ["the command ended without a message"]
    return "; ".join(line.removeprefix("edgetop: ") for line in lines)


class StoredSessions:
    def listed(self) -> CommandWork[Sequence[StoredSession]]:
        return CommandWork(lambda output: [_stored(one) for one in json.loads(output)], "sessions", "--json")

    def compared(self, first: StoredSession, second: StoredSession, columns: int) -> CommandWork[Sequence[str]]:
        return CommandWork(str.splitlines, "compare", str(first.path), str(second.path), columns=columns)

    def deleted(self, session: StoredSession) -> CommandWork[Sequence[str]]:
        return CommandWork(str.splitlines, "rm", str(session.path), "--yes")

    def rename(self, session: StoredSession, name: str) -> None:
        try:
            rename_session(session.path, name, recordings_home())
        except EdgetopError as error:
            raise ValueError(str(error)) from None

    def show(self, session: StoredSession, gives_up: Callable[[], bool]) -> str:
        arguments = ("attach" if session.is_running else "replay", str(session.path))
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(edgetop_command(*arguments), stderr=errors)  # noqa: S603  our own program
            except OSError as error:
                return f"cannot be shown: {error.strerror}"
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(LOOK_S)
                    break
                if gives_up():
                    process.terminate()
                    code = process.wait()
                    break
            return _reason(_content(errors)) if code else ""


def _stored(one: Document) -> StoredSession:
    """Return a session of the list, made from its entry in `edgetop sessions --json`."""
    p50, p99 = (or_unknown(one[key] and one[key] * 1e6, formatting.milliseconds) for key in ("p50_ms", "p99_ms"))
    began = one["created_utc"][:16].replace("T", " ") or UNKNOWN
    lasted = or_unknown(one["duration_s"] and one["duration_s"] * 1e9, formatting.clock_time)
    is_running = one["state"] == "live"
    verdict = one["verdict"] or (UNKNOWN if one["reason"] is None else "unreadable")
    return StoredSession(
        one["name"], Path(one["path"]), is_running, verdict, f"{began} {lasted:>8} p50 {p50:>5} p99 {p99:>5} ms"
    )
