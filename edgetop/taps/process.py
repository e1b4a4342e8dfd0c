"""Programs that run already: which of them run models, and one that is watched, as an engine that edgetop cannot end.

Uprobes need root, and nothing else here does. So a helper holds them, and this process gives its own rights up as soon
as the helper has begun (`start_helper`, then `edgetop.cli.watch_program`).
"""

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetop.engines.protocol import Ended, EngineUpdate, Failed, LogLine, Message, Started
from edgetop.errors import InputError
from edgetop.taps import perf
from edgetop.taps.runtimes import libraries, mappings, models
from edgetop.taps.taps import Taps

# Root must not run what happens to lie in the folder where it was started: `-m` would.
HELPER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from edgetop.taps.uprobe_helper import main; main()"
PACKAGES = Path(__file__).parents[2]
ASK_UNIT_S = 1.0
GONE_UNIT_S = 5.0  # a unit that is stopped for so long is not being restarted
ANSWER_S = 10.0  # of systemctl
SURVEY_S, SURVEY_PATIENCE_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    command: Sequence[str]  # as it was started
    pid: int
    duration_ns: int | None = None  # of watching, from the first inference on
    runs: int | None = None
    unit: str | None = None  # the process is the main one of this systemd unit


def helper_command(*words: str) -> list[str]:
    return [sys.executable, "-I", "-c", HELPER, str(PACKAGES), *words]


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


def main_process(unit: str) -> tuple[int, str]:
    """A systemd unit's main process, 0 where it has none, and its state (systemctl(1)). Raises InputError."""
    program = shutil.which("systemctl")
    if program is None:
        raise InputError(f"--unit {unit}: there is no systemctl here", "give the process: --pid N")
    order = [program, "show", "--property=MainPID,ActiveState,LoadState", "--", unit]
    try:
        done = subprocess.run(order, capture_output=True, text=True, timeout=ANSWER_S, check=False)  # noqa: S603  systemd's
        fields = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        pid = int(fields["MainPID"])
    except (OSError, subprocess.SubprocessError, KeyError, ValueError):
        message = f"--unit {unit}: systemctl does not tell its main process"
        raise InputError(message, f"systemctl status {unit}") from None
    if fields.get("LoadState") == "not-found":
        raise InputError(f"--unit {unit}: there is no such unit", "systemctl list-units --type=service")
    return pid, fields.get("ActiveState", "")


@dataclass(frozen=True, slots=True)
class ModelProcess:
    """A process that has mapped a runtime or the file of a model."""

    pid: int
    user: str
    command: tuple[str, ...]
    runtimes: tuple[str, ...]  # names of the mapped libraries
    models: tuple[str, ...]  # paths of mapped model files: ONNX Runtime maps none
    calls_per_s: float | None = None  # None: unknown


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
                readable.append(ModelProcess(pid, _user(pid), command_of(pid), tuple(names), tuple(files)))
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


def why_no_rates() -> str:
    """Why the calls of these processes cannot be counted; "": they can."""
    return perf.why_not() or ("" if perf.may_set() else "counting calls needs root")


def with_rates(processes: list[ModelProcess]) -> list[ModelProcess]:
    """The processes with their calls per second, counted by uprobes for two seconds."""
    words = helper_command("survey", str(SURVEY_S), *(str(process.pid) for process in processes))
    rates: dict[str, float] = {}
    with contextlib.suppress(subprocess.SubprocessError, OSError, ValueError):
        done = subprocess.run(  # noqa: S603  our own program
            words, capture_output=True, check=True, timeout=SURVEY_PATIENCE_S, stdin=subprocess.DEVNULL
        )
        rates = json.loads(done.stdout).get("calls_per_s", {})
    return [replace(process, calls_per_s=rates.get(str(process.pid))) for process in processes]


class WatchedProcess:
    isolation = "program"

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.output: Path | None = None  # what it prints stays its own
        self.exit_status: int | None = None  # only its parent gets it
        self._pid, self._began = spec.pid, began(spec.pid)
        self._helper: subprocess.Popen[bytes] | None = None
        self._partial_line = b""  # of the helper's output
        self._mapped: list[str] = []  # runtimes whose calls the helper sees
        self._missing: list[str] = []  # why it cannot see the calls of others
        self._taps = Taps()
        self._reported_start = self._over = False
        self._stop = ""
        self._gone_since_s: float | None = None
        self._asked_unit_s = 0.0

    def start_helper(self, owner: tuple[int, int] | None = None) -> None:
        """Needs root. `owner`: user and group that this process will have. Raises InputError where it cannot be."""
        folder = self._taps.open()
        self._helper = subprocess.Popen(  # noqa: S603  this interpreter and our own program
            helper_command("watch", str(folder), str(self._pid)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # neither Ctrl+C nor a terminal that hangs up ends it
        )
        assert self._helper.stdout
        answer = json.loads(self._helper.stdout.readline() or b"{}")
        if "ready" not in answer:
            self.close()
            raise InputError(f"--pid {self._pid}: {answer.get('refused', 'the helper for uprobes has ended')}")
        os.set_blocking(self._helper.stdout.fileno(), False)
        for path in (*folder.iterdir(), folder):
            os.chown(path, *(owner or (os.getuid(), os.getgid())))

    def start(self) -> None:
        self._taps.started_ns = self._taps.since_ns = time.monotonic_ns()

    def poll(self) -> EngineUpdate:
        if self._over or self._helper is None:
            return EngineUpdate()
        now_ns = time.monotonic_ns()
        messages: list[Message] = [] if self._reported_start else [Started(self._pid, "")]
        self._reported_start = True
        has_helper = self._helper.poll() is None
        end = self._end_reason(messages)
        records, news = self._taps.poll(now_ns, is_over=bool(end) or not has_helper)
        messages += [*news, *self._helper_news()]
        end = end or self._stop or self._taps.reached(self.spec.duration_ns, self.spec.runs, now_ns)
        if not has_helper and not end:
            messages.append(Failed("engine", "the helper that holds the uprobes has ended"))
        elif end:
            messages.append(Ended(end, now_ns))
        else:
            messages += self._taps.warn_if_quiet(now_ns, self._why_quiet)
        self._over = bool(end) or not has_helper
        return EngineUpdate(records, tuple(messages))

    def _why_quiet(self) -> str:
        if self._mapped:
            return f"{', '.join(self._mapped[:3])} is mapped, no call yet"
        unmapped = f"process {self._pid} has mapped no library of ONNX Runtime or LiteRT (edgetop help watch)"
        return "; ".join(self._missing[:3]) or unmapped

    def _helper_news(self) -> list[Message]:
        """Read which runtimes the helper sees by now, and which it cannot."""
        assert self._helper
        assert self._helper.stdout
        self._partial_line += self._helper.stdout.read() or b""
        *lines, self._partial_line = self._partial_line.split(b"\n")
        messages: list[Message] = []
        for line in lines:
            news = json.loads(line)
            if path := news.get("found"):
                name = path.rpartition("/")[2]
                self._mapped.append(name)
                text = f"{name}: calls of {', '.join(news['functions'])} are seen by uprobes"
                messages.append(LogLine("info", "edgetop", text))
            elif missing := news.get("missing"):
                self._missing.append(missing)
        return messages

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
        if now_s - self._asked_unit_s < ASK_UNIT_S:
            return ""
        self._asked_unit_s = now_s
        pid, state = 0, "inactive"
        with contextlib.suppress(InputError):
            pid, state = main_process(self.spec.unit)
        if pid and (since := began(pid)) is not None and (pid, since) != (self._pid, self._began):
            text = f"{self.spec.unit} runs again as process {pid}: not seen for {now_s - self._gone_since_s:.1f} s"
            messages += [LogLine("info", "program", text, "unit-restarted"), Started(pid, "")]
            self._pid, self._began, self._gone_since_s = pid, since, None
            assert self._helper
            assert self._helper.stdin
            with contextlib.suppress(OSError):
                self._helper.stdin.write(f"pid {pid}\n".encode())
                self._helper.stdin.flush()
        elif state in ("inactive", "failed") and now_s - self._gone_since_s > GONE_UNIT_S:
            return "exit"
        return ""

    def stop(self) -> None:
        """End watching; the process goes on."""
        self._stop = "stop"

    @property
    def was_stopped(self) -> bool:
        return bool(self._stop)

    def profile(self) -> None:
        """Do nothing: operators cannot be profiled without changing the program."""

    def close(self) -> None:
        """End the helper, and the uprobes with it, and remove what was shared with it."""
        if self._helper:
            assert self._helper.stdin
            assert self._helper.stdout
            with contextlib.suppress(OSError):
                self._helper.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._helper.wait(5)
            self._helper.stdout.close()
            self._helper = None
        self._taps.close()
