"""The board of a session: a captured tree, and its sensors of power: the board's, the user's own, a log's."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edgetop.cli.running.run_request import BoardRequest, PowerLogRequest
from edgetop.cli.running.session_board import board_root, find_sensors
from edgetop.errors import InputError
from edgetop.sensors.discovery import discover_board
from edgetop.sensors.i2c import open_monitors, parse_spec
from edgetop.sensors.power_log import PowerLog
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Reader
from tests.support import printed
from tests.support.ina_bus import FakeBus, FakeIna226
from tests.support.trees import plant

NONE = BoardRequest()


@pytest.fixture
def board(tmp_path: Path) -> Root:
    tree = {
        "sys/class/hwmon/hwmon0/name": "ina226\n",
        "sys/class/hwmon/hwmon0/label": "5V-IN\n",
        "sys/class/hwmon/hwmon0/power1_input": "5125000\n",
        "sys/class/thermal/thermal_zone0/type": "cpu\n",
        "sys/class/thermal/thermal_zone0/temp": "50000\n",
    }
    return plant(tmp_path, tree)


def paces(found: Found) -> dict[str, float]:
    return {
        source.name: source.cadence_s for source in found.sources if isinstance(source, Reader) and source.interval_s
    }


def test_only_power_is_jittered_and_read_at_the_given_rate(board: Root) -> None:
    assert paces(find_sensors(NONE, discover_board(board), board, lambda: 0)) == {"power/5V-IN": 1.0}
    assert paces(find_sensors(BoardRequest(hz=5.0), discover_board(board), board, lambda: 0)) == {"power/5V-IN": 0.2}
    assert paces(find_sensors(BoardRequest(hz=500.0), discover_board(board), board, lambda: 0)) == {"power/5V-IN": 0.1}


def test_a_log_comes_last_with_bins_as_wide_as_the_rate_says(board: Root, tmp_path: Path) -> None:
    (tmp_path / "x.csv").touch()
    asked = BoardRequest(hz=2.0, power_log=PowerLogRequest(tmp_path / "x.csv", "csv"))
    source = find_sensors(asked, discover_board(board), board, lambda: 0).sources[-1]
    assert isinstance(source, PowerLog)
    assert "means of 0.5 s" in (source.sensors[0].note or "")


def test_a_log_of_tegrastats_needs_no_format_and_others_do(board: Root, tmp_path: Path) -> None:
    log = tmp_path / "board.log"
    log.write_text(f"{printed.NANO}\n")
    asked = PowerLogRequest(log, interval_ns=500_000_000)
    source = find_sensors(BoardRequest(power_log=asked), Found(), board, lambda: 0).sources[-1]
    assert str(source.sensors[0].note).startswith("POM_5V_IN, the total")
    log.write_text("time_s,power_w\n")
    with pytest.raises(InputError, match="--power-log needs --power-log-format"):
        find_sensors(BoardRequest(power_log=asked), Found(), board, lambda: 0)
    with pytest.raises(InputError, match="--power-log-interval: the rows of a csv log have their time"):
        find_sensors(BoardRequest(power_log=replace(asked, format="csv")), Found(), board, lambda: 0)


def test_a_name_that_the_board_has_is_refused(board: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    bus = FakeBus(at_40=FakeIna226())
    monkeypatch.setattr(
        "edgetop.cli.running.session_board.open_monitors", partial(open_monitors, open_bus=lambda _: bus)
    )
    board.is_host = True  # as if the tree were this machine's own
    asked = BoardRequest(i2c=(parse_spec("1:0x40:ina226:0.002:5V-IN"),))
    with pytest.raises(InputError, match="the board has a sensor 5V-IN of its own"):
        find_sensors(asked, discover_board(board), board, lambda: 0)
    asked = BoardRequest(i2c=(parse_spec("1:0x40:ina226:0.002:IN"),), hz=2.0)
    assert paces(find_sensors(asked, discover_board(board), board, lambda: 0)) == {
        "power/5V-IN": 0.5, "ina226 at 0x40 on I2C bus 1": 0.5,
    }  # fmt: skip


def test_without_it_this_machine_is_meant() -> None:
    assert board_root(None).is_host


def test_an_unpacked_capture_stands_for_its_tree(tmp_path) -> None:
    plant(tmp_path, {"tree/proc/stat": "captured", "notes.txt": ""})
    for folder in (tmp_path, tmp_path / "tree"):
        assert board_root(folder).read_text("proc/stat") == "captured"


def test_a_board_that_has_a_folder_of_that_name_is_still_itself(tmp_path) -> None:
    plant(tmp_path, {"tree/proc/stat": "another", "proc/stat": "its own"})
    assert board_root(tmp_path).read_text("proc/stat") == "its own"


def test_what_is_no_folder_is_refused(tmp_path) -> None:
    (tmp_path / "board.tar.gz").write_text("")
    for name in ("gone", "board.tar.gz"):
        with pytest.raises(InputError, match=rf"--sysroot .*{name}: no such folder \(unpack"):
            board_root(tmp_path / name)
