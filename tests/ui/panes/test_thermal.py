"""Heat and clocks: distances to trips, caps, and what cannot be read."""

import itertools
import math
from dataclasses import replace

import pytest

from edgetop.session.manifest import SensorInfo
from edgetop.ui.panes.thermal_pane import THERMAL, has_charts
from edgetop.ui.text import Line
from tests.support.screens import area, plain, view_of
from tests.support.scripts import SENSORS, Script, hot, manifest, measured, sensor


def rows(script: Script, width: int = 80, height: int = 9) -> list[str]:
    return [plain(line) for line in THERMAL.body(view_of(script), area(width, height))]


def line(script: Script, width: int = 120) -> str:
    return plain(THERMAL.line(view_of(script), area(width, 1)))


def styles_of(lines: list[Line], word: str) -> set[str]:
    return {span.style for row in lines for span in row if word in span.text}


def board(celsius: float) -> Script:
    """One zone with a trip at 85, at so many degrees."""
    whole = manifest(sensors=(sensor("temp/cpu", trips={"passive": 85.0}),))
    return Script(whole, lambda _: {"temp/cpu": celsius}).load().warm_up().begin().measure(3)


def test_zones_are_hottest_first_with_their_distance_to_the_trip() -> None:
    _, *table = rows(measured(75, hot))
    assert [row.split()[0] for row in table[:4]] == ["zone", "cpu-thermal", "gpu-thermal", "soc-thermal"]
    assert table[1].split()[1:] == ["86.2", "86.3", "85.0", "-1.2"]
    assert table[3].split()[3:] == ["-", "-"]  # no trip that throttles


def contended() -> Script:
    def readings(second: float) -> dict[str, float]:
        others = 4.0 if second < 70 else 96.0
        return {"load/others": others, "rate/run-queue-wait": 6.0 if second < 70 else 380.0}

    infos = tuple(map(sensor, ("load/others", "rate/run-queue-wait")))
    script = Script(manifest(sensors=infos), readings).load().warm_up().begin().measure(70)
    for _ in range(40):
        script.tell("competing", "info", "system", "", name="apt-get", cpu_pct=94.0)
        script.measure(1, median_ms=7.2)
    return script


def test_contention_has_a_chart_of_the_cpu_that_others_take() -> None:
    view = view_of(contended())
    assert has_charts(view) == (False, False, True)
    title, *chart = (plain(row) for row in THERMAL.body(view, replace(area(60, 6), is_stacked=True)))
    assert " CPU of others % " in title
    assert "apt-get 94 %" in title
    assert chart[0].split()[0] == "100"
    assert not has_charts(view_of(measured(75)))[2]


def test_clocks_stand_with_their_cap_and_the_best_seen() -> None:
    table = rows(measured(75, hot))
    assert table[-1].split() == ["cpu4", "1500", "1500", "2400", "2400"]
    lines = list(THERMAL.body(view_of(measured(75, hot)), area(80, 9)))
    assert "warning" in styles_of(lines[-1:], "1500")
    assert "warning" not in styles_of(list(THERMAL.body(view_of(measured(75)), area(80, 9)))[-1:], "2400")


def test_the_nearer_the_trip_the_graver() -> None:
    for celsius, style in ((70.0, "text"), (81.0, "warning"), (85.0, "critical"), (90.0, "critical")):
        zone = THERMAL.body(view_of(board(celsius)), area(80, 5))[2]
        assert next(span.style for span in zone if span.text == f"{celsius:.1f}") == style


def test_the_trip_is_told_in_words() -> None:
    assert ", 4.0 below its trip" in line(board(81.0))
    assert ", 5.0 above its trip" in line(board(90.0))


def test_one_line_says_why_there_is_no_heat_for_long_reasons_too() -> None:
    reason = "no thermal zone in /sys/class/thermal, no chip in /sys/class/hwmon that reports one"
    script = Script(manifest(sensors=()), lambda _: {}).miss("temperature", reason).load().warm_up().begin().measure(3)
    assert line(script, 120).endswith("that reports one")
    assert line(script, 60).startswith("heat     - no thermal zone in /sys/class/thermal, no chip")
    assert len(line(script, 60)) == 60


def test_one_line_omits_what_does_not_fit_and_cuts_no_number() -> None:
    whole = line(measured(75), 200)
    assert whole.endswith("cpu4 2400 of 2400 MHz")
    view = view_of(measured(75))
    for cells in range(10, 200):
        text = plain(THERMAL.line(view, area(cells, 1)))
        assert whole.startswith(text)
        assert not text[-1:].isdigit()


def test_a_zone_that_is_lost_is_a_dash_and_its_reason() -> None:
    _, *table = rows(measured(20).lose("temp/cpu-thermal", reason="Input/output error"))
    assert [row.split()[0] for row in table[1:4]] == ["gpu-thermal", "soc-thermal", "cpu-thermal"]
    assert table[3].split()[1] == "-"
    assert table[3].rstrip().endswith("Input/output error")


def test_a_clock_that_is_lost_shows_no_old_value() -> None:
    table = rows(measured(20).lose("freq/cpu4", "freqcap/cpu4"))
    assert table[-1].split() == ["cpu4", "-", "-", "2400", "2400"]
    assert "cpu4 - of 2400 MHz" in line(measured(20).lose("freq/cpu4", "freqcap/cpu4"))


def test_where_every_zone_is_lost_the_line_says_why() -> None:
    script = measured(20).lose(*(info.id for info in SENSORS if info.kind == "temp"), reason="no such device")
    assert line(script).startswith("heat     - no such device")


def test_a_board_without_zones_says_what_was_looked_for() -> None:
    script = Script(manifest(sensors=())).load().miss("temperature", "no thermal zone in /sys/class/thermal")
    assert "no thermal zone in /sys/class/thermal" in " ".join(rows(script))
    assert "no thermal zone in /sys/class/thermal" in line(script)
    assert "not read yet" in " ".join(rows(script))  # of the clocks nothing was said


LIMITS = (
    sensor("throttle/thermal"),
    sensor("throttle/under-voltage"),
    sensor("throttle/under-voltage-sticky"),
    sensor("cooling/1-cpufreq-cpu4", throttles=True, max_state=11),
    sensor("cooling/0-pwm-fan", throttles=False, max_state=4),
)


def limited(*at: dict[str, float], sensors: tuple[SensorInfo, ...] = LIMITS) -> Script:
    """A board with these readings second by second, the last ones for ever; what is not named reads 0."""
    values = [{info.id: 0.0 for info in sensors} | second for second in at or ({},)]
    whole = manifest(sensors=sensors)
    return Script(whole, lambda second: values[min(int(second), len(values) - 1)]).load().warm_up().begin().measure(9)


def said(script: Script, width: int = 120) -> list[str]:
    """What stands above the zones."""
    return list(itertools.takewhile(lambda row: not row.startswith("- "), rows(script, width)))


def test_what_throttles_now_stands_first_and_in_alarm() -> None:
    script = limited({"throttle/thermal": 1.0, "cooling/1-cpufreq-cpu4": 5.0, "cooling/0-pwm-fan": 4.0})
    assert said(script) == ["THROTTLING thermal, cpufreq-cpu4 5/11"]
    lines = THERMAL.body(view_of(script), area(80, 9))
    assert styles_of([lines[0]], "THROTTLING") == {"critical"}
    assert line(script).endswith("limits: thermal")


def test_a_line_has_the_zone_the_firmware_clock_and_the_limits() -> None:
    flags = {f"throttle/{name}": 1.0 for name in ("under-voltage", "throttled", "under-voltage-alarm")}
    sensors = (sensor("temp/cpu-thermal"), sensor("freq/cpu0"), sensor("freq/arm"), *map(sensor, flags))
    script = limited(flags | {"temp/cpu-thermal": 56.5, "freq/arm": 600.0, "freq/cpu0": 2400.0}, sensors=sensors)
    whole = "heat     56.5 C cpu-thermal, 23.5 below its trip of 80 C  arm 600 of 600 MHz"
    assert line(script, 80) == whole
    assert line(script, 120) == f"{whole}   limits: under-voltage, throttled +1"


def test_the_name_of_a_sensor_gets_the_room_it_needs() -> None:
    sensors = (sensor("temp/coretemp:Package id 0", trips={"passive": 97.0}),)
    table = rows(limited({"temp/coretemp:Package id 0": 61.0}, sensors=sensors), 54)
    assert [row for row in table if row.startswith("coretemp:Package id 0    61.0")]


def test_in_too_few_rows_the_hottest_zones_and_the_clocks_stay() -> None:
    many = tuple(sensor(f"temp/zone{i}") for i in range(30))
    clocks = (sensor("freq/cpu0", max=1800.0), sensor("freqcap/cpu0", max=1800.0))
    values = {f"temp/zone{i}": 40.0 + i for i in range(30)} | {"freq/cpu0": 1800.0, "freqcap/cpu0": 1800.0}
    script = Script(manifest(sensors=(*many, *clocks)), lambda _: values).load().warm_up().begin().measure(2)
    table = rows(script, 80, 8)
    assert len(table) == 8  # none is wasted
    assert table[2].split()[0] == "zone29"
    assert table[-1].split()[0] == "cpu0"


def test_charts_stand_above_the_tables_or_beside_them() -> None:
    above = rows(measured(75), 80, 20)
    assert above[0].lstrip().startswith("85 ")
    assert "zone" in above[12]
    assert "throttl" in above[11]
    beside = rows(measured(75), 130, 12)
    assert beside[0].lstrip().startswith("85 ")
    assert "zone" in beside[1]


def heating(to_c: float, seconds: int = 100) -> Script:
    """A board that goes to so many degrees, its trip at 85."""
    whole = manifest(sensors=(sensor("temp/cpu", trips={"passive": 85.0}), sensor("load/cpu")))
    script = Script(whole, lambda second: {"temp/cpu": to_c - (to_c - 40) * math.exp(-second / 100), "load/cpu": 390.0})
    return script.load().warm_up().begin().measure(seconds)


def test_the_forecast_is_above_the_zones_in_title_and_line() -> None:
    hot_ahead, cool_ahead = heating(100.0), heating(60.0)
    said = " ".join(rows(hot_ahead, 100, 16))
    assert "throttles at 85 C in " in said
    assert "will not throttle at this load: steady " in " ".join(rows(cool_ahead, 100, 16))
    assert ", trip in " in THERMAL.title(view_of(hot_ahead), area(100, 9))
    assert THERMAL.title(view_of(cool_ahead), area(100, 9)) == "52.7 C, 32.3 below its trip of 85, steady 60 C   cpu"
    assert "   trip in " in line(hot_ahead)
    assert "warning" in styles_of(list(THERMAL.body(view_of(hot_ahead), area(100, 16))), "throttles at")
    assert "warning" not in styles_of(list(THERMAL.body(view_of(cool_ahead), area(100, 16))), "will not")


def test_where_nothing_is_known_nothing_is_said() -> None:
    said = " ".join((*rows(heating(100.0, 10), 100, 40), line(heating(100.0, 10))))
    assert "forecast" not in said
    assert "trip in" not in said


@pytest.mark.slow
def test_a_sentence_in_the_title_does_not_displace_the_chart() -> None:
    heights = [height for height in range(8, 30) if any(_DOTS & set(row) for row in rows(heating(60.0), 80, height))]
    assert heights == list(range(9, 30))


_DOTS = set(map(chr, range(0x2801, 0x2900)))
