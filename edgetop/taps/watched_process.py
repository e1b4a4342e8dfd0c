"""Programs that run already: which of them run models, and one that is watched, as an engine that edgetop cannot end.

Uprobes need a privilege, and nothing else here does. So three processes share the work (`start_helpers`): `opener.py`
has the privilege and opens perf events, `uprobe_reader.py` has the rights of the watched process's owner and reads
them, and this one gives its own rights up as soon as the two have begun (`edgetop.cli.watching.watch_session`).
"""

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetop.engines.engine_protocol import Ended, EngineUpdate, Failed, LogLine, Message, Started
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.taps import opener
from edgetop.taps.asking import Asked
from edgetop.taps.loading import Loading
from edgetop.taps.runtimes import Function, libraries, mappings, models
from edgetop.taps.taps import Taps

# Neither takes a module from the folder where it was started, or from its environment.
OPENER = Path(opener.__file__).resolve()
READER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from edgetop.taps.uprobe_reader import main; main()"
PACKAGES = Path(__file__).resolve().parents[2]
ASK_UNIT_S = 1.0
GONE_UNIT_S = 5.0  # a unit that is stopped for so long is not being restarted
ANSWER_S = 10.0  # of systemctl
START_S = 30.0
END_S = 5.0  # of a helper
MOST_TEXT = 300
MOST_DIGITS = 9
MOST_LINE = 16_384  # of what the reader reports: a line that is longer is none of its
MOST_NEWS = 256  # of its lines, of one process: its owner, who may make it say anything, fills no recording


@frozen
class ProcessSpec:
    command: Sequence[str]  # as it was started
    pid: int
    duration_ns: int | None = None  # of watching, from the first inference on
    runs: int | None = None
    unit: str | None = None  # the process is the main one of this systemd unit


def began(pid: int) -> str | None:
    """Return when a process began, which tells it from a later one of the same number (proc_pid_stat(5)).

    None: it ended, or is a zombie.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def command_of(pid: int) -> tuple[str, ...]:
    """Raises InputError where there is no such process."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        message = f"--pid {pid}: there is no such process"
        raise InputError(message, "edgetop watch --all lists those that run models") from None
    return tuple(text.rstrip("\0").split("\0")) if text else (name,)


class UnitQuestion:
    """Asks systemctl(1) for a unit's main process."""

    def __init__(self, unit: str) -> None:
        """Raises InputError where systemctl cannot be asked."""
        program = shutil.which("systemctl")
        if program is None:
            raise InputError(f"--unit {unit}: there is no systemctl here", "give the process: --pid N")
        self._unit = unit
        order = [program, "show", "--property=MainPID,ActiveState,LoadState", "--", unit]
        try:
            self._asked = Asked(order, ANSWER_S)
        except OSError:
            raise self._no_answer() from None

    def poll(self, *, waits: bool = False) -> tuple[int, str] | None:
        """Return the main process, 0 where the unit has none, and the unit's state; None: not yet.

        Raises InputError where there is no answer. It is to be closed then, too.
        """
        try:
            answer = self._asked.wait() if waits else self._asked.poll()
            if answer is None:
                return None
            lines = answer[1].decode("utf-8", "replace").splitlines()
            fields = dict(line.split("=", 1) for line in lines if "=" in line)
            pid = int(fields["MainPID"])
        except (OSError, KeyError, ValueError):
            raise self._no_answer() from None
        if fields.get("LoadState") == "not-found":
            raise InputError(f"--unit {self._unit}: there is no such unit", "systemctl list-units --type=service")
        return pid, fields.get("ActiveState", "")

    def _no_answer(self) -> InputError:
        message = f"--unit {self._unit}: systemctl does not tell its main process"
        return InputError(message, f"systemctl status {self._unit}")

    def close(self) -> None:
        self._asked.close()


def main_process(unit: str) -> tuple[int, str]:
    """Return a unit's main process, 0 where it has none, and its state. Raises InputError."""
    with contextlib.closing(UnitQuestion(unit)) as question:
        answer = question.poll(waits=True)
        assert answer
        return answer


@frozen
class ModelProcess:
    """A process that has mapped a runtime or the file of a model."""

    pid: int
    user: str
    command: tuple[str, ...]
    runtimes: tuple[str, ...]  # names of the mapped libraries
    models: tuple[str, ...]  # paths of mapped model files: ONNX Runtime maps none
    why_not: str  # why it cannot be watched; "": it can


def model_processes() -> tuple[list[ModelProcess], int]:
    """The model processes that may be read, by number, and how many processes may not be read."""
    readable, closed = [], 0
    for pid in sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        maps = mappings(pid)
        if not maps:
            try:
                Path(f"/proc/{pid}/maps").read_bytes()
            except OSError as error:
                closed += isinstance(error, PermissionError)
            continue
        names, files = [path.rpartition("/")[2] for path in libraries(maps)], models(maps)
        if names or files:
            with contextlib.suppress(InputError):  # it ended meanwhile
                user, why = _user(pid), why_unwatched(pid)
                readable.append(ModelProcess(pid, user, command_of(pid), tuple(names), tuple(files), why))
    return readable, closed


def _user(pid: int) -> str:
    try:
        number = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def why_unwatched(pid: int) -> str:
    """Why `opener.py` would refuse this process to its owner; "": it would not."""
    try:
        fields = _status_of(pid)
        if len(set(fields["Uid"].split())) > 1 or len(set(fields["Gid"].split())) > 1:
            return "its user and group changed when it began"
        for one in ("mnt", "user"):
            if Path(f"/proc/{pid}/ns/{one}").stat().st_ino != Path(f"/proc/self/ns/{one}").stat().st_ino:
                return "it is in a container, or in another mount namespace"
        user = int(fields["Uid"].split()[0])
        if user and (int(fields["CapPrm"], 16) or Path(f"/proc/{pid}/status").stat().st_uid != user):
            return "it has more rights than its user"
        return ""
    except (OSError, KeyError, ValueError):
        return "it may not be looked into"


def owner_of(pid: int) -> tuple[int, int]:
    """Return the user and the group of a process. Raises InputError where it cannot be watched.

    Not the owner of its folder in /proc: that is root where the process may not be traced (proc(5), "dumpable").
    """
    command_of(pid)
    if why := why_unwatched(pid):
        raise InputError(f"--pid {pid}: not watched: {why}", "edgetop help watch")
    try:
        fields = _status_of(pid)
    except OSError:
        raise InputError(f"--pid {pid}: it has ended") from None
    return int(fields["Uid"].split()[0]), int(fields["Gid"].split()[0])


def _status_of(pid: int) -> dict[str, str]:
    """Return the fields of /proc/PID/status. Raises OSError."""
    text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class WatchedProcess:
    isolation = "program"

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.output: Path | None = None  # what it prints stays its own
        self.exit_status: int | None = None  # only its parent gets it
        self._pid, self._began = spec.pid, began(spec.pid)
        self._helpers: list[subprocess.Popen[bytes]] = []  # the opener and the reader
        self._link: socket.socket | None = None  # to the reader
        self._life: socket.socket | None = None  # to the opener, which ends when this one is closed
        self._partial_line = b""  # of the reader's output
        self._loading: Loading | None = None  # a module whose functions are being found
        self._news = 0  # lines of the reader
        self._mapped: list[str] = []  # runtimes whose calls the reader sees
        self._missing: list[str] = []  # why it cannot see the calls of others
        self._setting = ""  # in which runtime breakpoints are just being set
        self._failure = ""  # what ended the reader
        self._taps = Taps()
        self._reported_start = self._over = False
        self._stop = ""
        self._gone_since_s: float | None = None
        self._asked_unit_s = 0.0
        self._question: UnitQuestion | None = None  # to systemctl, which may take its time

    def start_helpers(self, user: tuple[int, int] | None = None) -> None:
        """Needs root. `user`: user and group that this process will have. Raises InputError where it cannot be."""
        owner = owner_of(self._pid)
        folder = self._taps.open()
        link, ours = socket.socketpair()
        life, self._life = socket.socketpair()
        events, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._link = ours
        words = [sys.executable, "-I", "-B"]
        self._begin([*words, "-S", str(OPENER), str(owner[0])], requests, life)
        names = [str(PACKAGES), *map(str, owner), str(folder), str(self._pid), str(events.fileno())]
        self._begin([*words, "-c", READER, *names], link, link=events)
        for one in (link, life, events, requests):
            one.close()
        answer = _parsed(self._first_line(ours))
        if "ready" not in answer:
            self.close()
            raise InputError(f"--pid {self._pid}: {clean(str(answer.get('refused', 'the uprobes could not be set')))}")
        ours.setblocking(False)
        for path in (*folder.iterdir(), folder):
            os.chown(path, *(user or (os.getuid(), os.getgid())), follow_symlinks=False)

    def _first_line(self, link: socket.socket) -> bytes:
        """Wait for what the reader says first."""
        until_s = time.monotonic() + START_S
        with contextlib.suppress(OSError):
            while b"\n" not in self._partial_line and len(self._partial_line) <= MOST_LINE:
                link.settimeout(max(until_s - time.monotonic(), 0.001))
                if not (data := link.recv(MOST_LINE)):
                    break
                self._partial_line += data
        line, _, self._partial_line = self._partial_line.partition(b"\n")
        return line

    def _begin(
        self,
        command: list[str],
        stdin: socket.socket,
        stdout: socket.socket | None = None,
        link: socket.socket | None = None,
    ) -> None:
        """Start a helper; `link`: a socket that it has besides."""
        self._helpers.append(
            subprocess.Popen(  # noqa: S603  this interpreter and our own programs
                command,
                stdin=stdin.fileno(),
                stdout=subprocess.DEVNULL if stdout is None else stdout.fileno(),
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=() if link is None else (link.fileno(),),
                start_new_session=True,  # neither Ctrl+C nor a terminal that hangs up ends it
            )
        )

    def start(self) -> None:
        self._taps.started_ns = self._taps.since_ns = time.monotonic_ns()

    def poll(self) -> EngineUpdate:
        if self._over or not self._helpers:
            return EngineUpdate()
        now_ns = time.monotonic_ns()
        messages: list[Message] = [] if self._reported_start else [Started(self._pid, "")]
        self._reported_start = True
        has_helper = self._helpers[-1].poll() is None
        end = self._end_reason(messages)
        records, news = self._taps.poll(now_ns, is_over=bool(end) or not has_helper)
        messages += [*news, *self._helper_news()]
        end = end or self._stop or self._taps.reached(self.spec.duration_ns, self.spec.runs, now_ns)
        if not has_helper and not end:
            messages.append(
                Failed("engine", f"the helper that reads the uprobes has ended{self._failure and ': '}{self._failure}")
            )
        elif end:
            messages.append(Ended(end, now_ns))
        else:
            messages += self._taps.warn_if_quiet(now_ns, self._why_quiet)
        self._over = bool(end) or not has_helper
        return EngineUpdate(records, tuple(messages), self._taps.poll_within_s)

    def _why_quiet(self) -> str:
        if self._setting:
            return self._setting
        if self._mapped:
            return f"{', '.join(self._mapped[:3])} is mapped, no call yet"
        unmapped = f"process {self._pid} has mapped no library of ONNX Runtime or LiteRT (edgetop help watch)"
        return "; ".join(self._missing[:3]) or unmapped

    def _helper_news(self) -> list[Message]:
        """Read which runtimes the reader sees by now, and which it cannot."""
        assert self._link
        with contextlib.suppress(OSError):
            while len(self._partial_line) <= MOST_LINE and (data := self._link.recv(MOST_LINE)):
                self._partial_line += data
        *lines, self._partial_line = self._partial_line.split(b"\n")
        self._partial_line = self._partial_line[: MOST_LINE + 1]
        messages: list[Message] = []
        room = max(MOST_NEWS - self._news, 0)
        self._news += len(lines)
        for news in map(_parsed, lines[:room]):
            if path := news.get("sets"):
                threads = clean(str(news.get("threads")))[:MOST_DIGITS]
                name = clean(str(path).rpartition("/")[2])[:MOST_TEXT]
                self._setting = f"{name} is mapped, and breakpoints are being set in {threads} threads"
            elif path := news.get("found"):
                name = clean(str(path).rpartition("/")[2])[:MOST_TEXT]
                self._setting = ""
                self._mapped.append(name)
                names = news.get("functions")
                seen = ", ".join(map(str, names)) if isinstance(names, list) else "none"
                text = f"{name}: calls of {seen} are seen by uprobes"
                messages.append(LogLine("info", "edgetop", clean(text)[:MOST_TEXT]))
            elif missing := news.get("missing"):
                messages.append(self._misses(str(missing)))
            elif unread := news.get("unread"):
                text = f"models have no names, or that of the command line: {unread}"
                messages.append(LogLine("info", "edgetop", clean(text)[:MOST_TEXT]))
            elif failed := news.get("failed"):
                self._failure = clean(str(failed))[:MOST_TEXT]
            elif "module" in news and self._loading is None:
                messages += self._load(news)
        return [*messages, *self._loaded()]

    def _misses(self, why: str) -> Message:
        """Remember why a runtime's calls are not seen, and say it."""
        self._setting = ""
        self._missing.append(clean(why)[:MOST_TEXT])
        return LogLine("warning", "edgetop", self._missing[-1], "runtime-unseen")

    def _load(self, news: dict[str, Any]) -> list[Message]:
        """Find the functions of a module that the process has mapped, if it may be loaded here."""
        with contextlib.suppress(KeyError, TypeError):
            sites = [str(site) for site in news["sites"]][:8]
            try:
                self._loading = Loading(str(news["module"]), str(news["interpreter"]), sites, str(news["sha256"]))
            except ValueError as error:
                return [self._misses(str(error))]
        return []

    def _loaded(self) -> list[Message]:
        """Send the functions that were found to the reader."""
        if self._loading is None:
            return []
        found: list[Function] | None = []
        messages: list[Message] = []
        try:
            found = self._loading.poll()
        except (ValueError, OSError, subprocess.SubprocessError) as error:
            messages.append(self._misses(str(error)))
        if found is not None:
            self._order(module=self._loading.path, functions=[asdict(function) for function in found])
            self._loading.close()
            self._loading = None
        return messages

    def _order(self, **what: object) -> None:
        assert self._link
        with contextlib.suppress(OSError):  # the reader has ended, which is noticed elsewhere
            self._link.send(json.dumps(what).encode() + b"\n")

    def _end_reason(self, messages: list[Message]) -> str:
        """Why watching is over, where the process has ended; of a unit, when it is not started again."""
        if self._began is not None and began(self._pid) == self._began:
            return ""
        if self.spec.unit is None:
            return "exit"
        now_s = time.monotonic()
        if self._gone_since_s is None:
            self._gone_since_s = now_s
            text = f"process {self._pid} of {self.spec.unit} has ended"
            messages.append(LogLine("warning", "program", text, "unit-ended"))
        answer = self._unit_state(self.spec.unit, now_s)
        if answer is None:
            return ""
        pid, state = answer
        if pid and (since := began(pid)) is not None and (pid, since) != (self._pid, self._began):
            text = f"{self.spec.unit} runs again as process {pid}: not seen for {now_s - self._gone_since_s:.1f} s"
            messages += [LogLine("info", "program", text, "unit-restarted"), Started(pid, "")]
            self._pid, self._began, self._gone_since_s, self._news = pid, since, None, 0
            self._order(pid=pid)
        elif state in ("inactive", "failed") and now_s - self._gone_since_s > GONE_UNIT_S:
            return "exit"
        return ""

    def _unit_state(self, unit: str, now_s: float) -> tuple[int, str] | None:
        """Return the unit's main process and its state; None: it is not known just now."""
        try:
            if self._question is None:
                if now_s - self._asked_unit_s < ASK_UNIT_S:
                    return None
                self._asked_unit_s, self._question = now_s, UnitQuestion(unit)
            answer = self._question.poll()
        except InputError:
            answer = 0, "inactive"
        if answer and self._question:
            self._question.close()
            self._question = None
        return answer

    def stop(self) -> None:
        """End watching; the process goes on."""
        self._stop = "stop"

    @property
    def was_stopped(self) -> bool:
        return bool(self._stop)

    def profile(self) -> None:
        """Do nothing: operators cannot be profiled without changing the program."""

    def close(self) -> None:
        """End the helpers, and the uprobes with them, and remove what was shared with them."""
        if self._loading:
            self._loading.close()
            self._loading = None
        if self._question:
            self._question.close()
            self._question = None
        for one in (self._link, self._life):
            if one:
                one.close()
        self._link = self._life = None
        for helper in reversed(self._helpers):
            with contextlib.suppress(subprocess.TimeoutExpired):
                helper.wait(END_S)
            if helper.poll() is None:  # its owner has stopped it
                with contextlib.suppress(PermissionError, subprocess.TimeoutExpired):
                    helper.kill()
                    helper.wait(END_S)
        self._helpers.clear()
        self._taps.close()


def _parsed(line: bytes) -> dict[str, Any]:
    """Return what a line of the reader says; an empty dictionary for what is none."""
    try:
        news = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return news if isinstance(news, dict) else {}
