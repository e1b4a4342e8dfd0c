"""Whole sessions, and the alerts that they come to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.alerts.alert import Alert, Overloaded
from edgetop.analysis.alerts.alert_rules import parse_rule
from edgetop.analysis.alerts.alerts import Incidents, Stalls
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.recent_events import LOGGED
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.verdict_reasons import State
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from edgetop.wording.alert_names import NAMES
from edgetop.wording.alert_words import alert_words
from edgetop.wording.event_words import worded
from edgetop.wording.report_document import report_document
from tests.support.sessions import (
    MS,
    differences,
    ended_event,
    folded,
    make_inferences,
    make_manifest,
    make_sensor,
    make_session,
    phase_event,
    seconds_of,
)
from tests.support.slow_sessions import analysed, session_of, stretch

HOT = stretch((40, 60.0), (40, 81.5), (40, 60.0))
RULE = read_event(0, "alert-rule", "info", "user", "alert if temp>80C for=30s", {"rule": "temp>80C for=30s"})


def with_events(batch: Batch, *events: Event) -> Analysis:
    analysis = Analysis()
    analysis.fold(Batch(events=events, manifest=batch.manifest, restart=True))
    analysis.fold(Batch(batch.until_ns, batch.inferences, batch.seconds, batch.readings, batch.events))
    return analysis


def of(analysis: Analysis, name: str) -> list[Alert]:
    return [alert for alert in reversed(analysis.alerts_view().newest_first) if alert.name == name]


def test_a_session_rule_is_judged_and_logged_with_figures() -> None:
    analysis = with_events(session_of([10.0] * 120, {"temp/soc": HOT}), RULE)
    [alert] = of(analysis, "alert")
    assert (alert.begin_ns // NS, alert.end_ns // NS if alert.end_ns else None) == (40, 80)
    log = [
        (event.t_ns // NS, event.kind, event.message) for event in map(worded, analysis.view(None).events.newest_first)
    ]
    assert log[:2] == [
        (80, "alert-ended", "over after 40.0s: temp>80C for=30s, 81.5 C at worst"),
        (40, "alert-began", "temp>80C for=30s"),
    ]
    assert report_document(analysis)["alerts"] == [
        {
            "event": "alert", "rule": "temp>80C for=30s", "severity": "warning", "message": "temp>80C for=30s",
            "begin_s": 40.0, "end_s": 80.0, "unit": "C", "min": 81.5, "mean": 81.5, "max": 81.5,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["ended", "recovered"])
def test_the_last_seconds_of_a_session_are_judged_at_its_end(kind: str) -> None:
    analysis = Analysis((parse_rule("temp>80C"),))
    session = session_of([10.0] * 3, {"temp/soc": [60.0, 81.5, 81.5]})
    analysis.fold(session)
    assert of(analysis, "alert") == []
    ended = ended_event(session.until_ns)
    over = replace(ended, body=replace(ended.body, kind=kind))
    analysis.fold(Batch(session.until_ns, events=(over,)))
    assert [alert.begin_ns // NS for alert in of(analysis, "alert")] == [1]


def test_a_rule_of_another_version_is_passed_over() -> None:
    analysis = with_events(
        session_of([10.0] * 20), read_event(0, "alert-rule", "info", "user", "", {"rule": "frobs>3"})
    )
    assert analysis.alerts_view().newest_first == ()


def test_a_viewer_may_bring_rules_of_his_own() -> None:
    analysis = Analysis((parse_rule("temp>80C"),))
    analysis.fold(session_of([10.0] * 120, {"temp/soc": HOT}))
    assert len(of(analysis, "alert")) == 1


def test_near_the_trip_is_told_and_not_at_it_for_a_moment() -> None:
    zone = stretch((40, 70.0), (3, 81.0), (20, 70.0), (20, 81.0), (37, 79.0))
    [alert] = of(analysed([10.0] * 120, {"temp/cpu-thermal": zone}), "near-trip")
    assert (alert.begin_ns // NS, alert.end_ns) == (63, None)  # 79 is not far enough below 85


def near_trip(*zone: tuple[int, float]) -> list[Alert]:
    celsius = stretch(*zone)
    return of(analysed([10.0] * len(celsius), {"temp/cpu-thermal": celsius}), "near-trip")


@pytest.mark.parametrize(("celsius", "count"), [(79.9, 0), (80.1, 1)])
def test_five_degrees_below_its_trip_a_zone_is_near_it(celsius: float, count: int) -> None:
    assert len(near_trip((40, 70.0), (40, celsius))) == count


@pytest.mark.parametrize(("seconds", "count"), [(4, 0), (5, 1)])
def test_five_seconds_near_its_trip_are_told(seconds: int, count: int) -> None:
    assert len(near_trip((40, 70.0), (seconds, 81.0), (40, 70.0))) == count


@pytest.mark.parametrize(("celsius", "is_over"), [(78.1, False), (77.9, True)])
def test_seven_degrees_below_its_trip_a_zone_is_cool_again(celsius: float, is_over: bool) -> None:
    (alert,) = near_trip((40, 70.0), (20, 81.0), (40, celsius))
    assert (alert.end_ns is not None) is is_over


def missed(*late: int, seconds: int = 240) -> list[Alert]:
    """Of twenty inferences a second, these take longer than the deadline."""
    t_ns = np.arange(seconds * 20) * (NS // 20)
    latency_ns = np.full(len(t_ns), 10 * MS)
    latency_ns[list(late)] = 50 * MS
    inferences, load = make_inferences(t_ns, latency_ns), Load(deadline_ns=33 * MS)
    aggregator = SecondAggregator(load.deadline_ns)
    whole = concatenate([aggregator.add(inferences), aggregator.close()])
    began, manifest = phase_event(0, "measure"), make_manifest(load=load)
    batch = Batch(seconds * NS, inferences, whole, events=(began,), manifest=manifest, restart=True)
    return of(folded([batch]), "misses")


@pytest.mark.parametrize(("every", "count"), [(105, 0), (95, 1)])
def test_one_inference_in_a_hundred_that_misses_is_told(every: int, count: int) -> None:
    assert len(missed(*range(0, 4_800, every))) == count


@pytest.mark.parametrize(("every", "is_over"), [(170, False), (205, True)])
def test_misses_are_over_with_one_in_two_hundred(every: int, is_over: bool) -> None:
    (alert,) = missed(*range(0, 2_400, 50), *range(2_400, 9_600, every), seconds=480)
    assert (alert.end_ns is not None) is is_over


@pytest.mark.parametrize(("apart_s", "count"), [(51, 0), (49, 1)])
def test_misses_are_told_after_ten_seconds(apart_s: int, count: int) -> None:
    """Thirteen of a minute are more than a percent: seven, and six others so much later."""
    first, second = 80 * 20, (80 + apart_s) * 20
    assert len(missed(*range(first, first + 7), *range(second, second + 6))) == count


def test_throttled_and_slowed_follow_from_slowdowns() -> None:
    latency = stretch((60, 10.0), (60, 14.0), (60, 10.0))
    hot = {
        "temp/cpu-thermal": stretch((60, 70.0), (60, 85.0), (60, 70.0)),
        "cooling/0-cpufreq-cpu0": stretch((60, 0.0), (60, 3.0), (60, 0.0)),
    }
    [alert] = of(analysed(latency, hot), "throttled")
    assert 58 <= alert.begin_ns // NS <= 62
    assert isinstance(alert.about, Slowdown)
    assert alert.about.latency_ratio == pytest.approx(1.4, abs=0.01)
    assert of(analysed(latency), "slowed")


def test_misses_are_told_while_they_are_more_than_a_percent() -> None:
    latency = stretch((60, 10.0), (20, 50.0), (120, 10.0))
    load = Load(deadline_ns=33_000_000)
    [alert] = of(analysed(latency, load=load), "misses")
    assert 60 <= alert.begin_ns // NS <= 61
    assert alert.end_ns
    assert 135 <= alert.end_ns // NS <= 140


def test_a_queue_without_end_is_told_and_when_it_has_drained() -> None:
    wait = stretch((20, 0.0)) + list(np.linspace(50, 5_000, 40)) + stretch((40, 0.0))
    analysis = analysed([10.0] * 100, load=Load(mode="fixed", rate_hz=20.0), wait_ms=wait)
    [alert] = of(analysis, "overloaded")
    assert (alert.begin_ns // NS, alert.end_ns // NS if alert.end_ns else None) == (
        21,
        60,
    )  # from when one inference waits
    assert isinstance(alert.about, Overloaded)
    assert alert.about.asked_hz == 20


def test_a_stall_is_told_while_it_lasts() -> None:
    session = session_of([10.0] * 20)
    analysis = with_events(session)
    analysis.fold(Batch(until_ns=40 * NS))
    [alert] = of(analysis, "stalled")
    assert (alert.begin_ns // NS, alert.end_ns) == (19, None)
    assert analysis.view(None).verdict.state is State.STALLED


def test_not_recorded_lasts_until_it_is_again() -> None:
    incidents = Incidents()
    full = read_event(5, "recording-failed", "critical", "edgetop", "not recorded", {"why": "the disk is full"})
    incidents.fold((full, full, read_event(9, "recording-restored", "info", "edgetop", "recorded again")))
    assert list(incidents.alerts) == [Alert("recording-failed", "critical", 5, 9, "the disk is full")]


@pytest.mark.parametrize(
    ("reason", "names"),
    [
        ("duration", ["ended"]),
        ("engine-died", ["engine-died", "ended"]),
        ("slo", ["gate-failed", "ended"]),
        ("input-error", []),
    ],
)
def test_how_a_session_ended_is_told(reason: str, names: list[str]) -> None:
    incidents = Incidents()
    incidents.fold((read_event(1, "engine-died", "critical", "engine", "SIGSEGV"), ended_event(2, reason)))
    assert [alert.name for alert in incidents.alerts] == names
    assert all(alert.about == "SIGSEGV" for alert in list(incidents.alerts)[:-1])


def test_several_things_hold_at_once() -> None:
    wait = stretch((20, 0.0)) + list(np.linspace(50, 5_000, 40)) + stretch((40, 0.0))
    load = Load(mode="fixed", rate_hz=20.0, deadline_ns=33_000_000)
    session = session_of([10.0] * 100, {"temp/cpu-thermal": [81.0] * 100}, load=load, wait_ms=wait)
    found = with_events(session).alerts_view().newest_first
    assert {alert.name for alert in found} == {"overloaded", "near-trip", "misses"}


def test_every_name_is_documented_and_every_logged_one_is_a_name() -> None:
    assert set(NAMES) >= LOGGED


@given(cuts=st.lists(st.integers(1, 40 * NS), max_size=20))
@settings(max_examples=8, deadline=None)
def test_cut_anywhere_the_alerts_are_the_same(cuts: list[int]) -> None:
    rules = tuple(map(parse_rule, ("temp>55C for=2s", "p50>18ms until=17ms", "max>30ms", "errors", "temp<50C")))
    zone = make_sensor("temp/soc", trips={"passive": 60.0})
    session = make_session(3, count=1_200, failures=0.01, sensors=(zone, make_sensor("temp/gpu")))

    def alerts(*cuts_ns: int) -> object:
        analysis = Analysis(rules)
        for batch in session.batches(cuts_ns):
            analysis.fold(batch)
            analysis.alerts_view()  # a look must change nothing
        return analysis.alerts_view()

    assert differences(alerts(*cuts), alerts()) == []


def test_in_words_the_worst_value_stands_with_what_is_the_matter() -> None:
    zone = stretch((40, 70.0), (20, 81.0), (20, 83.5), (40, 81.0))
    [alert] = of(analysed([10.0] * 120, {"temp/cpu-thermal": zone}), "near-trip")
    assert alert_words(alert) == "near-trip: a zone is within 5 C of throttling: 1.5 C"


def stalls_s(
    starts_s: list[int], latency_ms: float = 5, *, rest_s: int = 0, burst: tuple[int, int] | None = None
) -> list[tuple[int, int]]:
    stalls = Stalls()
    events: tuple[Event, ...] = ()
    if burst:
        data = {"duration_ns": burst[1] * NS}
        events = (read_event(burst[0] * NS, "profile-burst", "info", "engine", "a burst", data),)
    inferences = make_inferences(np.array(starts_s) * NS, np.full(len(starts_s), int(latency_ms * MS)))
    stalls.fold(Batch(seconds=seconds_of(inferences), events=events), rest_s * NS)
    return [(begin // NS, end // NS) for begin, end in stalls.spans]


def test_many_seconds_without_an_inference_are_a_stall() -> None:
    assert stalls_s([0, 1, 2, 9, 10]) == [(3, 9)]
    assert stalls_s([0, 1, 2, 8, 9]) == []


def test_a_slow_model_is_not_stalled() -> None:
    assert stalls_s([0, 1, 10, 19], latency_ms=900) == []
    assert stalls_s([0, 1, 12], latency_ms=900) == [(2, 12)]


def test_an_inference_much_longer_than_before_is_a_stall() -> None:
    stalls = Stalls()
    inferences = make_inferences(np.array([0, 1, 2, 42]) * NS, np.array([5, 5, 40_000, 5]) * MS)
    stalls.fold(Batch(seconds=seconds_of(inferences)), 0)
    assert list(stalls.spans) == [(3 * NS, 42 * NS)]


def test_rests_and_bursts_are_none() -> None:
    assert stalls_s([0, 1, 9], rest_s=8) == []
    assert stalls_s([0, 1, 9], burst=(2, 6)) == []


@given(cuts=st.lists(st.integers(0, 60), max_size=8))
@settings(max_examples=20, deadline=None)
def test_cut_anywhere_the_same_are_found(cuts: list[int]) -> None:
    starts = np.array([0, 1, 2, 9, 10, 30, 31, 32, 50, 51])
    seconds = seconds_of(make_inferences(starts * NS, np.arange(1, 11) * 100 * MS))
    stalls = Stalls()
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 61], strict=True):
        second = seconds.rows["t_ns"] // NS
        stalls.fold(Batch(seconds=seconds.where((second >= begin) & (second < end))), 0)
    assert [(begin // NS, end // NS) for begin, end in stalls.spans] == [(3, 9), (11, 30), (33, 50)]


def test_seconds_that_were_not_recorded_are_no_stall() -> None:
    seconds = seconds_of(make_inferences(np.array([0, 1, 2, 20, 21]) * NS, np.full(5, 5 * MS)))
    second = seconds.rows["t_ns"] // NS
    stalls = Stalls()
    stalls.fold(Batch(seconds=seconds.where((second < 5) | (second > 15))), 0)
    assert not stalls.spans
