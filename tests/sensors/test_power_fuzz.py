"""Whatever the files of a board hold: no exception but those a source may raise, and no invented value."""

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import hwmon, power_supply, rapl
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant

pytestmark = pytest.mark.slow

BOARD = {
    "sys/class/powercap/intel-rapl:0/name": "package-0",
    "sys/class/powercap/intel-rapl:0/energy_uj": "65997277274",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "262143328850",
    "sys/class/powercap/intel-rapl:0:0/name": "core",
    "sys/class/powercap/intel-rapl:0:0/energy_uj": "5997277274",
    "sys/class/power_supply/BAT0/type": "Battery",
    "sys/class/power_supply/BAT0/status": "Discharging",
    "sys/class/power_supply/BAT0/voltage_now": "11400000",
    "sys/class/power_supply/BAT0/current_now": "1500000",
    "sys/class/power_supply/ac/type": "Mains",
    "sys/class/power_supply/ac/online": "1",
    "sys/class/power_supply/ac/power_now": "12000000",
    "sys/class/hwmon/hwmon0/name": "ina226",
    "sys/class/hwmon/hwmon0/label": "VDD_5V",
    "sys/class/hwmon/hwmon0/power1_input": "5125000",
    "sys/class/hwmon/hwmon0/update_interval": "100",
}
# What those files may hold, and what no number is: other digits, Python's notation, too many digits, nothing.
USUAL = ("package-0", "psys", "Battery", "Mains", "Discharging", "Charging", "1", "0", "15000000", "-3500000", "ina226")
ODD = (
    "",
    "\0",
    "nan",
    "1_000",
    "٣٣",
    "9" * 60,
    "-" * 3,
    "a/b",
    "1.5",
    "0x10",
    "\x1b[31m",
    "\n\n",
    "18446744073709551616",
)
numbers = st.integers(-(2**70), 2**70).map(str)
contents = numbers | st.sampled_from(USUAL) | st.sampled_from(ODD) | st.text(max_size=20) | st.binary(max_size=20)
changes = st.dictionaries(st.sampled_from(list(BOARD)), contents, min_size=1, max_size=4)


@settings(deadline=None, max_examples=100)
@given(changes, changes)
def test_no_file_makes_an_exception_or_a_value_that_no_board_has(
    first: dict[str, str | bytes], later: dict[str, str | bytes]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = plant(Path(folder), {name: _encoded(text) for name, text in (BOARD | first).items()})
        discover = (rapl.discover, power_supply.discover, hwmon.discover_power)
        sources = [source for find in discover for source in find(root).sources]
        for _ in range(3):
            for source in sources:
                with contextlib.suppress(OSError, ValueError):
                    for value in source.read():
                        assert isinstance(value, Gap) or 0 <= abs(value) <= 10_000, (source.name, first, later)
            plant(Path(folder), {name: _encoded(text) for name, text in later.items()})


def _encoded(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")
