"""Settings of the board that decide its speed, watched: what was true at the start need not stay so.

A source without a number. It tells where the cpufreq governor or the power mode becomes another one, and
which clock the kernel counts time by, where that is a slow one.
"""

from collections.abc import Callable, Sequence

from edgetop.sensors.board import read_governor
from edgetop.sensors.jetson import read_power_mode
from edgetop.sensors.protocol import Found, SensorEvent, Values
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

CADENCE_S = 10.0

CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
# Those that processes read without a system call (the vDSO): arch/x86/include/asm/vdso/clocksource.h,
# drivers/clocksource/arm_arch_timer.c, drivers/clocksource/timer-riscv.c. The others cost a microsecond and
# more at each end of an inference, and some of them (jiffies, acpi_pm) count in coarse steps.
FAST_CLOCKS = frozenset(
    {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase", "tod"}
)


def _power_mode(root: Root) -> str | None:
    """Its name alone: that its limits differ from it is also what heat does."""
    mode = read_power_mode(root)
    return mode.name if mode else None


class Settings:
    name = "settings"
    cadence_s = CADENCE_S
    sensors: tuple[SensorInfo, ...] = ()

    _WATCHED: tuple[tuple[str, str, Callable[[Root], str | None]], ...] = (
        ("governor-changed", "the governor", read_governor),
        ("power-mode-changed", "the power mode", _power_mode),
    )

    def __init__(self, root: Root) -> None:
        self._root = root
        self._values: dict[str, str] = {}
        self._clock_reported = False
        self._events: list[SensorEvent] = []

    def read(self) -> Values:
        for kind, what, read in self._WATCHED:
            if (value := read(self._root)) is None:
                continue
            before, self._values[kind] = self._values.get(kind), value
            if before not in (None, value):
                text = f"{what} changed from {before} to {value}"
                self._events.append(SensorEvent(kind, text, {"before": before, "after": value}, "warning"))
        if not self._clock_reported:
            self._clock_reported = True
            self._judge_clock()
        return []

    def _judge_clock(self) -> None:
        name = self._root.line(CLOCK)
        if name is not None and name not in FAST_CLOCKS:
            text = f"the kernel counts time by {name}, which is slow to read: short inferences look longer"
            self._events.append(SensorEvent("clock-source", text, {"clock": name}, "warning"))

    def take_events(self) -> Sequence[SensorEvent]:
        notices, self._events = self._events, []
        return notices


def discover(root: Root) -> Found:
    """Nothing where the board tells of none of them."""
    if any(value is not None for value in (read_governor(root), _power_mode(root), root.line(CLOCK))):
        return Found((Settings(root),))
    return Found()
