"""The JSON document: its keys are a contract, and what is not known is None."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.meter_errors import MeterError, meter_error
from edgetop.analysis.session_report import report
from edgetop.cli.printing.report_text import summary
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Battery, EngineInfo, Manifest, Methodology
from edgetop.session.manifest_codec import to_json
from edgetop.session.meter import Meter
from edgetop.session.operators import Operator, burst_of
from edgetop.session.records import FIRST, WARMUP
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.sessions import (
    MS,
    back_to_back,
    differences,
    ended_event,
    folded,
    make_manifest,
    make_readings,
    make_sensor,
    make_session,
    phase_event,
    seconds_of,
)

SENSORS = tuple(map(make_sensor, ("temp/cpu", "throttle/thermal", "mem/rss", "mem/rss-peak", "load/edgetop")))


def document_of(*batches: Batch, manifest: Manifest | None = None) -> dict:
    begun = Batch(manifest=manifest or make_manifest(), events=(phase_event(0, "measure"),), restart=True)
    return report_document(folded((begun, *batches)))


def measured(count: int = 100, **more: object) -> Batch:
    inferences = back_to_back(0, [10 * MS] * count, **more)
    end_ns = count * 10 * MS
    return Batch(end_ns, seconds=seconds_of(inferences), events=(ended_event(end_ns, last_end_ns=end_ns),))


def readings_of(*values: tuple[str, float], manifest_of: tuple[str, ...] = ()) -> dict:
    """The document of a session in which these sensors said these values, one a second."""
    ids = list(dict.fromkeys((*manifest_of, *(name for name, _ in values))))
    rows = ((i * NS, ids.index(name), value) for i, (name, value) in enumerate(values))
    manifest = make_manifest(*map(make_sensor, ids))
    return document_of(Batch(readings=make_readings(*rows)), manifest=manifest)


def test_the_keys_are_those_of_the_contract() -> None:
    assert list(document_of(measured())) == [
        "session", "verdict", "lost", "latency", "streams", "tail", "phases", "burst", "sustained", "drift_ratio",
        "throttled", "throttled_share", "throttles", "slowdowns",
        "alerts", "temperature", "forecast", "power", "energy", "memory", "usage", "counters",
        "operators", "partitions", "providers", "profile", "roofline", "overhead", "gates", "warnings",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 100])
def test_the_keys_are_those_of_the_contract_however_few_the_data(count: int) -> None:
    document = document_of(measured(count) if count else Batch())
    assert set(document["latency"]) == {
        "count", "errors", "mean_ms", "stdev_ms", "min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms",
        "max_ms", "jitter_ms", "throughput_hz", "items_per_s", "response", "deadline", "settled", "ci95",
        "streams",
    }  # fmt: skip
    assert set(document["phases"]) == {"init_ms", "compile_ms", "first_ms", "warmup"}
    assert set(document["memory"]) == {
        "rss_peak_mib", "rss_end_mib", "growth_mib_per_h", "growth_ci95_mib_per_h", "leak", "left_mib",
        "hours_to_limit", "accelerator_peak_mib", "stages",
    }  # fmt: skip
    assert set(document["overhead"]) == {"cpu_pct", "rss_mib"}
    assert set(document["power"]) == {"total_sensor", "mean_w", "max_w", "accuracy", "rails", "idle_w"}


def test_without_a_manifest_there_is_nothing_to_report() -> None:
    with pytest.raises(ValueError, match="manifest"):
        report_document(Analysis())


def test_the_session_is_its_manifest() -> None:
    manifest = make_manifest(*SENSORS, labels={"build": "17"})
    assert document_of(manifest=manifest)["session"] == to_json(manifest)


def test_what_is_not_known_is_none_and_never_zero() -> None:
    document = document_of()
    assert known(document["latency"]) == {"count": 0, "errors": 0}
    assert known(document["memory"]) == known(document["overhead"]) == {}
    assert known(document["power"]) == {"rails": {}}
    assert set(known(document["energy"])) == {"reason", "rails"}
    assert document["throttled"] is None
    assert document["throttled_share"] is None
    assert document["temperature"] == {}
    assert document["phases"]["init_ms"] is document["phases"]["first_ms"] is None
    assert document["phases"]["warmup"]["mean_ms"] is None
    for key in ("burst", "sustained", "drift_ratio", "slowdowns", "usage", "operators",
                "profile", "gates"):  # fmt: skip
        assert document[key] is None
    assert document["warnings"] == []


def known(part: dict) -> dict:
    return {key: value for key, value in part.items() if value is not None}


def test_latency_is_in_milliseconds() -> None:
    latency = document_of(measured(100))["latency"]
    assert latency["count"] == 100
    assert (latency["min_ms"], latency["max_ms"], latency["mean_ms"]) == (10.0, 10.0, 10.0)
    assert [latency[f"{name}_ms"] for name in ("p50", "p90", "p95", "p99", "p999")] == [10.0] * 5
    assert (latency["stdev_ms"], latency["jitter_ms"]) == (0.0, 0.0)
    assert (latency["throughput_hz"], latency["items_per_s"]) == (100.0, 100.0)


def test_items_are_inferences_times_the_batch() -> None:
    latency = document_of(measured(), manifest=make_manifest(load=Load(batch=8)))["latency"]
    assert (latency["throughput_hz"], latency["items_per_s"]) == (100.0, 800.0)


def test_one_inference_has_no_spread() -> None:
    latency = document_of(measured(1))["latency"]
    assert latency["stdev_ms"] is latency["jitter_ms"] is None
    assert latency["p999_ms"] == 10.0


def test_each_percentile_says_whether_it_is_settled() -> None:
    settled = document_of(measured(130))["latency"]["settled"]
    assert settled == {"p50": True, "p90": True, "p95": True, "p99": False, "p999": False}


def test_errors_are_told_though_nothing_else_was_measured() -> None:
    assert known(document_of(measured(7, ok=False))["latency"]) == {"count": 0, "errors": 7}


def test_the_start_is_told_phase_by_phase() -> None:
    manifest = make_manifest(engine=EngineInfo(init_ns=1_500_000_000, first_ns=25 * MS, partitions=3))
    ended = ended_event(NS, warmup_runs=50, warmup_ns=600 * MS)
    document = document_of(Batch(events=(ended,)), manifest=manifest)
    assert document["phases"] == {
        "init_ms": 1500.0,
        "compile_ms": None,
        "first_ms": 25.0,
        "warmup": {"runs": 50, "mean_ms": 12.0},
    }
    assert document["partitions"] == 3


def test_a_live_session_tells_the_warm_up_that_it_has_seen() -> None:
    inferences = back_to_back(0, [9 * MS, 2 * MS, 4 * MS, 9 * MS], phase=[FIRST, WARMUP, WARMUP, 2])
    assert document_of(Batch(inferences=inferences))["phases"]["warmup"] == {"runs": 2, "mean_ms": 3.0}


def test_temperature_is_told_of_each_zone_that_was_read() -> None:
    document = readings_of(("temp/cpu", 40.0), ("temp/cpu", 70.0), ("temp/cpu", 55.0), manifest_of=("temp/gpu",))
    assert document["temperature"] == {"temp/cpu": {"min": 40.0, "mean": 55.0, "max": 70.0, "end": 55.0}}


def test_memory_of_the_gpu_is_its_highest() -> None:
    assert known(readings_of(("mem/accelerator", 740.0), ("mem/accelerator", 700.0))["memory"]) == {
        "accelerator_peak_mib": 740.0
    }


def test_memory_by_stage_stands_in_the_order_of_the_run() -> None:
    told = [{"stage": "runtime", "rss_mib": 45.5}, {"stage": "model", "rss_mib": 57.5, "anon_mib": 26.0}]
    events = tuple(read_event(0, "engine-memory", "info", "engine", "words", data) for data in told)
    stages = document_of(Batch(events=events))["memory"]["stages"]
    assert stages == [
        {"anon_mib": None, "file_mib": None, "arena_mib": None, "arena_from": None, **data} for data in told
    ]


def test_memory_by_stage_is_rounded_as_any_figure() -> None:
    data = {"stage": "model", "rss_mib": 57.50049, "anon_mib": 26.0006, "file_mib": 31}
    told = read_event(0, "engine-memory", "info", "engine", "words", data)
    stages = document_of(Batch(events=(told,)))["memory"]["stages"]
    assert [known(stage) for stage in stages] == [
        {"stage": "model", "rss_mib": 57.5, "anon_mib": 26.001, "file_mib": 31.0}
    ]


def test_the_peak_of_memory_is_the_highest_that_anything_told() -> None:
    told = read_event(0, "engine-memory", "info", "engine", "words", {"stage": "steady", "rss_mib": 73.25})
    manifest = make_manifest(*map(make_sensor, ("mem/rss", "mem/rss-peak")))

    def peak(rss: float, rss_peak: float) -> float:
        batch = Batch(readings=make_readings((0, 0, rss), (0, 1, rss_peak)), events=(told,))
        return document_of(batch, manifest=manifest)["memory"]["rss_peak_mib"]

    assert (peak(27.0, 27.5), peak(80.0, 27.5), peak(27.0, 90.0)) == (73.25, 80.0, 90.0)


@pytest.mark.parametrize(("read_ns", "end_mib"), [(NS - 1, None), (NS, 27.0)])
def test_memory_at_the_end_is_not_that_before_the_measured_phase(read_ns: int, end_mib: float | None) -> None:
    readings = make_readings((read_ns, 0, 27.0))
    begun = Batch(2 * NS, readings=readings, events=(phase_event(NS, "measure"),), restart=True)
    analysis = folded((replace(begun, manifest=make_manifest(make_sensor("mem/rss"))),))
    assert report_document(analysis)["memory"]["rss_end_mib"] == end_mib


def test_memory_is_the_engines() -> None:
    memory = readings_of(("mem/rss", 90.0), ("mem/rss", 80.0), ("mem/rss-peak", 95.5), ("mem/rss-peak", 95.0))["memory"]
    assert known(memory) == {"rss_end_mib": 80.0, "rss_peak_mib": 95.5}


def test_a_throttle_flag_that_was_up_once_means_throttled() -> None:
    assert (
        readings_of(("throttle/thermal", 0.0), ("throttle/thermal", 1.0), ("throttle/thermal", 0.0))["throttled"]
        is True
    )
    assert readings_of(("throttle/thermal", 0.0))["throttled"] is False


def test_without_a_flag_the_throttled_share_is_as_unknown_as_whether_it_throttled() -> None:
    document = document_of(measured(1000))
    assert document["latency"]["count"] == 1000
    assert document["throttled"] is document["throttled_share"] is None


def test_a_sticky_flag_tells_of_before_the_run() -> None:
    assert readings_of(("throttle/under-voltage-sticky", 1.0))["throttled"] is None
    assert readings_of(("throttle/under-voltage-sticky", 1.0), ("throttle/under-voltage", 0.0))["throttled"] is False


def test_a_flag_that_was_never_read_is_not_known() -> None:
    assert readings_of(manifest_of=("throttle/thermal",))["throttled"] is None


def test_warnings_carry_code_message_and_advice() -> None:
    dropped = read_event(5, "records-lost", "critical", "engine", "7 inferences were not reported")
    (warning,) = document_of(Batch(events=(dropped,)))["warnings"]
    assert list(warning) == ["code", "message", "advice", "data"]
    assert (warning["code"], warning["message"]) == ("records-lost", "7 inferences were not reported")
    assert warning["advice"]


def test_a_reset_of_the_views_does_not_change_the_report() -> None:
    parts = [measured(100), Batch(5 * NS)]
    analysis = folded((Batch(manifest=make_manifest(), events=(phase_event(0, "measure"),)), *parts))
    before = report_document(analysis)
    analysis.reset()
    assert differences(report_document(analysis), before) == []


def values_in(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from values_in(item)
    else:
        yield value


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1_000), st.lists(st.floats(0, 1), max_size=10), st.integers(2, 300))
def test_a_report_from_the_recording_equals_the_live_runs(seed: int, cuts: list[float], count: int) -> None:
    session = make_session(seed, count=count, failures=0.05, sensors=SENSORS)
    cuts_ns = [int(cut * session.end_ns) for cut in cuts]
    live = report_document(folded(session.batches(cuts_ns)))
    recorded = report_document(folded(session.batches(range(0, session.end_ns, 600 * NS), single=False)))
    assert differences(live, recorded) == []
    assert live["latency"]["count"] > 0 or count < 20


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1_000), st.integers(1, 100))
def test_a_report_is_plain_json_without_not_a_number(seed: int, count: int) -> None:
    document = report_document(folded(make_session(seed, count=count + 3, sensors=SENSORS).batches()))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert {type(value) for value in values_in(document)} <= {str, int, float, bool, type(None)}


def test_power_is_the_totals_with_its_rails_beside_it() -> None:
    total = make_sensor("power/VDD_IN", role="total", accuracy="on-board-monitor")
    part = make_sensor("power/CPU", role="part", accuracy="firmware-estimate")
    rows = make_readings(*((i * NS, place, 5.0 - 3 * place + i) for i in range(3) for place in (0, 1)))
    batch = Batch(2 * NS, readings=rows, events=(phase_event(0, "measure"),))
    assert document_of(batch, manifest=make_manifest(total, part, make_sensor("power/dead")))["power"] == {
        "total_sensor": "power/VDD_IN",
        "mean_w": 6.0,
        "max_w": 7.0,
        "accuracy": "on-board-monitor",
        "rails": {"power/CPU": {"mean_w": 3.0, "max_w": 4.0, "accuracy": "firmware-estimate", "role": "part"}},
        "idle_w": None,
    }


def test_without_a_total_rails_are_reported_but_not_added_up() -> None:
    parts = [make_sensor(f"power/{name}", role="part") for name in ("a", "b")]
    rows = make_readings((0, 0, 1.0), (0, 1, 2.0), (NS, 0, 1.0), (NS, 1, 2.0))
    power = document_of(Batch(NS, readings=rows, events=(phase_event(0, "measure"),)), manifest=make_manifest(*parts))[
        "power"
    ]
    assert (power["total_sensor"], power["mean_w"], power["max_w"]) == (None, None, None)
    assert {name: figures["mean_w"] for name, figures in power["rails"].items()} == {"power/a": 1.0, "power/b": 2.0}


ENERGY = {
    "gross_mj", "net_mj", "ci95_mj", "net_ci95_mj", "net_reason", "covered", "sensor", "accuracy", "reason",
    "inferences_per_charge", "hours_per_charge", "battery_rate_hz", "battery_reason", "rails",
    "uncertainty", "net_uncertainty", "mlperf_power",
}  # fmt: skip


def test_energy_is_the_totals_with_its_interval_and_each_parts() -> None:
    total = make_sensor("power/VDD_IN", role="total", accuracy="on-board-monitor")
    part = make_sensor("power/CPU", role="part")
    rows = make_readings(*((i * NS, place, 5.0 - 3 * place) for i in range(61) for place in (0, 1)))
    batch = replace(measured(6000), readings=rows, until_ns=60 * NS)
    battery = Methodology(battery=Battery(5.0, 1000.0))
    energy = document_of(batch, manifest=make_manifest(total, part, methodology=battery))["energy"]
    assert set(energy) == ENERGY
    assert (energy["gross_mj"], energy["ci95_mj"], energy["net_mj"]) == (50.0, [50.0, 50.0], None)
    assert (energy["sensor"], energy["accuracy"], energy["reason"]) == ("power/VDD_IN", "on-board-monitor", None)
    assert (energy["hours_per_charge"], energy["inferences_per_charge"]) == (1.0, 360_000)
    assert energy["rails"]["power/CPU"]["gross_mj"] == 20.0
    assert (energy["uncertainty"]["statistical_mj"], energy["uncertainty"]["total_mj"]) == (0.0, None)
    assert energy["uncertainty"]["unknown"] == "the recording does not name the meter"
    assert energy["mlperf_power"]["like"] == ["performance-phase", "same-run"]
    assert "whole-system" in energy["mlperf_power"]["unlike"]


def test_the_uncertainty_of_energy_is_that_of_readings_and_meter() -> None:
    meter = Meter("ina3221", 0.005)
    total = replace(make_sensor("power/VDD_IN", role="total", accuracy="on-board-monitor"), meter=meter)
    random = np.random.default_rng(4)
    watts = random.normal(5, 0.3, 61).tolist()
    rows = make_readings(*((i * NS, place, value) for i in range(61) for place, value in ((0, watts[i]), (1, 5.0))))
    batch = replace(measured(6000), readings=rows, until_ns=60 * NS)
    document = document_of(batch, manifest=make_manifest(total, make_sensor("volt/VDD_IN")))
    energy = document["energy"]
    error, expected = energy["uncertainty"], meter_error(total, document["power"]["mean_w"], 5.0)
    assert isinstance(expected, MeterError)
    assert error["meter_mj"] == pytest.approx(expected.total_w * 10, rel=1e-3)  # 100 inferences a second
    assert error["parts"]["offset_mj"] == pytest.approx((expected.offset_w or 0) * 10, rel=1e-3)
    assert error["statistical_mj"] == pytest.approx((energy["ci95_mj"][1] - energy["ci95_mj"][0]) / 2, abs=1e-5)
    assert error["statistical_mj"] > 0
    assert error["total_mj"] == pytest.approx(math.hypot(error["statistical_mj"], error["meter_mj"]), rel=1e-4)
    assert (error["meter"], error["shunt_tolerance_assumed"], error["unknown"]) == ("ina3221", True, None)


def test_a_raspberry_pi_5_has_an_estimate_of_the_board_beside_the_sum() -> None:
    summed = replace(make_sensor("power/pmic-sum", accuracy="on-board-monitor"), meter=Meter("rpi5-pmic"))
    rows = make_readings((0, 0, 4.0), (NS, 0, 4.0))
    batch = Batch(NS, readings=rows, events=(phase_event(0, "measure"),))
    power = document_of(batch, manifest=make_manifest(summed))["power"]
    assert power["rails"]["power/pmic-sum"]["mean_w"] == 4.0
    assert power["board_estimate"] == {
        "rail": "power/pmic-sum", "mean_w": 5.168, "residual_w": 0.33, "beyond_fit": False,
    }  # fmt: skip


def test_without_a_total_no_energy_is_the_boards() -> None:
    energy = document_of(measured())["energy"]
    assert set(energy) == ENERGY
    assert energy["reason"] == "no sensor here tells what the whole board draws"


def test_the_energy_of_an_operator_is_its_share_by_time() -> None:
    total = make_sensor("power/VDD_IN", role="total")
    rows = make_readings(*((i * NS, 0, 5.0) for i in range(61)))
    told = read_event(NS, "profile-burst", "info", "engine", "", {"burst": 0, "runs": 1, "run_ns": 10 * MS})
    burst = burst_of(NS, 0, (Operator("a", "Conv", "CPU", 1, 30), Operator("b", "Relu", "CPU", 1, 10)))
    batch = replace(measured(6000), readings=rows, until_ns=60 * NS, bursts=(burst,))
    document = document_of(Batch(events=(told,)), batch, manifest=make_manifest(total))
    assert [operator["energy_mj_estimate"] for operator in document["operators"]] == [37.5, 12.5]


def test_what_is_left_is_to_the_nearer_limit() -> None:
    memory = readings_of(("mem/system-available", 700.0), ("mem/cgroup-left", 90.0))["memory"]
    assert memory["left_mib"] == 90.0


@pytest.mark.parametrize("tool", [7, -0.5, True, None])
def test_a_tool_that_has_no_name_printed_nothing(tool: float | None) -> None:
    """Events may come from anybody: their texts are texts only where they were checked."""
    event = read_event(0, "tool-summary", "info", "import", "", {"tool": tool, "p50_ms": 2.0, "count": 9})
    analysis = folded((Batch(manifest=make_manifest(), events=(event,), restart=True),))
    assert report_document(analysis)["latency"]["count"] == 0
    assert "as printed by" not in summary(report(analysis))
