"""Notice that an engine hangs, so that a session without anybody at its screen ends with a reason."""

import contextlib
import time
from collections.abc import Callable

from edgetop.engines.spec import EngineSpec

NS = 10**9
# How long an engine may be silent, and use no CPU, before it counts as hung. Choice: no load of a model waits for so
# long without computing. Larger: a hang costs more time; smaller: a slow disk or network is a hang.
SILENT_NS = 300 * NS
# CPU time in the second half of that time up to which the engine does nothing. Choice: threads that wait wake up now
# and then.
IDLE_NS = NS
# How long the measured phase may exceed its duration: the last inference may have begun right before its end.
OVERTIME_NS = 60 * NS
OVERTIME_SILENCES = 10  # the same in longest pauses between two messages so far, if that is more
POISSON_GAPS = 20  # longest gap between random arrivals, in mean gaps; one of 5e8 gaps is longer


class HangWatch:
    """Notices that an engine hangs, from its messages and its CPU time. Its method `why` says so in words."""

    def __init__(
        self, spec: EngineSpec, cpu_ns: Callable[[], int], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Watch an engine with the specification `spec`.

        `cpu_ns` returns the CPU time that the engine's processes have used, in ns. `clock` returns the present time in
        ns.
        """
        self._clock, self._cpu_ns = clock, cpu_ns
        self._rest_ns = _longest_rest_ns(spec)
        self._duration_ns = spec.duration_ns
        self._in_turns = spec.in_turns
        self._last_ns, self._longest_ns = clock(), 0
        self._cpu_before: int | None = None  # in the middle of the present silence
        self._measured_from_ns: int | None = None

    def heard(self, *, began_measuring: bool = False) -> None:
        """Note that the engine has just sent something.

        `began_measuring` says that the engine has just begun the measured phase.
        """
        now = self._clock()
        self._longest_ns = max(self._longest_ns, now - self._last_ns)
        self._last_ns, self._cpu_before = now, None
        if began_measuring:
            self._measured_from_ns = now

    def why(self) -> str:
        """Return a sentence which says that the engine hangs, or "" if it does not.

        For example "it hangs: for 310 s it has said nothing and used no CPU time".
        """
        now = self._clock()
        if self._in_turns:  # it waits for its turns
            return ""
        if self._measured_from_ns is not None and self._duration_ns is not None:
            over_ns = now - self._measured_from_ns - self._duration_ns
            if over_ns > max(OVERTIME_NS, OVERTIME_SILENCES * self._longest_ns):
                return f"it hangs: it goes on {over_ns // NS} s after the end of its duration"
        silent_ns = now - self._last_ns
        if silent_ns <= self._rest_ns + SILENT_NS // 2:
            return ""
        if self._cpu_before is None:
            self._cpu_before = self._cpu_ns()
        if silent_ns > SILENT_NS + self._rest_ns and self._cpu_ns() - self._cpu_before <= IDLE_NS:
            return f"it hangs: for {silent_ns // NS} s it has said nothing and used no CPU time"
        return ""


def _longest_rest_ns(spec: EngineSpec) -> int:
    """Return the longest pause between two inferences, in ns, that the user's options for the load ask for."""
    rests = [spec.idle_ns, spec.delay_ns, spec.duty_ns[1] if spec.duty_ns else 0]
    if spec.rate_hz:
        rests.append(int((POISSON_GAPS if spec.arrivals == "poisson" else 1) * NS / spec.rate_hz))
    rests += (after - before for before, after in zip(spec.starts_ns, spec.starts_ns[1:], strict=False))
    return max(rests)


def cpu_ns_of(pid: int) -> int:
    """Return the CPU time in ns that a process and its descendants have used, or 0 if it is gone."""
    import psutil  # noqa: PLC0415  for a silent engine alone

    total = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                total += times.user + times.system
    return int(total * NS)
