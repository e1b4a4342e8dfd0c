"""Values as they are written on the command line."""

from pathlib import Path

import pytest
from click import BadParameter

from edgetop.cli.options import (
    FiniteRange,
    alert_rule,
    ambient,
    battery,
    cpus,
    duration,
    duration_or_zero,
    event_hook,
    limit,
    size,
)
from edgetop.cli.running.session_board import refuse_unknown_ambient, with_one_wire
from edgetop.errors import InputError
from edgetop.sensors import hwmon
from edgetop.sensors.sensor_protocol import Found, Reader
from edgetop.session.manifest import Battery
from tests.support.sessions import make_sensor
from tests.support.trees import plant


@pytest.mark.parametrize(
    ("text", "value"),
    [("512M", 512 * 2**20), ("1G", 2**30), ("1.5g", 3 * 2**29), ("64 KiB", 65_536), ("100", 100), ("2TB", 2**41)],
)
def test_a_size_is_in_powers_of_two(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize("text", ["", "M", "-1G", "1P", "one", "1G1"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        size(text)


@pytest.mark.parametrize(("text", "ns"), [("0", 0), ("0s", 0), (" 0 ", 0), ("10s", 10**10), ("1.5m", 90 * 10**9)])
def test_a_duration_that_may_be_none_may_be_a_bare_zero(text: str, ns: int) -> None:
    assert duration_or_zero(text) == ns


@pytest.mark.parametrize("text", ["0", "0s", "10", "s", "-1s", ""])
def test_a_duration_is_longer_than_nothing_and_has_a_unit(text: str) -> None:
    with pytest.raises(BadParameter):
        duration(text)


def test_cpus_are_numbers_and_ranges() -> None:
    assert cpus("3,0-1") == (0, 1, 3)


@pytest.mark.parametrize("text", ["", "x", "3-1", "0,3-1", "-1", "1-", "0-99999999999999", "0-1-2"])
def test_what_is_no_list_of_cpus_is_refused(text: str) -> None:
    """A range from a higher to a lower number holds none: the engine would run on all."""
    with pytest.raises(BadParameter, match="write 0,2-3"):
        cpus(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.7V,1000mAh", Battery(3.7, 1000.0)),
        ("12 V,2.5Ah", Battery(12.0, 2500.0)),
        ("3.7V,1000mAh,2", Battery(3.7, 1000.0, 2.0)),
        ("3.7V,1000mAh,0.5Hz,+150mW", Battery(3.7, 1000.0, 0.5, 0.15)),
        ("3.7v, 1000mah, +1.5 W", Battery(3.7, 1000.0, None, 1.5)),
    ],
)
def test_a_battery_is_volts_and_charge_and_what_it_must_feed(text: str, value: Battery) -> None:
    assert battery(text) == value


@pytest.mark.parametrize(
    "text", ["", "3.7V", "1000mAh", "3.7V,1000", "0V,1000mAh", "3.7V,0mAh", "3.7V,1000mAh,0Hz", "3.7V,1Ah,+5", "V,mAh"]
)
def test_what_is_no_battery_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(BadParameter, match=r"write 3\.7V,1000mAh or"):
        battery(text)


def test_a_hook_is_an_event_and_a_command_that_is_there() -> None:
    hook = event_hook("throttled=sh -c 'cat > \"a file\"'")
    assert (hook.event, hook.command[1:]) == ("throttled", ("-c", 'cat > "a file"'))
    assert hook.command[0].startswith("/")
    assert event_hook("any=true").event == "any"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("throttled", "write EVENT=COMMAND"),
        ("throtled=true", "did you mean throttled?"),
        ("throttled=", "the command is missing"),
        ("throttled='true", "is not a command"),
        ("throttled=no-such-program-of-ours", "no such program"),
    ],
)
def test_a_hook_that_cannot_run_is_refused_at_once(text: str, told: str) -> None:
    with pytest.raises(BadParameter, match=r"\A[^\n]+\Z") as error:
        event_hook(text)
    assert told in str(error.value)


def test_a_rule_that_is_not_in_order_leads_to_its_topic() -> None:
    with pytest.raises(BadParameter, match="edgetop help alerts"):
        alert_rule("temp>80")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "0", "1001", "ten"])
def test_what_is_no_number_or_beyond_its_limits_is_refused(text: str) -> None:
    with pytest.raises(BadParameter):
        FiniteRange(0.01, 1000).convert(text, None, None)
    assert FiniteRange(0.01, 1000).convert("30", None, None) == 30.0


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("cpus=2", {"cpus": 2}),
        ("memory=512M", {"memory_bytes": 512 * 2**20}),
        ("quota=150%, period=10ms", {"quota_pct": 150.0, "period_us": 10_000}),
        ("cpus=1,memory=1G", {"cpus": 1, "memory_bytes": 2**30}),
    ],
)
def test_a_limit_says_what_of_how_much(text: str, fields: dict[str, float]) -> None:
    assert limit(text) == fields


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cpus=0", "is not a limit"), ("cpus=1.5", "quota=50%"), ("memory=lots", "is not a size"),
        ("memory=12", "no engine starts"), ("quota=50", "is not a limit"), ("quota=50%,period=2s", "1ms to 1s"),
        ("period=10ms", "is not a limit"), ("net=1M/s", "cannot limit the network"), ("io=10M", "is not a limit"),
        ("swap=1G", "is not a limit"), ("io=1/s", "io=4K/s"),
        ("quota=1%,period=10ms", "less than 1 ms"), ("", "is not a limit"),
    ],
)  # fmt: skip
def test_what_is_no_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadParameter, match=why):
        limit(text)


@pytest.mark.parametrize(("text", "value"), [("35C", 35.0), ("-4.5", -4.5), ("ambient/bme280", "ambient/bme280")])
def test_the_room_is_a_temperature_or_a_sensor(text: str, value: float | str) -> None:
    assert ambient(text) == value


@pytest.mark.parametrize("text", ["warm", "temp/cpu", "ambient/", ""])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(BadParameter, match="write 35C"):
        ambient(text)


def test_a_one_wire_probe_is_among_the_sensors_if_it_is_named(tmp_path: Path) -> None:
    chip = "sys/class/hwmon/hwmon0"
    root = plant(tmp_path, {f"{chip}/name": "w1_slave_temp\n", f"{chip}/temp1_input": "21562\n"})
    board, probe = hwmon.discover(root), "ambient/w1_slave_temp"
    assert probe in [missing.what for missing in board.missing]
    found = with_one_wire(probe, board, root)
    refuse_unknown_ambient(probe, found)
    assert probe not in [missing.what for missing in found.missing]
    for other in (None, "ambient/x"):
        assert with_one_wire(other, board, root) == board


def test_a_sensor_of_the_air_that_the_board_has_not_is_refused_with_those_that_it_has() -> None:
    board = Found((Reader((make_sensor("ambient/bme280"), make_sensor("temp/cpu")), lambda: [20.0, 40.0]),))
    refuse_unknown_ambient(None, board)
    refuse_unknown_ambient("ambient/bme280", board)
    with pytest.raises(InputError, match=r"ambient/x: the board has no such sensor \(it has ambient/bme280\)"):
        refuse_unknown_ambient("ambient/x", board)
