"""The engine in a separate process, which is the default.

There, the GIL of edgetop cannot disturb the measurement. The resident memory is the model's, and a crash or an OOM kill
ends only the engine. The process has its own session (setsid(2)), so Ctrl+C and a hang-up of the terminal reach only
edgetop. It ends by itself when its control pipe closes, so no load outlives edgetop.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgetop.engines.child import message_frames
from edgetop.engines.child.engine_error import is_out_of_memory
from edgetop.engines.child.record_outlet import PIPE_BYTES, capacity, widen
from edgetop.engines.decode import InOrder, LineReader, decode
from edgetop.engines.engine_protocol import Backlog, Died, Ended, EngineUpdate, Failed, FillRate, Message, PhaseBegan
from edgetop.engines.hang_watch import NS, HangWatch, cpu_ns_of
from edgetop.engines.spawn import CHILD, Child, OomWatch, explain_exit
from edgetop.engines.spec import EngineSpec

if TYPE_CHECKING:
    from edgetop.models.inspection import RuntimeShapes

CLOSE_TIMEOUT_S = 5.0
READ_BYTES = 65_536  # of a pipe at once; memory for a whole pipe would be mapped and unmapped at each poll
# How long an engine may run on after it has closed its pipe to edgetop, in s. Choice: a process that ends closes its
# files first. Larger: one that can report nothing runs on; smaller: a slow end counts as a closed pipe.
CLOSED_TIMEOUT_S = 10.0
RAN_ON_S = 1.0  # after this time, the reason for its end is that it had closed the pipe
FULL = 0.9  # share of a pipe above which the child may not have had room for the next record
SHAPES_S = 300.0  # enough for a cold start and an inference without a delegate on a slow, busy board
HELLO_TIMEOUT_S = 60.0  # a cold start of Python and numpy from a slow SD card takes several seconds
# How many such times an engine may take to start while it uses CPU time. Choice: a small CPU quota, or an emulated
# board, makes a start of some seconds take minutes. Larger: a program that is no engine is noticed later; smaller: a
# slow start counts as a failure.
HELLO_TIMEOUTS = 5
# Share of that time for which a starting engine uses a CPU. Choice: a quota of 1 % is the smallest that makes sense.
STARTING = 0.005


class ProcessEngine:
    isolation = "process"

    def __init__(
        self,
        spec: EngineSpec,
        python: str | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        hello_timeout_s: float = HELLO_TIMEOUT_S,
        prefix: Sequence[str] = (),
        memory_limit: int | None = None,
        child: Child | None = None,
        cpu_ns: Callable[[int], int] = cpu_ns_of,
        *,
        closed_timeout_s: float = CLOSED_TIMEOUT_S,
    ) -> None:
        """Prepare an engine that runs the model of `spec` in a child process.

        `python` is the path of the child's interpreter, by default edgetop's own. `close_timeout_s` is how many seconds
        the child has to end, and `hello_timeout_s` how many it may take to start without using CPU time. `prefix` is
        put before the child's command line, such as ("systemd-run", "--scope"), to limit the child. `memory_limit` is
        the limit of memory in bytes, None for no limit. `child` is a child that has already been started and waits for
        a specification; None to start one. `cpu_ns` returns the CPU time in ns that the process with a given id used.
        `closed_timeout_s` is how many seconds the child may run on after it has closed its pipe to edgetop.
        """
        self._spec = spec
        self._hello_timeout_s = hello_timeout_s
        self._closed_timeout_s = closed_timeout_s
        self._silent_since_s = self._silent_until_s = 0.0
        self._used_ns = 0  # CPU time that it had used when it was last given more time to start
        self._cpu_ns_of = cpu_ns
        self._close_timeout_s = close_timeout_s
        self._python = python or sys.executable
        self._child = child
        self._reader = message_frames.FrameReader()
        self._logs: list[LineReader] = []
        self._order = InOrder(spec.at_once)
        self._fill_rate = FillRate()
        self._has_backlog = False  # whether records wait in the child
        self._prefix = tuple(prefix)
        self._oom_watch = OomWatch(limit=memory_limit)
        self._over = self._is_up = self._began = False
        self._closed_since_s: float | None = None  # None while its end of the pipe is open
        self._hang_watch = HangWatch(spec, self._cpu_ns)

    @property
    def pid(self) -> int | None:
        return self._child.process.pid if self._child else None

    def start(self) -> None:
        child = self._child = self._child or Child(self._python, self._prefix)
        for stream, name in ((child.stdout, "engine stdout"), (child.stderr, "engine stderr")):
            self._logs.append(LineReader(stream.fileno(), name))
            widen(stream.fileno())  # a runtime that prints much between two polls must not have to wait
        self._silent_since_s = time.monotonic()
        self._silent_until_s = self._silent_since_s + self._hello_timeout_s
        self._send(self._spec.to_json())

    def poll(self) -> EngineUpdate:
        if self._over or self._child is None or self._child.data_fd < 0:
            return EngineUpdate()
        exit_status = self._child.process.poll()  # before the read, which then gets all that an ended child has sent
        data, is_closed = _read(self._child.data_fd)
        held = len(data) / capacity(self._child.data_fd)
        poll_within_s = self._fill_rate.half_full_in_s(held)
        update = decode(self._reader.feed(data))
        if is_closed and self._closed_since_s is None:
            self._closed_since_s = time.monotonic()
        lines = [line for log in self._logs for line in log.read()]
        self._follow(update.messages)
        messages: list[Message] = [*lines, *(each for each in update.messages if not isinstance(each, Backlog))]
        if exit_status is not None and not self._over:
            self._over = True
            messages.append(self._died(exit_status))
        elif not self._is_up and time.monotonic() > self._silent_until_s and not self._gets_more_time():
            self._over = True
            self._kill()
            silent_s = self._silent_until_s - self._silent_since_s
            messages.append(self._cannot_run(f"it said nothing for {silent_s:g} s"))
        elif why := self._why_cut_off(self._closed_timeout_s) or self._why_hung(update):
            self._over = True
            self._kill()
            messages.append(Died(why, loading=not self._began))
        return self._order.release(
            replace(
                update,
                messages=tuple(messages),
                poll_within_s=poll_within_s,
                is_behind=self._has_backlog or held > FULL,
            )
        )

    def _gets_more_time(self) -> bool:
        """Give a silent engine more time to start if it has used CPU time since the last call.

        Return True if it gets more time. After several extensions it gets none.
        """
        before_ns, self._used_ns = self._used_ns, self._cpu_ns()
        is_busy = self._used_ns - before_ns >= STARTING * self._hello_timeout_s * NS
        may_wait = self._silent_until_s - self._silent_since_s < (HELLO_TIMEOUTS - 0.5) * self._hello_timeout_s
        if is_busy and may_wait:
            self._silent_until_s += self._hello_timeout_s
        return is_busy and may_wait

    def _why_cut_off(self, after_s: float) -> str:
        """Return a sentence which says that the engine can report nothing any more, or "" if it may still do so.

        The engine cannot report once its end of the pipe has been closed for `after_s` seconds.
        """
        if self._closed_since_s is None or not self._is_up or time.monotonic() - self._closed_since_s < after_s:
            return ""
        return "it closed the pipe through which it reports to edgetop"

    def _why_hung(self, update: EngineUpdate) -> str:
        """Return a sentence which says that the engine hangs, or "" if it does not hang.

        `update` is what the engine has just sent.
        """
        began = any(isinstance(message, PhaseBegan) and message.phase == "measure" for message in update.messages)
        if began or update.messages or len(update.records):
            self._hang_watch.heard(began_measuring=began)
        return "" if self._over else self._hang_watch.why()

    def _cpu_ns(self) -> int:
        return self._cpu_ns_of(self.pid) if self.pid is not None else 0

    def _follow(self, messages: tuple[Message, ...]) -> None:
        for message in messages:
            self._is_up = True
            self._began |= isinstance(message, PhaseBegan)
            if isinstance(message, Backlog):
                self._has_backlog = not message.is_over
            self._over |= isinstance(message, Ended | Failed)
            if isinstance(message, Failed):  # a child that sends invalid data may also ignore the control pipe
                self._kill()

    def _died(self, exit_status: int) -> Message:
        last_words = self._logs[1].last_line
        if not self._is_up and not self._oom_watch.limit_struck(exit_status):
            return self._cannot_run(last_words or explain_exit(exit_status, self._oom_watch))
        cause = self._why_cut_off(RAN_ON_S) or explain_exit(exit_status, self._oom_watch)
        return Died(cause, loading=not self._began, last_words=last_words)

    def _cannot_run(self, why: str) -> Failed:
        if is_out_of_memory(why):
            return Failed("engine", f"out of memory: {why}")
        text = f"{self._python} cannot run the engine: {why}"
        return Failed("start", text, "it needs Python 3.8 or later with numpy")

    def stop(self) -> None:
        self._send({"command": "stop"})

    def profile(self) -> None:
        self._send({"command": "profile"})

    def take_turns(self, turns: list[list[int]]) -> None:
        """Tell the engine when to run. The engine waits for this call after its warm-up.

        `turns` are [from, until] in ns of CLOCK_MONOTONIC, ascending and with gaps between them.
        """
        self._send({"command": "turns", "turns": turns})

    def _send(self, command: dict[str, object]) -> None:
        if self._child is None or self._child.control_fd < 0:
            return
        with contextlib.suppress(BrokenPipeError):  # the child is gone; the next poll reports that
            os.write(self._child.control_fd, json.dumps(command).encode() + b"\n")

    def close(self) -> None:
        """Close the control pipe, which ends the child, and kill the child if it does not end."""
        child = self._child
        if child is None or child.control_fd < 0:
            return
        os.close(child.control_fd)
        child.control_fd = -1
        try:
            child.process.wait(self._close_timeout_s)
        except subprocess.TimeoutExpired:
            self._kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it cannot be killed while a driver's call hangs
                child.process.wait(self._close_timeout_s)
        self._end_left_behind()
        child.close()

    def _end_left_behind(self) -> None:
        """Kill the processes that an ended engine has left behind. They would disturb what is measured next.

        The group of the engine's process is killed only if no process has the engine's id any more. The kernel gives
        this id to no new process while the group has a member.
        """
        pid = self._child.process.pid if self._child else 0
        if pid and not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def _kill(self) -> None:
        """Kill the child and all processes of its group.

        The group matters if `--engine-python` is a wrapper script: the interpreter is then another process of the
        group.
        """
        if self._child and self._child.process.poll() is None:  # otherwise the group's id may have been reused
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.process.pid, signal.SIGKILL)


def _read(fd: int) -> tuple[bytes, bool]:
    """Return what is in the pipe `fd`, up to 8 MiB, and whether its other end is closed and the pipe is empty.

    A read that returns less than was asked for has emptied the pipe.
    """
    pieces: list[bytes] = []
    for _ in range(8 * PIPE_BYTES // READ_BYTES):
        try:
            pieces.append(os.read(fd, READ_BYTES))
        except BlockingIOError:
            break
        if not pieces[-1]:
            return b"".join(pieces), True
        if len(pieces[-1]) < READ_BYTES:
            break
    return b"".join(pieces), False


def measure_shapes(spec: EngineSpec, python: str | None = None, timeout_s: float = SHAPES_S) -> "RuntimeShapes | None":
    """Run one inference in another process, and return the shapes of all tensors, or None if that fails.

    `spec` names a TFLite model. `python` is the path of an interpreter that has the runtime, by default edgetop's own.
    The process inherits the niceness of the calling thread: while an engine is measured, call this from a thread with
    the lowest priority.
    """
    from edgetop.models.inspection import RuntimeShapes  # noqa: PLC0415  a run imports it off its main thread

    try:
        done = subprocess.run(  # noqa: S603  the user's interpreter and edgetop's own file
            [python or sys.executable, str(CHILD), "--tensor-shapes"],
            input=json.dumps(spec.to_json()) + "\n",
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])  # lines before it may come from the runtime
        shapes = {int(place): tuple(int(size) for size in shape) for place, shape in answer["shapes"]}
        return RuntimeShapes(str(answer["runtime"]), shapes)
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return None  # the caller knows the shapes in the file, and reports other ones as unknown
