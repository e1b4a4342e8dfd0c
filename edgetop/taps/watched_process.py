"""Running programs: find those that run models, and watch one, as an engine that edgetop cannot end.

Only uprobes (breakpoints) need a privilege, so three processes share the work. `opener.py` has the privilege and opens
perf events. `uprobe_reader.py` has the rights of the watched process's owner and reads the events. This process starts
both (`start_helpers`). It gives up its own rights as soon as both have begun (`edgetop.cli.watching.watch_session`).
"""

import contextlib
import json
import os
import pwd
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
from edgetop.taps.loading import Loading
from edgetop.taps.runtimes import Function, libraries, mappings, models
from edgetop.taps.taps import Taps
from edgetop.taps.unit_question import ASK_UNIT_S, GONE_UNIT_S, UnitQuestion
from edgetop.taps.unseen import language_model_inside

# Both programs import no module from the current folder or from the environment.
OPENER = Path(opener.__file__).resolve()
READER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from edgetop.taps.uprobe_reader import main; main()"
PACKAGES = Path(__file__).resolve().parents[2]
START_S = 30.0
END_S = 5.0  # time for a helper to end
MOST_TEXT = 300
MOST_DIGITS = 9
MOST_LINE = 16_384  # longest line of the reader
MOST_NEWS = 256  # most lines of the reader per process, because the owner could make it fill the recording


@frozen
class ProcessSpec:
    command: Sequence[str]  # command line of the process
    pid: int
    duration_ns: int | None = None  # how long to watch, from the first inference on
    runs: int | None = None
    unit: str | None = None  # systemd unit whose main process is watched


def began(pid: int) -> str | None:
    """Return the start time of a process, as the kernel's text (proc_pid_stat(5)), or None if the process has ended.

    The start time distinguishes the process from a later one with the same number.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def command_of(pid: int) -> tuple[str, ...]:
    """Return the words of a process's command line. Raises InputError if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
        name = Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        message = f"--pid {pid}: there is no such process"
        raise InputError(message, "edgetop watch --all lists processes that run models") from None
    return tuple(text.rstrip("\0").split("\0")) if text else (name,)


def main_process(unit: str) -> tuple[int, str]:
    """Return (id of the unit's main process or 0, state of the unit such as "active").

    `unit` is the name of a systemd unit. Raises InputError if systemctl does not know it.
    """
    with contextlib.closing(UnitQuestion(unit)) as question:
        answer = question.poll(waits=True)
        assert answer
        return answer


@frozen
class ModelProcess:
    """A process that has mapped a runtime or a model file, so that it probably runs models."""

    pid: int
    user: str
    command: tuple[str, ...]
    runtimes: tuple[str, ...]  # names of the mapped runtime libraries
    models: tuple[str, ...]  # paths of the mapped model files; ONNX Runtime maps none
    why_not: str  # why the process cannot be watched; "" if it can


def model_processes() -> tuple[list[ModelProcess], int]:
    """Return the processes that probably run models, sorted by process id, and how many processes could not be read."""
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
            with contextlib.suppress(InputError):  # the process has ended meanwhile
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
    """Return in words why a process cannot be watched with its owner's rights, or "" if it can be.

    `opener.py` makes the same checks.
    """
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
        return "it may not be inspected"


def owner_of(pid: int) -> tuple[int, int]:
    """Return the ids of a process's user and group. Raises InputError if the process cannot be watched.

    The owner of the process's folder in /proc is not used: that is root if the process may not be traced (proc(5),
    "dumpable").
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
    """Return the fields of /proc/PID/status by name. Raises OSError if there is no such process."""
    text = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


class WatchedProcess:
    isolation = "program"

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.output: Path | None = None  # the output of a running process is not captured
        self.prefix: Sequence[str] = ()  # nor has it limits of edgetop
        self.cgroups: Sequence[str] = ()
        self.executable = ""  # it is not started
        self.in_container = None  # processes in containers are not watched in this way
        self.exit_status: int | None = None  # only the parent of a process gets its exit status
        self._pid, self._began = spec.pid, began(spec.pid)
        self._helpers: list[subprocess.Popen[bytes]] = []  # the opener and the reader
        self._link: socket.socket | None = None  # socket to the reader
        self._life: socket.socket | None = None  # socket to the opener, which ends when it is closed
        self._partial_line = b""  # incomplete line of the reader
        self._loading: Loading | None = None  # search for the functions of a module
        self._news = 0  # number of lines from the reader
        self._mapped: list[str] = []  # runtimes whose calls the reader sees
        self._missing: list[str] = []  # reasons why calls of other runtimes are not seen
        self._setting = ""  # runtime in which breakpoints are being set
        self._failure = ""  # reason why the reader ended
        self._taps = Taps()
        self._reported_start = self._over = False
        self._stop = ""
        self._gone_since_s: float | None = None
        self._asked_unit_s = 0.0
        self._question: UnitQuestion | None = None  # pending question to systemctl

    def start_helpers(self, user: tuple[int, int] | None = None) -> None:
        """Start the two helper processes that set and read uprobes (breakpoints). This needs root.

        `user` has the ids of the user and the group to which this process will change later; None if it will not
        change. Raises InputError if the process cannot be watched.
        """
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
        """Wait for the first line from the helper that reads uprobes, and return it, or b"" if none comes."""
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
        """Start a helper process with the command line `command`.

        `stdin` is its standard input. `stdout` is its standard output, or None for no change. `link` is a further
        socket that it inherits, or None.
        """
        self._helpers.append(
            subprocess.Popen(  # noqa: S603  this interpreter and our own programs
                command,
                stdin=stdin.fileno(),
                stdout=subprocess.DEVNULL if stdout is None else stdout.fileno(),
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                pass_fds=() if link is None else (link.fileno(),),
                start_new_session=True,  # Ctrl+C and a hang-up of the terminal do not reach it
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
        return "; ".join(self._missing[:3]) or language_model_inside(self._pid) or unmapped

    def _helper_news(self) -> list[Message]:
        """Read the lines of the helper that reads uprobes, and return messages for the user.

        The messages say which runtimes' calls are seen, and which runtimes' calls are not.
        """
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
                text = f"models have no names, or only the one on the command line: {unread}"
                messages.append(LogLine("info", "edgetop", clean(text)[:MOST_TEXT]))
            elif failed := news.get("failed"):
                self._failure = clean(str(failed))[:MOST_TEXT]
            elif "module" in news and self._loading is None:
                messages += self._load(news)
        return [*messages, *self._loaded()]

    def _misses(self, why: str) -> Message:
        """Note why a runtime's calls are not seen, and return a message that says so. `why` is a sentence."""
        self._setting = ""
        self._missing.append(clean(why)[:MOST_TEXT])
        return LogLine("warning", "edgetop", self._missing[-1], "runtime-unseen")

    def _load(self, news: dict[str, Any]) -> list[Message]:
        """Start to search a module that the process has mapped for its functions that run a model.

        Returns a list with one message if the module is not safe to load, else []. `news` is a parsed line of JSON from
        the helper that reads uprobes. It has the module's path.
        """
        with contextlib.suppress(KeyError, TypeError):
            sites = [str(site) for site in news["sites"]][:8]
            try:
                self._loading = Loading(str(news["module"]), str(news["interpreter"]), sites, str(news["sha256"]))
            except ValueError as error:
                return [self._misses(str(error))]
        return []

    def _loaded(self) -> list[Message]:
        """Send the functions that a search found to the helper that reads uprobes, as soon as the search has ended.

        Returns a list with one message if the search failed, else [].
        """
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
        with contextlib.suppress(OSError):  # the reader has ended, which `poll` reports
            self._link.send(json.dumps(what).encode() + b"\n")

    def _end_reason(self, messages: list[Message]) -> str:
        """Return "exit" if the process has ended and no systemd unit restarts it, else "".

        Messages about changes of the unit are appended to `messages`.
        """
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
            text = f"{self.spec.unit} runs again as process {pid}, after {now_s - self._gone_since_s:.1f} s"
            messages += [LogLine("info", "program", text, "unit-restarted"), Started(pid, "")]
            self._pid, self._began, self._gone_since_s, self._news = pid, since, None, 0
            self._order(pid=pid)
        elif state in ("inactive", "failed") and now_s - self._gone_since_s > GONE_UNIT_S:
            return "exit"
        return ""

    def _unit_state(self, unit: str, now_s: float) -> tuple[int, str] | None:
        """Return (id of the main process or 0, state such as "active") of the systemd unit named `unit`.

        Returns None as long as systemctl has not answered, and (0, "inactive") if it fails. `now_s` is the present time
        in s.
        """
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
        """Stop watching. The process goes on."""
        self._stop = "stop"

    @property
    def was_stopped(self) -> bool:
        return bool(self._stop)

    def profile(self) -> None:
        """Do nothing, because operators can be profiled only by changing the program."""

    def close(self) -> None:
        """End the helper processes, which removes the breakpoints, and remove the rings."""
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
            if helper.poll() is None:  # its owner may have suspended it
                with contextlib.suppress(PermissionError, subprocess.TimeoutExpired):
                    helper.kill()
                    helper.wait(END_S)
        self._helpers.clear()
        self._taps.close()


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line, or {} if it is invalid."""
    try:
        news = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return news if isinstance(news, dict) else {}
