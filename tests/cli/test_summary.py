"""The report as text, in the words of the panes."""

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from edgetop.analysis.session_report import Report, report
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.verdict_reasons import State, WasSlowed
from edgetop.cli.printing.method_text import BRIEF_LINES, WIDTH
from edgetop.cli.printing.report_markdown import report_markdown
from edgetop.cli.printing.report_text import MOST_SLOWDOWNS, brief_summary, steadiness_lines, summary, summary_lines
from edgetop.cli.printing.short_result import SHORT_S, is_short, short_result
from edgetop.formatting import milliseconds
from edgetop.session.load_settings import Load
from edgetop.session.manifest import BackgroundProcess, Battery, Constraints, Manifest, Methodology
from edgetop.session.meter import Meter
from edgetop.session.operators import Operator
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.scripts import POWER_SENSORS, Script, manifest, measured, sensor
from tests.support.sessions import folded
from tests.support.slow_sessions import analysed, stretch

RESTED = Methodology(idle_baseline_s=30.0, battery=Battery(3.7, 1000.0))


def lines(script: Script) -> list[str]:
    return list(summary_lines(report(folded(script.batches))))


def session(*sensors: Any, rest_s: float = 30, methodology: Methodology = RESTED, seconds: float = 60) -> Script:
    """Idle at 2 W, then 5 W at 100 inferences a second; what the engine holds grows by 72 MiB an hour."""
    whole = manifest(sensors=(*sensors, sensor("mem/rss")), methodology=methodology)
    script = Script(
        whole,
        lambda second: {
            **{info.id: 2.0 if second <= rest_s else 5.0 for info in sensors}, "mem/rss": 100 + second * 72 / 3600
        },
    )  # fmt: skip
    script.load().tell("phase", phase="idle", duration_ns=int(rest_s * NS)).wait(rest_s)
    return script.warm_up().begin().measure(seconds).end()


def line(script: Script, word: str) -> str:
    return next(found for found in lines(script) if found.strip().startswith(word))


def test_energy_is_told_with_the_parts_of_its_error_bar() -> None:
    rail = replace(POWER_SENSORS[0], meter=Meter("ina3221", 0.005, volts=5.0))
    told = lines(session(rail))
    at = next(i for i, found in enumerate(told) if found.startswith("energy"))
    assert told[at] == "energy     50.0 ± 1.3 mJ an inference; 95 %: readings 0, INA3221 1.3"
    assert told[at + 1].strip().startswith("of the meter: ")
    assert "shunt (1.0 % assumed) 0.57" in told[at + 1]


def test_energy_is_told_with_its_error_bar_net_and_the_battery() -> None:
    told = lines(session(POWER_SENSORS[0]))
    at = next(i for i, found in enumerate(told) if found.startswith("energy"))
    assert told[at] == "energy     50.0 ± 0 mJ an inference; 95 %, precision only; accuracy: on board monitor"
    assert told[at + 1].split() == ["29.4", "±", "0.79", "mJ", "net", "of", "an", "idle", "board's", "2.06", "W"]
    assert told[at + 2] == "battery    3.7 V, 1000 mAh: 0.7 h at 100/s, 266 k inferences"


def test_why_there_is_no_figure_is_told() -> None:
    assert line(session(POWER_SENSORS[0], seconds=8), "energy") == (
        "energy     not known: too few readings, one every 1s: run longer, or read more often (edgetop run --hz)"
    )
    assert "net energy not known: the idle baseline had too few readings" in line(
        session(POWER_SENSORS[0], rest_s=5), "net energy"
    )


def test_the_highest_mean_is_called_one_with_the_peak_beside_it() -> None:
    log = replace(POWER_SENSORS[0], id="power/log", accuracy="external-shunt", averages=True)
    peak = replace(log, id="power/log-peak", role="peak", averages=None)
    told = session(log, peak)
    assert line(told, "power") == (
        "power      power/log 5.00 W on average, 5.00 at most as a mean of 1 s, peak 5.00 W (external shunt)"
    )
    power = report_document(folded(told.batches))["power"]
    assert (power["max_w"], power["max_over_s"], power["peak_w"], power["rails"]) == (5.0, 1.0, 5.0, {})
    assert line(session(replace(POWER_SENSORS[0], averages=None)), "power") == (
        "power      power/VDD_IN 5.00 W on average, 5.00 at most (on board monitor)"
    )


def method_of(whole: Manifest) -> list[str]:
    told = lines(Script(whole).load().warm_up().begin().measure(5).end())
    at = next(i for i, found in enumerate(told) if found.startswith("method"))
    return told[at : at + 5]


def test_the_method_is_four_lines_with_what_the_user_declared() -> None:
    methodology = Methodology(
        warmup_runs=50, measure_runs=9_000, idle_baseline_s=30.0, ambient_c=22.5, enclosure="case \x1b[31m",
        start_temperatures={"temp/gpu": 40.0, "temp/cpu": 48.25, "temp/soc": 39.0},
        background=(BackgroundProcess("rsync", 41.0),), scheduler="SCHED_OTHER, nice 0", notes=("new paste",),
    )  # fmt: skip
    whole = manifest(methodology=methodology, labels={"build": "17"}, constraints=Constraints(2.0))
    whole = replace(whole, load=Load(input="zeros"), board=replace(whole.board, cores=4))
    ambient = "ambient 22.5 °C as declared, enclosure case "
    runs, place, neighbours, declared, _ = method_of(whole)
    assert runs.startswith("method     input zeros, 9000 inferences after 50 of warm-up, without a cool-down, ")
    assert runs.endswith(", an idle baseline of 30s")
    assert place.startswith(f"           began at temp/cpu 48.2 °C, temp/gpu 40.0 °C and 1 more; {ambient}")
    assert "\x1b" not in place
    assert neighbours == "           engine on 2 of 4 CPUs, SCHED_OTHER, nice 0; other processes: rsync 41 %"
    assert declared == "           labels build=17; note: new paste"
    hidden = manifest(methodology=replace(methodology, background=(), background_unseen="hidepid"), end_reason="user")
    assert " none that can be seen took 5 % of a core (processes of other users are hidden" in method_of(hidden)[2]
    room = manifest(methodology=replace(methodology, ambient_sensor="ambient/bme280"))
    assert "ambient 22.5 °C as measured by ambient/bme280, enclosure" in method_of(room)[1]
    silent = manifest(methodology=replace(methodology, ambient_c=None, ambient_sensor="ambient/w1"))
    assert "ambient unknown: ambient/w1 gave no reading, enclosure" in method_of(silent)[1]
    limited = manifest(methodology=methodology, constraints=Constraints(1.0, 2**26, 50.0, 100.0))
    assert " CPUs, memory 64 MiB, quota 50 % of a CPU in each 100 ms, SCHED" in method_of(limited)[2]


def test_what_is_not_known_of_the_method_is_said_to_be_so() -> None:
    bare = method_of(manifest(methodology=Methodology()))
    assert (
        bare[0]
        == "method     input random, - inferences after - of warm-up, without a cool-down, without an idle baseline"
    )
    assert bare[1] == ("           start temperature not known; ambient not declared, enclosure not declared")
    assert bare[2].startswith("           engine on - of ")
    assert bare[2].endswith(" CPUs, -; other processes: -")
    assert bare[3:] == ["           no label or note", *bare[4:]]


def test_a_part_is_called_one_and_feeds_no_battery() -> None:
    told = session(POWER_SENSORS[1])
    assert line(told, "energy") == "energy     power/VDD_CPU_GPU_CV 50.0 ± 0 mJ an inference; a part of the board"
    assert line(told, "battery").endswith("no sensor here tells what the whole board draws")


@pytest.mark.slow
def test_a_leak_is_called_one() -> None:
    assert line(session(seconds=400), "LEAKING") == "           LEAKING 72.0 MiB/h (95 %: 72.0 to 72.0)"
    assert not any("MiB/h" in found for found in lines(session(seconds=60)))


def test_intervals_of_percentiles_stand_under_them() -> None:
    (told,) = [found for found in lines(session()) if found.strip().startswith("95 %: p50")]
    assert "p99.9" in told
    short = [found for found in lines(session(seconds=20)) if found.strip().startswith("95 %: p50")]
    assert "p99.9" not in short[0]  # of 2,000 inferences it reaches beyond the slowest


def test_a_percentile_of_too_few_inferences_is_marked_wherever_it_stands() -> None:
    result = report(analysed(stretch((34, 10.0))))
    assert result.latency.settled is not None
    doubtful = replace(result.latency, settled={**result.latency.settled, "p99": False})
    assert result.burst is not None
    burst = replace(result.burst, settled={"p50": True, "p99": False})
    result = replace(result, latency=doubtful, burst=burst)
    p99 = milliseconds(burst.p99_ms * 1e6)
    for text in (brief_summary(result), summary(result)):
        assert re.search(rf"burst +p50 [\d.]+  p99 {re.escape(p99)}\? ms", text)
    whole = milliseconds((doubtful.p99_ms or 0) * 1e6)
    assert f"p99 {whole}?" in short_result(result)
    _, *narrow = short_result(result, 50).splitlines()
    assert max(map(len, narrow)) <= 50
    assert {line[:11].strip() for line in narrow} == {"", "model", "latency", "rate", "board"}
    assert f" {whole}? " in summary(result)
    markdown = "\n".join(report_markdown(result, []))
    assert f"{whole}?" in markdown
    assert f"{p99}?" in markdown


@pytest.mark.parametrize("columns", range(40, 80, 3))
def test_a_short_result_breaks_no_name(columns: int) -> None:
    result = report(analysed(stretch((34, 10.0))))
    model = replace(result.session.model, path="mobilenet-v2-quantized-to-int8.onnx")
    named = replace(result, session=replace(result.session, model=model))
    assert "mobilenet-v2-quantized-to-int8.onnx" in short_result(named, columns)


def test_what_the_tail_is_made_of_is_told_with_the_slowest() -> None:
    told = lines(session())
    at = next(i for i, found in enumerate(told) if found.startswith("tail"))
    assert told[at].startswith("tail       of the 40 slowest, one a second: 40 unexplained")
    assert told[at + 1].strip().endswith(": unexplained")
    assert " ms at 00:00:" in told[at + 1]


ESTIMATE = "estimate (isolated): each operator run by itself in a helper process"


def profiled_by(way: str) -> Script:
    operators = (Operator("a", "Conv", "CPU", 8, 4_000),)
    return measured(10).profile(operators).profile(operators).tell("profiler", way=way, reason="", every_ns=1)


def test_the_report_says_how_operators_were_timed_or_estimated() -> None:
    told = lines(profiled_by(ESTIMATE))
    (place,) = (i for i, line in enumerate(told) if line.startswith("operators "))
    assert told[place + 1] == f"           {ESTIMATE}; 16 inferences in 2 profiling rounds"


def test_operators_timed_before_profiling_ended_are_marked_so() -> None:
    script = profiled_by(ESTIMATE).tell("profiler", way="", reason="profiling ended: gone", every_ns=1)
    assert any(ESTIMATE in line for line in lines(script))


def test_where_nothing_was_timed_nothing_is_said_of_it() -> None:
    assert not any(line.startswith("operators ") for line in lines(measured(10)))
    assert report_document(folded(measured(10).batches))["profile"] is None


def test_where_the_temperature_goes_is_told_under_the_heat() -> None:
    whole = manifest(sensors=(sensor("temp/cpu", trips={"passive": 85.0}), sensor("load/cpu")))
    script = Script(whole, lambda second: {"temp/cpu": 60 - 20 * math.exp(-second / 60), "load/cpu": 390.0})
    told = lines(script.load().warm_up().begin().measure(120).end())
    at = next(i for i, found in enumerate(told) if found.startswith("heat"))
    assert told[at + 1].startswith("           from there on temp/cpu: will not throttle at this load: steady ")


def test_a_run_shorter_than_a_second_has_no_cpu_peak() -> None:
    short = report(folded(measured(5).end().batches))
    assert short.usage
    usage = replace(short.usage, cpu_mean_pct=93.4, cpu_peak_pct=None)
    assert "cpu        engine 93 % of a core on average" in summary(replace(short, usage=usage)).splitlines()


def test_what_the_run_took_of_the_board_is_one_line() -> None:
    short = report(folded(measured(5).end().batches))
    assert short.usage
    usage = replace(
        short.usage,
        mem_mean_mib=70.2,
        mem_peak_mib=71.8,
        net_rx_bytes=2_500,
        block_read_bytes=0,
        block_write_bytes=4_000,
    )
    (told,) = (line for line in summary_lines(replace(short, usage=usage)) if line.startswith("usage"))
    assert told.startswith("usage      memory 70.2 MiB on average, 71.8 MiB at most; network of the board 2.4 KiB")
    assert " received, - sent; disks 0 B read, 3.9 KiB written" in told
    assert told.endswith("; in 5.0s")


SLOW = stretch((60, 10.0), (20, 14.0), (60, 10.0), (80, 12.0))
FLAG = stretch((60, 0.0), (20, 1.0), (140, 0.0))


def slow(*arguments: object) -> Report:
    return report(analysed(*arguments))


def test_sustained_and_drift_lead_then_slowdowns_with_evidence() -> None:
    lines = list(steadiness_lines(slow(SLOW, {"throttle/thermal": FLAG})))
    assert lines[0] == ""
    assert lines[1].startswith("sustained  p50 11.99")
    assert lines[1].endswith("00:02:40 to 00:03:40, +20 % vs burst")
    assert lines[2].startswith("burst      p50 ")
    assert lines[2].endswith("00:00:00 to 00:00:30")
    assert lines[3] == "throttles  once, 9 % of the time: thermal, p50 up to +40 %"
    assert lines[4:6] == [
        "slowdown   00:01:00 to 00:01:20  +40 %  thermal (confidence 0.90)",
        "             the thermal flag was set at 00:01:00, and in 100.0 % of the slow time",
    ]
    assert lines[6].startswith("slowdown   00:02:20 to the end  +20 %  unknown")


def test_it_stands_before_the_latency() -> None:
    text = summary(slow(SLOW))
    assert text.index("sustained  ") < text.index("latency    ")


def test_of_a_steady_session_there_are_none() -> None:
    assert list(steadiness_lines(slow(stretch((70, 10.0)))))[-1] == "slowdowns  none"


def test_of_many_the_longest_are_shown() -> None:
    one = slow(SLOW, {"throttle/thermal": FLAG})
    assert one.slowdowns
    many = tuple(replace(one.slowdowns[0], start_ns=100 * i * NS, end_ns=101 * i * NS) for i in range(30))
    lines = list(steadiness_lines(replace(one, slowdowns=many)))
    shown = [line for line in lines if line.startswith("slowdown   ")]
    assert len(shown) == MOST_SLOWDOWNS
    assert shown[0].startswith("slowdown   00:33:20 to ")
    assert lines[-1] == "           and 20 shorter"


def test_of_too_little_nothing_is_said() -> None:
    assert list(steadiness_lines(slow(stretch((3, 10.0))))) == []


def test_names_of_sensors_cannot_act() -> None:
    one = slow(SLOW, {"throttle/thermal": FLAG})
    assert one.slowdowns
    hostile = replace(one.slowdowns[0], evidence=(Clue("in-force", "throttle/\x1b[31m"),))
    assert all("\x1b" not in line for line in steadiness_lines(replace(one, slowdowns=(hostile,))))


def test_lines_are_at_most_80_wide_and_go_on_below_their_text() -> None:
    told = summary(slow(SLOW, {"throttle/thermal": FLAG}))
    assert max(map(len, told.splitlines())) <= WIDTH
    whole = summary_lines(slow(SLOW, {"throttle/thermal": FLAG}))
    assert told.split() == " ".join(whole).split()
    at = next(i for i, line in enumerate(told.splitlines()) if line.startswith("method"))
    assert told.splitlines()[at + 1].startswith(" " * 11 + "without")


def test_operator_names_are_shortened_and_empty_columns_omitted() -> None:
    operators = (Operator("layer" * 30 + "/relu", "Conv", "CPU", 8, 4_000),)
    script = measured(10).profile(operators).profile(operators).tell("profiler", way="x", reason="", every_ns=1)
    told = lines(script)
    at = next(i for i, line in enumerate(told) if line.split()[:2] == ["us", "%"])
    assert told[at].split() == ["us", "%", "95", "%", "type", "name"]
    assert told[at + 1].endswith("layer/relu")
    assert len(told[at + 1]) == WIDTH


def test_at_the_end_of_a_run_the_verdict_leads_few_lines() -> None:
    one = slow(SLOW, {"throttle/thermal": FLAG})
    told = brief_summary(one).splitlines()
    assert len(told) <= BRIEF_LINES
    assert told[0] == summary(one).splitlines()[0]
    assert [line for line in told if line.startswith("slowdown ")]
    assert not any("was set at" in line for line in told)


def test_the_result_of_a_short_run_is_five_lines_for_a_chat() -> None:
    one = report(folded(session(POWER_SENSORS[0], seconds=40).batches))
    assert is_short(one)
    told = short_result(one).splitlines()
    assert told[0] == f"{summary(one).splitlines()[0]}; steady"
    assert [line.split()[0] for line in told[1:]] == ["model", "latency", "rate", "board"]
    assert re.search(r"^  model    mobilenet_v2.onnx  .* on CPU, ", told[1])
    assert f"p50 {milliseconds((one.latency.p50_ms or 0) * 1e6)}  " in told[2]
    assert re.search(r"p99 [\d.]+\??  mean [\d.]+ ± [\d.]+  min [\d.]+  max [\d.]+ ms$", told[2])
    assert re.search(r"/s, 40\d\d inferences, 0 errors$", told[3])
    assert "50.0 mJ an inference" in told[4]


def test_the_lines_of_a_short_result_fit_a_terminal() -> None:
    one = report(folded(session(POWER_SENSORS[0], seconds=40).batches))
    past = tuple(WasSlowed(State.CONTENDED, 1, 1.0, who=Clue("process", "p" * length)) for length in (10, 15, 15, 15))
    late = replace(one, verdict=replace(one.verdict, past=past), latency=replace(one.latency, response=one.latency))
    told = short_result(late).splitlines()
    assert [line.split()[0] for line in told[1:]] == ["model", "response", "rate", "board"]
    assert max(map(len, told)) <= 80
    assert told[0].endswith("; contended 1x, 100 %; contended 1x, 100 %")


def test_a_percentile_of_too_few_inferences_is_marked_in_a_short_result() -> None:
    one = report(folded(session(POWER_SENSORS[0], seconds=2).batches))
    assert re.search(r"p99 [\d.]+\?  mean", short_result(one))


def test_names_cannot_act_in_a_short_result() -> None:
    one = report(folded(session(POWER_SENSORS[0], seconds=2).batches))
    model = replace(one.session.model, path="/m/\x1b[31m\n.onnx")
    hostile = short_result(replace(one, session=replace(one.session, model=model)))
    assert "\x1b" not in hostile
    assert len(hostile.splitlines()) == 5


def test_what_five_lines_cannot_tell_is_told_in_more() -> None:
    one = report(folded(session(POWER_SENSORS[0], seconds=20).batches))
    assert not is_short(report(folded(session(POWER_SENSORS[0], seconds=SHORT_S + 1).batches)))
    assert not is_short(replace(one, streams=one.streams * 2))
    assert not is_short(slow(SLOW, {"throttle/thermal": FLAG}))


def test_the_deadline_of_several_models_is_told_for_each() -> None:
    """p99 less the deadline is that of one model, and so are the causes: none may stand beside figures of another."""
    load = Load(deadline_ns=5_000_000)
    script = Script(manifest(load=load)).load().warm_up().begin().measure(30, median_ms=5.2)
    one = report(folded(script.batches))
    (only,) = one.streams
    assert only.deadline
    other = replace(only, name="other.onnx", deadline=replace(only.deadline, misses=1, count=1000, headroom_ns=-2e6))
    lines = summary(replace(one, streams=(replace(only, name="det.onnx"), other))).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("deadline "))
    assert lines[at].endswith(f"missed ({only.deadline.misses}) by all models together")
    assert re.match(r" +det\.onnx: [\d.]+ % missed \(\d+\); p99 exceeds it by [\d.]+ ms$", lines[at + 1])
    assert lines[at + 2].strip() == "other.onnx: 0.1 % missed (1); p99 exceeds it by 2.000 ms"
    assert not any("the model needs" in line for line in lines[at:])
    assert any("the model needs" in line for line in summary(one).splitlines())
