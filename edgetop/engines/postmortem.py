"""Why a process ended, in words, with the evidence there is."""

import signal
from pathlib import Path


class OomWitness:
    """Detects whether the kernel's OOM killer struck since this was created.

    Source: `oom_kill` of /proc/vmstat (Linux 4.13 and later), system-wide, so that it works
    in a container without memory accounting (Raspberry Pi OS). Always the real
    /proc: it is about the engine's process, not about the board under `--sysroot`.
    """

    def __init__(self, vmstat: Path = Path("/proc/vmstat"), limit: int | None = None) -> None:
        """`limit`: the memory that the process may have, in bytes; None: all there is."""
        self._vmstat = vmstat
        self.limit = limit
        self._before = self._kills()

    def struck(self) -> bool:
        now = self._kills()
        return self._before is not None and now is not None and now > self._before

    def limit_struck(self, status: int) -> bool:
        """Whether a process of this `Popen.returncode` was killed for want of the memory that it may have."""
        return self.limit is not None and -status == signal.SIGKILL and self.struck()

    def _kills(self) -> int | None:
        try:
            for line in self._vmstat.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        except (OSError, ValueError):
            pass
        return None


def explain_exit(status: int, witness: OomWitness) -> str:
    """A `Popen.returncode` in words: "killed by SIGSEGV (it crashed in native code)"."""
    if status >= 0:
        return f"it ended by itself with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if witness.limit and witness.limit_struck(status):
        return f"out of memory at its limit of {witness.limit / 2**20:g} MiB (SIGKILL of the kernel's OOM killer)"
    hint = _CRASHES.get(-status, "")
    if -status == signal.SIGKILL:
        hint = "out of memory: the kernel's OOM killer" if witness.struck() else "not by the kernel's OOM killer"
    return f"killed by {name} ({hint})" if hint else f"killed by {name}"


_CRASHES: dict[int, str] = {
    signal.SIGSEGV: "it crashed in native code",
    signal.SIGBUS: "it crashed in native code, or a file it had mapped became shorter",
    signal.SIGILL: "an instruction this CPU has not: a build for another CPU?",
    signal.SIGABRT: "the runtime gave up: see its last words",
    signal.SIGFPE: "it crashed in native code",
    signal.SIGXCPU: "its CPU time limit",
}
