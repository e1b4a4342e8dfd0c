"""The virtual board at one moment, and the board a while later: pure, so that time and load are arguments."""

from dataclasses import dataclass, replace

from edgetop.simulation.governors import StepWise, fan_level
from edgetop.simulation.hardware import FAN_TRIPS, FULL_RPM, HARDWARE, SINK_K_W, Hardware
from edgetop.simulation.heat import Heat
from edgetop.simulation.scenarios import Scenario
from edgetop.simulation.timetable import Timetable

POLL_S = 1.0  # polling-delay-passive of the thermal zone; no step of the simulation is longer
# How much of the time over-current protection takes from the engine: an event is 1 ms at half clocks, as seen on
# an Orin Nano (nvidia-oot, tegra23x-oc-event.c; `throt_period` of its BPMP).
EVENT_S = 0.001
EVENT_CLOCK = 0.5
# Raspberry Pi documentation, get_throttled: the firmware takes less than 4.63 V for under-voltage.
SAGGING_V, STEADY_V = 4.54, 5.09
OHMS = 0.02  # of cable and plug


@dataclass(frozen=True, slots=True)
class Machine:
    hardware: Hardware
    ambient_c: float
    heat: Heat
    governor: StepWise | None
    timetable: Timetable
    fan: int = 0  # the level asked for; one that is stuck does not turn
    busy: float = 0.0  # how busy the CPU was lately, 0 to 1
    over_current_events: float = 0.0  # since the beginning
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
    def is_competed_with(self) -> bool:
        return self.is_troubled and self.scenario.competes

    @property
    def clock_mhz(self) -> float:
        """What the CPU runs at."""
        if self.is_under_voltage:
            return self.hardware.clocks_mhz[0]
        return self.hardware.clocks_mhz[-1 - self.cooling_state]

    @property
    def cooling_state(self) -> int:
        return self.governor.state if self.governor else 0

    @property
    def slowdown(self) -> float:
        """By how much of itself an inference takes longer: the fastest clock by the present one, less 1."""
        return self.hardware.fastest_mhz / (self.clock_mhz * (1 - self._share_lost)) - 1

    @property
    def _share_lost(self) -> float:
        """Of the work that could be done, what over-current events cost."""
        return min(1.0, self._over_current_hz * EVENT_S) * (1 - EVENT_CLOCK)

    @property
    def _over_current_hz(self) -> float:
        return self.scenario.over_current_hz if self.is_troubled else 0.0

    @property
    def cpu_w(self) -> float:
        """Above the idle draw."""
        return self.hardware.dynamic_w(self.clock_mhz, self.busy) * (1 - self._share_lost)

    @property
    def chip_w(self) -> float:
        return self.hardware.idle_w + self.cpu_w

    @property
    def supply_v(self) -> float:
        """At the board's input."""
        return (SAGGING_V if self.is_under_voltage else STEADY_V) - OHMS * self.cpu_w / STEADY_V

    @property
    def is_fan_stuck(self) -> bool:
        return self.is_troubled and self.scenario.fan_sticks

    @property
    def fan_rpm(self) -> int:
        return 0 if self.is_fan_stuck else FULL_RPM * self.fan // len(FAN_TRIPS)

    def after(self, real_s: float, speed: float, busy: float) -> "Machine":
        """The board so much later. `speed`: simulated seconds in a real one; `busy`: of the CPU meanwhile, 0 to 1."""
        counted = self.over_current_events + self._over_current_hz * real_s
        machine = replace(self, busy=busy, over_current_events=counted)
        left_s = real_s * speed
        while left_s > 0:
            machine = machine.polled(min(left_s, POLL_S))
            left_s -= POLL_S
        return machine

    def polled(self, seconds: float) -> "Machine":
        """After one interval of the thermal zone's polling."""
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
    """A board that was idle until now. `ambient_c`: where not the scenario's own."""
    hardware = HARDWARE[scenario.family]
    return Machine(
        hardware=hardware,
        ambient_c=scenario.ambient_c if ambient_c is None else ambient_c,
        heat=hardware.cold(),
        governor=StepWise(hardware.passive, len(hardware.clocks_mhz) - 1) if hardware.passive else None,
        timetable=Timetable(scenario),
    )
