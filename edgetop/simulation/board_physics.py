"""The state of the virtual board, and its change over time. Pure functions: time and load are arguments."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from edgetop.frozen import frozen
from edgetop.simulation.scenarios import Scenario

# Heating and cooling: thermal stages, the kernel's governor, and a fan with its trip points.
# Heat flows through two thermal RC stages, from the die to its heatsink and to the air. They form a Foster network
# (JEDEC JESD51-14, annex): each stage has a resistance in K/W and a capacitance in J/K, its temperature difference
# follows power with the time constant R·C, and the differences add up to that between die and ambient. A step under
# constant power is exact, however long it is.


@frozen
class Stage:
    """A mass in the board that stores heat (a thermal RC element), such as the chip.

    `rise_c` is how many °C warmer the mass is than the mass or the air that cools it.
    """

    capacitance_j_k: float
    rise_c: float = 0.0

    def after(self, seconds: float, watts: float, resistance_k_w: float) -> "Stage":
        steady_c = watts * resistance_k_w
        decay = math.exp(-seconds / (resistance_k_w * self.capacitance_j_k))
        return replace(self, rise_c=steady_c + (self.rise_c - steady_c) * decay)


@frozen
class Heat:
    """The heat in a chip on a heatsink. The heatsink's resistance to the air depends on the fan."""

    die: Stage
    sink: Stage
    die_resistance_k_w: float

    def after(self, seconds: float, watts: float, sink_resistance_k_w: float) -> "Heat":
        return replace(
            self,
            die=self.die.after(seconds, watts, self.die_resistance_k_w),
            sink=self.sink.after(seconds, watts, sink_resistance_k_w),
        )

    def celsius(self, ambient_c: float) -> float:
        return ambient_c + self.die.rise_c + self.sink.rise_c


@frozen
class Trip:
    celsius: float
    hysteresis_c: float


@frozen
class StepWise:
    """The kernel's control of one cooling device by one temperature limit (drivers/thermal/gov_step_wise.c).

    Each poll makes at most one step: up if the temperature is above the limit and rising, down if it is below and
    falling. A temperature that was above the limit is below again only when it is lower than the limit less the
    hysteresis.
    """

    trip: Trip
    max_state: int
    state: int = 0  # 0 does not cool
    is_above: bool = False
    last_c: float | None = None  # temperature of the last poll

    def polled(self, celsius: float) -> "StepWise":
        threshold_c = self.trip.celsius - (self.trip.hysteresis_c if self.is_above else 0)
        is_above = celsius >= threshold_c
        last_c = celsius if self.last_c is None else self.last_c
        step = int(celsius > last_c) if is_above else -int(celsius < last_c)
        state = min(max(self.state + step, 0), self.max_state)
        return StepWise(self.trip, self.max_state, state, is_above, celsius)


def fan_level(level: int, celsius: float, trips: Sequence[Trip]) -> int:
    """Return the fan's next level: how many temperature limits (`trips`, ascending) have been crossed.

    `level` is the fan's present level. A limit stays crossed until the temperature has fallen below it by its
    hysteresis. In the example, the limits are 50, 60, 67.5 and 75 °C, with a hysteresis of 5 °C.

    >>> fan_level(0, 65.0, FAN_TRIPS), fan_level(2, 58.0, FAN_TRIPS)
    (2, 2)
    """
    rising = sum(celsius >= trip.celsius for trip in trips)
    falling = sum(celsius >= trip.celsius - trip.hysteresis_c for trip in trips)
    return max(rising, min(level, falling))


# Parameters of the simulated boards: a die on a small heatsink, in W, K/W and J/K.

# Trip points of the fan of a Pi 5, from its device tree (arch/arm64/boot/dts/broadcom/bcm2712-rpi-5-b.dts).
FAN_TRIPS = tuple(Trip(celsius, 5.0) for celsius in (50.0, 60.0, 67.5, 75.0))
SINK_K_W = (12.0, 6.0, 4.0, 2.5, 1.0)  # resistance of the heatsink to the air, by the level of the fan
FULL_RPM = 5200


@frozen
class Hardware:
    """The fixed properties of a simulated board, such as its clocks. The clocks are in ascending order.

    `volts` are the CPU's voltages at the lowest and the highest clock; voltages between are interpolated.
    """

    clocks_mhz: tuple[float, ...]
    volts: tuple[float, float]
    busy_w: float  # power of a fully busy CPU at its highest clock, above idle power
    idle_w: float  # idle power of the chip
    passive: Trip | None  # trip point at which the kernel throttles; None if the firmware throttles instead
    critical_c: float

    @property
    def fastest_mhz(self) -> float:
        return self.clocks_mhz[-1]

    def dynamic_w(self, mhz: float, busy: float) -> float:
        """Return the CPU's power above idle, in W, at the clock `mhz`: dynamic-power-coefficient · V² · f.

        `busy` is the CPU use, 0 to 1. Source: Documentation/devicetree/bindings/arm/cpus.yaml.
        """
        slowest_mhz, (low_v, high_v) = self.clocks_mhz[0], self.volts
        share = (mhz - slowest_mhz) / (self.fastest_mhz - slowest_mhz)
        volts = low_v + (high_v - low_v) * share
        return self.busy_w * busy * mhz / self.fastest_mhz * (volts / high_v) ** 2

    def cold(self) -> Heat:
        """Return the heat of a board that has been idle for a long time, with its fan at a middle level."""
        return Heat(die=Stage(12.0), sink=Stage(120.0), die_resistance_k_w=0.5).after(
            math.inf, self.idle_w, SINK_K_W[2]
        )


# Clocks are those of an Orin Nano and a Pi 5. The trip point is from RK3588's device tree (rk3588-base.dtsi), because
# NVIDIA's is at 99 °C without hysteresis.
HARDWARE: Mapping[str, Hardware] = {
    "jetson": Hardware(
        clocks_mhz=tuple(729.6 + 76.8 * step for step in range(14)),
        volts=(0.62, 1.0),
        busy_w=11.0,
        idle_w=2.0,
        passive=Trip(85.0, 2.0),
        critical_c=105.0,
    ),
    "raspberry-pi": Hardware(
        clocks_mhz=(1500.0, 1600.0, 1700.0, 1800.0, 1900.0, 2000.0, 2100.0, 2200.0, 2300.0, 2400.0),
        volts=(0.72, 0.88),
        busy_w=6.0,
        idle_w=2.0,
        passive=None,
        critical_c=110.0,
    ),
}


@frozen
class Timetable:
    """When a simulated fault is present. A calm time comes first, then the fault and a rest alternate."""

    scenario: Scenario
    is_troubled: bool = False
    felt_s: float = 0.0  # length of the present period; for a fault, since it began to have an effect
    has_been: bool = False  # whether there was a fault before
    was_felt: bool = False

    def after(self, seconds: float, *, is_felt: bool) -> "Timetable":
        """Return the timetable `seconds` later.

        `is_felt`: whether the present fault has slowed the board. A fault lasts its full length from the first time
        that this is true.
        """
        scenario = self.scenario
        if scenario.trouble_s == 0:
            return self
        was_felt = self.was_felt or is_felt
        felt_s = self.felt_s + (seconds if was_felt or not self.is_troubled else 0.0)
        quiet_s = scenario.rest_s if self.has_been else scenario.calm_s
        if felt_s >= (scenario.trouble_s if self.is_troubled else quiet_s):
            return Timetable(scenario, not self.is_troubled, has_been=self.has_been or self.is_troubled)
        return Timetable(scenario, self.is_troubled, felt_s, self.has_been, was_felt and self.is_troubled)


POLL_S = 1.0  # polling-delay-passive of the thermal zone; no step of the simulation is longer
# An over-current event is 1 ms at half clocks, as seen on an Orin Nano (nvidia-oot, tegra23x-oc-event.c; `throt_period`
# in the tables of its power manager, the BPMP).
EVENT_S = 0.001
EVENT_CLOCK = 0.5
# The firmware reports under-voltage below 4.63 V (Raspberry Pi documentation, get_throttled).
SAGGING_V, STEADY_V = 4.54, 5.09
OHMS = 0.02  # resistance of cable and plug


@frozen
class Machine:
    hardware: Hardware
    ambient_c: float
    heat: Heat
    governor: StepWise | None
    timetable: Timetable
    fan: int = 0  # requested level of the fan, which may be stuck
    busy: float = 0.0  # recent CPU use, 0 to 1
    over_current_events: float = 0.0  # number of events since the beginning
    was_under_voltage: bool = False

    @property
    def scenario(self) -> Scenario:
        return self.timetable.scenario

    @property
    def is_troubled(self) -> bool:
        return self.timetable.is_troubled

    @property
    def celsius(self) -> float:
        return self.heat.celsius(self.ambient_c)

    @property
    def is_under_voltage(self) -> bool:
        return self.is_troubled and self.scenario.supply_sags

    @property
    def clock_mhz(self) -> float:
        """The present clock of the CPU in MHz."""
        if self.is_under_voltage:
            return self.hardware.clocks_mhz[0]
        return self.hardware.clocks_mhz[-1 - self.cooling_state]

    @property
    def cooling_state(self) -> int:
        return self.governor.state if self.governor else 0

    @property
    def slowdown(self) -> float:
        """By which share inferences take longer than at the highest clock, such as 0.5 for 50 % longer.

        The share is the highest clock divided by the effective clock, minus 1. The effective clock is the present
        clock, less the share that over-current events take.
        """
        return self.hardware.fastest_mhz / (self.clock_mhz * (1 - self._share_lost)) - 1

    @property
    def _over_current_hz(self) -> float:
        return self.scenario.over_current_hz if self.is_troubled else 0.0

    @property
    def _share_lost(self) -> float:
        """The share of the work, 0 to 1, that is lost by over-current events."""
        return min(1.0, self._over_current_hz * EVENT_S) * (1 - EVENT_CLOCK)

    @property
    def cpu_w(self) -> float:
        """The power of the CPU in W, above idle power."""
        return self.hardware.dynamic_w(self.clock_mhz, self.busy) * (1 - self._share_lost)

    @property
    def chip_w(self) -> float:
        return self.hardware.idle_w + self.cpu_w

    @property
    def supply_v(self) -> float:
        """The voltage at the input of the board, in V."""
        return (SAGGING_V if self.is_under_voltage else STEADY_V) - OHMS * self.cpu_w / STEADY_V

    @property
    def is_fan_stuck(self) -> bool:
        return self.is_troubled and self.scenario.fan_sticks

    @property
    def fan_rpm(self) -> int:
        return 0 if self.is_fan_stuck else FULL_RPM * self.fan // len(FAN_TRIPS)

    def after(self, real_s: float, speed: float, busy: float) -> "Machine":
        """Return the board's state `real_s` seconds later.

        `speed` is how many seconds are simulated in each real second. `busy` is the CPU use, 0 to 1.
        """
        counted = self.over_current_events + self._over_current_hz * real_s
        machine = replace(self, busy=busy, over_current_events=counted)
        left_s = real_s * speed
        while left_s > 0:
            machine = machine.polled(min(left_s, POLL_S))
            left_s -= POLL_S
        return machine

    def polled(self, seconds: float) -> "Machine":
        """Return the board's state after one poll of the kernel, `seconds` seconds later.

        The kernel has then read the temperature, and set the fan and the clock accordingly.
        """
        heat = self.heat.after(seconds, self.chip_w, SINK_K_W[0 if self.is_fan_stuck else self.fan])
        celsius = heat.celsius(self.ambient_c)
        governor = self.governor.polled(celsius) if self.governor else None
        is_felt = not self.scenario.fan_sticks or bool(governor and governor.state)
        return replace(
            self,
            heat=heat,
            governor=governor,
            fan=fan_level(self.fan, celsius, FAN_TRIPS),
            timetable=self.timetable.after(seconds, is_felt=is_felt),
            was_under_voltage=self.was_under_voltage or self.is_under_voltage,
        )


def new_machine(scenario: Scenario, ambient_c: float | None = None) -> Machine:
    """Return a board that has been idle for a long time.

    `ambient_c` is the temperature of the air in °C, or None for that of the scenario.
    """
    hardware = HARDWARE[scenario.family]
    return Machine(
        hardware=hardware,
        ambient_c=scenario.ambient_c if ambient_c is None else ambient_c,
        heat=hardware.cold(),
        governor=StepWise(hardware.passive, len(hardware.clocks_mhz) - 1) if hardware.passive else None,
        timetable=Timetable(scenario),
    )
