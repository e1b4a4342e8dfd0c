"""Decide which temperatures, trip points, powers and rates can be right. Every reader of a sensor uses these functions.

A value that cannot be right becomes a `Gap`, which has the reason. A trip point that cannot be right is treated as if
there were none.
"""

import re

from edgetop.sensors.process_table import MAX_CPUS, count_cpus
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap

# Lowest and highest temperature that is believed. Choice: chips are made for -40 to 125 °C, and stop themselves by 150
# °C. Larger: marks of a sensor that is off are believed; smaller: a hot board has no temperature.
PLAUSIBLE_C = (-40.0, 150.0)
# Highest trip point that is believed. Choice: no chip is used at a higher temperature, and drivers that have no trip
# point report numbers such as 2104533 °C. Larger: marks are believed; smaller: the trip points of power chips are lost.
MAX_TRIP_C = 175.0
# Highest power that is believed. Choice: no board or server of one model draws more. Larger: errors of chips are
# believed; smaller: the power of a large server is lost.
MAX_BOARD_W = 10_000.0
# Highest number in a file of thousandths of a degree that is taken for whole degrees. Choice: no chip is hotter in
# degrees, and none is just above 0 °C. Larger: a cold board has no temperature; smaller: a wrong driver reads 0.1 °C.
_WHOLE_DEGREES = 150
# Highest number in the file of a thermal zone that is taken for tenths of a degree, as batteries and older Snapdragons
# give it. Choice: 150 °C in tenths, and few boards work just above 0 °C. Larger: a cold board has no temperature;
# smaller: a wrong driver reads 1 °C.
_TENTHS = 1500
# Lowest critical trip that is believed. Choice: no board shuts itself down at a temperature of hot air. Larger: the
# trip of a battery is lost; smaller: every reading is far above a wrong trip, and so a gap.
MIN_CRITICAL_C = 40.0
# How far above its critical trip a zone is believed. Choice: the kernel shuts the board down at that trip
# (`handle_critical_trips` in drivers/thermal/thermal_core.c), and a chip does not heat up by more in the seconds that
# this takes. Larger: a wrong sensor is the hottest of the board; smaller: the last readings of a hot board are lost.
_SHUTTING_DOWN_C = 10.0


def celsius_of(millidegrees: int) -> float | Gap:
    """Return a temperature in °C, or a gap if it cannot be right. `millidegrees` is the number in a file of the kernel.

    A number from 1 to 150 is taken for whole degrees of a wrong driver, so the result is a gap. All other numbers are
    judged by `temperature_c`.

    >>> celsius_of(58000)
    58.0
    >>> celsius_of(58)
    Gap(reason='reads 58, which is 0.058 °C in the unit of this file; its driver probably gives whole degrees')
    """
    if 0 < millidegrees <= _WHOLE_DEGREES:
        return _in_other_unit(millidegrees, "whole degrees")
    return temperature_c(millidegrees / 1000)


def zone_c(millidegrees: int, critical_c: float | None) -> float | Gap:
    """Return the temperature of a thermal zone in °C, or a gap if it cannot be right.

    `millidegrees` is the number in the zone's file, and `critical_c` the zone's critical trip in °C, or None. A zone
    more than 10 °C above its critical trip is a gap, since the kernel would have shut the board down at that trip. A
    number from 151 to 1500 is taken for tenths of a degree of a wrong driver. All other numbers are judged by
    `celsius_of`.

    >>> zone_c(112000, 105.0)
    112.0
    >>> zone_c(127000, 105.0)
    Gap(reason='reads 127 °C, but the kernel shuts the board down at 105 °C, the critical trip of this zone')
    >>> zone_c(312, 60.0)
    Gap(reason='reads 312, which is 0.312 °C in the unit of this file; its driver probably gives tenths of a degree')
    """
    if _WHOLE_DEGREES < millidegrees <= _TENTHS:
        return _in_other_unit(millidegrees, "tenths of a degree")
    celsius = celsius_of(millidegrees)
    if isinstance(celsius, Gap) or critical_c is None or celsius <= critical_c + _SHUTTING_DOWN_C:
        return celsius
    trip = f"the kernel shuts the board down at {critical_c:g} °C, the critical trip of this zone"
    return Gap(f"reads {celsius:g} °C, but {trip}")


def _in_other_unit(millidegrees: int, unit: str) -> Gap:
    text = f"reads {millidegrees}, which is {millidegrees / 1000:g} °C in the unit of this file"
    return Gap(f"{text}; its driver probably gives {unit}")


def temperature_c(celsius: float) -> float | Gap:
    """Return `celsius` unchanged, or a gap if it is exactly 0, below -40 or above 150.

    No chip works below -40 °C or above 150 °C. Sensors that are off read -256 °C (rbonghi/jetson_stats#350) or -274 °C.
    Drivers give exactly 0 for a result that is negative or missing (drivers/thermal/broadcom/bcm2711_thermal.c).
    """
    if celsius == 0:
        return Gap("reads exactly 0 °C, which drivers give for a missing value")
    if PLAUSIBLE_C[0] <= celsius <= PLAUSIBLE_C[1]:
        return celsius
    return Gap(f"reads {celsius:g} °C, which marks a sensor that is off, or a wrong unit")


def air_c(celsius: float) -> float | Gap:
    """Return the temperature of the air or of a probe as it is given, or a gap if it is below -40 or above 150 °C.

    Exactly 0 °C is no gap here, unlike for the temperature of a chip (`temperature_c`).
    """
    return celsius if celsius == 0 else temperature_c(celsius)


def trip_c(millidegrees: int | None) -> float | None:
    """Return a trip point, the temperature at which the kernel acts, in °C, or None if it is unset or impossible.

    `millidegrees` is the number in a file of the kernel, or None. Numbers up to 1500 (1.5 °C) are impossible, and so
    are numbers above 175,000 (175 °C).

    >>> trip_c(85000), trip_c(2104533000), trip_c(-274000), trip_c(75), trip_c(850)
    (85.0, None, None, None, None)
    """
    if millidegrees is None or not _TENTHS < millidegrees <= MAX_TRIP_C * 1000:
        return None
    return millidegrees / 1000


def humidity_pct(percent: float) -> float | Gap:
    """Return the relative humidity in percent as it is given, or a gap if it is not from 0 to 100."""
    return percent if 0 <= percent <= 100 else Gap(f"reads {percent:g} % of humidity, which is impossible")


def power_w(watts: float) -> float | Gap:
    """Return the power in W as it is given, or a gap if more than 10,000 W flow in or out: no board draws that."""
    return watts if abs(watts) <= MAX_BOARD_W else Gap(f"reads {watts:g} W, which no board draws")


# Power in W that may flow the other way and counts as none. Choice: the offset of a chip that sees no current. Larger:
# a battery that is charged slowly counts as 0 W; smaller: an idle rail has no reading.
OFFSET_W = 0.05


def consumed_w(watts: float | Gap) -> float | Gap:
    """Return the power in W that flows into the board, or a gap if it flows out, as while a battery is charged.

    `watts` is below 0 if power flows out. A value from -0.05 to 0 becomes 0, because it is an instrument's offset. More
    than 10,000 W becomes a gap (`power_w`). If `watts` is a gap, it is returned unchanged.

    >>> consumed_w(3.2), consumed_w(-0.004)
    (3.2, 0.0)
    """
    if isinstance(watts, Gap):
        return watts
    if watts >= -OFFSET_W:
        return power_w(max(watts, 0.0))
    return Gap(f"{-watts:.3g} W flow the other way, as while a battery is charged: this is not what the board draws")


# The highest rates that are possible. `counters.py` makes a gap of a rate beyond them.

# Number of page faults, swapped pages or task switches that a CPU can do in a second. Choice: no kernel does one in
# less than 100 ns. Larger: counters that jump are believed; smaller: the rate of a fast machine is lost.
EVENTS_PER_CPU = 1e7
# Number of bytes that a CPU can write in a second. Choice: a core of today copies about 30 GB/s, and what a process
# writes counts when it is in the page cache (Documentation/filesystems/proc.rst, "write_bytes"). Larger: counters that
# jump are believed; smaller: the rate of a fast machine is lost.
COPIED_PER_CPU = 100e9
# Number of interrupts of one source in a second, such as a thermal limit that begins. Choice: the kernel itself takes
# no more. Larger: counters that jump are believed; smaller: a storm of interrupts is lost.
INTERRUPTS = 1e6

# Number of bytes that a network interface of unknown speed can carry in a second, in one direction. Datasheet: 800
# Gbit/s (IEEE 802.3df). Larger: counters that jump are believed; smaller: the rate of a fast interface is lost.
MOST_LINK = 100e9
# Number of bytes that a wireless interface can carry in a second, in one direction. Datasheet: 46 Gbit/s of Wi-Fi 7
# (IEEE 802.11be). Larger: counters that jump are believed; smaller: the rate of a fast interface is lost.
MOST_RADIO = 5.75e9
# Number of bytes that an SD card or eMMC can read or write in a second. Datasheet: UHS-III ends at 624 MB/s (SD
# Physical Layer 8.0), and SD Express is an NVMe disk. Larger: counters that jump are believed; smaller: the rate of a
# fast card is lost.
MOST_CARD = 1e9
# Number of bytes that a disk can read or write in a second. Datasheet: 16 lanes of PCI Express 5.0. Larger: counters
# that jump are believed; smaller: the rate of a fast disk is lost.
MOST_DISK = 64e9
# Drivers of interfaces of virtual machines, which are often faster than the speed that they state.
_NOMINAL = frozenset({"virtio_net", "vmxnet3", "xen_netfront", "hv_netvsc", "veth", "tun"})
# What the kernel shows for an unknown speed: -1, or the same with 16 or 32 bits (SPEED_UNKNOWN, older kernels).
_UNKNOWN_SPEEDS = (65_535, 4_294_967_295)
_CPU_FOLDER = re.compile(r"cpu[0-9]+")


def most_cpus(root: Root) -> int:
    """Return the number of a board's CPUs, including those that are offline.

    If it is unknown, return `MAX_CPUS`, the highest number that a kernel supports.
    """
    present = sum(1 for name in root.names("sys/devices/system/cpu") if _CPU_FOLDER.fullmatch(name))
    online = count_cpus(root.text("proc/stat"))
    return present if online == MAX_CPUS and present else max(present, online)


def most_of_link(root: Root, interface: str) -> float:
    """Return the highest possible rate of a network interface in bytes per second, in one direction.

    It is the link's speed in sysfs, or a general maximum if that speed is unknown. The file `speed` has Mbit/s
    (Documentation/ABI/testing/sysfs-class-net). Wireless interfaces do not have it.
    """
    folder = f"sys/class/net/{interface}"
    names = root.names(folder)
    if "wireless" in names or "phy80211" in names:
        return MOST_RADIO
    driver = (root.resolve(f"{folder}/device/driver") or "").rpartition("/")[2]
    megabits = root.number(f"{folder}/speed") or 0
    if "device" not in names or driver in _NOMINAL or megabits <= 0 or megabits in _UNKNOWN_SPEEDS:
        return MOST_LINK
    return min(megabits * 1e6 / 8, MOST_LINK)


def most_of_disk(disk: str) -> float:
    """Return the highest possible rate of a disk in bytes per second, for reads or for writes.

    `disk` is a name such as `sda`.
    """
    return MOST_CARD if disk.startswith("mmcblk") else MOST_DISK
