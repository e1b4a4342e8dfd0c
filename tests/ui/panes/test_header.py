"""The lines that are always there."""

import re
from dataclasses import replace

import pytest

from edgetop.analysis.memory_use import GrowthView, Slope
from edgetop.analysis.verdict_data import Verdict
from edgetop.analysis.verdict_reasons import ClockNow, Lasts, LimitedBy, State, TemperatureNow
from edgetop.cli.running.headless import progress_line
from edgetop.formatting import milliseconds
from edgetop.session.load_settings import Load
from edgetop.ui.characters import CharacterSet
from edgetop.ui.panes.header import identity_line, tiny_lines, verdict_line, vitals_line
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import width
from tests.support.scenes import overloaded, throttled
from tests.support.screens import area, plain, view_of
from tests.support.scripts import Script, cool, hot, manifest, measured, paced, sensor

NS = 10**9


def header(script: Script | None, cells: int = 120, frozen_ns: int | None = None) -> str:
    return plain(verdict_line(view_of(script), area(cells, 1), frozen_ns))


def identity(script: Script | None, cells: int = 120, recording: str = "REC") -> str:
    return plain(identity_line(view_of(script), area(cells, 1), recording))


def simulated() -> Script:
    whole = manifest(board=replace(manifest().board, simulated=True))
    return Script(whole).load().warm_up().begin().measure(20)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (lambda: None, "LOADING"),
        (Script, "LOADING  /home/pi/models/mobilenet_v2.onnx"),
        (lambda: Script().load().warm_up(37), "WARMING UP  37 of 50"),
        (lambda: measured(20), "MEASURING  "),
        (lambda: measured(20).wait(12), "STALLED  for 12.0s  an inference has not come back  "),
        (
            lambda: measured(20).end("duration"),
            "FINISHED  the duration is over  too short to say whether it is >",
        ),
        (lambda: measured(20).end("user"), "STOPPED  by the user  too short to say whether it is steady  "),
        (
            lambda: measured(20).tell("engine-died", "critical", message="SIGKILL").end("engine-died"),
            "ENGINE DIED  SIGKILL",
        ),
        (simulated, "MEASURING  "),
    ],
)
def test_the_verdict_is_in_words(script: object, words: str) -> None:
    assert header(script()).strip().startswith(words)  # type: ignore[operator]


def test_a_leak_is_no_steady_session() -> None:
    held = manifest(sensors=(sensor("mem/rss"),))
    script = Script(held, lambda second: {"mem/rss": 100 + second * 72 / 3600}).load().warm_up().begin()
    view = view_of(script.measure(400, rate_hz=5))
    assert plain(verdict_line(view, area(120, 1), None)).startswith(" LEAKING  72 MiB/h  since the start  ")
    styles = {span.text.strip(): span.style for span in verdict_line(view, area(120, 1), None)}
    assert styles["LEAKING"] == "warning"
    assert re.search(r" LEAKING p50 .* n 2000 in all: 72 MiB/h since the start$", progress_line(view))


def test_the_verdict_begins_with_its_figure_and_since_when_it_holds() -> None:
    load = Load(mode="fixed", rate_hz=100.0, deadline_ns=6_000_000)
    script = Script(manifest(load=load)).load().warm_up().begin().measure(60).measure(30, median_ms=7.2)
    for cells, said in (
        (60, "SLOWED +44 % "),
        (80, "SLOWED +44 % for 0:30 "),
        (120, "SLOWED  44 % slower  for 0:30  "),
    ):
        text = header(script, cells)
        assert text.startswith(f" {said}"), text
        assert "p50 7.184 " in text, text
        assert text.rstrip().endswith(" 1m31s")
    assert "MISSING DEADLINE 100.0 %  " in header(script, 160)


def test_a_narrow_verdict_says_what_the_change_is_of_where_there_is_room() -> None:
    text = plain(verdict_line(view_of(throttled()), area(80, 1), None))
    assert text.startswith(" THROTTLING 43 % slower for 1:01 thermal   p50 ")
    text = plain(verdict_line(view_of(throttled()), area(74, 1), None))
    assert text.startswith(" THROTTLING +43 % for 1:01 thermal ")


def test_latencies_of_many_seconds_are_in_seconds() -> None:
    late = plain(verdict_line(view_of(measured(60, median_ms=12_000.0, rate_hz=0.05)), area(80, 1), None))
    assert re.search(r" p50 12\?s  p99 12\? s ", late), late


def test_the_past_takes_free_columns_only_and_evidence_comes_last() -> None:
    script = measured(60).measure(30, median_ms=7.2).measure(60)
    assert re.search(r" STEADY  for \d:\d\d  was slowed once, ", header(script, 140))
    view = view_of(throttled())
    wide = plain(verdict_line(view, area(200, 1), None))
    assert (
        " THROTTLING  43 % slower  for 1:01  thermal  usual p50 5.004 ms  cpu 1500 of 2400 MHz  86 of 85 C   " in wide
    )
    narrow = plain(verdict_line(view, area(120, 1), None))
    assert " thermal  usual p50 5.004 ms   " in narrow


def test_the_figures_are_those_of_the_chosen_window() -> None:
    script = measured(60).measure(10, median_ms=20.0)
    assert "p50 20.0" in header(script)
    assert "p50 5.0" in plain(verdict_line(view_of(script, None), area(120, 1), None))


def test_a_percentile_of_too_few_inferences_has_a_question_mark() -> None:
    text = header(Script().load().warm_up().begin().measure(20, rate_hz=5))
    assert re.search(r"p50 \d\.\d+ +p99 5\.\d\? ms ", text)


def test_a_frozen_screen_says_how_far_it_is_behind() -> None:
    assert header(measured(20), frozen_ns=75 * NS).startswith(" FROZEN 1m15s behind  MEASURING ")
    assert header(simulated(), 80, frozen_ns=0).startswith(" FROZEN 0.0s  MEASURING ")


def test_level_and_simulation_have_their_styles() -> None:
    styles = {span.text.strip(): span.style for span in verdict_line(view_of(simulated()), area(120, 1), NS)}
    assert styles["MEASURING"] == "good"
    assert styles["FROZEN 1.0s behind"] == "focus"
    second = identity_line(view_of(simulated()), area(80, 1), "REC")
    assert (second[0].text, second[0].style) == (" SIMULATED ", "simulated")
    assert plain(second).startswith(" SIMULATED  mobilenet_v2.onnx ")


def test_the_clock_stands_at_the_right_end() -> None:
    assert header(measured(75), 80).endswith("/s  1m16s")
    assert len(header(measured(75), 80)) == 80


def test_no_number_is_ever_cut() -> None:
    view = view_of(measured(20).end("duration"))
    for cells in range(8, 90):
        text = plain(verdict_line(view, area(cells, 1), None))
        assert len(text) == cells
        assert "p50" not in text or re.search(r"p50 (5\.\d{3}|4\.\d{3}) ", text)
        assert "p99" not in text or re.search(r"p99 5\.\d{3} ms ", text)
        assert cells < 20 or "  21s" in text


def test_a_narrow_verdict_keeps_its_duration_and_whole_phrases() -> None:
    verdict = Verdict(
        State.THROTTLING,
        "critical",
        (LimitedBy("under-voltage"), Lasts(17 * NS), ClockNow("arm", 1500.0, 2400.0), TemperatureNow(54.0, None)),
    )
    whole = manifest(board=replace(manifest().board, simulated=True))
    view = view_of(Script(whole).load().warm_up().begin(duration_ns=45 * NS).measure(20))
    view.__dict__["verdict"] = replace(verdict, p50_change=0.62)
    for cells in range(75, 120):
        assert " for 0:17 " in plain(verdict_line(view, area(cells, 1), None))
    assert plain(verdict_line(view, area(80, 1), None)).startswith(" THROTTLING +62 % for 0:17 under-voltage   p50 ")
    died = measured(20).tell("engine-died", "critical", message="killed by SIGSEGV (in native code)").end("engine-died")
    assert header(died, 80).startswith(" ENGINE DIED killed by SIGSEGV   ")


def test_a_leak_is_shown_by_its_growth_beside_no_bar() -> None:
    view = view_of(measured(75))
    growth = GrowthView(Slope(1740.0, 1700.0, 1780.0), is_leak=True, hours_left=12.53)
    view.__dict__["memory"] = replace(view.memory, growth=growth)
    text = plain(vitals_line(view, area(120, 1)))
    assert "  memory 1.9 of 8.0 GiB " in text
    assert text.endswith("  leak +1.7 GiB/h, full in 12h31m!")


def test_a_long_reason_is_cut_before_a_figure_goes() -> None:
    script = measured(20).tell("provider-dropped", "critical", message="CUDA was asked for but " + "x" * 60)
    assert "p50" in header(script, 80)
    assert ">" in header(script, 80)
    assert ">" not in header(script, 200)


def test_what_is_run_and_where_it_is_recorded() -> None:
    assert identity(measured(5)) == (
        " mobilenet_v2.onnx   onnxruntime 1.23.2 CPU   Raspberry Pi 5 Model B Rev 1.0".ljust(114) + "  REC "
    )
    assert identity(Script()).startswith(" mobilenet_v2.onnx   loading   Raspberry")
    assert identity(Script().end("input-error")).startswith(" mobilenet_v2.onnx   never loaded   Raspberry")
    assert identity(None) == " edgetop"


def test_a_version_that_is_not_known_is_left_out() -> None:
    engine = replace(manifest().engine, runtime="tensorrt", version=None, providers=("TensorRT",))
    assert "   tensorrt TensorRT   " in identity(Script(manifest(engine=engine)))


@pytest.mark.parametrize("recording", ["REC", "REC paused", "not recorded"])
def test_whether_it_is_recorded_is_told_at_every_width(recording: str) -> None:
    for cells in (60, 80, 120):
        line = identity_line(view_of(measured(5)), area(cells, 1), recording)
        assert plain(line).endswith(f"  {recording} ")
        assert width(line) == cells


def test_a_tiny_screen_has_three_numbers() -> None:
    assert [plain(line) for line in tiny_lines(view_of(measured(75)))] == [
        "  p50 5.004 ms",
        "  p99 5.543 ms",
        " rate 100/s",
    ]
    assert [plain(line) for line in tiny_lines(view_of(Script()))] == ["no samples yet"]


def test_what_is_wrong_with_the_feed_stands_out() -> None:
    line = identity_line(view_of(measured(5)), area(80, 1), "LINK LOST, reconnecting in 4 s", is_trouble=True)
    assert plain(line).endswith("  LINK LOST, reconnecting in 4 s ")
    assert line[-1].style == "warning"


def timed(**begin: int) -> Script:
    return Script(manifest()).load().warm_up().begin(**begin).measure(75)


def test_with_a_requested_duration_the_end_has_its_time_of_day() -> None:
    eight_hours = timed(duration_ns=8 * 3600 * NS)
    assert re.search(r" 1m16s of 8h, ends at \d\d:\d\d $", header(eight_hours, 140))
    assert header(eight_hours, 100).endswith(" 1m16s of 8h ")
    assert header(eight_hours, 80).endswith("/s  1m16s")


def gauges(script: Script, cells: int, **characters: bool) -> str:
    return plain(vitals_line(view_of(script), Area(cells, 1, CharacterSet(**characters))))


def test_the_vital_signs_say_how_far_each_is_from_its_limit() -> None:
    text = gauges(measured(75, hot), 120)
    assert text.startswith(" heat  86 of 85 C! \u28ff\u28ff\u28ff\u28ff  memory 1.9 of 8.0 GiB ")
    assert text.endswith("  clock  62 %!")
    assert gauges(measured(75, hot), 50) == " heat  86 of 85 C!  memory 1.9 of 8.0 GiB "
    load = Load(mode="fixed", rate_hz=100.0, deadline_ns=6_000_000)
    late = Script(manifest(load=load)).load().warm_up().begin(duration_ns=300 * NS).measure(75, median_ms=7.2)
    assert re.match(r" p99  7\.\d+ of 6 ms! ", gauges(late, 120))
    assert "  missed 100.0 %!" in gauges(late, 160)
    assert "  done  25 %" in gauges(late, 200)


def test_what_a_board_has_not_got_has_no_gauge() -> None:
    text = gauges(Script(manifest(sensors=())).load().warm_up().begin().measure(75), 120)
    assert text == " no limit is known"
    assert gauges(Script(manifest(sensors=())).load(), 120) == " no limit is known yet"
    assert gauges(Script(), 120).startswith(" heat   - of 85 C ")


def test_gauges_are_drawn_with_what_the_terminal_has() -> None:
    assert "\u2588" in gauges(measured(75), 160, boxes=True)
    assert "#" in gauges(measured(75), 160, ascii_only=True)
    view = view_of(measured(20, hot))
    for cells in range(8, 200):
        assert len(plain(vitals_line(view, Area(cells, 1, CharacterSet())))) < cells or not cells


def test_a_session_that_is_over_says_what_happened_and_how_it_ended() -> None:
    script = measured(60).measure(30, median_ms=7.2).measure(60).end("user")
    assert header(script, 80).startswith(" STOPPED slowed 1x, 20 % by the user ")
    assert header(script, 160).startswith(" STOPPED  was slowed once, 20 % of the time (unknown cause)  by the user ")


@pytest.mark.parametrize("cells", [80, 120, 200])
def test_the_second_line_begins_with_what_to_try_while_there_is_trouble(cells: int) -> None:
    tried = plain(identity_line(view_of(throttled()), area(cells, 1), "REC"))
    assert tried.startswith(" try: cool the board, or lower the load ")
    assert not tried.startswith(" try: cool the board, or lower the load  >")
    assert plain(identity_line(view_of(measured(75)), area(cells, 1), "REC")).startswith(" mobilenet_v2.onnx ")


def test_past_throttling_takes_free_columns_in_fewer_words_if_needed() -> None:
    script = throttled()
    script._weather = cool
    view = view_of(script.measure(120))
    assert " STEADY for " in plain(verdict_line(view, area(80, 1), None))
    assert "was throttled 1x" in plain(verdict_line(view, area(80, 1), None))
    assert "was throttled once" in plain(verdict_line(view, area(140, 1), None))


def test_a_paced_run_has_the_response_time_in_its_first_line_as_in_the_map() -> None:
    view = view_of(paced(60, late_ms=9.0))
    felt = view.latency.window_response
    assert felt
    assert view.latency.heat_is_response
    assert f"p50 {milliseconds(felt.percentile_ns(0.5))}" in plain(verdict_line(view, area(120, 1), None))


def test_an_overload_tells_since_when() -> None:
    assert re.search(r" OVERLOADED .*Hz for \d+:\d\d", plain(verdict_line(view_of(overloaded()), area(80, 1), None)))


def capped(power_mode: str | None, **more: float) -> Script:
    """A board whose power limit slows it after a minute, with a power sensor for the whole board."""
    infos = (sensor("power/VDD_IN", role="total"), *map(sensor, ("throttle/over-current", "freq/cpu0")))
    board = replace(manifest().board, power_mode=power_mode)

    def readings(second: float) -> dict[str, float]:
        is_slow = second >= 70
        return {
            "power/VDD_IN": 14.8, "throttle/over-current": float(is_slow), "freq/cpu0": 1700.0 if is_slow else 2400.0,
        }  # fmt: skip

    return Script(manifest(sensors=infos, board=board), readings).load().warm_up().begin().measure(60)


def test_a_power_cap_has_the_power_beside_its_limit() -> None:
    view = view_of(capped("15W").measure(10).measure(40, median_ms=7.2))
    assert "  power-cap  14.8 of 15 W  " in plain(verdict_line(view, area(160, 1), None))
    line = vitals_line(view, area(80, 1))
    assert "power 14.80 of 15 W!" in plain(line)
    assert {span.style for span in line if "of 15 W" in span.text} == {"critical"}
    unknown = view_of(capped("MAXN").measure(10).measure(40, median_ms=7.2))
    assert " of 15 W" not in plain(verdict_line(unknown, area(160, 1), None))
    assert "power 14.80 W " in plain(vitals_line(unknown, area(160, 1)))


def test_a_limit_of_power_is_no_problem_while_nothing_is_slowed() -> None:
    line = vitals_line(view_of(capped("15W")), area(160, 1))
    assert {span.style for span in line if "of 15 W" in span.text} == {"text"}


def test_an_engine_out_of_memory_tells_by_how_much_its_memory_rose() -> None:
    held = manifest(sensors=(sensor("mem/rss"),))
    script = Script(held, lambda second: {"mem/rss": 100 + max(0.0, second - 20) * 10}).load().warm_up().begin()
    script.measure(60, rate_hz=20).tell("engine-died", "critical", message="SIGKILL, out of memory at 498 MiB")
    view = view_of(script.end("engine-died"))
    wide = plain(verdict_line(view, area(200, 1), None))
    assert re.search(r"  its memory rose from 100\.0 MiB to \d{3}\.\d MiB  ", wide), wide
    assert "speed before: " in wide
    assert plain(identity_line(view, area(120, 1), "REC")).startswith(" try: look for a leak, or give more memory ")


def test_the_key_for_warnings_leaves_room_for_the_advice() -> None:
    view = view_of(throttled())
    texts = [plain(identity_line(view, area(cells, 1), "REC")) for cells in (70, 120)]
    assert all(" try: cool the board, or lower the load " in text for text in texts)
    assert ": press 7 " in texts[1]
    assert not any("(7)" in text for text in texts)
