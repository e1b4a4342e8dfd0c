"""The table of sensors: every value in its place, and nothing lost on a narrow terminal."""

from dataclasses import replace

import pytest

from edgetop.cli.board.sensor_table import board_line, document, table, value_lines
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, sensor
from edgetop.sensors.survey import Survey
from edgetop.session.manifest import Board

HOSTILE = "[red]\x1b[31m\x1b]0;owned\x07\x9b1m\n"


class Rails:
    """A source of one value and one gap."""

    name = "rails"
    cadence_s = 2.0

    def __init__(self, text: str = "VDD_IN", gap: str = "the channel is disabled") -> None:
        self.sensors = (
            sensor("power", text, f"/sys/class/hwmon/hwmon1/in1_input {text}", role="total", note=f"5 V side {text}"),
            sensor("power", "VDD_SOC", "/sys/class/hwmon/hwmon1/in3_input", role="part"),
        )
        self._gap = gap

    def read(self) -> list[float | Gap]:
        return [9.309, Gap(self._gap)]


def survey(*sources: Rails, board: Board | None = None, missing: tuple[Missing, ...] = ()) -> Survey:
    read = Survey(board or Board(), Found(sources, missing))
    read.read_due()
    return read


def test_each_sensor_has_its_line() -> None:
    lines = table(survey(Rails(), missing=(Missing("fan", "no tachometer", "buy one"),)), None)
    assert lines[2].split() == ["SENSOR", "VALUE", "UNIT", "ROLE", "READ", "SOURCE,", "NOTE"]
    assert lines[3].split()[:4] == ["power/VDD_IN", "9.31", "W", "total"]
    assert lines[3].endswith("/sys/class/hwmon/hwmon1/in1_input VDD_IN, 5 V side VDD_IN")
    assert lines[4].split()[:4] == ["power/VDD_SOC", "-", "W", "part"]
    assert lines[4].endswith("/sys/class/hwmon/hwmon1/in3_input, the channel is disabled")
    assert lines[5:] == ["", "MISSING", "fan: no tachometer", "    fix: buy one"]


def test_a_power_says_how_it_was_measured() -> None:
    source = Rails()
    source.sensors = (replace(source.sensors[0], accuracy="on-board-monitor"), source.sensors[1])
    row = document(survey(source))["sensors"][0]
    assert row["note"] == "on board monitor; 5 V side VDD_IN"


@pytest.mark.parametrize("columns", [50, 60, 80])
def test_on_a_narrow_terminal_nothing_is_cut_off(columns: int) -> None:
    lines = table(survey(Rails()), columns)
    assert max(map(len, lines)) <= columns
    text = "".join(line.removeprefix("    ") for line in lines)
    assert "/sys/class/hwmon/hwmon1/in1_input VDD_IN, 5 V side VDD_IN" in text


def test_a_board_without_sensors_says_so() -> None:
    assert table(survey(), 80) == ["unknown board", "", "no sensor was found"]


def test_the_document_holds_a_gap_as_null_with_its_reason() -> None:
    total, part = document(survey(Rails()))["sensors"]
    assert (total["value"], total["role"], total["cadence_s"], total["note"]) == (
        9.309,
        "total",
        2.0,
        "5 V side VDD_IN",
    )
    assert (part["value"], part["note"]) == (None, "the channel is disabled")
    assert total["read_us"] == part["read_us"] > 0


def test_lines_are_for_other_programs() -> None:
    assert value_lines(survey(Rails()), 1.25) == [
        "1.2\tpower/VDD_IN\t9.31\tW",
        "1.2\tpower/VDD_SOC\t-\tthe channel is disabled",
    ]


def test_foreign_text_cannot_act() -> None:
    hostile = survey(Rails(HOSTILE, HOSTILE), board=Board(model=HOSTILE), missing=(Missing(HOSTILE, HOSTILE, HOSTILE),))
    lines = [*table(hostile, None), *table(hostile, 40), *value_lines(hostile, 0.0), board_line(hostile.board)]
    assert "[red]" in lines[0]
    assert not set("\x1b\x07\x9b\n") & set("".join(lines))
