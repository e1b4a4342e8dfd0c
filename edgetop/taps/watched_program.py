"""A program that edgetop starts and watches, as an engine that runs its own inferences.

It runs as it would without edgetop: with the same environment, signals, limits, CPUs and open files. It has a separate
session (setsid(2)), so Ctrl+C and a hang-up of the terminal reach it only through edgetop. It has no pipe to edgetop:
its output goes to a file, or to edgetop's output. Only a stop that the user asked for ends it. An error, the end or the
death of edgetop does not.
"""

import contextlib
import os
import secrets
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetop.engines.decode import LineReader
from edgetop.engines.engine_protocol import Died, Ended, EngineUpdate, Failed, LogLine, Message, Started
from edgetop.engines.spawn import OomWatch, explain_exit
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.probe import edgetop_probe as layout
from edgetop.taps.container_accounts import ContainerAccounts
from edgetop.taps.container_run import PRELOAD, ContainerRun, ContainerSpec
from edgetop.taps.container_runtime import NOT_STARTED, reason
from edgetop.taps.paused_program import PausedProgram
from edgetop.taps.preload import preloaded
from edgetop.taps.process_accounts import ChildExit
from edgetop.taps.program_accounts import ProgramAccounts
from edgetop.taps.taps import Taps
from edgetop.taps.unseen import HOOK, SEPARATOR, has_runtime, language_model_inside, why_unseen

STOP_TIMEOUT_NS = 90_000_000_000  # from the stop signal to SIGKILL; as systemd's DefaultTimeoutStopSec
KILLED_PATIENCE_NS = 5_000_000_000  # wait after SIGKILL, since a process that waits in the kernel does not end
MOST_REMINDERS, LEAST_REMINDER_NS = 18, 5_000_000_000  # most messages while waiting for the end, least interval
EARLY_NS = 10_000_000_000  # a crash this soon after the start may be caused by the hook or the preload library
CRASHES = frozenset({
    signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGABRT, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP,
})  # fmt: skip
UNSEEN_CONTAINER = (
    "the container ended before edgetop saw its first process: its usage is unknown, and its time includes its start"
)
LIMIT_ADVICE = "run it as root, or with cgroups of version 2 that are delegated to you (edgetop help limits)"
LOOK_S = 1.0  # interval of looks for a runtime in the program
LINES = "EDGETOP_LINES"  # asks the hook to flush each line that the program prints
CHILDREN_PATIENCE_NS = 1_000_000_000  # wait for children such as a fork server, which end just after the program
MAX_OUTPUT = 8 * 1024 * 1024  # bytes of the program's output that are stored


@frozen
class Surroundings:
    """The CPUs and ignored signals that a program inherits, as they were before edgetop changed its own."""

    cpus: frozenset[int]
    ignored: tuple[int, ...]  # ignored signals

    @classmethod
    def now(cls) -> "Surroundings":
        handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals that edgetop will handle itself
        ignored = tuple(number for number in handled if signal.getsignal(number) == signal.SIG_IGN)
        return cls(frozenset(os.sched_getaffinity(0)), ignored)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Context manager that restores this state. Programs that are started in the `with` block inherit it.

        Only for the main thread.
        """
        cpus = os.sched_getaffinity(0)
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in self.ignored}
        try:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self.cpus)
            yield
        finally:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, cpus)
            for number, handler in handlers.items():
                signal.signal(number, handler)


@frozen
class ProgramSpec:
    command: Sequence[str]
    duration_ns: int | None = None  # how long to watch, from the first inference on
    runs: int | None = None
    follow_children: bool = False
    output: Path | None = None  # file for the output of the program, if the user chose one
    has_hook: bool = True  # whether to hook Python programs
    preload: Path | None = None  # library to load into C and C++ programs; None if not wanted or not available
    stdin: int | None = None  # descriptor of standard input; None: empty, because edgetop reads the terminal itself
    stdout: int | None = None  # descriptor of the output; None: a file that edgetop reads
    stderr: int | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_ns: int = STOP_TIMEOUT_NS
    surroundings: Surroundings | None = None
    limit_bytes: int | None = None  # limit of its memory
    container: ContainerSpec | None = None  # the container in which it runs; None: on this machine itself

    @property
    def name(self) -> str:
        """The name of the script or the program, without its folder."""
        script = next((word for word in self.command[1:] if word.endswith(".py")), self.command[0])
        return clean(script.rpartition("/")[2] or script)

    def environment(self, folder: Path, given: Mapping[str, str]) -> dict[str, str]:
        """Return the program's environment: the variables `given`, and those that make it report calls to `folder`."""
        return {**given, **self.reporting(folder, given)}

    def reporting(self, folder: Path, given: Mapping[str, str]) -> dict[str, str]:
        """Return the environment variables that make the program report its calls to `folder`.

        `given` are its variables so far. PYTHONPATH and LD_PRELOAD in the result begin with edgetop's own paths and go
        on with those in `given`.
        """
        environment = {layout.FOLDER: str(folder)}
        if self.has_hook and SEPARATOR not in str(HOOK):
            environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HOOK), given.get("PYTHONPATH", ""))))
            if self.stdout is None and self.output is None:
                environment[LINES] = "1"
        if self.preload:
            environment["LD_PRELOAD"] = f"{preloaded(self.preload)} {given.get('LD_PRELOAD', '')}".strip()
        if self.follow_children:
            environment["EDGETOP_TAP_CHILDREN"] = "1"
        return environment


class WatchedProgram:
    isolation = "program"

    def __init__(self, spec: ProgramSpec) -> None:
        self.spec = spec
        self.output: Path | None = None  # file for the output of the program; None: a temporary one
        # What is executed on this machine: a name or a path; "" for a command in a container.
        self.executable = "" if spec.container else spec.command[0]
        self.in_container = spec.container.described if spec.container else None
        self.prefix: Sequence[str] = ()  # command that runs the program in a systemd scope; () without one
        self.cgroups: Sequence[str] = ()  # files cgroup.procs of the cgroups that the program enters
        self._pid = 0  # of the program, or of the runtime's command `run`; 0 before the start
        self._log: LineReader | None = None
        self._log_path: Path | None = None
        self._has_unnamed_log = False  # whether the log gets the name `_log_path` only if the program outlives edgetop
        self._log_fd = -1
        self._taps = Taps()
        self._reported_start = False
        self._began_ns = 0
        self._ended_ns = 0  # when its end was noticed; 0 while it runs
        self._stop: _Stop | None = None
        self._over = False
        self._oom_watch = OomWatch(limit=spec.limit_bytes)
        self._exit: ChildExit | ProgramAccounts | None = None  # the end of the started process
        self._accounts: ProgramAccounts | ContainerAccounts | None = None  # None before a container runs
        self._container = ContainerRun(spec.container) if spec.container else None
        self._unsent: signal.Signals | None = None  # signal for a container that does not run yet
        self._runtime_words = ""  # what the container runtime printed last about an error
        self._looked_s, self._has_runtime = float("-inf"), False  # when it was last looked for a runtime
        self.exit_status: int | None = None  # as a shell reports it: 128 + the number of a signal
        self.crashed_early = False  # whether a signal killed it soon after its start

    def start(self) -> None:
        accounts = None
        try:
            paused = self._spawn(self._taps.open())
            if not self._container:
                accounts = self._accounts = ProgramAccounts(paused.pid, self.spec.limit_bytes)
            self._began_ns = self._taps.started_ns = time.monotonic_ns()
            paused.release()
        except OSError as error:
            self.close()
            text = f"{shlex.quote(self.spec.command[0])}: cannot be started: {error.strerror}"
            raise InputError(text, "give a program and its arguments") from None
        except InputError:
            self.close()
            raise
        self._pid = paused.pid
        if accounts:
            self._exit, accounts.began_ns = accounts, self._began_ns
        elif self._container:
            self._exit = ChildExit(self._pid)
            self._container.seek(lambda: self._over or self._exit_status() is not None)

    @property
    def pid(self) -> int:
        """The id of the program's first process; 0 as long as it is unknown."""
        if self._container:
            return self._container.pid
        return self._pid

    def _exit_status(self) -> int | None:
        """Return the program's exit status in the form of `Popen.returncode`.

        Returns None before the start and while the program runs.
        """
        if self._exit is None:
            return None
        status = self._exit.exit_status()
        # A runtime exits with 128 + N if signal N ended the first process of the container (docker-run(1)).
        is_signal = self._container is not None and status is not None and 128 < status < 128 + signal.NSIG
        return 128 - status if is_signal and status is not None else status

    def _spawn(self, folder: Path) -> PausedProgram:
        """Start the program, which will report its calls to files in `folder`."""
        spec = self.spec
        self._log_fd = self._open_log()
        self._log = LineReader(self._log_fd, "program", grows=True)
        writes = os.open(f"/proc/self/fd/{self._log_fd}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            with spec.surroundings.restored() if spec.surroundings else contextlib.nullcontext():
                return PausedProgram(
                    self._command(folder),
                    dict(os.environ) if spec.container else spec.environment(folder, os.environ),
                    prefix=self.prefix,
                    cgroups=self.cgroups,
                    stdin=subprocess.DEVNULL if spec.stdin is None else spec.stdin,
                    stdout=writes if spec.stdout is None else spec.stdout,
                    stderr=writes if spec.stderr is None else spec.stderr,
                )
        finally:
            os.close(writes)

    def _command(self, folder: Path) -> list[str]:
        """Return the command line to execute. The program will report its calls to files in `folder`."""
        spec = self.spec
        if self._container:
            has_hook = spec.has_hook and SEPARATOR not in str(HOOK)
            more = [f"{LINES}=1"] if has_hook and spec.stdout is None and spec.output is None else []
            more += ["EDGETOP_TAP_CHILDREN=1"] if spec.follow_children else []
            return self._container.command(
                spec.command,
                folder,
                hook=HOOK if has_hook else None,
                preload=spec.preload,
                variables=more,
                has_input=spec.stdin is not None,
            )
        return list(spec.command)

    def _open_log(self) -> int:
        """Open the file for the program's output, and return its descriptor.

        Without a recording, it is a temporary file without a name, so that nothing stays if edgetop is killed. It is
        not in the shared memory of the rings, which it could fill.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        self._log_path = self.spec.output or self.output
        if self._log_path:
            return os.open(self._log_path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        folder = tempfile.gettempdir()
        self._log_path = Path(folder, f"edgetop-output-{secrets.token_hex(4)}")
        self._has_unnamed_log = True
        with contextlib.suppress(OSError):  # some file systems have no such files
            return os.open(folder, flags | os.O_TMPFILE, 0o600)
        descriptor = os.open(self._log_path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        self._log_path.unlink()
        return descriptor

    def _name_log(self) -> None:
        """Give the unnamed log its name (linkat(2))."""
        if self._has_unnamed_log and self.spec.stdout is None and self._log_fd >= 0 and self._log_path:
            with contextlib.suppress(OSError):  # the file system had no files without a name, or the name exists
                # With a folder's descriptor, which an absolute path ignores, Python follows the link.
                os.link(f"/proc/self/fd/{self._log_fd}", self._log_path, src_dir_fd=self._log_fd)

    def poll(self) -> EngineUpdate:
        if self._over or not self._pid:
            return EngineUpdate()
        now_ns = time.monotonic_ns()
        # The CPUs and the policy of an ended process can be read until its exit status has been asked for.
        is_first = not (self._reported_start or self._container)
        status = None if is_first else self._exit_status()  # before the rings, so that the last calls are still read
        messages = self._begun()
        if status is not None and not self._ended_ns and self._exit:
            self._ended_ns = self._accounts.ended_ns if self._accounts else 0
            self._ended_ns = self._ended_ns or self._exit.ended_ns
        left = self._left_behind() if status is not None else []
        is_over = status is not None and (not left or now_ns - self._ended_ns > CHILDREN_PATIENCE_NS)
        records, news = self._taps.poll(now_ns, is_over=is_over)
        messages += [*news, *self._taps.warn_if_quiet(now_ns, self._why_unseen, self._should_infer, is_over=is_over)]
        if is_over and self._container and not self.pid and status != NOT_STARTED:
            messages.append(LogLine("warning", "edgetop", UNSEEN_CONTAINER, "calls-unseen"))
        if is_over and left:
            text = f"the program has ended, but its children continue unwatched: process {', '.join(left[:3])}"
            messages.append(LogLine("warning", "edgetop", text, "left-behind"))
        messages += self._read_log()
        messages += self._accounts.read() if self._accounts else []
        if status is not None and is_over:
            messages += filter(None, [self._accounts.total() if self._accounts else None])
            messages.append(self._never_began(status) or self._ended(status))
        elif status is None and self._stop:
            messages += self._wait_for_end(self._stop, now_ns)
        elif status is None and (reached := self._reached(now_ns)):
            self._ask_to_end(reached)
        tokens, requests = self._taps.tokens(now_ns, is_over=is_over)
        return EngineUpdate(records, tuple(messages), self._taps.poll_within_s, tokens=tokens, requests=requests)

    def _begun(self) -> list[Message]:
        """Return [Started(...)] at the first call after the program's first process is known. Return [] at other calls.

        A container takes some tenths of a second until its first process is known.
        """
        container = self._container
        if self._reported_start or not self.pid:
            return []
        self._reported_start = True
        if container:
            self._accounts = ContainerAccounts(self.pid, container.id, self.spec.limit_bytes)
            self._began_ns = self._taps.started_ns = self._accounts.began_ns
            if container.unlimited:
                self._ask_to_end("stop")
                self._send(signal.SIGKILL)
            elif self._unsent:
                self._send(self._unsent)
        return [Started(self.pid, "")]

    def _never_began(self, status: int) -> Failed | None:
        """Return a message if the container could not be started, or was ended because the runtime ignored a limit.

        Returns None otherwise, and for a program without a container. `status` is the exit status of the runtime's
        command `run`.
        """
        container = self._container
        if not container:
            return None
        name = container.spec.runtime.name
        if container.unlimited:
            text = f"--limit: {name} has not set the limit: {container.unlimited}"
        elif status == NOT_STARTED and not container.pid:
            why = reason(self._runtime_words) if self._runtime_words else "its reason is above"
            text = f"{name} cannot run the container: {why}"
        else:
            return None
        self._over = True
        return Failed("start", text, LIMIT_ADVICE if container.unlimited else "")

    def _read_log(self) -> list[LogLine]:
        lines = self._log.read() if self._log else []
        if self._container and not self._container.pid:
            self._runtime_words = "\n".join([self._runtime_words[-4096:], *(line.message for line in lines)])
        # Empty edgetop's own file when it has grown large. The lines that were read are in the events.
        if self.spec.output is None and os.fstat(self._log_fd).st_size > MAX_OUTPUT:
            os.ftruncate(self._log_fd, 0)
            os.lseek(self._log_fd, 0, os.SEEK_SET)
        return lines

    def _left_behind(self) -> list[str]:
        """Return the ids of processes that the program has started and that run on after its end."""
        if self._container:  # when its first process ends, the kernel ends the others (pid_namespaces(7))
            return []
        mark, running = f"{layout.FOLDER}={self._taps.folder}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it belongs to another user, or has ended
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    running.append(place.name)
        return running

    def _reached(self, now_ns: int) -> str:
        return self._taps.reached(self.spec.duration_ns, self.spec.runs, now_ns, self._may_infer)

    def _may_infer(self) -> bool:
        """Whether the program, or a process that it has started, has loaded a runtime whose calls edgetop can see."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:  # it takes some ms
            self._looked_s, self._has_runtime = now_s, bool(self.pid) and has_runtime(self.pid)
        return self._taps.has_hooked or self._has_runtime

    def _should_infer(self) -> bool:
        """Whether the program has loaded a runtime, or runs a language model whose calls edgetop cannot see."""
        return self._may_infer() or bool(self.pid and language_model_inside(self.pid))

    def _why_unseen(self) -> str:
        spec, reported = self.spec, self._taps.has_rings
        if not self.pid:
            return "the container has not begun yet"
        return why_unseen(
            self.pid,
            preload=Path(PRELOAD) if spec.container and spec.container.has_preload else spec.preload,
            has_hook=spec.has_hook,
            has_reported=reported,
            follows_children=spec.follow_children,
        )

    def _ended(self, status: int) -> Message:
        self._over = True
        self.exit_status = status if status >= 0 else 128 - status
        if self._stop:
            return Ended(self._stop.why, self._ended_ns)
        if status < 0:
            self.crashed_early = -status in CRASHES and self._ended_ns - self._began_ns < EARLY_NS
            last_words = self._log.last_line if self._log else ""
            return Died(
                explain_exit(status, self._oom_watch), loading=self._taps.began_ns is None, last_words=last_words
            )
        return Ended("exit" if status == 0 else f"exit-status-{status}", self._ended_ns)

    def stop(self) -> None:
        """Ask the program to end. A second call kills it at once."""
        if self._stop is None:
            self._ask_to_end("stop")
        elif not self._stop.killed_ns:
            self._stop.is_urgent = True

    def _ask_to_end(self, why: str) -> None:
        if self._exit_status() is None:
            self._stop = _Stop(why, time.monotonic_ns())
            self._taps.stopped_ns = self._stop.asked_ns
            self._send(self.spec.stop_signal)

    def _send(self, number: signal.Signals) -> None:
        if self._container:
            self._unsent = None if self._container.pid else number
            if self._container.pid:
                self._container.send(number)
            return
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, number)

    def _wait_for_end(self, stop: "_Stop", now_ns: int) -> Iterator[Message]:
        """Yield messages on how long the program may still take to end. Kill the program when that time is over.

        `stop` is the request to end the program. `now_ns` is the present time on CLOCK_MONOTONIC.
        """
        name, limit_ns = self.spec.name, self.spec.stop_timeout_ns
        asked, left_ns = self.spec.stop_signal.name, stop.asked_ns + limit_ns - now_ns
        if stop.killed_ns:
            if now_ns - stop.killed_ns > KILLED_PATIENCE_NS:
                self._over = True
                yield LogLine("critical", "edgetop", f"{name} has not ended after SIGKILL: it continues", "stopping")
                yield Ended(stop.why, now_ns)
        elif left_ns <= 0 or stop.is_urgent:
            stop.killed_ns = now_ns
            self._send(signal.SIGKILL)
            waited = f"it had not ended {(now_ns - stop.asked_ns) / 1e9:.0f} s after {asked}"
            yield LogLine("warning", "edgetop", f"{name} was sent SIGKILL: {waited}", "stopping")
        elif now_ns >= stop.said_ns + max(LEAST_REMINDER_NS, limit_ns // MOST_REMINDERS):
            stop.said_ns = now_ns
            left = f"{left_ns / 1e9:.0f} s left, then SIGKILL"
            yield LogLine("info", "edgetop", f"waiting for {name} to end after {asked}: {left}", "stopping")

    @property
    def was_stopped(self) -> bool:
        """Whether edgetop has asked the program to end, so that its exit status means nothing."""
        return self._stop is not None

    def profile(self) -> None:
        """Do nothing, because operators can be profiled only by changing the program."""

    def goes_on(self) -> str:
        """Return a sentence which says that the program outlives edgetop, or "" if it has ended."""
        if not self._pid or self._exit_status() is not None:
            return ""
        pid, ends = self._pid, f"kill {self._pid}"
        if self._container:
            ends = f"{self._container.spec.runtime.name} kill {self._container.name}"
        output = f"; its output goes to {clean(str(self._log_path))}" if self.spec.stdout is None else ""
        return f"{self.spec.name} continues unwatched as process {pid}{output}; {ends} ends it"

    def close(self) -> str:
        """Stop watching. If the program goes on, return a sentence that says so, else ""."""
        text = self.goes_on()
        if text:
            self._name_log()
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd, self._log = -1, None
        if self._accounts:
            self._accounts.close()
        if self._container:
            self._container.close()
        self._taps.close()
        return text


@dataclass(slots=True)
class _Stop:
    """A request to end the program: its reason, when it was made, and whether SIGKILL was sent."""

    why: str
    asked_ns: int
    said_ns: int = 0  # when the last message on the wait was sent
    is_urgent: bool = False  # whether the user does not want to wait
    killed_ns: int = 0  # when SIGKILL was sent; 0 if it was not
