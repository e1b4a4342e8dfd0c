"""INA3221 rails by hwmon: JetPack 5 and later, and mainline kernels.

Documentation/hwmon/ina3221.rst: `in1..3_input` in mV and `curr1..3_input` in mA are the
three channels; there is no power file. `in4..6` are the voltages over the shunts, in µV, and
`in7` and `curr4` their sums: none of them is a rail. A channel that is switched off gives
ENODATA (drivers/hwmon/ina3221.c).
"""

from dataclasses import dataclass

from edgetop.sensors.chips import chips_named
from edgetop.sensors.jetson.chip import Chip
from edgetop.sensors.protocol import Missing
from edgetop.sensors.root import Root

CHIP = "ina3221"
CHANNELS = (1, 2, 3)
NOT_CONNECTED = "NC"  # what NVIDIA's device trees name an unused channel
LONGEST_WINDOW_S = 60.0  # 3 channels x 1024 samples x 2 x 8.2 ms (TI SBOS576) is 50.7 s


@dataclass(frozen=True, slots=True)
class HwmonRail:
    root: Root
    folder: str
    channel: int
    label: str

    @property
    def source(self) -> str:
        return self.root.shown(f"{self.folder}/in{self.channel}_input")

    def read(self) -> tuple[float, float, float]:
        millivolts = self.root.read_int(f"{self.folder}/in{self.channel}_input")
        milliamperes = self.root.read_int(f"{self.folder}/curr{self.channel}_input")
        return millivolts * milliamperes / 1e6, millivolts / 1000, milliamperes / 1000


def find(root: Root) -> tuple[list[Chip], list[Missing]]:
    """The chips, and the channels that are switched off."""
    chips, missing = [], []
    for folder in chips_named(root, CHIP):
        rails = []
        for channel in CHANNELS:
            label = root.line(f"{folder}/in{channel}_label")
            if label == NOT_CONNECTED or not root.exists(f"{folder}/in{channel}_input"):
                continue
            if root.line(f"{folder}/in{channel}_enable") != "0":
                rails.append(HwmonRail(root, folder, channel, label or f"{CHIP}-{channel}"))
            elif label:  # without a name it is one that the board does not use
                missing.append(_switched_off(root, f"{folder}/in{channel}_enable", label))
        chips.append(Chip(tuple(rails), _window_s(root, folder)))
    return chips, missing


def _switched_off(root: Root, path: str, label: str) -> Missing:
    return Missing(f"power/{label}", "its channel is switched off", f"echo 1 | sudo tee {root.shown(path)}")


def _window_s(root: Root, folder: str) -> float:
    """What the chip averages over. Never assumed: a board sets 0.4 s as well as 3.4 s."""
    try:
        return min(max(root.read_int(f"{folder}/update_interval") / 1000, 0.0), LONGEST_WINDOW_S)
    except (OSError, ValueError):
        return 0.0
