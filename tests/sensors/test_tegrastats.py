"""Lines of tegrastats, of every JetPack: what they tell, and nothing that they do not."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetop.sensors.rails import plan_of
from edgetop.sensors.tegrastats import parse_line, total_w
from tests.support import printed

LINES = {name: getattr(printed, name) for name in ("NANO", "XAVIER_NX", "ORIN_NANO", "AGX_ORIN", "THOR", "TX1")}


def values(line: str) -> dict[str, float]:
    parsed = parse_line(line)
    assert parsed is not None
    return dict(parsed.values)


def test_a_line_of_jetpack_4_has_all_its_values() -> None:
    assert values(printed.NANO) == {
        "mem/system-used": 1923.0, "mem/system-swap": 191.0, "load/cpu": 12.0,
        "freq/cpu0": 1224.0, "freq/cpu1": 1224.0, "freq/cpu2": 1224.0,
        "load/emc": 2.0, "freq/memory": 1600.0, "load/gpu": 37.0, "freq/gpu": 76.0, "freq/ape": 25.0,
        "temp/PLL": 37.0, "temp/CPU": 40.0, "temp/GPU": 40.5, "temp/AO": 45.0,
        "power/POM_5V_IN": 1.75, "power/POM_5V_GPU": 0.0, "power/POM_5V_CPU": 0.366,
    }  # fmt: skip


def test_a_line_of_jetpack_6_has_its_time_and_nothing_off() -> None:
    line = parse_line(printed.ORIN_NANO)
    assert line is not None
    assert (line.time, line.memory_mib) == (datetime(2025, 5, 15, 18, 30, 28), 7620)  # noqa: DTZ001  local
    told = line.values
    assert (told["load/cpu"], told["load/gpu"], told["freq/gpu"], told["load/emc"]) == (285.0, 84.0, 713.0, 18.0)
    assert (told["load/nvenc"], told["load/vic"], told["freq/ape"]) == (1.0, 31.0, 174.0)
    assert not {name for name in told if "nvjpg" in name or "pva" in name}


def test_powered_off_constant_or_unwired_is_no_reading() -> None:
    agx = values(printed.AGX_ORIN)
    assert {name for name in agx if name.startswith("temp/")} == {"temp/CPU", "temp/Tboard", "temp/tj"}
    assert "power/NC" not in agx
    assert "temp/PMIC" not in values(printed.XAVIER_NX)


def test_thor_has_clocks_alone_and_the_tx1_loads_alone() -> None:
    thor, tx1 = values(printed.THOR), values(printed.TX1)
    assert (thor["freq/gpu"], thor["freq/nvenc0"], "load/gpu" in thor) == (1575.0, 1556.0, False)
    assert (tx1["load/cpu"], tx1["freq/cpu0"], tx1["load/emc"], tx1["load/gpu"]) == (64.0, 408.0, 1.0, 3.0)


def test_memory_controller_load_needs_its_clock() -> None:
    """Without root its files cannot be read, and it prints 0 %."""
    told = values(printed.PLAIN_USER)
    assert (told["load/gpu"], "load/emc" in told) == (12.0, False)


TOTALS = {
    "NANO": ("POM_5V_IN", 1.75), "XAVIER_NX": ("VDD_IN", 5.079), "ORIN_NANO": ("VDD_IN", 17.946),
    "AGX_ORIN": (None, 6.755), "THOR": ("VIN", 24.543), "TX1": (None, None),
}  # fmt: skip


@pytest.mark.parametrize("board", TOTALS)
def test_the_total_is_one_rail_and_never_a_sum(board: str) -> None:
    line = parse_line(LINES[board])
    assert line is not None
    plan = plan_of(set(line.rails))
    rail, watts = TOTALS[board]
    assert (plan.total if plan else None) == rail
    assert total_w(line, plan) == (None if watts is None else pytest.approx(watts))


@pytest.mark.parametrize(
    "text",
    [
        "", "RAM", "RAM 1/2", "Warmup completed", "13-45-2025 10:00:00 RAM 1/2MB", "x RAM 1/2MB",
        f"{printed.ORIN_NANO[:120]}{printed.ORIN_NANO}", "RAM 99999999999999999999/1MB",
    ],
)  # fmt: skip
def test_what_is_no_line_of_it_is_none(text: str) -> None:
    assert parse_line(text) is None


@given(st.sampled_from(sorted(LINES)), st.integers(0, 500), st.text(max_size=5))
def test_a_line_that_is_cut_or_garbled_gives_a_part_or_nothing(board: str, cut: int, garbage: str) -> None:
    whole = LINES[board]
    for text in (whole[:cut], whole[:cut] + garbage + whole[cut:]):
        line = parse_line(text)
        assert line is None or all(abs(value) < 1e9 for value in line.values.values())
