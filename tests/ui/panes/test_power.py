"""Power: the total with its parts, who measured, what is left out, and what to do where nothing tells."""

from dataclasses import replace

from edgetop.session.manifest import Battery, Methodology
from edgetop.session.meter import Meter
from edgetop.ui.panes.power_pane import POWER
from tests.support.screens import area, plain, view_of
from tests.support.scripts import POWER_SENSORS, Script, manifest, measured, measured_with_power, powered, sensor


def rows(script: Script, width: int = 80, height: int = 20) -> list[str]:
    return [plain(line) for line in POWER.body(view_of(script), area(width, height))]


def line(script: Script, width: int = 120) -> str:
    return plain(POWER.line(view_of(script), area(width, 1)))


def title(script: Script) -> str:
    return POWER.title(view_of(script), area(80, 1))


def parts_only() -> Script:
    whole = manifest(sensors=POWER_SENSORS[1:])
    return Script(whole, powered).load().warm_up().begin().measure(20)


def test_the_total_is_first_then_its_parts_and_their_instruments() -> None:
    table = rows(measured_with_power(30))
    assert [row.split()[0] for row in table[1:5]] == ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC", "gpu"]
    assert [row.split()[4] for row in (table[1], table[2], table[4])] == ["monitor", "monitor", "estimate"]


def test_who_measured_is_told_at_every_width_that_holds_a_number() -> None:
    for width in (54, 60, 80, 120):
        assert "monitor" in rows(measured_with_power(30), width)[1]


def test_a_part_has_a_bar_as_long_as_its_share() -> None:
    table = rows(measured_with_power(30))
    assert table[2].count("⣿") == 5  # 42 % of twelve cells
    assert "⣿" not in table[1]


def test_a_rail_that_cannot_be_read_says_why() -> None:
    assert rows(measured_with_power(30))[3].split() == ["VDD_SOC", "-", "-", "-", "No", "data"]


def test_what_the_total_leaves_out_is_told() -> None:
    assert "the carrier board with its USB, NVMe and fan is left out" in "\n".join(rows(measured_with_power(30)))


def test_the_course_of_the_total_is_drawn_where_there_is_room() -> None:
    assert any(row.lstrip().startswith("8 ") for row in rows(measured_with_power(75)))
    assert not any(" 0:50 " in row for row in rows(measured_with_power(75), height=8))
    wide = rows(measured_with_power(75), 160, 8)
    assert wide[-1].split()[0] == "0s"
    assert "VDD_IN" in wide[1]


def test_the_title_says_who_measured() -> None:
    assert title(measured_with_power(5)) == "6.47 W   VDD_IN, on board monitor"


def test_without_a_total_the_parts_are_called_parts() -> None:
    assert title(parts_only()).endswith("VDD_CPU_GPU_CV, on board monitor, a part of the board")
    assert line(parts_only()).startswith("power    no total here, VDD_CPU_GPU_CV ")
    assert "⣿" not in "".join(rows(parts_only(), height=4))


def test_without_a_sensor_the_pane_says_what_to_do() -> None:
    script = measured(5).miss("processor power", "energy_uj is readable by root alone", "sudo chmod a+r x")
    text = "\n".join(rows(script))
    assert "no sensor measures the power of this board" in text
    assert "processor power: energy_uj is readable by root alone (sudo chmod a+r x)" in text
    assert "--i2c 1:0x40:ina226:0.002:5V-IN" in text
    assert "edgetop help power" in text
    assert line(measured(5)) == "power    - no power sensor here: edgetop help power"


def test_one_line_has_the_total_and_as_many_parts_as_fit() -> None:
    whole = line(measured_with_power(30), 200)
    assert whole.startswith("power    VDD_IN ")
    assert " W (on board monitor), mean " in whole
    view = view_of(measured_with_power(30))
    for cells in range(10, 200):
        text = plain(POWER.line(view, area(cells, 1)))
        assert whole.startswith(text)
        assert not text[-1:].isdigit() or text == whole or whole[len(text)] in " ,"


def test_a_total_that_is_lost_is_not_shown_as_a_number() -> None:
    script = measured_with_power(10).lose("power/VDD_IN", reason="Input/output error")
    assert line(script).startswith("power    VDD_IN - W")
    assert "Input/output error" in rows(script)[1]


def test_a_source_of_unknown_accuracy_says_so() -> None:
    whole = manifest(sensors=(sensor("power/x", role="total"),))
    script = Script(whole, lambda _: {"power/x": 3.0}).load().warm_up().begin().measure(3)
    assert title(script) == "3.00 W   x, of unknown accuracy"


# Energy.


def resting(idle_w: float = 2.0, **more: object) -> Script:
    """Idle for half a minute, then 5 W at 100 inferences a second for a minute."""
    whole = manifest(sensors=POWER_SENSORS[:2], **more)
    script = Script(whole, lambda second: {"power/VDD_IN": idle_w if second < 31 else 5.0, "power/VDD_CPU_GPU_CV": 1.0})
    script.load().tell("phase", phase="idle", duration_ns=30 * 10**9)
    return script.wait(30).warm_up().begin().measure(60)


def metered() -> Script:
    """The same, of a rail that names its meter."""
    rail = replace(POWER_SENSORS[0], meter=Meter("ina3221", 0.005, volts=5.0))
    script = Script(manifest(sensors=(rail,)), lambda _: {rail.id: 5.0})
    return script.load().warm_up().begin().measure(60)


def told(script: Script, word: str, width: int = 80) -> str:
    return next(" ".join(row.split()) for row in rows(script, width) if row.strip().startswith(word))


def test_an_inference_costs_so_much_within_its_error_bar() -> None:
    assert (
        told(resting(), "energy", 100)
        == "energy 50.0 +-0 mJ an inference 95 %, precision only; accuracy: on board monitor"
    )
    assert told(metered(), "energy", 100) == "energy 50.0 +-1.3 mJ an inference 95 %: readings 0, INA3221 1.3"
    assert told(resting(), "net").startswith("net 29.4 +-0.79")  # the reading across its end is of both
    assert told(resting(), "net").endswith("mJ idle 2.06 W")


def test_without_an_idle_baseline_there_is_no_net_figure() -> None:
    assert "mJ an inference" in told(measured_with_power(60), "energy")
    assert not any(row.strip().startswith("net") for row in rows(measured_with_power(60)))


def test_what_cannot_be_told_is_a_dash_and_a_reason() -> None:
    assert told(measured_with_power(8), "energy").startswith("energy - too few readings, one every 1s")


def test_a_part_is_called_one() -> None:
    whole = manifest(sensors=POWER_SENSORS[1:])
    script = Script(whole, powered).load().warm_up().begin().measure(60)
    assert "mJ an inference a part 95 %" in told(script, "energy")


def test_the_battery_lasts_so_long() -> None:
    feeding = resting(methodology=Methodology(battery=Battery(3.7, 1000.0)))
    assert told(feeding, "battery") == "battery 0.7 h at 100/s, 266 k inferences"
    slower = resting(methodology=Methodology(battery=Battery(3.7, 1000.0, 500.0)))
    assert told(slower, "battery") == "battery - 500 Hz cannot be kept up: at most 199 Hz"


def test_one_line_has_the_energy_too() -> None:
    assert "mean 5.00, 50.0 mJ/inf" in line(resting())
