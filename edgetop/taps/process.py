"""A program that runs already and whose inferences edgetop watches: an engine that can neither start nor end it.

Uprobes need root, and nothing else here does. So a helper holds them, and this process gives its own rights up as soon
as the helper has begun (`start_helper`, then `edgetop.cli.privileges`).
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetop.engines.protocol import Ended, EngineUpdate, Failed, LogLine, Message, Started
from edgetop.errors import InputError
from edgetop.taps.program import PREFIX, QUIET_NS, SHARED_MEMORY, remove_left_behind
from edgetop.taps.taps import Taps

# Root must not run what happens to lie in the folder where it was started: `-m` would.
HELPER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from edgetop.taps.uprobe_helper import main; main()"
PACKAGES = Path(__file__).parents[2]
ASK_UNIT_S = 1.0
GONE_UNIT_S = 5.0  # a unit that is stopped for so long is not being restarted
ANSWER_S = 10.0  # of systemctl


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
    """When a process began, which with its number names it; None: it has ended, or is a zombie. proc_pid_stat(5)."""
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
        raise InputError(
            f"--pid {pid}: there is no such process", "edgetop watch --all lists those that run models"
        ) from None
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
        raise InputError(
            f"--unit {unit}: systemctl does not tell its main process", f"systemctl status {unit}"
        ) from None
    if fields.get("LoadState") == "not-found":
        raise InputError(f"--unit {unit}: there is no such unit", "systemctl list-units --type=service")
    return pid, fields.get("ActiveState", "")


class WatchedProcess:
    isolation = "program"

    def __init__(self, spec: ProcessSpec, ask_unit: Callable[[str], tuple[int, str]] = main_process) -> None:
        self.spec = spec
        self.output: Path | None = None  # what it prints stays its own
        self.exit_status: int | None = None  # nobody but its parent knows
        self._ask_unit = ask_unit
        self._pid, self._began = spec.pid, began(spec.pid)
        self._folder: Path | None = None
        self._helper: subprocess.Popen[bytes] | None = None
        self._said = b""
        self._mapped: list[str] = []  # runtimes that the helper has found
        self._missing: list[str] = []  # and why it cannot see their calls
        self._taps = Taps()
        self._started_ns = time.monotonic_ns()
        self._told_start = self._told_quiet = self._over = False
        self._stop = ""
        self._gone_since_s: float | None = None
        self._asked_unit_s = 0.0

    def start_helper(self, owner: tuple[int, int] | None = None) -> None:
        """Needs root. `owner`: user and group that this process will have. Raises InputError where it cannot be."""
        home = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        remove_left_behind(home)
        self._folder = self._taps.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=home))
        self._helper = subprocess.Popen(  # noqa: S603  this interpreter and our own program
            helper_command("watch", str(self._folder), str(self._pid)),
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
        for path in (*self._folder.iterdir(), self._folder):
            os.chown(path, *(owner or (os.getuid(), os.getgid())))

    def start(self) -> None:
        self._started_ns = self._taps.since_ns = time.monotonic_ns()

    def poll(self) -> EngineUpdate:
        if self._over or self._helper is None:
            return EngineUpdate()
        now_ns = time.monotonic_ns()
        messages: list[Message] = [] if self._told_start else [Started(self._pid, "")]
        self._told_start = True
        has_helper = self._helper.poll() is None
        end = self._end_of(messages)
        records, news = self._taps.poll(now_ns, is_over=bool(end) or not has_helper)
        messages += news
        self._hear(messages)
        end = end or self._stop or self._taps.reached(self.spec.duration_ns, self.spec.runs, now_ns)
        if not has_helper and not end:
            messages.append(Failed("engine", "the helper that holds the uprobes has ended"))
        elif end:
            messages.append(Ended(end, now_ns))
        elif not self._told_quiet and self._taps.began_ns is None and now_ns - self._started_ns > QUIET_NS:
            self._told_quiet = True
            text = f"no inference was seen in 10 s: {self._found()}"
            messages.append(LogLine("warning", "edgetop", text, "no-inference"))
        self._over = bool(end) or not has_helper
        return EngineUpdate(records, tuple(messages))

    def _hear(self, messages: list[Message]) -> None:
        """What the helper has found."""
        assert self._helper
        assert self._helper.stdout
        self._said += self._helper.stdout.read() or b""
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if found := said.get("found"):
                name = found.rpartition("/")[2]
                self._mapped.append(name)
                text = f"{name}: calls of {', '.join(said['functions'])} are seen by uprobes"
                messages.append(LogLine("info", "edgetop", text))
            elif missing := said.get("missing"):
                self._missing.append(missing)

    def _found(self) -> str:
        if self._mapped:
            return f"{', '.join(self._mapped[:3])} is mapped, no call yet"
        if self._missing:
            return "; ".join(self._missing[:3])
        return f"process {self._pid} has mapped no library of ONNX Runtime or LiteRT (edgetop help watch)"

    def _end_of(self, messages: list[Message]) -> str:
        """Why watching is over, where the process has ended; of a unit, when it is not started again."""
        if self._began is not None and began(self._pid) == self._began:
            return ""
        if self.spec.unit is None:
            return "exit"
        now_s = time.monotonic()
        if self._gone_since_s is None:
            self._gone_since_s = now_s
            messages.append(
                LogLine("warning", "program", f"process {self._pid} of {self.spec.unit} has ended", "unit-ended")
            )
        if now_s - self._asked_unit_s < ASK_UNIT_S:
            return ""
        self._asked_unit_s = now_s
        pid, state = 0, "inactive"
        with contextlib.suppress(InputError):
            pid, state = self._ask_unit(self.spec.unit)
        if pid and (since := began(pid)) is not None and (pid, since) != (self._pid, self._began):
            self._follow(pid, since, now_s - self._gone_since_s, messages)
        elif state in ("inactive", "failed") and now_s - self._gone_since_s > GONE_UNIT_S:
            return "exit"
        return ""

    def _follow(self, pid: int, since: str, gap_s: float, messages: list[Message]) -> None:
        assert self._helper
        assert self._helper.stdin
        self._pid, self._began, self._gone_since_s = pid, since, None
        with contextlib.suppress(OSError):
            self._helper.stdin.write(f"pid {pid}\n".encode())
            self._helper.stdin.flush()
        text = f"{self.spec.unit} runs again as process {pid}: not seen for {gap_s:.1f} s"
        messages += [LogLine("info", "program", text, "unit-restarted"), Started(pid, "")]

    def stop(self) -> None:
        """Watching ends; the process goes on."""
        self._stop = "stop"

    @property
    def was_stopped(self) -> bool:
        return bool(self._stop)

    def profile(self) -> None:
        """Not without touching the program: what was said when it began holds."""

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
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
