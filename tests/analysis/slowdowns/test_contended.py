"""Others that take the CPU from the first moment on: there is no rise to see, and yet it is so."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.alerts.alerts import Findings, derived_alerts
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.from_start import OTHERS, PRESSURE, STEAL, WAIT
from edgetop.analysis.slowdowns.slowdown import SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, Constraints, EngineInfo, Watched
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.sessions import folded, make_manifest
from tests.support.slow_sessions import sensor, session_of, stretch

LENGTH_S = 60
TEN = stretch((LENGTH_S, 10.0))
CLOSED, PACED = Load(), Load(mode="fixed", rate_hz=20.0)
PROGRAM = Watched(("app",))


def named(second: int, name: str, percent: float) -> Event:
    data = {"name": name, "cpu_pct": percent}
    return read_event(second * NS, "competing", "info", "sensors", f"{name} {percent}", data)


def session(
    sensors: dict[str, list[float]],
    latency_ms: list[float] = TEN,
    *,
    cores: int | None = 2,
    threads: int = 0,
    cpus: float | None = None,
    load: Load = CLOSED,
    names: tuple[Event, ...] = (),
    watched: Watched | None = None,
) -> Batch:
    batch = session_of(latency_ms, sensors, load=load)
    manifest = make_manifest(
        *map(sensor, sensors), board=Board(cores=cores), engine=EngineInfo(threads=threads), load=load,
        constraints=Constraints(cpus=cpus), watched=watched,
    )  # fmt: skip
    changed = {field: getattr(batch, field) for field in ("until_ns", "inferences", "seconds", "readings", "restart")}
    return Batch(**changed, events=(*batch.events, *names), manifest=manifest)


def view_of(batch: Batch) -> SlowdownsView:
    fold = Slowdowns()
    fold.fold(batch)
    return fold.view()


def flat(**values: float) -> dict[str, list[float]]:
    """`load_cpu=40` is `load/cpu` at 40 % all along."""
    return {name.replace("__", "-").replace("_", "/", 1): stretch((LENGTH_S, value)) for name, value in values.items()}


CONTENDED = {
    "five burners on two cores": (
        flat(load_others=165, load_engine=33, load_cpu=199, pressure_cpu__some=100, rate_run__queue__wait=630),
        {}, (OTHERS, 165)),
    "the same without the scheduler's account": (
        flat(load_others=165, load_engine=33, load_cpu=199, pressure_cpu__some=100), {}, (OTHERS, 165)),
    "the load of the system alone": (flat(load_cpu=199, load_engine=33, load_edgetop=2), {}, (OTHERS, 164)),
    "cores that nobody counted": (flat(load_others=165, load_engine=33), {"cores": None}, (OTHERS, 165)),
    "pressure alone": (flat(pressure_cpu__some=96), {}, (PRESSURE, 96)),
    "pressure beside an engine": (flat(pressure_cpu__some=96, load_engine=50), {}, (PRESSURE, 96)),
    "waits alone": (flat(rate_run__queue__wait=600), {}, (WAIT, 600)),
    "waits of one thread that is held to a CPU of eight": (
        flat(load_others=100, load_engine=50, load_cpu=151, rate_run__queue__wait=500),
        {"cores": 8, "threads": 1}, (OTHERS, 100)),
    "steal": (flat(load_steal=40, load_cpu=160, load_engine=150, rate_run__queue__wait=2), {}, (STEAL, 40)),
    "many threads, and others beside": (
        flat(load_others=100, load_engine=98, load_cpu=199, rate_run__queue__wait=2900),
        {"threads": 4}, (OTHERS, 100)),
    "a paced model": (
        flat(load_others=190, load_engine=10, rate_run__queue__wait=80), {"load": PACED}, (OTHERS, 190)),
    "others beside a quota": (
        flat(load_others=190, load_engine=30, load_cpu=199, rate_run__queue__wait=900, rate_cpu__throttled=300),
        {}, (OTHERS, 190)),
    "a program whose calls wait": (
        flat(load_others=190, load_engine=10, rate_run__queue__wait=80, rate_call__run__queue__wait=400),
        {"watched": PROGRAM}, (OTHERS, 190)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENDED)
def test_it_is_contended_from_the_start(name: str) -> None:
    sensors, setting, taken = CONTENDED[name]
    view = view_of(session(sensors, **setting))
    (one,) = view.slowdowns
    assert (one.start_ns, one.end_ns, one.cause, one.from_start) == (0, None, "contention", True)
    assert one.confidence >= 0.9
    assert one.evidence
    assert view.now is one
    assert view.contended_now is not None
    assert (view.contended_now.name, round(view.contended_now.value or 0)) == taken


NOT_CONTENDED = {
    "an idle desktop": (
        flat(load_others=18, load_engine=100, load_cpu=121, pressure_cpu__some=6, rate_run__queue__wait=9),
        {"cores": 8}),
    "a paced model on an idle desktop": (
        flat(load_others=12, load_engine=3, load_cpu=18, pressure_cpu__some=3, rate_run__queue__wait=6),
        {"cores": 8, "load": PACED}),
    "threads that fill all cores by themselves": (
        flat(load_others=4, load_engine=196, load_cpu=200, pressure_cpu__some=70, rate_run__queue__wait=90), {}),
    "more threads than cores": (
        flat(load_others=4, load_engine=196, load_cpu=200, pressure_cpu__some=100, rate_run__queue__wait=1900),
        {"threads": 4}),
    "the same in a container that sees no others": (
        flat(load_engine=196, pressure_cpu__some=100, rate_run__queue__wait=1900), {"threads": 4}),
    "a container's quota": (
        flat(load_engine=99, pressure_cpu__some=100, rate_run__queue__wait=900),
        {"threads": 2, "cores": 8, "cpus": 1.0}),
    "a quota beside the load of others": (
        flat(load_others=120, load_engine=50, load_cpu=172, pressure_cpu__some=50, rate_run__queue__wait=490,
             pressure_cpu__quota=100, rate_cpu__throttled=480), {}),
    "the same in a recording without throttled time": (
        flat(load_others=120, load_engine=50, load_cpu=172, pressure_cpu__some=50, rate_run__queue__wait=490,
             pressure_cpu__quota=100), {}),
    "a quota without the scheduler's account": (
        flat(load_others=140, load_engine=50, load_cpu=192, pressure_cpu__some=60, rate_cpu__throttled=480), {}),
    "a program whose calls are stopped by its container's quota": (
        flat(load_others=120, load_engine=50, rate_run__queue__wait=490, rate_call__run__queue__wait=480,
             rate_cpu__throttled=480), {"watched": PROGRAM}),
    "more threads than cores, with nothing but their waits": (flat(rate_run__queue__wait=1900), {"threads": 4}),
    "others on the cores that it leaves": (
        flat(load_others=100, load_engine=99, load_cpu=200, pressure_cpu__some=40, rate_run__queue__wait=12),
        {"threads": 1}),
    "the same without the scheduler's account": (
        flat(load_others=100, load_engine=99, load_cpu=200, pressure_cpu__some=40), {"threads": 1}),
    "others that wait for each other": (
        flat(load_others=100, load_engine=100, load_cpu=201, pressure_cpu__some=99, rate_run__queue__wait=10), {}),
    "a paced model beside a busy core": (
        flat(load_others=100, load_engine=20, load_cpu=122, pressure_cpu__some=30), {"load": PACED}),
    "cores that nobody counted, and a paced model": (
        flat(load_others=60, load_engine=20), {"cores": None, "load": PACED}),
    "a program of which other threads wait, and no calls": (
        flat(load_others=190, load_engine=10, rate_run__queue__wait=80, rate_call__run__queue__wait=30),
        {"watched": PROGRAM}),
    "a program that is not busy, without the scheduler's account": (
        flat(load_others=190, load_engine=10, load_cpu=200, pressure_cpu__some=60), {"watched": PROGRAM}),
    "a little stolen": (flat(load_steal=4, load_cpu=110, load_engine=100), {}),
    "nothing known": ({}, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_CONTENDED)
def test_it_is_not(name: str) -> None:
    sensors, setting = NOT_CONTENDED[name]
    view = view_of(session(sensors, **setting))
    assert view.slowdowns == ()
    assert view.contended_now is None


BURNERS = CONTENDED["five burners on two cores"][0]
LOW = (3, 98, 104, 2, 4)  # the same sensors once they are gone


def test_the_process_is_named_with_its_share() -> None:
    names = tuple(named(second, "python3", 155.0) for second in (3, 33))
    view = view_of(session(BURNERS, names=names))
    assert view.contended_now == Clue("process-now", "python3", value=155)
    assert view.slowdowns[0].evidence[0] == Clue("process", "python3", value=155)


def test_others_are_no_limit_of_the_board() -> None:
    analysis = folded([session(BURNERS)])
    assert report_document(analysis)["throttled"] is None
    (alert,) = derived_alerts(Findings(slowdowns=analysis.slowdowns_view().slowdowns))
    assert (alert.name, alert.severity) == ("slowed", "warning")


def test_the_burst_after_others_shows_how_much_slower_it_was() -> None:
    sensors = {name: values[:40] + [low] * 60 for (name, values), low in zip(BURNERS.items(), LOW, strict=True)}
    view = view_of(session(sensors, stretch((40, 28.0), (60, 10.0)), names=(named(3, "python3", 155.0),)))
    (one,) = view.slowdowns
    assert (one.from_start, one.end_ns, one.latency_ratio) == (True, 40 * NS, pytest.approx(2.8, rel=0.02))
    assert one.evidence[0] == Clue("process", "python3", value=155)
    assert view.burst is not None
    assert view.burst.from_s == 40
    assert (view.now, view.contended_now) == (None, None)


@pytest.mark.parametrize("calm_s", [6, 7, 8, 9, 10, 12])
def test_a_slowdown_soon_after_others_begins_where_it_begins(calm_s: int) -> None:
    """The seconds between are no interruption of it: another cause held the model before."""
    slow_s = 40 + calm_s
    sensors = {name: values[:40] + [low] * 60 for (name, values), low in zip(BURNERS.items(), LOW, strict=True)}
    sensors["throttle/thermal"] = stretch((slow_s, 0.0), (100 - slow_s, 1.0))
    view = view_of(session(sensors, stretch((40, 28.0), (calm_s, 10.0), (100 - slow_s, 15.0))))
    first, second = view.slowdowns
    assert (first.cause, first.from_start, first.end_ns) == ("contention", True, 40 * NS)
    assert (second.cause, second.start_ns, second.end_ns) == ("thermal", slow_s * NS, None)
    assert second.latency_ratio == pytest.approx(1.5, rel=0.02)
    assert view.burst is not None
    assert view.burst.from_s == 40
    assert slow_s - 1 <= view.burst.to_s <= slow_s


def test_inferences_after_the_end_of_the_measurement_are_no_slowdown() -> None:
    batch = session({}, stretch((55, 10.0), (5, 30.0)))
    ended = read_event(30 * NS, "ended", "info", "edgetop", "over", {"reason": "duration"})
    fold = Slowdowns()
    fold.fold(replace(batch, events=(*batch.events, ended)))
    assert fold.view().slowdowns == ()


def test_a_moment_of_others_is_no_contention_from_the_start() -> None:
    sensors = {name: values[:4] + [low] * 56 for (name, values), low in zip(BURNERS.items(), LOW, strict=True)}
    view = view_of(session(sensors))
    assert view.slowdowns == ()
    assert view.contended_now is None


def test_later_others_are_reported_while_they_take_the_cpu() -> None:
    sensors = {name: [low] * 40 + values[:20] for (name, values), low in zip(BURNERS.items(), LOW, strict=True)}
    view = view_of(session(sensors))
    assert (view.slowdowns, view.contended_now) == ((), Clue("taken-now", OTHERS, value=165))


def test_a_limit_that_comes_on_top_is_told_beside_it() -> None:
    flag = stretch((40, 0.0), (20, 1.0))
    view = view_of(session(BURNERS | {"throttle/thermal": flag}, stretch((40, 28.0), (20, 36.0))))
    first, second = view.slowdowns
    assert (first.from_start, first.end_ns) == (True, None)
    assert (second.cause, second.start_ns, second.from_start) == ("thermal", 40 * NS, False)
    assert view.now is second


def test_a_slowdown_in_it_is_not_unknown_because_nothing_rose() -> None:
    first, second = view_of(session(BURNERS, stretch((40, 28.0), (20, 36.0)))).slowdowns
    assert (first.from_start, second.from_start) == (True, False)
    assert (second.cause, second.start_ns) == ("contention", 40 * NS)
    assert second.evidence[0] == Clue("all-along", share=1.0)
    assert 0.4 <= second.confidence < 0.7


def test_without_others_it_is() -> None:
    (one,) = view_of(session({"load/others": stretch((LENGTH_S, 10.0))}, stretch((40, 10.0), (20, 13.0)))).slowdowns
    assert one.cause == "unknown"


def test_an_open_slowdown_keeps_its_cause_with_its_evidence() -> None:
    """Others come with it and take less and less of its time."""
    taken = [8.0] * 40 + [float(400 if second < 12 or second % 9 == 0 else 10) for second in range(160)]
    sensors = {"rate/run-queue-wait": taken, "load/engine": [95.0] * 200}
    batch = session(sensors, stretch((40, 10.0), (160, 14.0)))
    fold, named = Slowdowns(), []
    seconds, readings = batch.seconds.rows["t_ns"], batch.readings["t_ns"]
    for end_s in range(1, 201):
        is_first, begin_ns, end_ns = end_s == 1, (end_s - 1) * NS, end_s * NS
        fold.fold(
            Batch(
                until_ns=end_ns,
                seconds=batch.seconds.where((seconds >= begin_ns) & (seconds < end_ns)),
                readings=batch.readings[(readings >= begin_ns) & (readings < end_ns)],
                events=batch.events if is_first else (),
                manifest=batch.manifest if is_first else None,
                restart=is_first,
            )
        )
        now = fold.view().now
        named += [now.cause] if now else []
    assert len(named) > 140
    assert set(named) == {"contention"}


def test_wide_scatter_is_told() -> None:
    wide = list(10.0 * np.exp(np.random.default_rng(1).normal(0, 0.14, LENGTH_S)))
    assert view_of(session({}, wide)).is_too_scattered
    assert not view_of(session({})).is_too_scattered


@pytest.mark.parametrize(("scatter", "is_wide"), [(0.039, False), (0.041, True)])
def test_a_scatter_of_four_percent_is_wide(scatter: float, is_wide: bool) -> None:
    assert replace(view_of(session({})), scatter=scatter).is_too_scattered is is_wide
