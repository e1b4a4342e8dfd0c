"""The rails that the power chip of a Pi 5 measures: `vcgencmd pmic_read_adc`.

Twelve rails have a current and a voltage, paired by their name: the numbers in brackets are
not in step. Their sum is not what the board draws: what hangs on 5 V passes the chip by.
One answer takes the firmware about 23 ms, which others wait for; asked for 50 times a
second it was seen to slow a model sixfold. The Pi 4 has no such chip.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetop.sensors.protocol import Found, Gap, Missing, sensor
from edgetop.sensors.raspberry_pi.firmware import CADENCE_S, COMMAND, NotRegisteredError, ask, missing
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

QUESTION = "pmic_read_adc"
SOURCE = f"{COMMAND} {QUESTION}"
INPUT = "EXT5V"
FASTEST_S = 1.0
ACCURACY = "on-board-monitor"
SUM_NOTE = (
    "the rails the power chip measures; not in it: all that hangs on 5 V (USB, HAT, NVMe, fan) and conversion losses"
)
INPUT_NOTE = "the 5 V input; the firmware takes less than about 4.63 V for under-voltage"
NO_METER = "this board has no power meter; an INA chip (--i2c) or an external log can measure it"

# As in `3V3_SYS_A current(1)=0.08783370A`: the name's end, the word and the unit must agree.
_LINE = re.compile(r"\s*(\w{1,30})_(?:A current\([0-9]{1,4}\)=(.+)A|V volt\([0-9]{1,4}\)=(.+)V)\s*", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,6}(\.[0-9]{1,12})?")


@dataclass(frozen=True, slots=True)
class Measured:
    """A, V by the name of the rail."""

    currents: Mapping[str, float]
    volts: Mapping[str, float]

    @property
    def rails(self) -> tuple[str, ...]:
        """Those with both, in the order of their currents."""
        return tuple(name for name in self.currents if name in self.volts)

    def watts(self, rail: str) -> float | Gap:
        if rail in self.currents and rail in self.volts:
            return self.currents[rail] * self.volts[rail]
        return Gap(f"the power chip did not tell {rail}")


def parse(answer: str) -> Measured:
    """Lines of another shape, and numbers that are none, are passed over."""
    currents: dict[str, float] = {}
    volts: dict[str, float] = {}
    for line in answer.splitlines():
        if not (match := _LINE.fullmatch(line)):
            continue
        rail, amperes, voltage = match.groups()
        values, text = (currents, amperes) if amperes is not None else (volts, voltage)
        if _NUMBER.fullmatch(text):
            values[rail] = float(text)
    return Measured(currents, volts)


@dataclass(frozen=True, slots=True)
class PowerChip:
    """Power of each rail, their sum, and the voltage at the input."""

    root: Root
    rails: tuple[str, ...]
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    fastest_s: float = FASTEST_S
    name: str = "power chip"

    def read(self) -> Sequence[float | Gap]:
        measured = parse(ask(self.root, QUESTION))
        watts = [measured.watts(rail) for rail in self.rails]
        known = [value for value in watts if not isinstance(value, Gap)]
        total = sum(known) if len(known) == len(watts) else Gap("a rail is not told, and a sum without it is none")
        return [*watts, total, measured.volts.get(INPUT, Gap(f"the power chip did not tell {INPUT}"))]


def discover(root: Root) -> Found:
    try:
        rails = parse(ask(root, QUESTION)).rails
    except NotRegisteredError:
        return Found(missing=(Missing("power", NO_METER),))
    except OSError as error:
        return Found(missing=(missing("power", error),))
    if not rails:
        return Found(missing=(Missing("power", f"{SOURCE} told no rail with a current and a voltage"),))
    parts = [sensor("power", rail, SOURCE, role="part", accuracy=ACCURACY) for rail in rails]
    total = sensor("power", "pmic-sum", SOURCE, accuracy=ACCURACY, note=SUM_NOTE)
    volts = sensor("volt", INPUT, SOURCE, accuracy=ACCURACY, note=INPUT_NOTE)
    return Found((PowerChip(root, rails, (*parts, total, volts)),))
