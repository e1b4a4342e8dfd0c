"""When inferences are meant to start, and waiting for it on a machine whose sleeps end late."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child.loop import Control
from edgetop.engines.child.pace import (
    MAX_MARGIN_NS,
    MIN_MARGIN_NS,
    NEVER,
    NS,
    SLICE_NS,
    Duty,
    Turns,
    Waiter,
    fixed_starts,
    pace_of,
    poisson_starts,
    sharpen_timers,
    yield_cpu,
)  # fmt: skip

US = 1_000
MS = 1_000_000


@pytest.mark.slow
def test_a_fractional_period_adds_no_error_over_a_day() -> None:
    (start,) = islice(fixed_starts(30), 30 * 86_400, 30 * 86_400 + 1)
    assert start == 86_400 * NS


@pytest.mark.parametrize("rate_hz", [0.5, 30, 5_000])
def test_poisson_arrivals_have_exponential_pauses(rate_hz: float) -> None:
    """Mean and standard deviation of an exponential distribution are equal."""
    pauses = np.diff(list(islice(poisson_starts(rate_hz, [1, 0]), 20_000))) / NS * rate_hz
    assert pauses.mean() == pytest.approx(1, abs=0.03)
    assert pauses.std() == pytest.approx(1, abs=0.03)
    assert np.mean(pauses > 1) == pytest.approx(np.exp(-1), abs=0.015)


def starts_of(stream: int = 0, count: int = 2_000, **load: object) -> list[int]:
    pace = pace_of({"rate_hz": 30.0, "seed": 7, "streams": 4, **load}, stream)
    return [pace.begin(0), *(pace.after(0) for _ in range(count - 1))]


def test_the_same_seed_gives_the_same_arrivals() -> None:
    assert starts_of(arrivals="poisson") == starts_of(arrivals="poisson")
    assert starts_of(arrivals="poisson") != starts_of(arrivals="poisson", seed=8)


def test_arrivals_of_another_session_come_again_and_again() -> None:
    assert starts_of(count=5, starts_ns=[0, 7, 20, 30], arrivals="replayed") == [0, 7, 20, 30, 37]


def test_streams_arrive_independently_or_evenly_apart() -> None:
    assert starts_of(arrivals="poisson", stream=0) != starts_of(arrivals="poisson", stream=1)
    assert [starts_of(stream=k)[0] for k in range(4)] == [k * NS // 30 // 4 for k in range(4)]


def test_without_a_rate_a_pause_or_a_duty_cycle_nothing_paces() -> None:
    assert pace_of({"rate_hz": None, "delay_ns": 0, "duty_ns": None}, 0) is None


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 10**10), st.integers(1, 10**10), st.integers(0, 10**12))
def test_work_is_spread_over_the_on_parts_alone(on_ns: int, off_ns: int, worked_ns: int) -> None:
    duty = Duty(on_ns, off_ns)
    t_ns = duty.spread(worked_ns)
    assert t_ns % (on_ns + off_ns) < on_ns
    assert t_ns // (on_ns + off_ns) == worked_ns // on_ns
    assert duty.earliest(t_ns) == t_ns


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 10**10), st.integers(1, 10**10), st.integers(0, 10**12))
def test_what_is_due_in_a_rest_begins_with_the_next_work(on_ns: int, off_ns: int, t_ns: int) -> None:
    earliest = Duty(on_ns, off_ns).earliest(t_ns)
    assert earliest >= t_ns
    assert earliest % (on_ns + off_ns) < on_ns
    assert earliest == t_ns or earliest % (on_ns + off_ns) == 0


def test_inferences_begin_within_their_turns_alone() -> None:
    pace = Turns([[100, 200], [400, 500]])
    starts = [pace.begin(0)]
    while starts[-1] != NEVER:
        starts.append(pace.after(starts[-1] + 30))
    assert starts == [100, 130, 160, 400, 430, 460, NEVER]  # one begun at 190 would end after its turn


def test_an_inference_longer_than_a_turn_has_one_in_each() -> None:
    pace = Turns([[100, 200], [400, 500]])
    assert pace.begin(0) == 100
    assert pace.after(350) == 400
    assert pace.after(650) == NEVER


class Machine:
    """Sleeps end `late_ns` late; a look at the clock takes 1 us."""

    def __init__(self, late_ns: int) -> None:
        self.now, self.late_ns, self.spun, self.slept = 0, late_ns, 0, 0
        self.control = Control()
        self.waiter = Waiter(self.control, lambda: self.now, self.sleep, self.spin)

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9) + self.late_ns
        self.slept += 1

    def spin(self) -> None:
        self.now += US
        self.spun += 1


def test_however_late_its_sleeps_end_it_is_there_in_time() -> None:
    for late_us in (0, 5, 60, 140, 300):
        machine = Machine(late_us * US)
        late = []
        for number in range(1, 200):
            machine.waiter.until(number * 10 * MS)
            late.append(machine.now - number * 10 * MS)
        assert max(late[1:]) <= US, late_us


def test_it_spins_no_longer_than_sleeps_are_late() -> None:
    machine = Machine(60 * US)
    for number in range(1, 301):
        machine.waiter.until(number * 33 * MS)
    machine.spun = 0
    for number in range(301, 401):
        machine.waiter.until(number * 33 * MS)
    assert machine.spun * US / (100 * 33 * MS) < 0.001


def test_what_another_process_takes_is_not_allowed_for() -> None:
    machine = Machine(10 * US)
    for number in range(1, 200):
        machine.waiter.until(number * 33 * MS)
    before = machine.waiter.margin_ns
    machine.late_ns = 8 * MS
    machine.waiter.until(machine.now + 33 * MS)
    assert machine.waiter.margin_ns == before


def test_the_margin_stays_within_its_bounds() -> None:
    for late_us in (0, 499):
        machine = Machine(late_us * US)
        for number in range(1, 400):
            machine.waiter.until(number * 10 * MS)
        assert MIN_MARGIN_NS <= machine.waiter.margin_ns <= MAX_MARGIN_NS


def test_a_moment_that_is_past_is_not_waited_for() -> None:
    machine = Machine(0)
    machine.now = 5 * MS
    assert machine.waiter.until(4 * MS)
    assert (machine.now, machine.slept) == (5 * MS, 0)


def test_a_stop_ends_the_wait_within_a_slice() -> None:
    machine = Machine(0)
    machine.control.stop_requested = True
    assert not machine.waiter.until(3600 * 1000 * MS)
    assert machine.now <= SLICE_NS


def test_the_real_ones_return() -> None:
    sharpen_timers()
    yield_cpu()
