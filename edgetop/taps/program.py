"""A program that edgetop starts and whose inferences it watches: an engine that runs what it likes.

The program has a session of its own (setsid(2)), so that neither Ctrl+C nor a hang-up of the terminal reaches it but
through edgetop, and no pipe to edgetop: it does not notice when edgetop dies. Its output goes to a file.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetop.engines.decode import LineReader
from edgetop.engines.protocol import Died, Ended, EngineUpdate, LogLine, Message, Started
from edgetop.engines.spawn import OomWatch, explain_exit
from edgetop.errors import InputError
from edgetop.paths import is_there
from edgetop.probe import edgetop_probe as layout
from edgetop.taps.runtimes import mappings
from edgetop.taps.taps import Taps

HOOK = Path(layout.__file__).parent / "hook"
PRELOAD_SOURCE = Path(layout.__file__).parent / "ort_preload.c"
COMPILERS = ("cc", "gcc", "clang")
COMPILE_S = 60.0
END_PATIENCE_NS = 5_000_000_000  # after SIGINT and after SIGTERM
CHILDREN_PATIENCE_NS = 1_000_000_000  # a fork server, say, ends as soon as it notices that its program has
MAX_OUTPUT = 8 * 1024 * 1024  # bytes of the program's output that are stored
RUNTIME_LIBRARIES = ("onnxruntime", "litert", "tensorflow", "tflite", "nvinfer", "rknn", "hailo")


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    command: Sequence[str]
    duration_ns: int | None = None  # of watching, from the first inference on
    runs: int | None = None
    follow_children: bool = False
    output: Path | None = None  # where the user wants what it prints
    preload: Path | None = None  # for C and C++ programs; None: it could not be made
    stdout: int | None = None  # a file descriptor for the program's output; None: a file that edgetop reads
    stderr: int | None = None


class WatchedProgram:
    isolation = "program"

    def __init__(self, spec: ProgramSpec) -> None:
        self.spec = spec
        self.output: Path | None = None  # the file for what it prints; None: one that goes with the session
        self._process: subprocess.Popen[bytes] | None = None
        self._log: LineReader | None = None
        self._log_fd = -1
        self._taps = Taps()
        self._reported_start = False
        self._ended_ns = 0  # when it was seen that it has ended; 0: it has not
        self._stops: list[tuple[int, str]] = []  # when it was asked to end, and why
        self._over = False
        self._oom_watch = OomWatch()
        self.exit_status: int | None = None  # as a shell gives it: 128 and the signal

    def start(self) -> None:
        self._taps.started_ns = time.monotonic_ns()
        try:
            self._process = self._spawn(self._taps.open())
        except OSError as error:
            self.close()
            text = f"{shlex.quote(self.spec.command[0])}: cannot be started: {error.strerror}"
            raise InputError(text, "give a program and its arguments") from None

    def _spawn(self, folder: Path) -> "subprocess.Popen[bytes]":
        path = self.spec.output or self.output or folder / "output.log"
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._log_fd = os.open(path, flags, 0o600)
        self._log = LineReader(self._log_fd, "program", grows=True)
        environment = {"PYTHONUNBUFFERED": "1", **os.environ, layout.FOLDER: str(folder)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH", ""))))
        if self.spec.preload:
            environment["LD_PRELOAD"] = f"{self.spec.preload} {os.environ.get('LD_PRELOAD', '')}".strip()
        if self.spec.follow_children:
            environment["EDGETOP_TAP_CHILDREN"] = "1"
        writes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            return subprocess.Popen(  # noqa: S603  what the user asked to watch
                list(self.spec.command),
                stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
                stdout=writes if self.spec.stdout is None else self.spec.stdout,
                stderr=writes if self.spec.stderr is None else self.spec.stderr,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(writes)

    def poll(self) -> EngineUpdate:
        if self._over or self._process is None:
            return EngineUpdate()
        now_ns = time.monotonic_ns()
        messages: list[Message] = [] if self._reported_start else [Started(self._process.pid, "")]
        self._reported_start = True
        status = self._process.poll()  # before the rings: what it did before it went is still read
        if status is not None and not self._ended_ns:
            self._ended_ns = now_ns
        left = self._left_behind() if status is not None else []
        is_over = status is not None and (not left or now_ns - self._ended_ns > CHILDREN_PATIENCE_NS)
        records, news = self._taps.poll(now_ns, is_over=is_over)
        messages += [*news, *self._taps.warn_if_quiet(now_ns, self._loaded_runtimes, is_over=is_over)]
        if is_over and left:
            text = f"the program has ended, and what it started goes on unseen: process {', '.join(left[:3])}"
            messages.append(LogLine("warning", "edgetop", text, "left-behind"))
        if self._log:
            messages += self._log.read()
            # Empty edgetop's own file when it has grown large; what was read of it is in the events.
            if self.spec.output is None and os.fstat(self._log_fd).st_size > MAX_OUTPUT:
                os.ftruncate(self._log_fd, 0)
                os.lseek(self._log_fd, 0, os.SEEK_SET)
        if status is not None and is_over:
            messages.append(self._ended(status))
        elif status is None and not self._stops:
            if reached := self._taps.reached(self.spec.duration_ns, self.spec.runs, now_ns):
                self._ask_to_end(signal.SIGINT, reached)
        elif status is None and now_ns - self._stops[-1][0] > END_PATIENCE_NS:
            self._ask_to_end(signal.SIGTERM if len(self._stops) == 1 else signal.SIGKILL, self._stops[0][1])
        return EngineUpdate(records, tuple(messages))

    def _left_behind(self) -> list[str]:
        """The processes that the program started and that still run after it has ended."""
        mark, running = f"{layout.FOLDER}={self._taps.folder}".encode(), []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # another user's, or it has ended
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    running.append(place.name)
        return running

    def _loaded_runtimes(self) -> str:
        """Say which inference runtimes the program has loaded."""
        assert self._process
        names = {one.path.rpartition("/")[2] for one in mappings(self._process.pid)}
        libraries = {name for name in names if ".so" in name and any(word in name for word in RUNTIME_LIBRARIES)}
        if not libraries:
            return "its process has loaded no inference runtime that is known (edgetop help watch)"
        loaded = f"{', '.join(sorted(libraries)[:3])} is loaded"
        if self._taps.has_rings:
            return f"{loaded}, no call yet"
        advice = "" if self.spec.preload else "; a C program needs a C compiler here: apt install gcc"
        return f"{loaded}, but no call came through a way that is watched{advice}"

    def _ended(self, status: int) -> Message:
        self._over = True
        self.exit_status = status if status >= 0 else 128 - status
        if self._stops:
            return Ended(self._stops[0][1], self._ended_ns)
        if status < 0:
            last_words = self._log.last_line if self._log else ""
            return Died(
                explain_exit(status, self._oom_watch), loading=self._taps.began_ns is None, last_words=last_words
            )
        return Ended("exit" if status == 0 else f"exit-status-{status}", self._ended_ns)

    def stop(self) -> None:
        if not self._stops:
            self._ask_to_end(signal.SIGINT, "stop")

    def _ask_to_end(self, number: int, why: str) -> None:
        self._stops.append((time.monotonic_ns(), why))
        if self._process and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    @property
    def was_stopped(self) -> bool:
        """Whether edgetop ended it, so that its exit status means nothing."""
        return bool(self._stops)

    def profile(self) -> None:
        """Do nothing: operators cannot be profiled without changing the program."""

    def close(self) -> None:
        """End the program, where it still runs, and remove what was shared with it."""
        if self._process and self._process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(2)
                    break
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd, self._log = -1, None
        self._taps.close()


def preload_library(cache: Path) -> Path | None:
    """The library that LD_PRELOAD brings into C and C++ programs, compiled under `cache` where it is not there yet.

    None: it cannot be compiled here. There is one for each version of its source and each architecture. The folder is
    the user's own (0700).
    """
    import hashlib  # noqa: PLC0415  OpenSSL's, which nothing else of a session loads

    text = b"".join((PRELOAD_SOURCE.parent / name).read_bytes() for name in ("ort_preload.c", "edgetop_probe.h"))
    library = cache / f"ort_preload-{hashlib.sha256(text).hexdigest()[:16]}-{os.uname().machine}.so"
    if is_there(library):
        return library
    program = next(filter(None, map(shutil.which, COMPILERS)), None)
    if program is None:
        return None
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            built = Path(scratch) / "built.so"
            order = [program, "-O2", "-shared", "-fPIC", "-o", str(built), str(PRELOAD_SOURCE), "-ldl", "-lpthread"]
            subprocess.run(order, check=True, capture_output=True, timeout=COMPILE_S)  # noqa: S603  our own source
            built.replace(library)
    except (OSError, subprocess.SubprocessError):
        return None
    return library
