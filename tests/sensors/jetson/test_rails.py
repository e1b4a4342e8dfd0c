"""Power rails: right units, the right channels, one total, and a sum only of what does not overlap."""

import errno
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import rails
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Found, Gap, Reader
from edgetop.session.meter import Meter
from tests.support.trees import RefusingRoot, plant

JETSON = {"proc/device-tree/compatible": "nvidia,p3768-0000\0nvidia,tegra234\0"}
CHIP = "sys/class/hwmon/hwmon{}/{}"
IIO = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/"

Channels = Sequence[tuple[str | None, int, int]]  # label, mV, mA
ORIN_NANO: Channels = [("VDD_IN", 5016, 1856), ("VDD_CPU_GPU_CV", 5016, 448), ("VDD_SOC", 5016, 488)]


def hwmon_files(channels: Channels, number: int = 1, update_interval: str | None = "430") -> dict[str, str]:
    """A chip as the kernel shows it: with the voltages over its shunts (5 mOhm), in µV, and their sums."""
    files = {"name": "ina3221\n", "in7_label": "sum of shunt voltages\n"}
    for i, (label, millivolts, milliamperes) in enumerate(channels, 1):
        files |= {f"in{i}_input": f"{millivolts}\n", f"curr{i}_input": f"{milliamperes}\n", f"in{i}_enable": "1\n"}
        files |= {f"in{i + 3}_input": f"{milliamperes * 5}\n", f"shunt{i}_resistor": "5000\n"}
        files |= {f"in{i}_label": f"{label}\n"} if label is not None else {}
    total = sum(milliamperes for _, _, milliamperes in channels)
    files |= {"in7_input": f"{5 * total}\n", "curr4_input": f"{total}\n"}
    files |= {"update_interval": f"{update_interval}\n"} if update_interval is not None else {}
    return {CHIP.format(number, name): content for name, content in files.items()}


def iio_files(**changed: str) -> dict[str, str]:
    """The three rails of a Jetson Nano on JetPack 4."""
    files = {}
    for n, (label, millivolts, milliamperes, milliwatts) in enumerate(
        [("POM_5V_IN", 4832, 436, 2104), ("POM_5V_GPU", 4832, 0, 0), ("POM_5V_CPU", 4824, 76, 366)]
    ):
        files |= {f"rail_name_{n}": label, f"in_voltage{n}_input": str(millivolts)}
        files |= {f"in_current{n}_input": str(milliamperes), f"in_power{n}_input": str(milliwatts)}
        files |= {f"crit_current_limit_{n}": "32760 ma"}
    return {f"{IIO}{name}": f"{content}\n" for name, content in {**files, **changed}.items()}


def values(found: Found) -> dict[str, float | Gap]:
    return {
        info.id: value
        for source in found.sources
        for info, value in zip(source.sensors, source.read(), strict=True)
    }  # fmt: skip


def roles(found: Found) -> dict[str, str]:
    infos = [info for source in found.sources for info in source.sensors]
    return {info.id: info.role for info in infos if info.role is not None}


def the_source(found: Found) -> Reader:
    (source,) = found.sources
    assert isinstance(source, Reader)
    return source


def discover(tree: Path, *files: Mapping[str, str]) -> Found:
    for more in (JETSON, *files):
        plant(tree, more)
    return rails.discover(Root(tree))


def test_power_is_voltage_times_current(tmp_path: Path) -> None:
    assert values(discover(tmp_path, hwmon_files(ORIN_NANO))) == {
        "power/VDD_IN": 9.309696,
        "volt/VDD_IN": 5.016,
        "current/VDD_IN": 1.856,
        "power/VDD_CPU_GPU_CV": 2.247168,
        "volt/VDD_CPU_GPU_CV": 5.016,
        "current/VDD_CPU_GPU_CV": 0.448,
        "power/VDD_SOC": 2.447808,
        "volt/VDD_SOC": 5.016,
        "current/VDD_SOC": 0.488,
    }


def test_the_total_is_one_rail_and_nothing_is_added_to_it(tmp_path: Path) -> None:
    found = discover(tmp_path, hwmon_files(ORIN_NANO))
    assert roles(found) == {"power/VDD_IN": "total", "power/VDD_CPU_GPU_CV": "part", "power/VDD_SOC": "part"}
    assert {info.meter for info in the_source(found).sensors if info.kind == "power"} == {Meter("ina3221", 0.005)}
    assert not any(math.isclose(value, 14.004672) for value in values(found).values() if not isinstance(value, Gap))


AGX_ORIN: Channels = [("VDD_GPU_SOC", 20064, 157), ("VDD_CPU_CV", 20064, 713), ("VIN_SYS_5V0", 5024, 989)]
AGX_ORIN_2: Channels = [("NC", 0, 0), ("VDDQ_VDD2_1V8AO", 5024, 217)]


def test_a_sum_counts_nothing_twice(tmp_path: Path) -> None:
    found = discover(tmp_path, hwmon_files(AGX_ORIN), hwmon_files(AGX_ORIN_2, 2))
    told = values(found)
    assert told["power/module-sum"] == pytest.approx(22.424416, rel=1e-12)  # and not 23.514624
    assert told["power/VDDQ_VDD2_1V8AO"] == 1.090208
    assert "power/NC" not in told
    assert set(roles(found).values()) == {"part"}
    assert "power/module-sum" not in roles(found)


def test_parts_of_a_sum_on_two_chips_are_read_together(tmp_path: Path) -> None:
    xavier = [("GPU", 19000, 100), ("CPU", 19000, 100), ("SOC", 19000, 100)]
    xavier_2 = [("CV", 19000, 100), ("VDDRQ", 19000, 100), ("SYS5V", 19000, 100)]
    source = the_source(discover(tmp_path, hwmon_files(xavier), hwmon_files(xavier_2, 2)))
    assert source.sensors[-1].id == "power/module-sum"
    assert source.read()[-1] == pytest.approx(6 * 1.9)


def test_a_sum_without_one_of_its_parts_is_none(tmp_path: Path) -> None:
    discover(tmp_path, hwmon_files(AGX_ORIN))
    told = values(rails.discover(RefusingRoot(tmp_path, errno.ENODATA, "in2_input")))
    assert told["power/VDD_CPU_CV"] == Gap("No data available")
    assert isinstance(told["power/module-sum"], Gap)
    assert told["power/VDD_GPU_SOC"] == 3.150048


def test_boards_with_a_total_have_no_sum(tmp_path: Path) -> None:
    assert "power/module-sum" not in values(discover(tmp_path, hwmon_files(ORIN_NANO)))


def test_on_a_board_that_is_no_jetson_no_role_is_claimed(tmp_path: Path) -> None:
    found = rails.discover(plant(tmp_path, hwmon_files(ORIN_NANO)))
    assert values(found)["power/VDD_IN"] == 9.309696
    assert roles(found) == {}


def test_of_two_rails_with_one_name_only_one_is_the_total(tmp_path: Path) -> None:
    found = discover(tmp_path, hwmon_files(ORIN_NANO), hwmon_files([("VDD_IN", 5000, 100)], 2))
    assert values(found)["power/VDD_IN-2"] == 0.5
    assert [info_id for info_id, role in roles(found).items() if role == "total"] == ["power/VDD_IN"]


@pytest.mark.parametrize("label", ["NC", "NC\n"])
def test_a_channel_that_is_not_connected_is_no_rail(tmp_path: Path, label: str) -> None:
    assert discover(tmp_path, hwmon_files([(label, 5016, 8)])).sources == ()


def test_a_channel_without_a_name_is_told_by_its_number(tmp_path: Path) -> None:
    assert "power/ina3221-2" in values(discover(tmp_path, hwmon_files([("VDD_IN", 5000, 1), (None, 5000, 1)])))


def test_a_rail_switched_off_is_missing_with_its_fix(tmp_path: Path) -> None:
    found = discover(tmp_path, hwmon_files(ORIN_NANO), {CHIP.format(1, "in2_enable"): "0\n"})
    assert "power/VDD_CPU_GPU_CV" not in values(found)
    (missing,) = found.missing
    assert missing.what == "power/VDD_CPU_GPU_CV"
    assert missing.fix == "echo 1 | sudo tee /sys/class/hwmon/hwmon1/in2_enable"


def test_a_rail_switched_off_in_mid_run_costs_only_itself(tmp_path: Path) -> None:
    root = RefusingRoot(tmp_path, errno.ENODATA)
    discover(tmp_path, hwmon_files(ORIN_NANO))
    source = the_source(rails.discover(root))
    root.endings = ("in3_input",)
    told = dict(zip([info.id for info in source.sensors], source.read(), strict=True))
    assert told["power/VDD_SOC"] == told["current/VDD_SOC"] == Gap("No data available")
    assert told["power/VDD_IN"] == 9.309696


@pytest.mark.parametrize(
    ("interval", "cadence_s", "fastest_s"),
    [("430", 1.0, 0.5), ("3380", 3.38, 3.38), ("0", 1.0, 0.5), ("-5", 1.0, 0.5), ("soon", 1.0, 0.5), (None, 1.0, 0.5)],
)
def test_no_read_comes_sooner_than_the_chip_has_averaged(
    tmp_path: Path, interval: str | None, cadence_s: float, fastest_s: float
) -> None:
    source = the_source(discover(tmp_path, hwmon_files(ORIN_NANO, update_interval=interval)))
    assert (source.cadence_s, source.fastest_s) == (cadence_s, fastest_s)


def test_an_absurd_interval_does_not_stop_the_readings(tmp_path: Path) -> None:
    source = the_source(discover(tmp_path, hwmon_files(ORIN_NANO, update_interval="9" * 19)))
    assert source.cadence_s <= 60


def test_jetpack_4_tells_the_power_itself(tmp_path: Path) -> None:
    found = discover(tmp_path, iio_files())
    assert values(found)["power/POM_5V_IN"] == 2.104  # and not 4.832 V x 0.436 A
    assert values(found)["current/POM_5V_CPU"] == 0.076
    assert roles(found) == {"power/POM_5V_IN": "total", "power/POM_5V_GPU": "part", "power/POM_5V_CPU": "part"}


def test_a_unit_behind_a_number_is_taken_at_its_word(tmp_path: Path) -> None:
    found = discover(
        tmp_path, iio_files(in_power0_input="2104 mW", in_current0_input="436 ma", in_voltage0_input="4832mV")
    )
    told = values(found)
    assert (told["power/POM_5V_IN"], told["volt/POM_5V_IN"], told["current/POM_5V_IN"]) == (2.104, 4.832, 0.436)


@pytest.mark.parametrize("content", ["2104 ma", "2104 W", "2104 uw", "", "0x10", "2104 2104"])
def test_another_unit_or_no_number_is_a_gap(tmp_path: Path, content: str) -> None:
    told = values(discover(tmp_path, iio_files(in_power0_input=content)))
    assert isinstance(told["power/POM_5V_IN"], Gap)
    assert told["power/POM_5V_CPU"] == 0.366


@pytest.mark.parametrize("denied", ["rail_name_0", "in_power0_input", "in_current2_input"])
def test_rails_only_root_may_read_are_missing_with_a_fix(tmp_path: Path, denied: str) -> None:
    discover(tmp_path, iio_files())
    found = rails.discover(RefusingRoot(tmp_path, errno.EACCES, denied))
    assert found.sources == ()
    (missing,) = found.missing
    assert "only root" in missing.why
    assert (missing.fix or "").startswith("sudo chmod a+r /sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/rail_name_*")


def test_one_chip_under_two_names_is_read_once(tmp_path: Path) -> None:
    again = {name.replace("iio:device0", "iio_device"): content for name, content in iio_files().items()}
    assert len(discover(tmp_path, iio_files(), again).sources) == 1


def test_what_is_no_chip_has_no_rails(tmp_path: Path) -> None:
    found = discover(tmp_path, {"sys/bus/i2c/drivers/ina3221x/bind": "", CHIP.format(0, "name"): "pwmfan\n"})
    assert found == Found()


def test_every_figure_of_a_rail_says_what_measured_it(tmp_path: Path) -> None:
    sensors = the_source(discover(tmp_path, hwmon_files(ORIN_NANO))).sensors
    assert {info.accuracy for info in sensors} == {"on-board-monitor"}
    assert "carrier" in (sensors[0].note or "")


NUMBERS = st.one_of(st.integers(-(10**25), 10**25).map(str), st.sampled_from(["", "nan", "1e9", "²", "12 ma", "\0"]))
CONTENTS = NUMBERS.map(str.encode) | st.binary(max_size=20)
FILES = [CHIP.format(1, name) for name in ("in1_input", "curr1_input", "in1_label", "in1_enable", "update_interval")]
FILES += [f"{IIO}{name}" for name in ("rail_name_0", "in_power0_input", "in_voltage0_input", "in_current0_input")]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(FILES), CONTENTS), st.dictionaries(st.sampled_from(FILES), CONTENTS))
def test_no_content_breaks_a_chip_or_invents_a_value(
    tmp_path_factory: pytest.TempPathFactory, before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    tree = tmp_path_factory.getbasetemp() / "rails"
    found = discover(plant_all(tree, before), {})
    ids = [info.id for source in found.sources for info in source.sensors]
    assert len(set(ids)) == len(ids)
    plant(tree, after)
    for source in found.sources:
        told = read_source(source)
        assert not isinstance(told, Gap)  # each rail has gaps of its own
        assert all(isinstance(value, Gap) or math.isfinite(value) for value in told)
        first = source.sensors[1]  # the voltage, whose file stands for it alone
        if not isinstance(told[1], Gap) and "hwmon" in first.source:
            assert told[1] == int((tree / first.source.lstrip("/")).read_text()) / 1000


def plant_all(tree: Path, changed: Mapping[str, bytes]) -> Path:
    plant(tree, {**hwmon_files(ORIN_NANO), **iio_files(), **changed})
    return tree
