"""Gates: how they are written, and each value with a limit that it keeps and one that it exceeds."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from edgetop.analysis import streams
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.energy import EnergyUnknown
from edgetop.analysis.miss_risk import MissRisk
from edgetop.analysis.provider_shares import FallbackReason, ProviderShare
from edgetop.analysis.recent_events import OutputFigures
from edgetop.analysis.refused_rule import Flaw, RefusedRuleError
from edgetop.analysis.report_generation import ContextFigures, GenerationFigures, TokenTimes
from edgetop.analysis.session_gates import METRICS, judge_gate, parse_gate
from edgetop.analysis.session_report import Report, report
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.seconds import NS
from edgetop.wording.gate_words import gate_document
from edgetop.wording.report_document import report_document
from tests.support.sessions import (
    MS,
    back_to_back,
    ended_event,
    folded,
    make_manifest,
    make_readings,
    make_sensor,
    phase_event,
    seconds_of,
)
from tests.support.slow_sessions import analysed, stretch

IDS = ("temp/cpu", "temp/gpu", "power/VDD_IN", "mem/rss-peak", "throttle/thermal")
SENSORS = [make_sensor(name, **({"role": "total"} if name == "power/VDD_IN" else {})) for name in IDS]


def report_of(count: int = 1_000, *, load: Load | None = None, throttled: float = 1.0, wait_ns: int = 0) -> Report:
    """Latencies of 1 to 20 ms in equal shares, one in twenty failed; 84 C and 71 C; 7.5 W; 300 MiB."""
    load = load or Load(deadline_ns=19 * MS)
    latency = [(1 + n % 20) * MS for n in range(count)]
    inferences = back_to_back(0, latency, wait_ns=wait_ns, ok=[n % 20 != 10 for n in range(count)])
    end_ns = int(sum(latency)) or NS
    rows = [(second * NS, i, v) for second in range(3) for i, v in enumerate((84.0, 71.0, 7.5, 300.0, throttled))]
    batch = Batch(
        end_ns,
        seconds=seconds_of(inferences, load.deadline_ns, is_paced=load.is_paced),
        readings=make_readings(*rows),
        events=(phase_event(0, "measure"), ended_event(end_ns, "duration", last_end_ns=end_ns)),
        manifest=make_manifest(*SENSORS, load=load),
        restart=True,
    )
    return report(folded([batch]))


REPORT = report_of()
# Steps of 1 ms up, one of 2 ms over the failed one, and one of 19 ms down.
JITTER_MS = 1.982086
NO_KERNEL = FallbackReason(text="no kernel for Shape", operators=1)
# What only longer sessions tell.
FULL = replace(
    REPORT,
    energy=replace(REPORT.energy, gross_mj=26.0),
    latency=replace(
        REPORT.latency, deadline=replace(REPORT.latency.deadline, risk=MissRisk(1.234e-5, (4e-6, 3e-5)))  # type: ignore[type-var]
    ),
    drift_ratio=1.12,
    providers=(
        ProviderShare(name="CUDA", asked=True, operators=7, share=0.875, fell_back=False, op_types=None, why=None),
        ProviderShare(name="CPU", asked=False, operators=1, share=0.125, fell_back=True, op_types={"Shape": 1},
                      why="others-lacked", reasons=(NO_KERNEL,)),
    ),
    outputs=OutputFigures(elements=40, non_finite=5, non_finite_share=0.125),
    memory=replace(REPORT.memory, growth_mib_per_h=2.5, leak=True),
    generation=GenerationFigures(
        requests=9, tokens_in=90, tokens_cached=0, tokens_out=900,
        ttft=TokenTimes(count=9, p50_ms=500.0, p90_ms=700.0, p99_ms=800.0, mean_ms=510.0, max_ms=801.0, settled=False),
        itl=TokenTimes(count=891, p50_ms=70.0, p90_ms=75.0, p99_ms=90.0, mean_ms=71.0, max_ms=95.0, settled=True),
        prefill_tok_s=60.0, decode_tok_s=12.5, total_tok_s=12.0, j_per_token=0.5, tokens_per_wh=7200.0,
        prefill_drift_ratio=None,
        prefill_energy=None, decode_energy=None, seen_by="engine", context=ContextFigures(size=512, used_max=110),
    ),
)  # fmt: skip


def test_a_failed_gate_on_the_fallback_has_the_runtimes_reasons() -> None:
    failed, passed = (judge_gate(parse_gate(text), FULL) for text in ("fallback>0%", "fallback>13%"))
    assert (failed.reasons, passed.reasons) == ((NO_KERNEL,), ())


@pytest.mark.parametrize(
    ("passes", "fails", "value"),
    [
        ("p50>11ms", "p50>9ms", 10.0),
        ("p90>0.02s", "p90>17000us", 19.0),
        ("p95>20.5ms", "p95>18.5ms", 20.0),
        ("p99>33ms", "p99>=19ms", 20.0),
        ("p999>21ms", "p999>19ms", 20.0),
        ("mean>11ms", "mean>10ms", 10.47),
        ("max>20.1ms", "max>19999us", 20.0),
        ("jitter>3ms", "jitter>1500us", JITTER_MS),
        ("non-finite>13%", "non-finite>12%", 12.5),
        ("non-finite>5", "non-finite", 5),
        ("fallback>13%", "fallback>12%", 12.5),
        ("ttft.p50>600ms", "ttft.p50>400ms", 500.0),
        ("ttft.p90>1s", "ttft.p90>0.6s", 0.7),
        ("ttft.p99>0.8s", "ttft.p99>=800ms", 800.0),
        ("ttft.mean>1s", "ttft.mean>500ms", 510.0),
        ("ttft.max>900ms", "ttft.max>800ms", 801.0),
        ("itl.p50>80ms", "itl.p50>60ms", 70.0),
        ("itl.p90>80ms", "itl.p90>60ms", 75.0),
        ("itl.p99>100ms", "itl.p99>80ms", 90.0),
        ("itl.mean>80ms", "itl.mean>70ms", 71.0),
        ("itl.max>100ms", "itl.max>90ms", 95.0),
        ("decode<12tok/s", "decode<13tok/s", 12.5),
        ("prefill<50tok/s", "prefill<=60tok/s", 60.0),
        ("energy>2J/token", "energy>499mJ/token", 500.0),
        ("misses>6%", "misses>5%", 5.263),
        ("misses>50", "misses>49", 50),
        ("misses<1", "misses", 50),
        ("miss-risk>1.3e-5", "miss-risk>1.1E-05", 1.234e-5),
        ("miss-risk>.01%", "miss-risk>1e-3%", 1.234e-3),
        ("rss>512MiB", "rss>0.25GiB", 300.0),
        ("temp>85C", "temp>80C", 84.0),
        ("power>8W", "power>7400mW", 7.5),
        ("energy>27mJ", "energy>25mJ", 26.0),
        ("drift>12.5%", "drift>10%", 12.0),
        ("leak>3MiB/h", "leak>1MiB/h", 2.5),
        ("errors>5%", "errors>4%", 5.0),
        ("errors>50", "errors", 50),
    ],
)
def test_a_gate_passes_within_its_limit_and_fails_beyond_it(passes: str, fails: str, value: float) -> None:
    kept, broken = (judge_gate(parse_gate(text), FULL) for text in (passes, fails))
    assert (kept.ok, broken.ok) == (True, False)
    unit = broken.gate.unit
    same_unit = {"us": 1e3, "mW": 1e3, "GiB": 2**-10}.get(unit, 1.0)
    assert broken.value == pytest.approx(value * same_unit, rel=0.01)


def test_throttled_is_a_condition_by_itself() -> None:
    gate = parse_gate("throttled")
    hot, cool = judge_gate(gate, REPORT), judge_gate(gate, report_of(throttled=0.0))
    assert (hot.value, hot.ok) == (True, False)
    assert (cool.value, cool.ok) == (False, True)


@pytest.mark.parametrize("name", METRICS)
def test_as_it_stands_on_the_screen_it_is_as_the_report_has_it(name: str) -> None:
    analysis = analysed(stretch((60, 10.0), (30, 14.0)), {"throttle/thermal": stretch((60, 0.0), (30, 1.0))})
    analysis.gates = (parse_gate(METRICS[name].example),)
    (live,) = analysis.view(None).gates
    assert [gate_document(live)] == report_document(analysis)["gates"]


@pytest.mark.parametrize(("gate", "computations"), [("p99>33ms", 0), ("misses>1", 0), ("miss-risk>1e-5", 1)])
def test_a_live_gate_computes_the_risk_of_a_miss_only_if_it_limits_it(
    gate: str, computations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = Mock(return_value=MissRisk(1e-6, (1e-7, 1e-5)))
    monkeypatch.setattr(streams, "miss_risk", computed)
    load = Load(deadline_ns=33 * MS)
    batch = Batch(
        NS,
        seconds=seconds_of(back_to_back(0, [10 * MS] * 100), load.deadline_ns),
        manifest=make_manifest(load=load),
        restart=True,
    )
    analysis = folded([batch])
    analysis.gates = (parse_gate(gate),)
    assert analysis.view(None).gates[0].ok
    assert computed.call_count == computations


def test_every_name_is_exercised_above() -> None:
    latency = {"p50", "p90", "p95", "p99", "p999", "mean", "max", "jitter"}
    others = {
        "fallback",
        "misses",
        "miss-risk",
        "non-finite",
        "rss",
        "temp",
        "power",
        "energy",
        "throttled",
        "drift",
        "leak",
    }
    tokens = {f"{kind}.{key}" for kind in ("ttft", "itl") for key in ("p50", "p90", "p99", "mean", "max")}
    assert set(METRICS) == {*latency, *others, *tokens, "leak", "errors", "decode", "prefill"}


NOTHING = report(folded([Batch(manifest=make_manifest(), restart=True)]))


@pytest.mark.parametrize("name", [name for name in METRICS if name != "errors"])
def test_an_unknown_value_fails_and_not_for_sure(name: str) -> None:
    result = judge_gate(parse_gate(METRICS[name].example), NOTHING)
    assert (result.value, result.ok, result.fails_for_sure) == (None, False, False)
    assert result.unknown == (EnergyUnknown("no-total") if name == "energy" else None)


def test_growth_that_is_no_leak_fails_no_gate() -> None:
    grown = replace(FULL, memory=replace(FULL.memory, leak=False))
    result = judge_gate(parse_gate("leak>1MiB/h"), grown)
    assert (result.value, result.ok) == (0.0, True)


def test_drift_is_that_of_a_session_that_became_slower() -> None:
    slower = report(analysed(stretch((60, 10.0), (80, 12.0))))
    results = [judge_gate(parse_gate(f"drift>{limit}%"), slower) for limit in (18, 22)]
    assert [result.ok for result in results] == [False, True]
    assert results[0].value == pytest.approx(20, abs=1)


def test_under_a_paced_load_response_time_counts() -> None:
    load = Load(mode="fixed", rate_hz=30.0, deadline_ns=19 * MS)
    result = judge_gate(parse_gate("max>33ms"), report_of(load=load, wait_ns=20 * MS))
    assert (result.ok, result.value, result.is_response) == (False, 40.0, True)


def test_too_few_inferences_fail_nothing_for_sure() -> None:
    result = judge_gate(parse_gate("p99>1ms"), report_of(100))
    assert (result.ok, result.fails_for_sure) == (False, False)
    assert (result.is_settled, result.count) == (False, 95)
    assert judge_gate(parse_gate("p99>1ms"), REPORT).fails_for_sure
    assert judge_gate(parse_gate("max>1ms"), report_of(100)).fails_for_sure


@pytest.mark.parametrize(
    ("text", "flaw", "name", "value"),
    [
        ("p98>33ms", Flaw.UNKNOWN_NAME, "p98", ""),
        ("p99>33", Flaw.NO_UNIT, "p99", ""),
        ("p99>33mJ", Flaw.WRONG_UNIT, "p99", "mJ"),
        ("temp>80F", Flaw.WRONG_UNIT, "temp", "F"),
        ("p99", Flaw.NO_LIMIT, "p99", ""),
        ("throttled>1", Flaw.NEEDS_NO_LIMIT, "throttled", ""),
        ("p99=33ms", Flaw.NO_RULE, "", ""),
        ("p99>ms", Flaw.NO_RULE, "", ""),
        ("", Flaw.NO_RULE, "", ""),
        ("p99>1e9999ms", Flaw.NO_RULE, "", ""),
        ("power[det]>1W", Flaw.NOT_PER_STREAM, "power", ""),
        ("temp[ ]>3C", Flaw.NOT_PER_STREAM, "temp", ""),
        ("p99[]>3ms", Flaw.EMPTY_STREAM, "p99", ""),
    ],
)
def test_what_is_no_gate_is_refused_with_the_flaw(text: str, flaw: Flaw, name: str, value: str) -> None:
    with pytest.raises(RefusedRuleError) as refused:
        parse_gate(text)
    assert (refused.value.flaw, refused.value.name, refused.value.value) == (flaw, name, value)


def test_spaces_do_not_matter() -> None:
    assert judge_gate(parse_gate(" p99 > 33 ms "), REPORT).ok


def gate_event(text: str) -> Event:
    return read_event(0, "gate", "info", "user", f"fails if {text}", {"expr": text})


def test_the_gates_of_a_recording_are_judged_by_its_report() -> None:
    events = (gate_event("p99>33ms"), gate_event("max>1ms"), phase_event(0, "measure"))
    inferences = back_to_back(0, [5 * MS] * 100)
    batch = Batch(NS, seconds=seconds_of(inferences), events=events, manifest=make_manifest(), restart=True)
    gates = report_document(folded([batch]))["gates"]
    assert [(gate["expr"], gate["value"], gate["ok"]) for gate in gates] == [
        ("p99>33ms", pytest.approx(5.0, rel=0.01), True),
        ("max>1ms", 5.0, False),
    ]


def test_a_gate_that_this_version_does_not_know_is_passed_over() -> None:
    analysis = Analysis()
    analysis.fold(Batch(events=(gate_event("p42>7 furlongs"),), manifest=make_manifest(), restart=True))
    assert analysis.gates == ()
