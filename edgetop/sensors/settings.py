"""Settings of the board that decide its speed, watched: what was true at the start need not stay so.

A reader without a sensor. Its events say where the cpufreq governor or the power mode changes, and which
clock the kernel counts time by, where that is a slow one.
"""

from collections.abc import Callable

from edgetop.sensors.board import read_governor
from edgetop.sensors.jetson import read_power_mode
from edgetop.sensors.protocol import EventReader, Found, SensorEvent, Values
from edgetop.sensors.root import Root

CADENCE_S = 10.0

CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
# Those that processes read without a system call (the vDSO): arch/x86/include/asm/vdso/clocksource.h,
# drivers/clocksource/arm_arch_timer.c, drivers/clocksource/timer-riscv.c. The others cost a microsecond and
# more at each end of an inference, and some of them (jiffies, acpi_pm) count in coarse steps.
FAST_CLOCKS = frozenset(
    {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase", "tod"}
)


def _power_mode(root: Root) -> str | None:
    """Return the power mode's name alone: that the board's limits differ from it can also be due to heat."""
    mode = read_power_mode(root)
    return mode.name if mode else None


_WATCHED: tuple[tuple[str, str, Callable[[Root], str | None]], ...] = (
    ("governor-changed", "the governor", read_governor),
    ("power-mode-changed", "the power mode", _power_mode),
)


def discover(root: Root) -> Found:
    """Discover the board's settings, where it has any."""
    if any(value is not None for value in (read_governor(root), _power_mode(root), root.line(CLOCK))):
        return Found((settings(root),))
    return Found()


def settings(root: Root) -> EventReader:
    events: list[SensorEvent] = []
    values: dict[str, str] = {}
    is_clock_checked = False

    def read() -> Values:
        nonlocal is_clock_checked
        for kind, what, read_setting in _WATCHED:
            if (value := read_setting(root)) is None:
                continue
            before, values[kind] = values.get(kind), value
            if before not in (None, value):
                text = f"{what} changed from {before} to {value}"
                events.append(SensorEvent(kind, text, {"before": before, "after": value}, "warning"))
        clock = None if is_clock_checked else root.line(CLOCK)
        is_clock_checked = True
        if clock is not None and clock not in FAST_CLOCKS:
            text = f"the kernel counts time by {clock}, which is slow to read: short inferences look longer"
            events.append(SensorEvent("clock-source", text, {"clock": clock}, "warning"))
        return []

    return EventReader((), read, CADENCE_S, "settings", events=events)
