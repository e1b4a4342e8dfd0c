"""The modes of nvpmodel and the files through which they set their limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.jetson import parse_modes
from tests.support.nvpmodel import CONF


def test_modes_have_names_and_settings() -> None:
    modes = parse_modes(CONF).modes
    assert {number: mode.name for number, mode in modes.items()} == {0: "15W", 2: "MAXN_SUPER"}
    assert modes[0].settings == {
        ("CPU_ONLINE", "CORE_0"): 1,
        ("CPU_A78_0", "MIN_FREQ"): 729600,
        ("CPU_A78_0", "MAX_FREQ"): 1497600,
        ("GPU", "MAX_FREQ"): 612000000,
    }
    assert modes[2].settings == {("CPU_A78_0", "MAX_FREQ"): -1, ("GPU", "MAX_FREQ"): -1}


def test_settings_have_files() -> None:
    files = parse_modes(CONF).files
    assert files["GPU", "MAX_FREQ"] == "/sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq"
    assert files["CPU_ONLINE", "CORE_4"] == "/sys/devices/system/cpu/cpu4/online"
    assert len(files) == 5


@pytest.mark.parametrize("section", ["< POWER_MODEL NAME=X >", "< POWER_MODEL ID=x NAME=X >", "POWER_MODEL ID=1"])
def test_what_is_no_section_makes_no_mode(section: str) -> None:
    assert parse_modes(f"{section}\nGPU MAX_FREQ 1\n").modes == {}


@pytest.mark.parametrize("path", ["/sys/max\0freq", "sys/max_freq", "/sys/max;freq", "max_freq"])
def test_what_is_no_path_is_no_file(path: str) -> None:
    assert parse_modes(f"< PARAM TYPE=CLOCK NAME=GPU >\nMAX_FREQ {path}\n").files == {}


def test_a_mode_without_a_name_has_its_number() -> None:
    assert parse_modes("< POWER_MODEL ID=3 >").modes[3].name == "mode 3"


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(CONF.splitlines()) | st.text(max_size=30)).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    for mode in parse_modes(text).modes.values():
        assert all(value >= -1 for value in mode.settings.values())
