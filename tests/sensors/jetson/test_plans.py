"""Which rail is the total: claimed only where it is known, and parts never overlap."""

import pytest

from edgetop.sensors.rails import PLANS, plan_of, role_of

ORIN_NANO = {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"}
TX2 = {"VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI", "VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"}
AGX_ORIN = {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"}
AGX_XAVIER = {"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"}


def roles(labels: set[str]) -> dict[str, str | None]:
    return {label: role_of(label, plan_of(labels)) for label in labels}


@pytest.mark.parametrize(
    ("labels", "total"),
    [(ORIN_NANO, "VDD_IN"), (TX2, "VDD_IN"), ({"POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"}, "POM_5V_IN")],
)
def test_boards_with_a_total_rail(labels: set[str], total: str) -> None:
    assert roles(labels) == {label: "total" if label == total else "part" for label in labels}


def test_agx_orin_has_no_total_and_an_inner_rail_is_no_part() -> None:
    assert roles(AGX_ORIN) == {
        "VDD_GPU_SOC": "part",
        "VDD_CPU_CV": "part",
        "VIN_SYS_5V0": "part",
        "VDDQ_VDD2_1V8AO": None,
    }


def test_agx_xavier_has_six_parts_and_no_total() -> None:
    assert set(roles(AGX_XAVIER).values()) == {"part"}


def test_rails_that_nobody_knows_have_no_role() -> None:
    assert roles({"VDD_FUTURE", "VDD_OTHER"}) == {"VDD_FUTURE": None, "VDD_OTHER": None}
    assert roles({*ORIN_NANO, "VDD_CARRIER_5V"})["VDD_CARRIER_5V"] is None


def test_a_total_is_one_though_its_parts_are_not_all_there() -> None:
    assert roles({"VDD_IN", "VDD_SOC"}) == {"VDD_IN": "total", "VDD_SOC": "part"}


def test_parts_without_their_total_are_not_taken_for_the_whole() -> None:
    assert roles({"VDD_GPU_SOC", "VIN_SYS_5V0"}) == {"VDD_GPU_SOC": None, "VIN_SYS_5V0": None}


def test_no_plan_holds_its_total_among_its_parts() -> None:
    for plan in PLANS:
        assert plan.total not in plan.parts
        assert len(set(plan.parts)) == len(plan.parts)
