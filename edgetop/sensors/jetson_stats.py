"""Read values from jetson-stats that sysfs does not show to ordinary users, through a helper program.

jetson-stats is optional and never imported here: it is AGPL, importing it changes the start method of multiprocessing,
its `start()` can wait for ever, and its data can repeat (rbonghi/jetson_stats#380). A program in `programs/` queries it
and prints a JSON line for each new answer. If the program hangs or dies, only these sensors are affected; it is killed
and started again later.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgetop.sensors.clocks import has_memory_clock
from edgetop.sensors.memory_sensors import accelerator_sensor, has_clients
from edgetop.sensors.root import Root, is_compatible
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Values, sensor
from edgetop.session.manifest import SensorInfo

SOCKET = Path("/run/jtop.sock")
PROGRAM = Path(__file__).parent / "programs" / "ask_jetson_stats.py"
SOURCE = f"{SOCKET} (jetson-stats)"

CADENCE_S = 5.0  # long enough for the program to have started by the second read
START_TIMEOUT_S = 20.0  # importing jetson-stats takes seconds on a small board, the first answer up to three more
SILENT_TIMEOUT_S = 15.0
LEAST_RETRY_S, MOST_RETRY_S = 10.0, 600.0
MAX_LINE_BYTES = 64 * 1024
LEAST_KHZ, MOST_KHZ = 1_000, 20_000_000  # of a memory's clock
NO_WORD = "its program ended without a word: it needs Python 3.8 or later"


class JetsonStats:
    """Reads the engine's part of the GPU's memory and the clock of the memory, through a helper program.

    debugfs has both values too, but shows them only to root. jetson-stats reports the clock in kHz, as `cur` of its
    entry EMC (jtop/core/memory.py, read_emc). The loads that jetson-stats reports are not used: jetson-stats says 0 if
    a driver does not report a load (jtop/core/gpu.py, DEFAULT_LOAD), and read_emc rounds a share down to 0.

    The helper program is started again whenever it ends, until `close`. No method waits for an answer.
    """

    name = "jetson-stats"
    cadence_s = CADENCE_S

    def __init__(
        self,
        command: Sequence[str],
        pid: int,
        now: Callable[[], float] = time.monotonic,
        *,
        has_memory_clock: bool = False,
    ) -> None:
        """Prepare to run the helper program with `command`, for the engine's process `pid`.

        With `has_memory_clock`, the memory's clock is read as well. `now` returns the present time in seconds.
        """
        clock = (sensor("freq", "memory", SOURCE, note="EMC"),) if has_memory_clock else ()
        self.sensors: tuple[SensorInfo, ...] = (accelerator_sensor(SOURCE), *clock)
        self._command, self._pid, self._now = command, pid, now
        self._process: subprocess.Popen[bytes] | None = None
        self._pending = b""
        self._answered_at_s = 0.0
        self._has_answered = False
        self._retry_at_s, self._retry_s = 0.0, LEAST_RETRY_S
        self._why_not = ""
        self._uptime_s: object = None
        self._lock = threading.Lock()  # a read may be running when the session ends
        self._is_closed = False

    def read(self) -> Values:
        with self._lock:
            answer = self._news()
        if isinstance(answer, Gap):
            return [answer] * len(self.sensors)
        # The service's uptime: an answer with the same uptime is a repeated one.
        before, self._uptime_s = self._uptime_s, answer.get("uptime_s")
        if self._uptime_s is None or self._uptime_s == before:
            return [Gap("jetson-stats repeats what it said before")] * len(self.sensors)
        return [accelerator_mib(answer, self._pid), memory_mhz(answer)][: len(self.sensors)]

    def _news(self) -> dict[str, Any] | Gap:
        """Return the newest answer since the last call, or a gap with the reason why there is none.

        An answer has the form `{"gpu_kib": {"4711": 2048}}`.
        """
        if self._is_closed:
            return Gap("the session is over")
        if self._process is None:
            if self._now() < self._retry_at_s:
                return Gap(self._why_not)
            self._start()
        lines = self._lines()
        return self._take(lines[-1]) if lines else self._silence()

    def close(self) -> None:
        """End the program and all processes that it has started."""
        with self._lock:
            self._is_closed = True
            self._end()

    def _end(self) -> None:
        process, self._process, self._pending = self._process, None, b""
        if process is None:
            return
        if process.poll() is None:  # otherwise the group's id may have been reused
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it cannot be killed while a driver's call hangs
            process.wait(1.0)

    @property
    def pid(self) -> int | None:
        """Return the process id of the helper program, or None if it does not run."""
        return self._process.pid if self._process else None

    def _start(self) -> None:
        """Start the helper program in its own process group.

        The program also ends when edgetop ends, because its standard input is closed then.
        """
        self._answered_at_s, self._has_answered = self._now(), False
        self._process = subprocess.Popen(  # noqa: S603  an interpreter that has jetson-stats, and edgetop's own file
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout
        os.set_blocking(self._process.stdout.fileno(), False)

    def _lines(self) -> list[bytes]:
        assert self._process
        assert self._process.stdout
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._process.stdout.fileno(), MAX_LINE_BYTES):
                self._pending += piece
                if len(self._pending) > MAX_LINE_BYTES and b"\n" not in self._pending:
                    break
        *whole, self._pending = self._pending.split(b"\n")
        return whole

    def _take(self, line: bytes) -> dict[str, Any] | Gap:
        answer = None
        with contextlib.suppress(ValueError):
            answer = json.loads(line)
        if not isinstance(answer, dict):
            return self._give_up("it does not speak as its program here does")
        if "error" in answer:
            return self._give_up(" ".join(str(answer["error"]).split())[:200])
        self._answered_at_s, self._has_answered, self._retry_s = self._now(), True, LEAST_RETRY_S
        return answer

    def _silence(self) -> Gap:
        assert self._process
        silent_s = self._now() - self._answered_at_s
        if self._process.poll() is not None or len(self._pending) > MAX_LINE_BYTES:
            return self._give_up(NO_WORD)
        if silent_s > (SILENT_TIMEOUT_S if self._has_answered else START_TIMEOUT_S):
            return self._give_up(f"it said nothing for {silent_s:.0f} s")
        return Gap("jetson-stats has no news" if self._has_answered else "jetson-stats is starting")

    def _give_up(self, why: str) -> Gap:
        """Stop the helper program, and return a gap with the reason `why`.

        The pause before the next start doubles each time.
        """
        self._end()
        self._why_not = f"jetson-stats: {why}"
        self._retry_at_s = self._now() + self._retry_s
        self._retry_s = min(2 * self._retry_s, MOST_RETRY_S)
        return Gap(self._why_not)


def accelerator_mib(answer: dict[str, Any], pid: int) -> float | Gap:
    """Return the GPU memory of process `pid` in MiB, or a gap if it is unknown.

    `answer` is what jetson-stats said, as in `{"gpu_kib": {"4711": 2048}}`: the memory of each process in KiB, by
    process id. A process that is not listed holds no GPU memory, so the result is 0. If no process is listed, the
    result is a gap, because the service then cannot read debugfs.
    """
    table = answer.get("gpu_kib")
    if not isinstance(table, dict) or not table:
        return Gap("jetson-stats reports no process's part of the GPU's memory")
    kib = table.get(str(pid), 0)
    if isinstance(kib, bool) or not isinstance(kib, int | float) or not 0 <= kib < 2**53:
        return Gap("jetson-stats reports no size")
    return kib / 1024


def memory_mhz(answer: dict[str, Any]) -> float | Gap:
    """Return the clock of the memory in MHz, or a gap if it is unknown.

    `answer` is what jetson-stats said, as in `{"emc_khz": 2133000}`. jetson-stats says 1 kHz if it cannot read the
    clock.
    """
    khz = answer.get("emc_khz")
    if isinstance(khz, bool) or not isinstance(khz, int | float) or not LEAST_KHZ <= khz <= MOST_KHZ:
        return Gap("jetson-stats reports no clock of the memory")
    return khz / 1000


def discover_engine(pid: int, root: Root) -> Found:
    """Return a source of the GPU memory of process `pid` and of the memory's clock, read from jetson-stats.

    The result is empty on a board that is no Jetson, on a captured board, and if the kernel's own files show the GPU
    memory to this user. If jetson-stats is missing or does not run, this is returned as the reason.
    """
    if not root.is_host or not is_compatible(root, "nvidia,tegra") or has_clients(root):
        return Found()
    python = interpreter()
    if python and SOCKET.exists():
        command = [python, "-E", str(PROGRAM)]
        return Found((JetsonStats(command, pid, has_memory_clock=not has_memory_clock(root)),))
    return Found(missing=(_missing(python),))


def _missing(python: str | None) -> Missing:
    why = "the engine's part of the GPU's memory is in no RSS; only root can read it, or jetson-stats"
    if python is None:
        return Missing("mem/accelerator", f"{why}, which is not installed", "sudo pip3 install jetson-stats")
    return Missing("mem/accelerator", f"{why}, which does not run", "sudo systemctl restart jtop.service")


def interpreter(path: str | None = None) -> str | None:
    """Return the path of a Python that has jetson-stats, or None if there is none.

    The Python of the command `jtop` is tried first, then the Python that runs this code. `path` is where commands are
    searched, by default $PATH.
    """
    command = shutil.which("jtop", path=path)
    if command:
        with contextlib.suppress(OSError):
            first = Path(command).read_bytes()[:256].split(b"\n", 1)[0].decode("utf-8", "replace")
            if match := re.fullmatch(r"#!\s*(\S*python[0-9.]*)\s*", first):
                return match[1]
    return sys.executable if importlib.util.find_spec("jtop") else None  # does not import it
