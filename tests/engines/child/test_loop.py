"""The timed loop on a clock of the test's own: what it times, records, sends and when it ends."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child import message_frames
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.loop import CAPACITY, Control, Loop, warm_up
from edgetop.engines.child.pace import Closed, Duty, Open, Waiter, fixed_starts
from edgetop.engines.child.record_outlet import Outlet
from edgetop.session.records import INFERENCE, Inferences

MS = 1_000_000
SECOND = 1000 * MS


class Clock:
    """Stands still until something takes time."""

    def __init__(self) -> None:
        self.now = 1_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def take(self, ns: int) -> None:
        self.now += ns


class PunctualWaiter(Waiter):
    """Its sleeps end when they should, so it wakes whole microseconds before the moment."""

    def _learn(self, late_ns: int) -> None:
        assert late_ns == 0


class Bench:
    """A loop around a model whose inferences take what the test says, and everything it sent."""

    def __init__(
        self,
        model: Callable[[int], object] | None = None,
        takes_ns: int = MS,
        next_call: Callable[["Bench"], Callable[[], object]] | None = None,
        pace: Callable[[], object] = lambda: None,
    ) -> None:
        """`model` gets the number of the inference, from 0, and raises where that one shall fail."""
        self.clock, self.control, self.outlet = Clock(), Control(), Outlet()
        self.model, self.takes_ns, self.inferences = model, takes_ns, 0
        prepare = (lambda: next_call(self)) if next_call else None
        waiter = PunctualWaiter(self.control, self.clock, self.sleep, lambda: self.clock.take(1000))
        self.loop = Loop(
            self.infer, self.outlet, self.control, prepare, make_pace=pace, clock=self.clock, waiter=waiter
        )
        self.batches: list[Inferences] = []
        self.said: list[dict[str, object]] = []
        self.slow: list[dict[str, object]] = []

    def infer(self) -> object:
        number, self.inferences = self.inferences, self.inferences + 1
        self.clock.take(self.takes_ns)
        return self.model(number) if self.model else None

    def sleep(self, seconds: float) -> None:
        self.clock.take(round(seconds * SECOND))

    def measure(self, **limits: int | None) -> str:
        return self.loop.repeat(message_frames.PHASE_MEASURE, paced=True, **limits)

    def collect(self) -> Inferences:
        for kind, payload in self.outlet.take():
            if kind == message_frames.RECORDS:
                self.batches.append(np.frombuffer(payload, INFERENCE))
            elif kind == message_frames.SLOW:
                self.slow.append(json.loads(payload))
            else:
                self.said.append(json.loads(payload))
        return np.concatenate([np.empty(0, INFERENCE), *self.batches])

    @property
    def batch_sizes(self) -> list[int]:
        self.collect()
        return [len(batch) for batch in self.batches]


def fails_at(*numbers: int) -> Callable[[int], None]:
    def model(number: int) -> None:
        if number in numbers:
            raise RuntimeError(f"no luck\n  with {number}")

    return model


class SlowToFree:
    """An output that takes its time when it is dropped."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __del__(self) -> None:
        self.clock.take(7 * MS)


def test_a_record_says_when_and_how_long() -> None:
    bench = Bench(takes_ns=3 * MS)
    begin = bench.clock.now
    assert bench.measure(runs=4) == "runs"
    records = bench.collect()
    assert records["t_ns"].tolist() == [begin + n * 3 * MS for n in range(4)]
    assert set(records["latency_ns"].tolist()) == {3 * MS}
    assert set(records[["wait_ns", "stream", "phase", "ok"]].tolist()) == {(0, 0, message_frames.PHASE_MEASURE, True)}


def test_preparing_an_input_is_not_timed() -> None:
    def prepare(bench: Bench) -> Callable[[], object]:
        bench.clock.take(50 * MS)
        return bench.infer

    bench = Bench(next_call=prepare)
    bench.measure(runs=3)
    records = bench.collect()
    assert set(records["latency_ns"].tolist()) == {MS}
    assert np.diff(records["t_ns"]).tolist() == [51 * MS, 51 * MS]


def test_freeing_the_outputs_is_not_timed() -> None:
    bench = Bench()
    bench.model = lambda _number: SlowToFree(bench.clock)
    bench.measure(runs=3)
    assert set(bench.collect()["latency_ns"].tolist()) == {MS}


@pytest.mark.parametrize(
    ("takes_ns", "runs", "sizes"),
    [
        (MS, 65, [20, 20, 20, 5]),
        (30 * MS, 3, [1, 1, 1]),
        (0, 2 * CAPACITY + 7, [CAPACITY, CAPACITY, 7]),
    ],
    ids=["each 20 ms", "each inference that takes longer", "each full buffer"],
)
def test_records_are_sent(takes_ns: int, runs: int, sizes: list[int]) -> None:
    bench = Bench(takes_ns=takes_ns)
    bench.measure(runs=runs)
    assert bench.batch_sizes == sizes


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 9000), st.integers(0, 100 * MS))
def test_as_many_runs_as_asked_for(runs: int, takes_ns: int) -> None:
    bench = Bench(takes_ns=takes_ns)
    assert bench.measure(runs=runs) == "runs"
    assert len(bench.collect()) == bench.inferences == runs


def test_the_inference_that_passes_the_end_is_the_last() -> None:
    bench = Bench(takes_ns=3 * MS)
    assert bench.measure(until_ns=bench.clock.now + 100 * MS) == "duration"
    assert len(bench.collect()) == 34


@pytest.mark.parametrize(("runs", "reason"), [(5, "runs"), (500, "duration")])
def test_the_first_limit_to_be_reached_counts(runs: int, reason: str) -> None:
    bench = Bench()
    assert bench.measure(runs=runs, until_ns=bench.clock.now + 100 * MS) == reason


def test_a_stop_waits_for_the_inference_in_hand_alone() -> None:
    bench = Bench(takes_ns=2 * SECOND)

    def stop_in_the_third(number: int) -> None:
        bench.control.stop_requested = number >= 2

    bench.model = stop_in_the_third
    assert bench.measure() == "stop"
    assert len(bench.collect()) == 3


def test_a_stop_of_quick_inferences_is_heeded_within_20_ms() -> None:
    bench = Bench()

    def stop_in_the_fifth(number: int) -> None:
        bench.control.stop_requested = number >= 4

    bench.model = stop_in_the_fifth
    assert bench.measure() == "stop"
    assert len(bench.collect()) <= 5 + 20


def test_after_a_stop_nothing_more_is_run() -> None:
    bench = Bench()
    bench.control.stop_requested = True
    assert bench.measure(runs=3) == "stop"
    assert warm_up(bench.loop, runs=3, time_ns=SECOND, until_steady=True) == "stop"
    assert bench.inferences == 0


def test_a_failed_inference_is_recorded_as_such() -> None:
    bench = Bench(fails_at(1, 3))
    assert bench.measure(runs=5) == "runs"
    records = bench.collect()
    assert records["ok"].tolist() == [True, False, True, False, True]
    assert set(records["latency_ns"].tolist()) == {MS}


def test_ten_failures_in_a_row_end_it_and_are_recorded() -> None:
    bench = Bench(fails_at(*range(5, 100)))
    with pytest.raises(EngineError, match="10 inferences in a row failed: ") as raised:
        bench.measure()
    assert raised.value.stage == "inference"
    assert bench.collect()["ok"].tolist() == [True] * 5 + [False] * 10


def test_ten_failures_in_a_row_count_in_the_last_runs_too() -> None:
    with pytest.raises(EngineError):
        Bench(fails_at(*range(5, 15))).measure(runs=15)


def test_nine_failures_in_a_row_are_lived_through() -> None:
    bench = Bench(fails_at(*range(9), *range(10, 19)))
    assert bench.measure(runs=30) == "runs"


def test_a_failure_is_told_in_one_line() -> None:
    bench = Bench(fails_at(2))
    bench.measure(runs=5)
    bench.collect()
    assert bench.said == [{"severity": "warning", "kind": "inference-failed", "message": "no luck with 2"}]


def test_failures_are_told_once_a_second_however_many_there_are() -> None:
    """Every other one may fail for hours, 20,000 a second: records count them, words need not."""
    bench = Bench(fails_at(*range(0, 3000, 2)))
    bench.measure(runs=3000)
    assert np.count_nonzero(~bench.collect()["ok"]) == 1500
    assert [said["message"] for said in bench.said] == ["no luck with 0", "no luck with 1000", "no luck with 2000"]


def test_a_failed_first_inference_ends_it_with_the_reason() -> None:
    bench = Bench(fails_at(0))
    with pytest.raises(EngineError, match=r"^the first inference failed: no luck with 0$") as raised:
        bench.loop.repeat(message_frames.PHASE_FIRST, runs=1)
    assert raised.value.stage == "first"


def test_an_input_that_is_lost_on_the_way_loses_no_record() -> None:
    """A file that went away in mid-run is not the user's wrong input: what ran is worth keeping."""

    def prepare(bench: Bench) -> Callable[[], object]:
        if bench.inferences == 7:
            raise EngineError("input", "seven.npy: no such file")
        return bench.infer

    bench = Bench(next_call=prepare)
    with pytest.raises(EngineError, match=r"seven\.npy") as raised:
        bench.measure(runs=20)
    assert raised.value.stage == "inference"
    assert len(bench.collect()) == 7


def test_a_wrong_first_input_stays_the_users() -> None:
    def prepare(_bench: Bench) -> Callable[[], object]:
        raise EngineError("input", "one.npy: no such file")

    with pytest.raises(EngineError) as raised:
        Bench(next_call=prepare).loop.repeat(message_frames.PHASE_FIRST, runs=1)
    assert raised.value.stage == "input"


@pytest.mark.parametrize(
    ("runs", "time_ns", "expected"),
    [(50, 0, 50), (50, 10 * MS, 50), (5, 40 * MS, 40), (0, 40 * MS, 40), (0, 0, 0)],
)
def test_warm_up_meets_both_minima(runs: int, time_ns: int, expected: int) -> None:
    bench = Bench()
    warm_up(bench.loop, runs, time_ns, until_steady=False)
    records = bench.collect()
    assert len(records) == expected
    assert set(records["phase"].tolist()) <= {message_frames.PHASE_WARMUP}


def drifting(bench: Bench, latencies_ns: Iterator[int]) -> None:
    """From now on, each block of half a second has the next latency; the last one stays."""
    begin, current = bench.clock.now, -1

    def model(_number: int) -> None:
        nonlocal current
        block = (bench.clock.now - begin) // (SECOND // 2)
        if block != current:
            current, bench.takes_ns = block, next(latencies_ns, bench.takes_ns)

    bench.model = model


def test_a_steady_model_is_warm_after_two_seconds() -> None:
    bench = Bench()
    begin = bench.clock.now
    warm_up(bench.loop, 0, 0, until_steady=True)
    assert bench.clock.now - begin == 2 * SECOND


def test_a_slow_model_is_judged_by_ten_inferences_a_block() -> None:
    bench = Bench(takes_ns=SECOND)
    warm_up(bench.loop, 0, 0, until_steady=True)
    assert bench.inferences == 40


def test_a_model_that_still_gets_faster_is_not_warm() -> None:
    bench = Bench()
    begin = bench.clock.now
    drifting(bench, iter([2 * MS, MS * 3 // 2, MS * 5 // 4]))
    warm_up(bench.loop, 0, 0, until_steady=True)
    assert 3 * SECOND < bench.clock.now - begin < 5 * SECOND
    assert set(bench.collect()["latency_ns"].tolist()[-1500:]) == {MS * 5 // 4}


def test_a_model_that_never_settles_is_let_go_after_a_minute() -> None:
    bench = Bench()
    begin = bench.clock.now
    drifting(bench, iter([MS, 2 * MS] * 100))
    assert warm_up(bench.loop, 0, 0, until_steady=True) == "duration"
    assert 60 * SECOND <= bench.clock.now - begin < 61 * SECOND


def test_a_stop_ends_the_wait_for_steadiness() -> None:
    bench = Bench()

    def stop_in_the_tenth(number: int) -> None:
        bench.control.stop_requested = number >= 9

    bench.model = stop_in_the_tenth
    assert warm_up(bench.loop, 0, 0, until_steady=True) == "stop"
    assert bench.inferences <= 10 + 20


def at_rate(hz: float, duty: Duty | None = None) -> Callable[[], Open]:
    return lambda: Open(fixed_starts(hz), duty)


def test_a_fixed_rate_starts_inferences_when_they_are_due() -> None:
    bench = Bench(takes_ns=3 * MS, pace=at_rate(50))
    begin = bench.clock.now
    assert bench.measure(runs=5) == "runs"
    records = bench.collect()
    assert records["t_ns"].tolist() == [begin + n * 20 * MS for n in range(5)]
    assert records["wait_ns"].tolist() == [0] * 5


def test_a_stall_is_waited_for_by_all_that_were_due_in_it() -> None:
    """The coordinated omission: service time knows of one slow inference, and ten were late."""
    bench = Bench(takes_ns=2 * MS, pace=at_rate(100))
    bench.model = lambda number: bench.clock.take(98 * MS) if number == 3 else None
    bench.measure(runs=20)
    records = bench.collect()
    latency_ms, wait_ms = records["latency_ns"] // MS, records["wait_ns"] // MS
    assert latency_ms.tolist() == [2] * 3 + [100] + [2] * 16
    assert wait_ms.tolist() == [0] * 4 + [90, 82, 74, 66, 58, 50, 42, 34, 26, 18, 10, 2] + [0] * 4


def test_what_is_late_is_served_back_to_back() -> None:
    bench = Bench(takes_ns=30 * MS, pace=at_rate(50))
    bench.measure(runs=50)
    assert set(np.diff(bench.collect()["t_ns"]).tolist()) == {30 * MS}
    assert bench.collect()["wait_ns"].tolist() == [n * 10 * MS for n in range(50)]


def test_no_inference_is_begun_that_is_due_at_the_end() -> None:
    bench = Bench(takes_ns=MS, pace=at_rate(10))
    begin = bench.clock.now
    assert bench.measure(until_ns=begin + SECOND) == "duration"
    assert len(bench.collect()) == 10
    assert bench.clock.now == begin + SECOND


def test_a_delay_is_from_end_to_next_start_and_no_wait() -> None:
    bench = Bench(takes_ns=3 * MS, pace=lambda: Closed(delay_ns=7 * MS))
    bench.measure(runs=4)
    assert np.diff(bench.collect()["t_ns"]).tolist() == [10 * MS] * 3
    assert set(bench.collect()["wait_ns"].tolist()) == {0}


def test_a_duty_cycle_rests_between_its_works() -> None:
    bench = Bench(takes_ns=10 * MS, pace=lambda: Closed(duty=Duty(50 * MS, 200 * MS)))
    begin = bench.clock.now
    bench.measure(runs=12)
    starts = ((bench.collect()["t_ns"] - begin) // MS).tolist()
    assert starts == [0, 10, 20, 30, 40, 250, 260, 270, 280, 290, 500, 510]


def test_under_a_rate_a_duty_cycle_plans_no_start_in_its_rest() -> None:
    bench = Bench(takes_ns=MS, pace=at_rate(50, Duty(SECOND // 10, SECOND)))
    begin = bench.clock.now
    bench.measure(runs=7)
    starts = ((bench.collect()["t_ns"] - begin) // MS).tolist()
    assert starts == [0, 20, 40, 60, 80, 1100, 1120]


def test_records_are_sent_before_a_rest() -> None:
    bench = Bench(takes_ns=MS, pace=at_rate(1))
    seen: list[int] = []
    bench.model = lambda _number: seen.append(len(bench.collect()))
    bench.measure(runs=4)
    assert seen == [0, 1, 2, 3]


def test_a_stop_is_heeded_in_a_long_rest() -> None:
    bench = Bench(takes_ns=MS, pace=at_rate(0.01))
    begin = bench.clock.now
    sleep = bench.loop._waiter._sleep

    def stopping(seconds: float) -> None:
        bench.control.stop_requested = bench.clock.now - begin > SECOND
        sleep(seconds)

    bench.loop._waiter._sleep = stopping
    assert bench.measure() == "stop"
    assert bench.clock.now - begin < 2 * SECOND


def test_a_stop_in_a_short_rest_loses_no_record() -> None:
    bench = Bench(takes_ns=MS, pace=at_rate(500))

    def stop_in_the_third(number: int) -> None:
        bench.control.stop_requested = number >= 2

    bench.model = stop_in_the_third
    assert bench.measure() == "stop"
    assert len(bench.collect()) == 3


class Profile:
    """Bursts that take their time whenever they are asked."""

    def __init__(self, bench: Bench, takes_ns: int, at: int) -> None:
        self.bench, self.takes_ns, self.at = bench, takes_ns, at

    def begin(self) -> None: ...

    def is_due(self, _now: int) -> bool:
        return self.bench.inferences == self.at

    def take(self, _call: object) -> None:
        self.bench.clock.take(self.takes_ns)
        self.at = -1


@pytest.mark.parametrize("takes_ms", [5, 150])
def test_what_a_profile_takes_is_nobodys_wait(takes_ms: int) -> None:
    bench = Bench(takes_ns=2 * MS, pace=at_rate(50))
    begin = bench.clock.now
    bench.loop.bursts = Profile(bench, takes_ms * MS, at=3)
    bench.measure(runs=8)
    records = bench.collect()
    assert set(records["wait_ns"].tolist()) == {0}
    kept_ms = max(0, takes_ms - 18)  # what of it was not a rest anyway
    assert ((records["t_ns"] - begin) // MS).tolist() == [0, 20, 40, *(60 + kept_ms + 20 * n for n in range(5))]


def test_a_queue_is_as_long_after_a_profile_as_before() -> None:
    plain, profiled = (Bench(takes_ns=30 * MS, pace=at_rate(50)) for _ in range(2))
    profiled.loop.bursts = Profile(profiled, 400 * MS, at=6)
    for bench in (plain, profiled):
        bench.measure(runs=12)
    assert profiled.collect()["wait_ns"].tolist() == plain.collect()["wait_ns"].tolist()


def test_a_warm_up_is_back_to_back_and_steadiness_is_paced() -> None:
    bench = Bench(takes_ns=MS, pace=at_rate(10))
    begin = bench.clock.now
    warm_up(bench.loop, 50, 0, until_steady=False)
    assert bench.clock.now - begin == 50 * MS
    warm_up(bench.loop, 0, 0, until_steady=True)
    assert bench.inferences == 50 + 40


def slows_at(number: int, bench_of: list["Bench"]) -> Callable[[int], None]:
    def model(now: int) -> None:
        if now == number:
            bench_of[0].clock.take(80 * MS)

    return model


def test_a_slow_inference_is_reported_with_kernel_counters() -> None:
    benches: list[Bench] = []
    benches.append(Bench(slows_at(150, benches)))
    bench = benches[0]
    bench.measure(runs=400)
    records = bench.collect()
    slowest = records[np.argmax(records["latency_ns"])]
    (told,) = [said for said in bench.slow if said["latency_ns"] == 81 * MS]
    assert told["t_ns"] == slowest["t_ns"]
    assert int(str(told["span_ns"])) >= 81 * MS


def test_slow_warm_up_and_failed_inferences_are_not_reported() -> None:
    bench = Bench(takes_ns=50 * MS)
    bench.loop.repeat(message_frames.PHASE_WARMUP, runs=10)
    bench.collect()
    assert bench.slow == []
    bench = Bench(fails_at(*range(8)), takes_ns=50 * MS)
    bench.measure(runs=8)
    bench.collect()
    assert bench.slow == []


def test_a_phase_begins_right_before_its_first_inference() -> None:
    """What is prepared before, and telling of the phase, take none of its time."""
    bench, announced = Bench(takes_ns=MS), []

    def announce() -> None:
        bench.clock.take(3 * MS)
        announced.append(bench.clock())

    asked_ns = bench.clock()
    assert bench.loop.repeat(message_frames.PHASE_MEASURE, duration_ns=10 * MS, announce=announce) == "duration"
    records = bench.collect()
    assert announced == [asked_ns + 3 * MS] == [records["t_ns"][0]]
    assert len(records) == 10


def test_a_phase_stopped_before_its_begin_is_not_announced() -> None:
    bench, announced = Bench(), []
    bench.control.stop_requested = True
    assert bench.loop.repeat(message_frames.PHASE_MEASURE, announce=lambda: announced.append(1)) == "stop"
    assert announced == []


def test_an_input_that_was_prepared_too_late_for_a_phase_is_the_first_of_the_next() -> None:
    """So the number of a record tells which input it was of."""
    prepared: list[int] = []
    ran: list[int] = []

    def prepare(bench: Bench) -> Callable[[], object]:
        number = len(prepared)
        prepared.append(number)
        return lambda: (ran.append(number), bench.infer())

    bench = Bench(takes_ns=MS, next_call=prepare, pace=at_rate(10))
    for _ in range(3):
        assert bench.measure(duration_ns=SECOND // 4) == "duration"
    assert ran == [*range(len(bench.collect()))]
    assert len(prepared) == len(ran) + 1
