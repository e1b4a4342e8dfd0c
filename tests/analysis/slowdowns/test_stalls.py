"""A process that is stopped, by its CPU quota or by others, for longer than an inference takes: p50 hides it."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.slowdown import Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.verdict_reasons import State
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, EngineInfo, Watched
from edgetop.session.records import NO_INFERENCES, Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from edgetop.wording import verdict_words
from tests.support.generator.score import score
from tests.support.generator.stops import CONTENTION, QUOTA, generate_stops
from tests.support.sessions import MS, differences, ended_event, folded, make_inferences, make_manifest, phase_event
from tests.support.slow_sessions import readings_of, sensor, session_of, stretch
from tests.support.thorough import mostly_thorough

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


EARLY = [(6.0, 0.0005), (15.3, 0.002), (28.0, 0.03)]
WIDER = [(begin_s, latency_s) for begin_s in (5.0, 8.5, 22.0, 31.0, 58.0) for latency_s in (20e-6, 0.002, 0.05)]


@pytest.mark.parametrize("cause", [QUOTA, CONTENTION])
@pytest.mark.parametrize("case", mostly_thorough([*EARLY, *WIDER], *EARLY))
def test_a_burst_ends_before_stops_begin(case: tuple[float, float], cause: str) -> None:
    begin_s, latency_s = case
    found = score([generate_stops(1, cause, begin_s=begin_s, latency_s=latency_s)])
    assert found.confusion == {(cause, cause): 1}, found.faults
    assert (found.start_share, found.false) == (1, 0), found.faults


def test_a_burst_begins_after_stops_end() -> None:
    view = stops_view(begin_s=0.0, until_s=14.0)
    assert not view.slowdowns
    assert view.burst is not None
    assert view.burst.from_s == pytest.approx(14, abs=2)


@pytest.mark.parametrize("until_s", [25.0, None])
def test_stops_all_along_are_usual_and_no_part_of_the_median(until_s: float | None) -> None:
    """In a session that is too short for a burst, too."""
    view = stops_view(begin_s=0.0, end_s=until_s)
    assert not view.slowdowns
    assert view.burst is not None
    assert view.burst.p50_ns == pytest.approx(2 * MS, rel=0.02)
    assert (view.burst.to_s == 25) == (until_s is not None)


def stops_view(*, begin_s: float, until_s: float | None = None, end_s: float | None = None) -> SlowdownsView:
    """The slowdowns of a session, up to `end_s`, whose quota stops its engine from `begin_s` to `until_s`."""
    whole = generate_stops(2, "cpu-quota", begin_s=begin_s, until_s=until_s, latency_s=0.002)
    fold = Slowdowns()
    fold.fold(next(whole.batches((end_s,) if end_s else ())))
    return fold.view()


@pytest.mark.parametrize("cause", [QUOTA, CONTENTION])
def test_a_session_with_early_stops_is_judged_alike_however_it_came(cause: str) -> None:
    session = generate_stops(4, cause, begin_s=17.0, latency_s=0.003)
    live, whole = Slowdowns(), Slowdowns()
    for batch in session.batches(tuple(range(1, int(session.end_s)))):
        live.fold(batch)
        live.view()  # a look must change nothing
    whole.fold(next(session.batches()))
    assert differences(live.view(), whole.view()) == []


@pytest.mark.parametrize("watched", [None, Watched(("./program",))])
def test_sensors_that_come_during_a_slowdown_count_as_if_they_had_been_there(watched: Watched | None) -> None:
    """A recording has them from the start, without readings."""
    others = {"rate/run-queue-wait": stretch((40, 0.0), (60, 300.0)), "load/others": stretch((40, 0.0), (60, 60.0))}
    late = {name: [*[np.nan] * 69, 0.0, *[value] * 30] for name, value in BY_QUOTA.items()}
    whole = session_of(stretch((40, 10.0), (30, 12.5), (30, 25.0)), {**others, **late}, rate_hz=30)
    assert whole.manifest
    known = replace(whole.manifest, watched=watched)
    cut_ns = 70 * NS
    is_early, was_early = whole.seconds.rows["t_ns"] < cut_ns, whole.readings["t_ns"] < cut_ns - NS
    live = [
        Batch(
            cut_ns, seconds=whole.seconds.where(is_early), readings=whole.readings[was_early],
            events=whole.events, manifest=replace(known, sensors=known.sensors[: len(others)]), restart=True,
        ),
        Batch(
            whole.until_ns, seconds=whole.seconds.where(~is_early), readings=whole.readings[~was_early], manifest=known
        ),
    ]  # fmt: skip
    found = slowdowns(folded(live))
    assert [one.cause for one in found] == ["contention", "cpu-quota"]
    replayed = slowdowns(folded([replace(whole, manifest=known, inferences=NO_INFERENCES)]))
    assert differences(found, replayed) == []
