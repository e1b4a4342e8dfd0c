"""Everything that can be read here: the board under the root, and the engine's own process.

A new family of sensors is a file of this folder with a function that finds its sensors, and its name in a list here.
"""

from collections.abc import Callable

from edgetop.sensors import (
    accelerators,
    cgroup,
    clocks,
    competitors,
    hwmon,
    jetson,
    jetson_stats,
    load,
    memory,
    nvml,
    power_supply,
    rails,
    rapl,
    raspberry_pi,
    thermal,
    throttling,
    traffic,
)
from edgetop.sensors.board import discover_settings
from edgetop.sensors.protocol import Found, join
from edgetop.sensors.root import Root

# In the order in which the sensors are listed.
_BOARD: tuple[Callable[[Root], Found], ...] = (
    *(thermal.discover, hwmon.discover, thermal.discover_edge_tpus, throttling.discover, clocks.discover),
    *(raspberry_pi.discover, rails.discover, jetson.discover_over_current, jetson.discover_power_mode, rapl.discover),
    *(power_supply.discover, hwmon.discover_power, nvml.discover),
    *(memory.discover, memory.discover_pools, memory.discover_paging, traffic.discover, load.discover),
    *(accelerators.discover, load.discover_pressure, discover_settings),
)
# Of these, what the kernel has of itself on any machine.
_SYSTEM = (memory.discover, memory.discover_paging, traffic.discover, load.discover, load.discover_pressure)
_ENGINE = (
    *(memory.discover_engine, memory.discover_engine_faults, cgroup.discover_engine, traffic.discover_engine),
    *(load.discover_engine, load.discover_engine_scheduling),
)


def discover_board(root: Root) -> Found:
    return join([discover(root) for discover in _BOARD])


def discover_hardware(root: Root) -> Found:
    """The board without `discover_system`."""
    return join([discover(root) for discover in _BOARD if discover not in _SYSTEM])


def discover_system(root: Root) -> Found:
    return join([discover(root) for discover in _SYSTEM])


def discover_engine(pid: int, *, shares_process: bool, is_program: bool = False, board: Root | None = None) -> Found:
    """Sensors of the engine's process and of edgetop's own, always from the real /proc.

    `is_program`: it may start others, which are a part of it. `board`: where it is this machine, also what its
    drivers report of the engine.
    """
    found = join([discover(pid, shares_process=shares_process) for discover in _ENGINE])
    found = join([found, competitors.discover(pid, is_program=is_program)])
    if board is None:
        return found
    return join([found, memory.discover_engine_on_gpu(pid, board), jetson_stats.discover_engine(pid, board)])
