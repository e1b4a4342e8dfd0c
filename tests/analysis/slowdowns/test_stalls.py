"""A process that is stopped, by its CPU quota or by others, for longer than an inference takes: p50 hides it."""

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.verdict_reasons import State
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, EngineInfo
from edgetop.session.records import Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from edgetop.wording import verdict_words
from tests.support.sessions import MS, ended_event, folded, make_inferences, make_manifest, phase_event
from tests.support.slow_sessions import readings_of, sensor, stretch

HEALTHY, STOPPED = 60, 30
LENGTH_S = HEALTHY + STOPPED
BY_QUOTA = {"pressure/cpu-quota": 100.0, "rate/cpu-throttled": 250.0}
BY_OTHERS = {"rate/run-queue-wait": 400.0, "load/others": 40.0, "load/engine": 60.0, "load/cpu": 100.0}
UNMEASURED = {"pressure/cpu-quota": 100.0}


def back_to_back(stop_ms: float, every_ms: float, latency_ms: float = 2.0) -> Inferences:
    """Inferences without a pause, which a stop of `stop_ms` in each `every_ms` hits during the last 30 s."""
    start_ns, latency_ns, now_ns = [], [], 0
    random = np.random.default_rng(3)
    next_stop_ns = HEALTHY * NS
    while now_ns < LENGTH_S * NS:
        takes = int(latency_ms * MS * np.exp(random.normal(0, 0.01)))
        if now_ns + takes > next_stop_ns:
            takes, next_stop_ns = takes + int(stop_ms * MS), next_stop_ns + int(every_ms * MS)
        start_ns.append(now_ns)
        latency_ns.append(takes)
        now_ns += takes
    return make_inferences(np.array(start_ns), np.array(latency_ns))


def session(
    sensors: dict[str, float], stop_ms: float = 25.0, every_ms: float = 100.0, *end: Event, before: float = 0.0
) -> Batch:
    """The sensors have `before` of their value in the healthy minute, and all of it when the process is stopped."""
    inferences = back_to_back(stop_ms, every_ms)
    aggregator = SecondAggregator(None, is_paced=False)
    values = {name: stretch((HEALTHY, before * value), (STOPPED, value)) for name, value in sensors.items()}
    if "load/engine" in values:
        values["load/engine"][:HEALTHY] = values["load/cpu"][:HEALTHY] = stretch((HEALTHY, 100.0))
    return Batch(
        until_ns=LENGTH_S * NS,
        inferences=inferences,
        seconds=concatenate([aggregator.add(inferences), aggregator.close()]),
        readings=readings_of(values),
        events=(phase_event(0, "measure"), *end),
        manifest=make_manifest(
            *map(sensor, values), board=Board(cores=1), engine=EngineInfo(threads=1), load=Load(),
        ),
        restart=True,
    )  # fmt: skip


def slowdowns(analysis: Analysis) -> tuple[Slowdown, ...]:
    return analysis.slowdowns_view().slowdowns


@pytest.mark.parametrize(
    ("sensors", "stop_ms", "cause"),
    [(BY_QUOTA, 25.0, "cpu-quota"), (UNMEASURED, 25.0, "cpu-quota"), (BY_OTHERS, 40.0, "contention")],
)
def test_stops_that_hit_one_inference_of_forty_are_a_slowdown_with_its_cause(
    sensors: dict[str, float], stop_ms: float, cause: str
) -> None:
    (found,) = slowdowns(folded([session(sensors, stop_ms)]))
    assert (found.cause, found.from_start, found.end_ns) == (cause, False, None)
    assert found.start_ns / NS == pytest.approx(HEALTHY, abs=2)
    assert found.latency_ratio == pytest.approx(100 / (100 - stop_ms), rel=0.03)  # so many fewer are done


def test_the_present_verdict_says_that_the_mean_rose() -> None:
    verdict = folded([session(BY_QUOTA)]).view(LENGTH_S * NS).verdict
    assert (verdict.state, verdict.is_of_mean) == (State.SLOWED, True)
    assert verdict.p50_change == pytest.approx(1 / 3, abs=0.03)
    assert "mean +3" in verdict_words.first(verdict)
    told = verdict_words.headline(verdict, LENGTH_S * NS)
    assert (told.figure[:6], told.figure[-8:], told.brief[:7]) == ("mean 3", "% slower", "mean +3")


def test_a_session_that_is_over_says_that_it_was_slowed() -> None:
    verdict = folded([session(BY_QUOTA, 25.0, 100.0, ended_event(LENGTH_S * NS))]).view(LENGTH_S * NS).verdict
    assert [past.state for past in verdict.past if hasattr(past, "state")] == [State.SLOWED]


def test_outliers_without_a_stop_are_no_slowdown() -> None:
    assert not slowdowns(folded([session(dict.fromkeys(BY_QUOTA, 0.0))]))


def test_short_stops_do_not_explain_long_outliers() -> None:
    assert not slowdowns(folded([session({**BY_QUOTA, "rate/cpu-throttled": 40.0})]))


def test_stops_as_in_the_burst_do_not_explain_outliers_that_come_later() -> None:
    assert not slowdowns(folded([session(BY_QUOTA, before=1.0)]))


def test_where_p50_itself_rises_it_decides() -> None:
    """Stops as frequent as inferences raise the median as far as the mean."""
    (found,) = slowdowns(folded([session(BY_QUOTA, stop_ms=0.66, every_ms=2.0)]))
    verdict = folded([session(BY_QUOTA, stop_ms=0.66, every_ms=2.0)]).view(LENGTH_S * NS).verdict
    assert found.cause == "cpu-quota"
    assert not verdict.is_of_mean
