"""Batteries while they discharge, and supplies that are measured."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.sensors import power_supply
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap
from tests.support.trees import plant

BATTERY = {
    "type": "Battery", "status": "Discharging", "voltage_now": "11400000", "current_now": "1500000", "capacity": "71",
}  # fmt: skip


def supplies(tree: Path, **each: Mapping[str, str]) -> Root:
    return plant(
        tree,
        {
            f"sys/class/power_supply/{name}/{file}": f"{text}\n"
            for name, of in each.items()
            for file, text in of.items()
        },
    )


def read(found: Found) -> dict[str, float | Gap]:
    return {s.sensors[0].id: s.read()[0] for s in found.sources}


def test_a_battery_that_discharges_is_the_boards_input(tmp_path: Path) -> None:
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY))
    assert read(found) == {"power/battery": pytest.approx(17.1)}
    (info,) = found.sources[0].sensors
    assert (info.role, info.accuracy) == ("total", "on-board-monitor")


@pytest.mark.parametrize("sign", ["-", ""])
def test_the_sign_is_the_drivers_own_choice(tmp_path: Path, sign: str) -> None:
    root = supplies(tmp_path, BAT0=BATTERY | {"current_now": f"{sign}1500000"})
    assert read(power_supply.discover(root)) == {"power/battery": pytest.approx(17.1)}


@pytest.mark.parametrize("sign", ["-", ""])
def test_power_with_a_sign_is_what_a_battery_that_discharges_gives(tmp_path: Path, sign: str) -> None:
    root = supplies(tmp_path, BAT0=BATTERY | {"power_now": f"{sign}8200000"})
    assert read(power_supply.discover(root)) == {"power/battery": pytest.approx(8.2)}


@pytest.mark.parametrize("status", ["Unknown", ""])
def test_a_battery_without_a_status_is_missing_and_is_not_to_be_unplugged(tmp_path: Path, status: str) -> None:
    (missing,) = power_supply.discover(supplies(tmp_path, BAT0=BATTERY | {"status": status})).missing
    assert "does not say whether it feeds the board" in missing.why
    assert missing.fix is None


@pytest.mark.parametrize("status", ["Discharging", "Unknown", "Not charging"])
def test_an_empty_battery_bay_is_no_battery(tmp_path: Path, status: str) -> None:
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY | {"present": "0", "status": status}))
    assert (found.sources, found.missing) == ((), ())


SUPPLIES = {
    "a charger that is too weak": {"type": "Mains", "online": "1"},
    "USB-PD with a programmable voltage": {"type": "USB", "online": "2", "voltage_now": "9000000", "current_now": "0"},
}


@pytest.mark.parametrize("case", SUPPLIES)
def test_a_battery_that_discharges_beside_a_supply_is_a_part(tmp_path: Path, case: str) -> None:
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY, psy=SUPPLIES[case]))
    assert read(found) == {"power/battery": pytest.approx(17.1)}
    (info,) = found.sources[0].sensors
    assert info.role == "part"
    assert "psy" in str(info.note)


def test_a_supply_that_is_plugged_in_meanwhile_makes_the_battery_a_gap(tmp_path: Path) -> None:
    ac, mouse = {"type": "Mains", "online": "0"}, {"type": "USB", "online": "1", "scope": "Device"}
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY, ac=ac, mouse=mouse))
    assert found.sources[0].sensors[0].role == "total"
    assert read(found) == {"power/battery": pytest.approx(17.1)}
    (tmp_path / "sys/class/power_supply/ac/online").write_text("1\n")
    gap = read(found)["power/battery"]
    assert isinstance(gap, Gap)
    assert gap.reason.startswith("ac is plugged in")


def test_mains_beside_a_battery_that_discharges_are_no_total(tmp_path: Path) -> None:
    ac = {"type": "Mains", "online": "1", "voltage_now": "12000000", "current_now": "1000000"}
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY, ac=ac))
    values = read(found)
    assert values["power/battery"] == pytest.approx(17.1)
    assert isinstance(values["power/ac"], Gap)
    (tmp_path / "sys/class/power_supply/BAT0/status").write_text("Charging\n")
    values = read(found)
    assert isinstance(values["power/battery"], Gap)
    assert values["power/ac"] == pytest.approx(12.0)


def test_power_that_the_gauge_tells_itself_counts_first(tmp_path: Path) -> None:
    root = supplies(tmp_path, BAT0=BATTERY | {"power_now": "16900000"})
    assert read(power_supply.discover(root)) == {"power/battery": pytest.approx(16.9)}


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging"])
def test_on_mains_a_battery_is_missing_with_what_to_do(tmp_path: Path, status: str) -> None:
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY | {"status": status}))
    assert found.sources == ()
    (missing,) = found.missing
    assert missing.what == "battery power"
    assert "BAT0" in missing.why
    assert missing.fix == "unplug the mains before the run"


def test_a_battery_that_is_plugged_in_meanwhile_is_a_gap(tmp_path: Path) -> None:
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY))
    (tmp_path / "sys/class/power_supply/BAT0/status").write_text("Charging\n")
    gap = read(found)["power/battery"]
    assert isinstance(gap, Gap)
    assert "Charging" in gap.reason


def test_two_batteries_are_one_input(tmp_path: Path) -> None:
    idle = BATTERY | {"status": "Not charging", "current_now": "0"}
    found = power_supply.discover(supplies(tmp_path, BAT0=BATTERY, BAT1=idle))
    assert read(found) == {"power/battery": pytest.approx(17.1)}
    (tmp_path / "sys/class/power_supply/BAT1/status").write_text("Discharging\n")
    (tmp_path / "sys/class/power_supply/BAT1/current_now").write_text("500000\n")
    assert read(found) == {"power/battery": pytest.approx(22.8)}


def test_a_gauge_that_tells_nothing_while_discharging_is_a_gap(tmp_path: Path) -> None:
    value = read(power_supply.discover(supplies(tmp_path, BAT0=BATTERY | {"current_now": "0"})))["power/battery"]
    assert isinstance(value, Gap)


def test_a_mouse_does_not_feed_the_board(tmp_path: Path) -> None:
    found = power_supply.discover(supplies(tmp_path, mouse=BATTERY | {"scope": "Device"}))
    assert (found.sources, found.missing) == ((), ())


def test_mains_count_where_they_are_measured_and_plugged_in(tmp_path: Path) -> None:
    ac = {"type": "Mains", "online": "1", "voltage_now": "12100000", "current_now": "900000"}
    found = power_supply.discover(supplies(tmp_path, ac=ac, AC0={"type": "Mains", "online": "1"}))
    assert read(found) == {"power/ac": pytest.approx(10.89)}
    (tmp_path / "sys/class/power_supply/ac/online").write_text("0\n")
    assert isinstance(read(found)["power/ac"], Gap)


def test_what_a_usb_port_negotiated_is_no_measurement(tmp_path: Path) -> None:
    usb = {"type": "USB", "online": "1", "voltage_now": "5000000", "current_now": "3000000"}
    root = supplies(tmp_path, **{"ucsi-source-psy-1-0": usb})  # type: ignore[arg-type]
    assert power_supply.discover(root).sources == ()


def test_a_board_without_supplies_misses_nothing(tmp_path: Path) -> None:
    found = power_supply.discover(Root(tmp_path))
    assert (found.sources, found.missing) == ((), ())
