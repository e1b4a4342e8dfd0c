"""What kinds of boards there are to simulate, in numbers. Those of a die on a small heatsink, in W, K/W and J/K."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgetop.simulation.governors import Trip
from edgetop.simulation.heat import Heat, Stage

# Of the Pi 5's device tree: what its fan is turned by (arch/arm64/boot/dts/broadcom/bcm2712-rpi-5-b.dts).
FAN_TRIPS = tuple(Trip(celsius, 5.0) for celsius in (50.0, 60.0, 67.5, 75.0))
SINK_K_W = (12.0, 6.0, 4.0, 2.5, 1.0)  # to the air, by the fan's level
FULL_RPM = 5200


@dataclass(frozen=True, slots=True)
class Hardware:
    """Clocks rise. Voltages are those of the lowest and of the highest clock; between them they are linear."""

    clocks_mhz: tuple[float, ...]
    volts: tuple[float, float]
    busy_w: float  # what a fully busy CPU draws at its highest clock, above its idle draw
    idle_w: float  # of the chip
    passive: Trip | None  # None: no trip of the kernel's throttles; the firmware does
    critical_c: float

    @property
    def fastest_mhz(self) -> float:
        return self.clocks_mhz[-1]

    def dynamic_w(self, mhz: float, busy: float) -> float:
        """P = dynamic-power-coefficient · V² · f (Documentation/devicetree/bindings/arm/cpus.yaml).

        `busy`: 0 to 1.
        """
        slowest_mhz, (low_v, high_v) = self.clocks_mhz[0], self.volts
        share = (mhz - slowest_mhz) / (self.fastest_mhz - slowest_mhz)
        volts = low_v + (high_v - low_v) * share
        return self.busy_w * busy * mhz / self.fastest_mhz * (volts / high_v) ** 2

    def cold(self) -> Heat:
        """Idle for long, with a fan that runs."""
        return Heat(die=Stage(12.0), sink=Stage(120.0), die_resistance_k_w=0.5).settled(self.idle_w, SINK_K_W[2])


# Clocks: what an Orin Nano and a Pi 5 offer. The trip is that of RK3588's device tree (rk3588-base.dtsi): NVIDIA's
# is at 99 °C without hysteresis.
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
