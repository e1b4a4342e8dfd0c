"""The power chip of a Pi 5: rails by name, a sum that says what it leaves out."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors import raspberry_pi
from edgetop.sensors.sampler import read_source
from edgetop.sensors.sensor_protocol import Gap, Reader, Source
from tests.support.trees import plant
from tests.support.vcgencmd import NO_DEVICE, NOT_REGISTERED

ANSWER = "commands/vcgencmd_pmic_read_adc"

# The numbers in brackets are crossed: only the names pair.
TWO_RAILS = """\
   3V3_SYS_A current(1)=0.50000000A
  VDD_CORE_A current(7)=2.00000000A
  VDD_CORE_V volt(1)=0.75000000V
   3V3_SYS_V volt(7)=3.00000000V
     EXT5V_V volt(24)=5.09066000V
      BATT_V volt(25)=0.00000000V
"""


def discovered(tree: Path, answer: str = TWO_RAILS) -> Source:
    (source,) = raspberry_pi.discover_power(plant(tree, {ANSWER: answer})).sources
    return source


def values(source: Source) -> dict[str, float | Gap]:
    return {info.id: value for info, value in zip(source.sensors, source.read(), strict=True)}


def test_currents_and_voltages_pair_by_their_name(tmp_path: Path) -> None:
    assert values(discovered(tmp_path)) == {
        "power/3V3_SYS": 1.5,
        "power/VDD_CORE": 1.5,
        "power/pmic-sum": 3.0,
        "volt/EXT5V": 5.09066,
    }


def test_the_sum_has_no_role_and_says_what_it_omits(tmp_path: Path) -> None:
    infos = {info.id: info for info in discovered(tmp_path).sensors}
    assert {info_id: info.role for info_id, info in infos.items()} == {
        "power/3V3_SYS": "part",
        "power/VDD_CORE": "part",
        "power/pmic-sum": None,
        "volt/EXT5V": None,
    }
    assert "USB, HAT, NVMe" in (infos["power/pmic-sum"].note or "")


def test_it_is_asked_at_most_once_a_second(tmp_path: Path) -> None:
    source = discovered(tmp_path)
    assert isinstance(source, Reader)
    assert min(source.cadence_s, source.fastest_s) >= 1.0


def test_a_rail_without_answer_makes_the_sum_a_gap_too(tmp_path: Path) -> None:
    source = discovered(tmp_path)
    plant(tmp_path, {ANSWER: TWO_RAILS.replace("VDD_CORE_V", "VDD_CORA_V")})
    told = values(source)
    assert isinstance(told["power/VDD_CORE"], Gap)
    assert isinstance(told["power/pmic-sum"], Gap)
    assert told["power/3V3_SYS"] == 1.5


@pytest.mark.parametrize(
    "line",
    [
        "VDD_CORE_A current(7)=2.0V",
        "VDD_CORE_A volt(7)=2.0A",
        "VDD_CORE_V current(7)=2.0A",
        "VDD_CORE_A current(7)=nanA",
        "VDD_CORE_A current(7)=1e9A",
        "VDD_CORE_A current(7)=A",
        "VDD_CORE_A current(7)=1_0.0A",
        "VDD_CORE current(7)=2.0A",
    ],
)
def test_a_line_that_does_not_agree_with_itself_is_passed_over(line: str) -> None:
    assert raspberry_pi.parse_rails(f"{line}\n   3V3_SYS_A current(1)=0.5A")[0] == {"3V3_SYS": 0.5}


def test_a_board_without_the_chip_is_told_so_with_another_way(tmp_path: Path) -> None:
    found = raspberry_pi.discover_power(plant(tmp_path, {ANSWER: NOT_REGISTERED, f"{ANSWER}.exit": "255"}))
    assert found.sources == ()
    assert found.missing[0].what == "power"
    assert "--i2c" in found.missing[0].why


def test_other_trouble_is_told_with_its_fix(tmp_path: Path) -> None:
    (missing,) = raspberry_pi.discover_power(plant(tmp_path, {ANSWER: NO_DEVICE, f"{ANSWER}.exit": "255"})).missing
    assert "video" in (missing.fix or "")
    (missing,) = raspberry_pi.discover_power(plant(tmp_path / "garbage", {ANSWER: "garbage"})).missing
    assert "no rail" in missing.why


LINES = st.from_regex(r" *[A-Z0-9_]{1,8}_[AV] (current|volt)\([0-9]{1,2}\)=-?[0-9.e]{0,9}[AV]", fullmatch=True)


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.sampled_from(TWO_RAILS.splitlines()) | LINES | st.text(max_size=20), max_size=12).map("\n".join)
    | st.text()
)
def test_no_answer_breaks_it_or_makes_a_number_that_is_not_in_it(
    tmp_path_factory: pytest.TempPathFactory, answer: str
) -> None:
    tree = tmp_path_factory.getbasetemp() / "pmic"
    source = discovered(tree)
    plant(tree, {ANSWER: answer.encode("utf-8", "replace")})
    told = read_source(source)
    assert not isinstance(told, Gap)
    numbers = {float(text) for text in re.findall(r"-?[0-9]+\.?[0-9]*", answer)}
    for info, value in zip(source.sensors, told, strict=True):
        assert isinstance(value, Gap) or math.isfinite(value)
        if info.id == "volt/EXT5V" and not isinstance(value, Gap):
            assert value in numbers


def test_a_captured_exit_status_that_is_no_number_is_missing(tmp_path: Path) -> None:
    root = plant(tmp_path, {ANSWER: TWO_RAILS, f"{ANSWER}.exit": "abc"})
    (missing,) = raspberry_pi.discover_power(root).missing
    assert (missing.what, missing.why) == ("power", "not a number: 'abc'")
