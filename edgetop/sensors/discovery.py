"""Everything that can be read here: the board under the root, and the engine's own process.

A new family of sensors is a file of this folder with a function that finds its sensors, and its name in a list here.
"""

from collections.abc import Callable

from edgetop.sensors import (
    accelerators,
    apex,
    cgroup,
    clocks,
    competitors,
    hwmon,
    jetson,
    jetson_stats,
    load,
    memory,
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

# In the order in which the sensors are listed.
_BOARD: tuple[Callable[[Root], Found], ...] = (
    *(thermal.discover, hwmon.discover, apex.discover, throttling.discover, clocks.discover),
    *(
        raspberry_pi.discover,
        jetson.discover,
        rapl.discover,
        power_supply.discover,
        hwmon.discover_power,
        nvml.discover,
    ),
    *(memory.discover, memory.discover_pools, paging.discover, traffic.discover, load.discover),
    *(accelerators.discover, pressure.discover, settings.discover),
)
# Of these, what the kernel tells of itself on any machine.
_SYSTEM = (memory.discover, paging.discover, traffic.discover, load.discover, pressure.discover)
_ENGINE = (memory, paging, cgroup, traffic, load, scheduling, competitors)


def discover_board(root: Root) -> Found:
    return join([discover(root) for discover in _BOARD])


def discover_hardware(root: Root) -> Found:
    """The board without `discover_system`."""
    return join([discover(root) for discover in _BOARD if discover not in _SYSTEM])


def discover_system(root: Root) -> Found:
    return join([discover(root) for discover in _SYSTEM])


def discover_engine(pid: int, *, shares_process: bool, board: Root | None = None) -> Found:
    """Sensors of the engine's process and of edgetop's own, always from the real /proc.

    `board`: where it is this machine, also what its drivers tell of the engine.
    """
    found = join([module.discover_engine(pid, shares_process=shares_process) for module in _ENGINE])
    if board is None:
        return found
    return join([found, memory.discover_engine_on_gpu(pid, board), jetson_stats.discover_engine(pid, board)])
