"""Everything that can be read here: the board under the root, and the engine's own process."""

from edgetop.sensors import (
    accelerators,
    apex,
    cgroup,
    clocks,
    competitors,
    devfreq,
    hwmon,
    hwmon_power,
    jetson,
    jetson_stats,
    load,
    memory,
    nvmap,
    nvml,
    paging,
    power_supply,
    pressure,
    rapl,
    raspberry_pi,
    scheduling,
    settings,
    thermal,
    throttling,
    traffic,
)
from edgetop.sensors.protocol import Found, join
from edgetop.sensors.root import Root

_BOARD = (
    *(thermal, hwmon, apex, throttling, clocks, devfreq),
    *(raspberry_pi, jetson, rapl, power_supply, hwmon_power, nvml),
    *(memory, nvmap, paging, traffic, load, accelerators, pressure, settings),
)
_SYSTEM = (memory, paging, traffic, load, pressure)  # of these, what the kernel tells of itself on any machine
_ENGINE = (memory, paging, cgroup, traffic, load, scheduling, competitors)


def discover_board(root: Root) -> Found:
    return join([module.discover(root) for module in _BOARD])


def discover_hardware(root: Root) -> Found:
    """The board without `discover_system`."""
    return join([module.discover(root) for module in _BOARD if module not in _SYSTEM])


def discover_system(root: Root) -> Found:
    return join([module.discover(root) for module in _SYSTEM])


def discover_engine(pid: int, *, shares_process: bool, board: Root | None = None) -> Found:
    """Sensors of the engine's process and of edgetop's own, always from the real /proc.

    `board`: where it is this machine, also what its drivers tell of the engine.
    """
    found = join([module.discover_engine(pid, shares_process=shares_process) for module in _ENGINE])
    if board is None:
        return found
    return join([found, nvmap.discover_engine(pid, board), jetson_stats.discover_engine(pid, board)])
