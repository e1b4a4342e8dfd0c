"""When a queue is said to grow without end: loads that are carried and loads that are not."""

from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.overload import Backlog, OverloadView
from edgetop.engines.child.pace import fixed_starts, poisson_starts
from edgetop.session.load_settings import Load
from edgetop.session.records import Inferences
from edgetop.session.seconds import NS
from tests.support.sessions import MS, make_inferences, seconds_of

pytestmark = pytest.mark.slow

Ints = NDArray[np.int64]


def served(planned: Ints, takes: Ints) -> Inferences:
    """One server, first come first served."""
    starts, free = np.empty_like(planned), 0
    for i, (plan, take) in enumerate(zip(planned.tolist(), takes.tolist(), strict=True)):
        starts[i] = max(plan, free)
        free = int(starts[i]) + take
    return make_inferences(starts, takes, wait_ns=starts - planned)


def arrivals(load: Load, seconds: float, seed: int = 0) -> Ints:
    assert load.rate_hz
    starts = poisson_starts(load.rate_hz, [seed, 0]) if load.mode == "poisson" else fixed_starts(load.rate_hz)
    return np.array(list(islice(starts, int(load.rate_hz * seconds))), np.int64)


def views(inferences: Inferences, load: Load) -> list[OverloadView | None]:
    """What was said after each second."""
    seconds, backlog, said = seconds_of(inferences, is_paced=True), Backlog(), []
    for place in range(len(seconds)):
        backlog.fold(seconds.where(np.arange(len(seconds)) == place), load)
        said.append(backlog.view())
    return said


def takes(count: int, mean_ms: float, spread: float, seed: int = 0) -> Ints:
    return (np.random.default_rng(seed).gamma(1 / spread**2, spread**2, count) * mean_ms * MS).astype(np.int64)


FIXED = Load(mode="fixed", rate_hz=30.0)
POISSON = Load(mode="poisson", rate_hz=30.0)


def test_overload_is_reported_in_ten_seconds_with_both_rates() -> None:
    planned = arrivals(FIXED, 30)
    said = views(served(planned, takes(len(planned), 41.5, 0.05)), FIXED)
    assert said[5] is None
    assert said[10] is not None
    assert said[-1] == OverloadView(30.0, pytest.approx(24.1, abs=0.1), pytest.approx(7.5e9, rel=0.05), is_over=False)


@pytest.mark.parametrize("rate_hz", [500.0, 5_000.0])
def test_an_impossible_rate_is_reported_despite_scatter(rate_hz: float) -> None:
    """Of one the engine does a hundredth, so that hardly anything of what arrives is ever seen."""
    load = Load(mode="fixed", rate_hz=rate_hz)
    each = takes(1_000, 40, 0.8)
    said = views(served(arrivals(load, 1_000 / rate_hz), each), load)
    assert said[5] is None
    assert said[12] is not None


@pytest.mark.parametrize("seed", range(3))
def test_too_many_random_arrivals_are_reported_in_a_minute(seed: int) -> None:
    planned = arrivals(POISSON, 60, seed)
    assert views(served(planned, takes(len(planned), 41.5, 0.2, seed)), POISSON)[-1] is not None


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("used", [0.8, 0.95])
def test_random_arrivals_that_can_be_served_are_no_overload(used: float, seed: int) -> None:
    planned = arrivals(POISSON, 600, seed)
    said = views(served(planned, takes(len(planned), used * 1000 / 30, 0.3, seed)), POISSON)
    assert [view for view in said if view] == []


@pytest.mark.parametrize("used", [0.5, 0.97])
@pytest.mark.parametrize("stall_s", [0.3, 20])
def test_a_stall_is_no_overload(used: float, stall_s: float) -> None:
    planned = arrivals(FIXED, 300)
    each = takes(len(planned), used * 1000 / 30, 0.05)
    each[900] += int(stall_s * NS)
    assert [view for view in views(served(planned, each), FIXED) if view] == []


def test_it_is_lifted_when_the_queue_drains_and_stays_until_then() -> None:
    planned = arrivals(FIXED, 120)
    each = takes(len(planned), 15, 0.05)
    each[300:1200] = 50 * MS
    said = views(served(planned, each), FIXED)
    states = ["none" if view is None else "over" if view.is_over else "on" for view in said]
    runs = [state for i, state in enumerate(states) if i == 0 or states[i - 1] != state]
    assert runs == ["none", "on", "over"]


def test_a_closed_load_is_never_overloaded() -> None:
    backlog = Backlog()
    backlog.fold(seconds_of(make_inferences(np.arange(100) * NS, NS)), Load())
    assert backlog.view() is None


def test_it_does_not_depend_on_how_seconds_came() -> None:
    planned = arrivals(FIXED, 40)
    inferences = served(planned, takes(len(planned), 41.5, 0.05))
    backlog = Backlog()
    backlog.fold(seconds_of(inferences, is_paced=True), FIXED)
    assert backlog.view() == views(inferences, FIXED)[-1]


def test_a_cycle_of_work_and_rest_is_judged_over_its_cycles() -> None:
    """In each work more comes than can be done, and the rest suffices for what is left."""
    load = Load(mode="fixed", rate_hz=30.0, duty_on_ns=8 * NS, duty_off_ns=8 * NS)
    work = arrivals(FIXED, 8)
    planned = np.concatenate([work + cycle * 16 * NS for cycle in range(8)])
    assert [view for view in views(served(planned, takes(len(planned), 50, 0.05)), load) if view] == []
    assert views(served(planned, takes(len(planned), 90, 0.05)), load)[-1] is not None


# From when on an overload is said, by loads without scatter.


def said_after(inferences: Inferences, load: Load = FIXED) -> int | None:
    """The second after which it is said first; None: it never is."""
    return next((second for second, view in enumerate(views(inferences, load)) if view), None)


def even(takes_ns: float, seconds: float = 60) -> Inferences:
    planned = arrivals(FIXED, seconds)
    return served(planned, np.full(len(planned), round(takes_ns)))


def test_a_queue_must_grow_for_six_seconds() -> None:
    assert said_after(even(50 * MS, 30)) == 7


def test_a_queue_must_grow_for_four_cycles() -> None:
    load = Load(mode="fixed", rate_hz=30.0, duty_on_ns=4 * NS, duty_off_ns=4 * NS)
    planned = np.concatenate([arrivals(FIXED, 4) + cycle * 8 * NS for cycle in range(12)])
    assert said_after(served(planned, np.full(len(planned), 90 * MS)), load) == 32


@pytest.mark.parametrize(("used", "second"), [(1.0045, None), (1.0055, 13)])
def test_a_wait_must_grow_by_half_a_percent_of_the_time(used: float, second: int | None) -> None:
    assert said_after(even(used * NS / 30)) == second


def test_growth_must_exceed_two_deviations_of_the_work() -> None:
    """Every other inference takes four times as long as the one before."""
    planned = arrivals(FIXED, 40)
    each = np.tile([0.4, 1.6], len(planned) // 2) * 36 * MS
    assert said_after(served(planned, each.astype(np.int64))) == 31


def test_it_is_lifted_when_the_wait_is_half_of_the_longest() -> None:
    planned = arrivals(FIXED, 90)
    each = np.full(len(planned), 28 * MS)
    each[300:600] = 50 * MS
    said = views(served(planned, each), FIXED)
    assert next(second for second, view in enumerate(said) if view and view.is_over) == 39
