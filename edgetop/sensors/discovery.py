"""Find all sensors: those of the board, whose files are under the root, and those of the engine's process.

To add a family of sensors, write a file with a function that finds them, and add the function to a list here.
"""

from collections.abc import Callable

from edgetop.sensors import (
    accelerators,
    air_sensors,
    cgroup,
    clocks,
    competitors,
    cpu_load,
    engine_counters,
    gpu_competitors,
    hwmon,
    jetson,
    jetson_stats,
    memory_sensors,
    memory_traffic,
    npus,
    nvml,
    power_supply,
    rails,
    rapl,
    raspberry_pi,
    thermal_zones,
    throttling,
    traffic,
)
from edgetop.sensors.board_identity import discover_settings
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, join

# The order is that in which sensors are listed.
_BOARD: tuple[Callable[[Root], Found], ...] = (
    *(
        thermal_zones.discover,
        hwmon.discover,
        air_sensors.discover,
        thermal_zones.discover_edge_tpus,
        throttling.discover,
        clocks.discover,
    ),
    *(raspberry_pi.discover, rails.discover, jetson.discover_over_current, jetson.discover_power_mode, rapl.discover),
    *(power_supply.discover, hwmon.discover_power, nvml.discover),
    *(
        memory_sensors.discover,
        memory_sensors.discover_pools,
        memory_sensors.discover_paging,
        memory_traffic.discover,
        traffic.discover,
        cpu_load.discover,
    ),
    *(accelerators.discover, npus.discover, cpu_load.discover_pressure, discover_settings),
)
# Those that the kernel provides on any machine.
_SYSTEM = (
    memory_sensors.discover,
    memory_sensors.discover_paging,
    traffic.discover,
    cpu_load.discover,
    cpu_load.discover_pressure,
)
_ENGINE = (
    *(
        memory_sensors.discover_engine,
        memory_sensors.discover_engine_faults,
        cgroup.discover_engine,
        traffic.discover_engine,
    ),
    *(cpu_load.discover_engine, cpu_load.discover_engine_scheduling),
)


def discover_board(root: Root) -> Found:
    return join([discover(root) for discover in _BOARD])


def discover_hardware(root: Root) -> Found:
    """Return the board's sensors, except the sensors that the kernel has on any machine (`discover_system`)."""
    return join([discover(root) for discover in _BOARD if discover not in _SYSTEM])


def discover_system(root: Root) -> Found:
    return join([discover(root) for discover in _SYSTEM])


def discover_engine(pid: int, *, shares_process: bool, is_program: bool = False, board: Root | None = None) -> Found:
    """Return the sensors of the engine's process (`pid`) and of edgetop's own process.

    The sensors are always read in the real /proc.

    `shares_process` says that the engine is a thread of edgetop. `is_program` says that `pid` is a watched program,
    whose descendants belong to it. If `board` is this machine, the engine's part of the GPU's memory is included, and
    the load that other processes put on the GPU.
    """
    found = join([discover(pid, shares_process=shares_process) for discover in _ENGINE])
    counted = engine_counters.discover_engine(pid, shares_process=shares_process, is_program=is_program)
    found = join([found, competitors.discover(pid, is_program=is_program), counted])
    if board is None:
        return found
    on_gpu = (memory_sensors.discover_engine_on_gpu, jetson_stats.discover_engine, gpu_competitors.discover_engine)
    return join([found, *(discover(pid, board) for discover in on_gpu)])
