"""Each threshold of a comparison, on both of its sides."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from edgetop.analysis.report_parts import Temperature
from edgetop.comparison.fairness import fairness, warmth
from edgetop.comparison.figures import FIGURES, Figure
from edgetop.comparison.ratios import compare, judged
from edgetop.comparison.sample import Group, Sample, sample
from edgetop.comparison.student import Contrast, Side, contrast
from edgetop.session.batch import Batch
from edgetop.session.manifest import Methodology
from edgetop.session.seconds import NS
from tests.support.compared import made_manifest
from tests.support.sessions import MS, ended_event, folded, make_inferences, phase_event, seconds_of

ZONE = "temp/cpu"


@cache
def constant(latency_ms: float = 10.0) -> Sample:
    """A session of a minute in which each inference took as long."""
    t_ns = np.arange(0, 60 * NS, 25 * MS)
    inferences = make_inferences(t_ns, np.full(len(t_ns), round(latency_ms * MS)))
    manifest = made_manifest(f"run-{latency_ms}", round(1_000 * latency_ms), 45.0, 60)
    ended = ended_event(60 * NS, "duration", last_end_ns=60 * NS, warmup_runs=50)
    batch = Batch(60 * NS, seconds=seconds_of(inferences), events=(phase_event(0, "measure"), ended), manifest=manifest)
    return sample(folded((batch,)))


def with_methodology(**changes: object) -> Sample:
    one = constant()
    methodology = Methodology(**{"warmup_runs": 50, "start_temperatures": {ZONE: 45.0}, **changes})  # type: ignore[arg-type]
    return replace(one, report=replace(one.report, session=replace(one.session, methodology=methodology)))


def codes(*samples: Sample) -> set[str]:
    return {notice.code for notice in fairness([Group(f"group {n}", (one,)) for n, one in enumerate(samples)])}


@pytest.mark.parametrize(("start_c", "differs"), [(46.9, False), (47.1, True)])
def test_starts_two_degrees_apart_differ(start_c: float, differs: bool) -> None:
    other = with_methodology(start_temperatures={ZONE: start_c})
    assert ("start-temperature-differs" in codes(with_methodology(), other)) is differs


@pytest.mark.parametrize(("ambient_c", "differs"), [(20.9, False), (21.1, True)])
def test_rooms_a_degree_apart_differ(ambient_c: float, differs: bool) -> None:
    found = codes(with_methodology(ambient_c=20.0), with_methodology(ambient_c=ambient_c))
    assert ("ambient-differs" in found) is differs


@pytest.mark.parametrize(("runs", "differs"), [(99, False), (101, True)])
def test_twice_as_many_warm_up_runs_differ(runs: int, differs: bool) -> None:
    assert ("warm-up-differs" in codes(with_methodology(), with_methodology(warmup_runs=runs))) is differs


@pytest.mark.parametrize(("seconds", "differs"), [(74, False), (76, True)])
def test_a_measurement_that_is_a_quarter_longer_differs(seconds: int, differs: bool) -> None:
    one = constant()
    assert one.report.usage is not None
    usages = [replace(one.report.usage, total_time_ms=1e3 * time_s) for time_s in (60, seconds)]
    assert (
        "duration-differs" in codes(*(replace(one, report=replace(one.report, usage=of)) for of in usages))
    ) is differs


@pytest.mark.parametrize(("mhz", "differs"), [(1_783, False), (1_781, True)])
def test_caps_one_percent_apart_differ(mhz: float, differs: bool) -> None:
    caps = [replace(constant(), caps_mhz={"freqcap/cpu0": limit}) for limit in (1_800, mhz)]
    assert ("cap-differs" in codes(*caps)) is differs


@pytest.mark.parametrize(("percent", "is_load"), [(9.9, False), (10.1, True)])
def test_other_processes_load_the_board_from_a_tenth_of_a_core_on(percent: float, is_load: bool) -> None:
    assert ("background-load" in codes(constant(), replace(constant(), others_pct=percent))) is is_load


@pytest.mark.parametrize(("start_c", "share"), [(74.0, 2.9), (85.0, 3.0)])
def test_a_start_is_at_most_three_times_as_much_warmer_as_the_board_warms_up(start_c: float, share: float) -> None:
    one, other = with_methodology(), with_methodology(start_temperatures={ZONE: start_c})
    zone = Temperature(45.0, 50.0, 55.0, 55.0)
    warmed = replace(one, report=replace(one.report, temperature={ZONE: zone}))
    assert warmth(warmed, other) == pytest.approx(share)


# Between two sessions, the least that a difference may be depends on what runs of one thing are known to differ by.


def verdict(one: Sample, other: Sample) -> str:
    row = compare([Group("one", (one,)), Group("other", (other,))]).row("p50_ms")
    assert row is not None
    assert row.ratios[1] is not None
    return row.ratios[1].verdict


@pytest.mark.parametrize(("times", "expected"), [(1.033, "unknown"), (1.037, "slower")])
def test_runs_of_one_thing_differ_by_one_percent(times: float, expected: str) -> None:
    """By t with six degrees of freedom, for two of them."""
    assert verdict(constant(), constant(10 * times)) == expected


@pytest.mark.parametrize(("times", "expected"), [(3.8, "unknown"), (4.2, "slower")])
def test_without_quarters_a_factor_of_four_is_a_difference(times: float, expected: str) -> None:
    blind = [replace(one, quarters={}) for one in (constant(), constant(10 * times))]
    assert verdict(*blind) == expected


def figure(key: str) -> Figure:
    return next(one for one in FIGURES if one.key == key)


@pytest.mark.parametrize(("half", "expected"), [(0.0095, "same"), (0.0105, "unknown")])
def test_shares_are_the_same_within_a_point(half: float, expected: str) -> None:
    found = Contrast(0.0, half / 1.96, 1e9)
    assert judged(found, 0.1, 0.1, figure("miss_rate")).verdict == expected


@pytest.mark.parametrize(("half", "expected"), [(0.048, "same"), (0.052, "unknown")])
def test_latencies_are_the_same_within_five_percent(half: float, expected: str) -> None:
    found = Contrast(0.0, math.log1p(half) / 1.96, 1e9)
    assert judged(found, 2.3, 2.3, figure("p50_ms")).verdict == expected


@pytest.mark.parametrize(("variance", "freedom"), [(8.9, 4), (9.1, 2.43)])
def test_variances_are_alike_up_to_nine_times_as_much(variance: float, freedom: float) -> None:
    wide = math.sqrt(variance)
    found = contrast(Side([-1.0, 0.0, 1.0]), Side([-wide, 0.0, wide]))
    assert found is not None
    assert found.freedom == pytest.approx(freedom, abs=0.01)


def test_the_quarters_of_two_sessions_have_six_degrees_of_freedom() -> None:
    found = contrast(Side([1.0], 0.3), Side([2.0], 0.4))
    assert found is not None
    assert found.interval()[1] - 1.0 == pytest.approx(0.5 * 2.447, abs=0.001)
