"""Coverage: every sensor with its age, and every one that is missing, with the reason."""

from edgetop.ui.panes.sensors_pane import SENSORS as PANE
from tests.support.screens import area, plain, view_of
from tests.support.scripts import SENSORS, Script, cool, measured


def rows(script: Script, width: int = 80) -> list[str]:
    return [plain(line) for line in PANE.body(view_of(script), area(width, 40))]


def test_every_sensor_has_a_row_in_the_manifests_order() -> None:
    assert [row.split()[0] for row in rows(measured(20))[1:]] == [info.id for info in SENSORS]


def test_a_row_has_value_unit_age_and_extremes() -> None:
    assert rows(measured(75), 160)[1].split() == [
        "temp/cpu-thermal", "53.9", "C", "0.0", "45.0", "50.2", "53.9", "/sys/temp/cpu-thermal",
    ]  # fmt: skip


def test_values_of_one_unit_have_as_many_decimals() -> None:
    values = [row.split()[1] for row in rows(measured(20)) if row.startswith("mem/")]
    assert {len(value.partition(".")[2]) for value in values} == {1}
    assert all("." not in row.split()[1] for row in rows(measured(20)) if row.startswith("freq/"))


def test_an_old_value_shows_its_age() -> None:
    script = Script(weather=lambda second: cool(second) if second < 3 else {})
    view = view_of(script.load().warm_up().begin().measure(3).wait(7))
    row = PANE.body(view, area(80, 40))[1]
    assert [(span.text, span.style) for span in row if span.text == "9.0"] == [("9.0", "dim")]


def test_a_lost_sensor_is_a_dash_and_its_reason_at_every_width() -> None:
    script = measured(5).lose("temp/gpu-thermal", reason="Input/output error")
    for width in (60, 80, 160):
        row = rows(script, width)[2]
        assert row.split()[:2] == ["temp/gpu-thermal", "-"]
        assert row.rstrip().endswith("Input/output error")


def test_a_missing_sensor_is_shown_with_the_command_to_enable_it() -> None:
    text = " ".join(rows(Script().miss("power", "no power sensor", "modprobe ina2xx")))
    assert "- power: no power sensor (modprobe ina2xx)" in text


def test_the_title_counts_what_is_read_lost_and_absent() -> None:
    script = measured(5).lose("temp/gpu-thermal").miss("power", "none")
    assert PANE.title(view_of(script), area(80, 40)) == "17 read, 1 lost, 1 missing"
