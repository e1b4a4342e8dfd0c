"""What the tail is made of: the slowest inferences, each with what coincided."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.from_start import STEAL
from edgetop.analysis.slowdowns.slow_inferences import DISK_PRESSURE, KEPT, SlowInference, TailView, explained_by_others
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.verdict_reasons import Lasts, State, TakenBy
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.manifest import Board
from edgetop.session.records import Inferences
from edgetop.session.seconds import NS
from edgetop.session.typed_json import JsonValue
from edgetop.wording.report_document import report_document
from edgetop.wording.tail_words import tail_document
from tests.support.sessions import MS, MadeSession, differences, folded, make_inferences, make_manifest, phase_event
from tests.support.slow_sessions import readings_of, sensor

LENGTH_S = 90
EVEN_NS = 10 * MS


def inferences(spikes: Mapping[int, int], length_s: int = LENGTH_S) -> Inferences:
    """Twenty a second of 10 ms; half a second into those of `spikes` one takes so many ms more."""
    start_ns = [second * NS + k * 50 * MS for second in range(length_s) for k in range(20)]
    latency_ns = [EVEN_NS + (spikes.get(t // NS, 0) * MS if t % NS == NS // 2 else 0) for t in start_ns]
    return make_inferences(start_ns, latency_ns)


def told(second: float, kind: str, **data: JsonValue) -> Event:
    return read_event(int(second * NS), kind, "info", "x", "y", data)


def counted(second: float, latency_ms: int, **data: JsonValue) -> Event:
    """What the engine says of an inference."""
    none: dict[str, JsonValue] = {"preempted": 0, "major_faults": 0, "minor_faults": 0, "waited_ns": 0}
    return told(second, "slow-inference", **{**none, "latency_ns": latency_ms * MS, **data})


def made(
    spikes: Mapping[int, int],
    *events: Event,
    sensors: Mapping[str, Sequence[float]] | None = None,
    length_s: int = LENGTH_S,
) -> MadeSession:
    sensors = sensors or {}
    began = phase_event(0, "measure")
    return MadeSession(
        manifests=((0, make_manifest(*map(sensor, sensors))),),
        inferences=inferences(spikes, length_s),
        readings=readings_of(sensors),
        events=(began, *sorted(events, key=lambda event: event.t_ns)),
        end_ns=length_s * NS,
    )


def tail_of(session: MadeSession) -> TailView:
    return folded(session.batches()).tail()


def cause_of(*events: Event, sensors: Mapping[str, Sequence[float]] | None = None) -> tuple[str, str, bool]:
    """Of the one inference that was slow, in second 60: 50 ms instead of 10."""
    (slow,) = tail_of(made({60: 40}, *events, sensors=sensors)).slowest
    return slow.cause, slow.who, slow.is_proven


def changing(usual: float, then: float, at_s: int = 60) -> list[float]:
    return [then if second == at_s else usual for second in range(LENGTH_S)]


def test_an_even_session_has_no_tail() -> None:
    assert tail_of(made({})) == TailView()


def test_before_anything_is_measured_there_is_no_tail() -> None:
    assert Analysis().tail() == TailView()


def test_what_stands_out_by_less_than_a_tenth_is_no_tail() -> None:
    assert tail_of(made({60: 0})).slowest == ()
    assert len(tail_of(made({60: 2})).slowest) == 1


def test_without_any_sign_it_is_unexplained() -> None:
    assert cause_of() == ("unexplained", "", False)


def test_a_counted_wait_for_the_cpu_proves_contention() -> None:
    assert cause_of(counted(60.5, 50, waited_ns=30 * MS)) == ("contention", "", True)
    assert cause_of(counted(60.5, 50, waited_ns=9 * MS)) == ("unexplained", "", False)


@pytest.mark.parametrize(
    ("counters", "share"),
    [
        ({"waited_ns": 30 * MS}, 0.75),
        ({"waited_ns": 90 * MS}, 1.0),
        ({"waited_ns": None, "preempted": 1}, None),
        ({"minor_faults": 40_000}, 0.5),
        ({"major_faults": 1, "minor_faults": 40_000}, None),
        ({}, None),
    ],
)
def test_counted_times_have_their_share_of_what_was_lost(counters: dict[str, JsonValue], share: float | None) -> None:
    """The inference took 40 ms more than the others."""
    (slow,) = tail_of(made({60: 40}, counted(60.5, 50, **counters))).slowest
    assert slow.share == (None if share is None else pytest.approx(share, rel=0.01))


@pytest.mark.parametrize(
    ("waited_ms", "slept_ms", "causes"),
    [
        (8, 30, [("page-faults", 0.75)]),
        (12, 24, [("page-faults", 0.6), ("contention", 0.3)]),
        (24, 12, [("contention", 0.6), ("page-faults", 0.3)]),
        (36, 4, [("contention", 0.9)]),
    ],
)
def test_a_page_fault_is_told_from_a_wait_for_a_cpu_by_the_time_that_each_took(
    waited_ms: int, slept_ms: int, causes: list[tuple[str, float]]
) -> None:
    """While the disk reads a page, the thread sleeps; then it may have to wait for a CPU. 40 ms were lost."""
    times = {"waited_ns": waited_ms * MS, "slept_ns": slept_ms * MS, "idle_ns": slept_ms * MS}
    event = counted(60.5, 50, major_faults=2, loop_major_faults=2, preempted=9, **times)
    (slow,) = tail_of(made({60: 40}, event)).slowest
    assert [(slow.cause, slow.share), *slow.also] == [
        (cause, pytest.approx(share, rel=0.01)) for cause, share in causes
    ]
    (told,) = tail_document(tail_of(made({60: 40}, event)))["slowest"]
    assert [cause["cause"] for cause in told["causes"]] == [cause for cause, _ in causes]
    assert all(cause["proven"] for cause in told["causes"])


@pytest.mark.parametrize(
    ("preempted", "slept_ms", "majors", "cause"),
    [(0, 12, 1, "page-faults"), (1, 12, 1, "unexplained"), (1, 0, 9, "unexplained"), (1, 0, 11, "page-faults")],
)
def test_the_loop_may_sleep_for_a_worker_that_has_the_fault(
    preempted: int, slept_ms: int, majors: int, cause: str
) -> None:
    """A preempted worker is waited for as well. While the loop spins for a worker, its faults are only counted."""
    event = counted(60.5, 50, major_faults=majors, preempted=preempted, slept_ns=slept_ms * MS)
    assert cause_of(event)[0] == cause


@pytest.mark.parametrize(
    ("counters", "cause", "share"),
    [
        ({"preempted": 3, "loop_preempted": 1, "lacking_ns": 20 * MS}, "contention", 0.5),
        ({"preempted": 3, "loop_preempted": 3, "lacking_ns": 20 * MS}, "unexplained", None),
        ({"preempted": 1, "lacking_ns": 9 * MS}, "unexplained", None),
        ({"major_faults": 2, "lacking_ns": 20 * MS}, "page-faults", 0.5),
        ({"major_faults": 2, "loop_major_faults": 2, "lacking_ns": 20 * MS}, "unexplained", None),
        ({"major_faults": 2, "preempted": 1, "lacking_ns": 20 * MS}, "contention", 0.5),
        ({"major_faults": 2, "preempted": 1, "lacking_ns": 44 * MS}, "contention", 0.75),
    ],
)
def test_while_the_loop_spins_its_workers_run_less_if_they_wait_for_a_cpu_or_a_page(
    counters: dict[str, JsonValue], cause: str, share: float | None
) -> None:
    """40 ms were lost. The loop neither slept nor waited. What the workers lacked is an upper limit."""
    (slow,) = tail_of(made({60: 40}, counted(60.5, 50, slept_ns=0, idle_ns=0, **counters))).slowest
    assert (slow.cause, slow.share) == (cause, None if share is None else pytest.approx(share, rel=0.01))
    assert slow.at_most == (() if share is None else (cause, *(other for other, _ in slow.also)))


@pytest.mark.parametrize(("lacking_ms", "found"), [(12, ("contention", "make")), (9, ("unexplained", ""))])
def test_a_worker_that_woke_without_a_cpu_coincides_with_busy_programs(lacking_ms: int, found: tuple[str, str]) -> None:
    """The kernel counts its wait as no preemption. 40 ms were lost."""
    other = told(60, "competing", name="make", cpu_pct=90.0)
    sensors = {"pressure/cpu-some": changing(1.0, 90.0)}
    event = counted(60.5, 50, slept_ns=0, lacking_ns=lacking_ms * MS)
    assert cause_of(event, other, sensors=sensors)[:2] == found


@pytest.mark.parametrize(
    ("disk_pct", "cause", "share"),
    [(None, "page-faults", 0.975), (0.0, "stopped", 0.975), (0.001, "stopped", 0.975), (5.0, "page-faults", 0.975)],
)
def test_a_fault_takes_no_longer_than_threads_waited_for_the_disk(
    disk_pct: float | None, cause: str, share: float
) -> None:
    """Of 400 ms that were lost, the loop slept 390. Four CPUs; the pressure is a mean over busy ones."""
    event = counted(60.5, 410, major_faults=1, loop_major_faults=1, slept_ns=390 * MS, idle_ns=390 * MS)
    sensors = {} if disk_pct is None else {DISK_PRESSURE: changing(0.0, disk_pct)}
    session = made({60: 400}, event, sensors=sensors)
    ((at_ns, manifest),) = session.manifests
    session = replace(session, manifests=((at_ns, replace(manifest, board=Board(cores=4))),))
    (slow,) = tail_of(session).slowest
    assert (slow.cause, slow.share) == (cause, pytest.approx(share, rel=0.01))
    (told,) = tail_document(tail_of(session))["slowest"]
    (first,) = told["causes"]
    shares = first["share"], first.get("share_at_most")
    assert shares == ((None, 0.975) if cause == "page-faults" else (0.975, None))


@pytest.mark.parametrize("missing", [(58, 59, 60), (57, 58, 59)])
def test_a_pressure_of_the_disk_over_several_seconds_limits_no_fault(missing: tuple[int, ...]) -> None:
    """After a gap, a wait of 390 ms on one of four CPUs is 1 % of four seconds."""
    pressure = [math.nan if second in missing else float(second == missing[-1] + 1) for second in range(LENGTH_S)]
    event = counted(60.1, 410, major_faults=1, loop_major_faults=1, slept_ns=390 * MS)
    session = made({60: 400}, event, sensors={DISK_PRESSURE: pressure})
    ((at_ns, manifest),) = session.manifests
    session = replace(session, manifests=((at_ns, replace(manifest, board=Board(cores=4))),))
    assert [one.share for one in tail_of(session).slowest] == [pytest.approx(0.975, rel=0.01)]


@pytest.mark.parametrize(("lost_ms", "cause"), [(38, "page-faults"), (42, "unexplained")])
def test_a_disk_that_nobody_waited_for_may_hide_a_fault_of_ten_milliseconds(lost_ms: int, cause: str) -> None:
    event = counted(60.5, 10 + lost_ms, major_faults=1, loop_major_faults=1, slept_ns=lost_ms * MS)
    session = made({60: lost_ms}, event, sensors={DISK_PRESSURE: [0.0] * LENGTH_S})
    ((at_ns, manifest),) = session.manifests
    session = replace(session, manifests=((at_ns, replace(manifest, board=Board(cores=4))),))
    assert [one.cause for one in tail_of(session).slowest] == [cause]


def test_where_the_kernel_counts_no_wait_a_preemption_proves_it() -> None:
    assert cause_of(counted(60.5, 50, waited_ns=None, preempted=1)) == ("contention", "", True)
    assert cause_of(counted(60.5, 50, waited_ns=5 * MS, preempted=1)) == ("unexplained", "", False)


def test_what_was_counted_of_another_inference_proves_nothing() -> None:
    assert cause_of(counted(60.5, 49, waited_ns=40 * MS))[0] == "unexplained"
    assert cause_of(counted(59.5, 50, waited_ns=40 * MS))[0] == "unexplained"


def test_the_process_that_took_the_cpu_is_named() -> None:
    waited = counted(60.5, 50, waited_ns=30 * MS)
    stress = told(61.2, "competing", name="stress-ng", cpu_pct=98.0)
    assert cause_of(waited, stress) == ("contention", "stress-ng", True)
    far = told(5, "competing", name="stress-ng", cpu_pct=98.0)
    later = told(70, "competing", name="stress-ng", cpu_pct=98.0)  # when it had been looked at already
    assert cause_of(waited, later) == ("contention", "", True)
    assert cause_of(waited, far) == ("contention", "", True)


@pytest.mark.parametrize(("at_s", "began", "found"), [(61.2, True, True), (61.2, None, False), (56.0, True, False)])
def test_a_process_that_had_just_begun_is_named_as_such(at_s: float, began: bool | None, found: bool) -> None:
    stress = told(at_s, "competing", name="stress-ng", cpu_pct=98.0, **({"began": True} if began else {}))
    (slow,) = tail_of(made({60: 40}, counted(60.5, 50, waited_ns=30 * MS), stress)).slowest
    assert (slow.who, slow.began) == ("stress-ng", found)


@pytest.mark.parametrize(("kind", "few", "many"), [("major_faults", 0, 1), ("minor_faults", 1_000, 30_000)])
def test_page_faults_that_the_engine_counted_prove_themselves(kind: str, few: int, many: int) -> None:
    assert cause_of(counted(60.5, 50, **{kind: many})) == ("page-faults", "", True)
    assert cause_of(counted(60.5, 50, **{kind: few}))[0] == "unexplained"


@pytest.mark.parametrize(
    ("capacity", "cause", "share"),
    [
        (0.82, "unexplained", None),
        (0.78, "small-cores", 0.275),
        (0.35, "small-cores", 0.8125),
        (1.3, "unexplained", None),
    ],
)
def test_a_core_of_less_capacity_explains_a_part_of_the_latency(
    capacity: float, cause: str, share: float | None
) -> None:
    """The inference took 50 ms, 40 of them more than the others. On a core of 0.8, it takes 10 ms more."""
    (slow,) = tail_of(made({60: 40}, counted(60.5, 50, capacity=capacity))).slowest
    assert (slow.cause, slow.is_proven) == (cause, cause != "unexplained")
    assert slow.share == (None if share is None else pytest.approx(share))


def test_fewer_cpus_than_at_the_beginning_are_a_cause_of_their_own() -> None:
    assert cause_of(counted(60.5, 50, waited_ns=30 * MS, lost_cpus=1)) == ("fewer-cpus", "", True)
    assert cause_of(counted(60.5, 50, waited_ns=0, lost_cpus=1)) == ("fewer-cpus", "", True)
    assert cause_of(counted(60.5, 50, major_faults=2, lost_cpus=1)) == ("page-faults", "", True)


RAN = {"rate/task-clock": [500.0] * LENGTH_S}


@pytest.mark.parametrize(
    ("then", "cause"), [(0.79, "clock"), (0.81, "unexplained"), (1.5, "unexplained"), (float("nan"), "unexplained")]
)
def test_the_clock_that_the_engine_had_explains_a_part_of_the_latency(then: float, cause: str) -> None:
    """On 0.8 of the clock, 50 ms are 10 ms more: a quarter of the lost time."""
    cycles = {"rate/cycles": changing(9e8, 9e8 * then)}
    assert cause_of(sensors=cycles | RAN)[0] == cause
    assert cause_of(sensors={"rate/cycles": changing(9e8, 9e8 * then)})[0] == "unexplained"


@pytest.mark.parametrize(("more", "cause"), [(210_000, "cache-misses"), (190_000, "unexplained")])
def test_cache_misses_must_be_many_enough_for_the_lost_time(more: int, cause: str) -> None:
    assert cause_of(sensors={"rate/cache-misses": changing(1e6, 1e6 + more)})[0] == cause
    often = [1e6 + more * (second % 7 == 4) for second in range(LENGTH_S)]  # second 60 is one of them
    assert cause_of(sensors={"rate/cache-misses": often})[0] == "unexplained"


@pytest.mark.parametrize(
    ("usual", "migrations", "more_ms", "cause"),
    [
        (0.0, 1, 1, "unexplained"), (0.0, 2, 2, "migration"), (0.0, 1, 2, "unexplained"), (0.0, 0, 2, "unexplained"),
        (0.9, 2, 2, "migration"), (1.1, 2, 2, "unexplained"), (0.0, 6, 7, "unexplained"),
    ],
)  # fmt: skip
def test_a_move_that_is_rare_explains_a_short_delay(usual: float, migrations: int, more_ms: int, cause: str) -> None:
    """Counted over 50 ms, one move a second is one in twenty times."""
    event = counted(60.5, 10 + more_ms, migrations=migrations, span_ns=50 * MS)
    slow = tail_of(made({60: more_ms}, event, sensors={"rate/migrations": [usual] * LENGTH_S})).slowest
    assert [one.cause for one in slow] == ([cause] if more_ms > 1 else [])


def test_a_session_without_a_count_of_moves_blames_none() -> None:
    slow = tail_of(made({60: 2}, counted(60.5, 12, migrations=2, span_ns=50 * MS))).slowest
    assert [one.cause for one in slow] == ["unexplained"]


@pytest.mark.parametrize(("at_s", "cause"), [(9, "unexplained"), (10, "clock")])
def test_what_is_usual_takes_ten_seconds_to_know(at_s: int, cause: str) -> None:
    sensors = {"rate/cycles": changing(9e8, 5e8, at_s)} | RAN
    (slow,) = tail_of(made({at_s: 40}, sensors=sensors)).slowest
    assert slow.cause == cause


def others(then: float, *, often: int = 0) -> dict[str, list[float]]:
    """The load of other processes in second 60, which was as high in some of the half minute before."""
    return {"load/others": [then if second == 60 or 30 <= second < 30 + often else 10.0 for second in range(LENGTH_S)]}


@pytest.mark.parametrize(
    ("then", "often", "cause"),
    [(62.0, 0, "beside"), (58.0, 0, "unexplained"), (62.0, 7, "beside"), (62.0, 8, "unexplained")],
)
def test_a_busy_process_beside_an_engine_that_did_not_wait_is_named(then: float, often: int, cause: str) -> None:
    stress = told(61.2, "competing", name="stress-ng", cpu_pct=98.0)
    found = cause_of(counted(60.5, 50, waited_ns=0), stress, sensors=others(then, often=often))
    assert found == (cause, "stress-ng" if cause == "beside" else "", False)


def test_one_after_instrumented_inferences_is_reported_as_such() -> None:
    burst = told(60.3, "profile-burst", duration_ns=150 * MS)
    assert cause_of(burst)[0] == "burst"
    assert cause_of(burst, counted(60.5, 50))[0] == "burst"
    long_before = told(60.1, "profile-burst", duration_ns=150 * MS)
    assert cause_of(long_before, counted(60.5, 50))[0] == "unexplained"
    assert cause_of(told(70, "profile-burst", duration_ns=150 * MS))[0] == "unexplained"


@pytest.mark.parametrize(
    ("at_s", "latency_ms", "took_ms", "found"),
    [
        (60.5, 50, 10, ("garbage-collection", 0.25)),
        (60.5, 50, 60, ("garbage-collection", 1.0)),
        (60.5, 50, 9, ("unexplained", None)),  # less than a quarter of the 40 ms that it lost
        (60.5, 49, 40, ("unexplained", None)),  # another inference
        (59.5, 50, 40, ("unexplained", None)),
    ],
)
def test_garbage_collection_in_an_inference_explains_what_it_took(
    at_s: float, latency_ms: int, took_ms: int, found: tuple[str, float | None]
) -> None:
    collected = told(at_s, "garbage-collected", latency_ns=latency_ms * MS, took_ns=took_ms * MS)
    (slow,) = tail_of(made({60: 40}, collected)).slowest
    assert (slow.cause, slow.share) == found
    assert slow.is_proven == (found[0] != "unexplained")


def test_a_counted_wait_comes_before_garbage_collection() -> None:
    collected = told(60.5, "garbage-collected", latency_ns=50 * MS, took_ns=15 * MS)
    assert cause_of(collected, counted(60.5, 50, waited_ns=30 * MS))[0] == "contention"
    assert cause_of(collected, counted(60.5, 50))[0] == "garbage-collection"


def test_one_during_a_slow_read_of_a_sensor_is_told_as_such() -> None:
    read = told(60.54, "sensor-slow", begin_ns=int(60.51 * NS), took_ns=30 * MS)
    assert cause_of(read, counted(60.5, 50))[0] == "sensor-read"
    early = told(60.3, "sensor-slow", begin_ns=int(60.2 * NS), took_ns=30 * MS)
    assert cause_of(early, counted(60.5, 50))[0] == "unexplained"


@pytest.mark.parametrize(
    ("sensor_id", "usual", "then", "cause"),
    [
        ("rate/run-queue-wait", 5, 200, "contention"),
        ("load/steal", 0, 30, "contention"),
        ("rate/major-faults", 0, 50, "memory-pressure"),
        ("freq/cpu0", 1800, 600, "clock"),
        ("throttle/thermal", 0, 1, "limit"),
    ],
)
def test_signals_that_left_their_range_in_its_second_coincided(
    sensor_id: str, usual: float, then: float, cause: str
) -> None:
    assert cause_of(sensors={sensor_id: changing(usual, then)}) == (cause, "", False)
    assert cause_of(sensors={sensor_id: changing(usual, usual)})[0] == "unexplained"
    assert cause_of(sensors={sensor_id: changing(usual, then, at_s=40)})[0] == "unexplained"


def test_an_engine_that_waits_for_no_cpu_may_still_wait_for_the_gpu() -> None:
    """What the engine counts of waits for a CPU says nothing of the GPU."""
    waited = counted(60.5, 50, waited_ms=0)
    of_gpu = {"load/gpu-others": changing(0, 40)}
    both = told(60, "gpu-competing", name="blender", gpu_pct=40.0), told(60, "competing", name="make", cpu_pct=90.0)
    assert cause_of(waited, *both, sensors=of_gpu)[:2] == ("contention", "blender")
    assert cause_of(waited, sensors={"rate/run-queue-wait": changing(5, 200)})[0] == "unexplained"


def test_a_signal_often_out_of_range_coincides_by_chance() -> None:
    every_seventh = [1500.0 if second % 7 == 4 else 1800.0 for second in range(LENGTH_S)]
    assert every_seventh[60] == 1500.0
    assert cause_of(sensors={"freq/cpu0": every_seventh})[0] == "unexplained"


def test_the_third_second_of_a_busy_neighbour_is_his_too() -> None:
    assert cause_of(sensors={"load/steal": [40.0 if 57 <= second <= 60 else 0.0 for second in range(LENGTH_S)]}) == (
        "contention", "", False
    )  # fmt: skip


def test_where_no_wait_was_counted_the_load_is_no_cause() -> None:
    waits = {"rate/run-queue-wait": changing(5, 200)}
    assert cause_of(counted(60.5, 50), sensors=waits)[0] == "unexplained"


@pytest.mark.parametrize(("waited_ms", "cause"), [(9, "unexplained"), (11, "contention")])
def test_a_wait_of_a_quarter_of_what_was_lost_is_its_cause(waited_ms: int, cause: str) -> None:
    assert cause_of(counted(60.5, 50, waited_ns=waited_ms * MS))[0] == cause


@pytest.mark.parametrize(("faults", "cause"), [(18_000, "unexplained"), (22_000, "page-faults")])
def test_a_page_fault_costs_half_a_microsecond(faults: int, cause: str) -> None:
    """And a quarter of the 40 ms that were lost makes them the cause."""
    assert cause_of(counted(60.5, 50, minor_faults=faults))[0] == cause


@pytest.mark.parametrize(("before_ms", "cause"), [(90, "burst"), (110, "unexplained")])
def test_caches_are_cold_for_a_tenth_of_a_second_after_a_burst(before_ms: int, cause: str) -> None:
    burst = told(60.5 - (before_ms + 150) / 1000, "profile-burst", duration_ns=150 * MS)
    assert cause_of(burst, counted(60.5, 50))[0] == cause


def coincided(at_s: int, *high_s: int) -> str:
    """The cause of a slow inference at that second, if a hypervisor took the CPU in it and in those seconds."""
    steal = [30.0 if second in (at_s, *high_s) else 0.0 for second in range(LENGTH_S)]
    (slow,) = tail_of(made({at_s: 40}, sensors={"load/steal": steal})).slowest
    return slow.cause


def test_ten_seconds_before_show_what_is_usual() -> None:
    assert [coincided(at_s) for at_s in (9, 10)] == ["unexplained", "contention"]


def test_once_in_twenty_seconds_is_rare() -> None:
    """The last three seconds before it left out."""
    assert [coincided(at_s, 5) for at_s in (23, 24)] == ["unexplained", "contention"]


def test_what_began_three_seconds_before_may_still_last() -> None:
    assert [coincided(60, 40, begin_s, 59) for begin_s in (56, 57)] == ["unexplained", "contention"]


def test_forty_are_kept_and_of_the_last_ten_minutes_twenty() -> None:
    view = tail_of(made(dict.fromkeys(range(10, 60), 40), length_s=70))
    assert (len(view.slowest), len(view.recent)) == (40, 20)
    old = tail_of(made({10: 40, 11: 40, 12: 40}, length_s=612))
    assert [slow.t_ns // NS for slow in old.recent] == [12]


def test_what_is_proven_comes_before_what_coincides() -> None:
    burst = told(60.4, "profile-burst", duration_ns=50 * MS)
    assert cause_of(burst, counted(60.5, 50, waited_ns=30 * MS))[0] == "contention"


def test_a_profile_from_another_file_slows_no_inference() -> None:
    """Another tool has averaged it over a run of its own; an import places it wherever there is room."""
    own = told(60.4, "profile-burst", duration_ns=50 * MS)
    imported = told(60.4, "profile-burst", duration_ns=50 * MS, averaged=True)
    assert [cause_of(burst)[0] for burst in (own, imported)] == ["burst", "unexplained"]


def test_a_wait_while_the_quota_is_used_up_is_not_for_others() -> None:
    waited, quota = counted(60.5, 50, waited_ns=30 * MS), {"pressure/cpu-quota": changing(0.0, 40.0)}
    assert cause_of(waited, told(60, "competing", name="stress-ng", cpu_pct=98.0), sensors=quota) == (
        "cpu-quota",
        "",
        False,
    )


@pytest.mark.parametrize(
    ("stalled_ms", "waited_ms", "cause"), [(25, 30, "cpu-quota"), (5, 30, "contention"), (0, 30, "contention")]
)
def test_only_the_wait_beyond_the_stall_is_for_others(stalled_ms: float, waited_ms: int, cause: str) -> None:
    waited = counted(60.5, 50, waited_ns=waited_ms * MS)
    sensors = {"pressure/cpu-quota": [100.0] * LENGTH_S, "rate/cpu-throttled": changing(0.0, stalled_ms)}
    assert cause_of(waited, sensors=sensors)[0] == cause


@pytest.mark.parametrize(("stalled_ms", "cause"), [(500, "cpu-quota"), (10, "unexplained")])
def test_a_stall_as_long_as_what_was_lost_explains_it_where_nothing_was_counted(stalled_ms: float, cause: str) -> None:
    """A program under `watch`, stopped by its quota all along: nothing changes with the inference."""
    sensors = {"rate/cpu-throttled": [stalled_ms] * LENGTH_S, "rate/run-queue-wait": [stalled_ms] * LENGTH_S}
    assert cause_of(sensors=sensors)[0] == cause


def slow_from_60(*events: Event) -> MadeSession:
    session = made(dict.fromkeys(range(60, 90), 8), *events, sensors={"throttle/thermal": [0.0] * 60 + [1.0] * 30})
    slow = session.inferences.copy()
    slow["latency_ns"][slow["t_ns"] >= 60 * NS] = 15 * MS
    return replace(session, inferences=slow)


def test_within_a_slowdown_that_is_the_cause() -> None:
    tail = tail_of(slow_from_60())
    assert {(one.cause, one.who) for one in tail.slowest} == {("slowdown", "thermal")}


def test_within_a_slowdown_what_edgetop_did_itself_is_the_cause_all_the_same() -> None:
    burst, read = (
        told(70.3, "profile-burst", duration_ns=150 * MS),
        told(80.3, "sensor-slow", begin_ns=int(80.3 * NS), took_ns=150 * MS),
    )
    causes = {one.t_ns // NS: (one.cause, one.who) for one in tail_of(slow_from_60(burst, read)).slowest}
    assert (causes[70], causes[80]) == (("burst", ""), ("sensor-read", ""))
    assert causes[75] == ("slowdown", "thermal")


OF_OTHERS = SlowInference(70 * NS, 50 * MS, "unexplained")
SLOW_READ = replace(OF_OTHERS, cause="sensor-read")


@pytest.mark.parametrize(
    ("found", "slowdown", "cause", "who"),
    [
        (OF_OTHERS, "contention", "slowdown", "contention"),
        (OF_OTHERS, "thermal", "slowdown", "thermal"),
        (SLOW_READ, "contention", "slowdown", "contention"),  # of which edgetop's own read was slow too
        (SLOW_READ, "thermal", "sensor-read", ""),
        (OF_OTHERS, "mix", "unexplained", ""),
        (OF_OTHERS, "unknown", "unexplained", ""),
        (replace(OF_OTHERS, cause="migration"), "contention", "migration", ""),
        (replace(OF_OTHERS, t_ns=80 * NS), "contention", "unexplained", ""),
    ],
)
def test_a_slowdown_of_another_stream_explains_what_nothing_else_does(
    found: SlowInference, slowdown: str, cause: str, who: str
) -> None:
    others = Slowdown(60 * NS, 80 * NS, slowdown, 1.5, 0.9, ())
    explained = explained_by_others(found, [others])
    assert (explained.cause, explained.who) == (cause, who)


def test_what_a_quota_stopped_within_contention_is_of_the_quota() -> None:
    """Others take the CPU all along, and from 60 s on the quota stops the engine for longer than an inference lost."""
    waits = {"rate/run-queue-wait": [500.0] * 90, "load/others": [190.0] * 90, "load/engine": [20.0] * 90}
    session = made(dict.fromkeys(range(20, 90, 10), 40), sensors=waits)
    stopped = made(dict.fromkeys(range(20, 90, 10), 40), sensors={**waits, "rate/cpu-throttled": changing(0.0, 100.0)})
    assert {(one.cause, one.who) for one in tail_of(session).slowest} == {("slowdown", "contention")}
    causes = {one.t_ns // NS: one.cause for one in tail_of(stopped).slowest}
    assert (causes[20], causes[60]) == ("slowdown", "cpu-quota")


def test_a_slow_read_within_contention_is_no_cause_of_its_own() -> None:
    read = told(80.3, "sensor-slow", begin_ns=int(80.3 * NS), took_ns=150 * MS)
    session = slow_from_60(read)
    waits = {"rate/run-queue-wait": [0.0] * 60 + [600.0] * 30, "pressure/cpu-some": [0.0] * 60 + [80.0] * 30}
    of_others = made({}, sensors=waits)
    session = replace(session, manifests=of_others.manifests, readings=of_others.readings)
    causes = {one.t_ns // NS: (one.cause, one.who) for one in tail_of(session).slowest}
    assert causes[80] == causes[75] == ("slowdown", "contention")


def test_the_report_says_what_the_tail_is_made_of() -> None:
    waits = [counted(s + 0.5, 50, waited_ns=30 * MS) for s in (40, 50)]
    named = told(41.1, "competing", name="stress-ng", cpu_pct=98.0)
    document = report_document(folded(made({40: 40, 50: 40, 60: 20}, *waits, named).batches()))["tail"]
    assert document["summary"] == "2 while another process took the CPU (stress-ng), 1 unexplained"
    assert document["parts"] == [
        {"cause": "contention", "count": 2, "who": {"stress-ng": 2}},
        {"cause": "unexplained", "count": 1, "who": {}},
    ]
    assert document["slowest"][0] == {
        "t_s": 40.5, "latency_ms": 50.0, "cause": "contention", "who": "stress-ng", "proven": True
    }  # fmt: skip


def test_the_slowest_of_session_and_last_ten_minutes_are_kept() -> None:
    length_s = 1_500
    early = dict.fromkeys(range(100, 130), 500)
    late = {second: 20 + second % 7 for second in range(1_000, 1_400, 5)}
    tail = tail_of(made(early | late, length_s=length_s))
    assert len(tail.slowest) == KEPT
    assert [one.latency_ns for one in tail.slowest[:30]] == [510 * MS] * 30
    assert tail.slowest[30].latency_ns == 36 * MS
    assert len(tail.recent) == 20
    assert min(one.t_ns for one in tail.recent) >= 900 * NS
    assert sum(part.count for part in tail.recent_parts) == 20


def late_burst(second: float) -> Event:
    """One of ten seconds, which is told when it is over."""
    return told(second, "profile-burst", duration_ns=10 * NS)


def late_read(second: float) -> Event:
    """It took ten seconds, and is told at its end."""
    return told(second, "sensor-slow", begin_ns=int((second - 10) * NS), took_ns=10 * NS)


def coming(session: MadeSession) -> Iterator[Batch]:
    """Once a second, each burst when it is over."""
    waiting: list[Event] = []
    for batch in session.batches(range(0, LENGTH_S * NS, NS)):
        waiting += [event for event in batch.events if event.kind == "profile-burst"]
        over = [
            event for event in waiting if event.t_ns + 10 * NS <= batch.until_ns or batch.until_ns == session.end_ns
        ]
        waiting = [event for event in waiting if event not in over]
        others = [event for event in batch.events if event.kind != "profile-burst"]
        yield replace(batch, events=(*others, *over))


SENSORS = {"rate/run-queue-wait": changing(5, 200), "freq/cpu0": changing(1800, 600, 30), "load/steal": [0.0] * 90}
SPIKES = st.dictionaries(st.integers(0, LENGTH_S - 1), st.integers(1, 60), max_size=60)
SIGNS = st.lists(
    st.one_of(
        st.builds(counted, st.sampled_from([3.5, 30.5, 60.5]), st.just(50), waited_ns=st.sampled_from([0, 30 * MS])),
        st.builds(told, st.floats(0, 89), st.just("competing"), name=st.sampled_from("ab"), cpu_pct=st.just(50.0)),
        st.builds(late_burst, st.floats(0, 70)),
        st.builds(late_read, st.floats(20, 89)),
    ),
    max_size=12,
)  # fmt: skip


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=6)
@given(SPIKES, SIGNS, st.lists(st.integers(0, LENGTH_S * NS), max_size=8))
def test_the_tail_is_the_same_however_the_session_came(
    spikes: dict[int, int], signs: list[Event], cuts: list[int]
) -> None:
    session = made(spikes, *signs, sensors=SENSORS)
    whole, split, watched = folded(session.batches()), folded(session.batches(cuts, single=False)), Analysis()
    for batch in coming(session):
        watched.fold(batch)
        watched.tail()
    assert differences(split.tail(), whole.tail()) == []
    assert differences(watched.tail(), whole.tail()) == []


def slowed(session: MadeSession) -> Analysis:
    """Return the analysis of a session whose inferences take 15 ms from 60 s on."""
    slow = session.inferences.copy()
    slow["latency_ns"][slow["t_ns"] >= 60 * NS] = 15 * MS
    made_slow = MadeSession(session.manifests, slow, session.readings, session.events, session.end_ns)
    return folded([Batch(restart=True), *made_slow.batches()])


def test_contention_names_the_process_in_the_slowdown() -> None:
    session = made(
        {}, told(62, "competing", name="stress-ng", cpu_pct=98.4), sensors={"load/steal": [0.0] * 60 + [40.0] * 30}
    )
    analysis = slowed(session)
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.cause == "contention"
    assert slowdown.evidence[0] == Clue("process", "stress-ng", value=98.4)
    verdict = analysis.view(None).verdict
    assert (verdict.state, verdict.reasons) == (
        State.CONTENDED,
        (TakenBy(Clue("taken-now", STEAL, value=40)), Lasts(30 * NS)),
    )
    assert verdict.p50_change == pytest.approx(0.5, abs=0.005)


def test_an_engine_that_stood_still_was_stopped() -> None:
    assert cause_of(counted(60.5, 50, idle_ns=38 * MS)) == ("stopped", "", True)
    assert cause_of(counted(60.5, 50, idle_ns=9 * MS)) == ("unexplained", "", False)
    (slow,) = tail_of(made({60: 40}, counted(60.5, 50, idle_ns=30 * MS))).slowest
    assert slow.share == pytest.approx(0.75, rel=0.01)


@pytest.mark.parametrize(
    ("lost_ms", "busy", "found"),
    [
        (29, 90.0, ("contention", False, None)),
        (31, 90.0, ("stopped", True, 1.0)),
        (29, 1.0, ("stopped", True, 1.0)),
    ],
)
def test_a_short_rest_beside_busy_programs_is_a_wait_for_a_thread_without_a_cpu(
    lost_ms: int, busy: float, found: tuple[str, bool, float | None]
) -> None:
    """The loop waits for a lock, such as Python's, whose owner has lost its CPU."""
    pressure = {"pressure/cpu-some": changing(1.0, busy)}
    event = counted(60.5, 10 + lost_ms, idle_ns=lost_ms * MS)
    other = told(60, "competing", name="make", cpu_pct=90.0)
    (slow,) = tail_of(made({60: lost_ms}, event, other, sensors=pressure)).slowest
    assert (slow.cause, slow.is_proven, slow.share) == found
    assert slow.who == ("make" if slow.cause == "contention" else "")


def test_a_core_of_less_capacity_is_no_lost_cpu_alone() -> None:
    assert cause_of(counted(60.5, 50, lost_cpus=3, capacity=0.35)) == ("small-cores", "", True)


def test_a_wait_for_the_cpu_or_a_page_explains_that_nothing_ran() -> None:
    assert cause_of(counted(60.5, 50, idle_ns=38 * MS, waited_ns=20 * MS))[0] == "contention"
    assert cause_of(counted(60.5, 50, idle_ns=38 * MS, major_faults=1))[0] == "page-faults"


@pytest.mark.parametrize(("idle_ms", "cause"), [(39, "unexplained"), (41, "stopped")])
def test_a_preemption_may_explain_thirty_milliseconds(idle_ms: int, cause: str) -> None:
    """Threads that wait for a preempted one rest, too. The inference lost 40 ms, a quarter of which is 10 ms."""
    assert cause_of(counted(60.5, 50, idle_ns=idle_ms * MS, preempted=1))[0] == cause


def test_a_quota_that_stopped_the_engine_is_the_cause() -> None:
    quota = {"pressure/cpu-quota": changing(0.0, 40.0)}
    assert cause_of(counted(60.5, 50, idle_ns=38 * MS), sensors=quota)[0] == "cpu-quota"


def test_an_input_that_takes_longer_is_the_cause() -> None:
    """Every other report is of array 6 of 11."""
    others = [counted(second + 0.1, 11, input=second % 11, inputs=11) for second in range(20, 40)]
    slow = [counted(second + 0.5, 50, input=5, inputs=11) for second in range(40, 61)]
    parts = tail_of(made(dict.fromkeys(range(40, 61), 40), *others, *slow)).parts
    assert [(part.cause, part.count, part.who) for part in parts] == [("input", 21, (("6/11", 21),))]
    alone = tail_of(made({60: 40}, *others, slow[-1])).parts
    assert [part.cause for part in alone] == ["unexplained"]


def test_of_one_inference_a_second_the_slow_one_is_not_the_usual_one() -> None:
    """An inference takes 700 ms, and one takes 900 ms. The median of its second is its own latency."""
    start_ns = [second * NS for second in range(LENGTH_S)]
    latency_ns = [(900 if t == 60 * NS else 700) * MS for t in start_ns]
    session = replace(made({}, counted(60, 900, waited_ns=20 * MS)), inferences=make_inferences(start_ns, latency_ns))
    assert [one.cause for one in tail_of(session).slowest] == ["unexplained"]
    waited = replace(made({}, counted(60, 900, waited_ns=150 * MS)), inferences=make_inferences(start_ns, latency_ns))
    (slow,) = tail_of(waited).slowest
    assert (slow.cause, slow.share) == ("contention", pytest.approx(0.75, rel=0.02))


def test_contention_on_the_gpu_names_the_process_there() -> None:
    events = (
        told(62, "gpu-competing", name="blender", gpu_pct=71.0),
        told(62, "competing", name="stress-ng", cpu_pct=98.4),
    )
    session = made({}, *events, sensors={"load/gpu-others": [0.0] * 60 + [71.0] * 30})
    analysis = slowed(session)
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.cause == "contention"
    assert [clue.kind for clue in slowdown.evidence] == ["process-gpu", "rose"]
    assert slowdown.evidence[0] == Clue("process-gpu", "blender", value=71.0)
