"""Each threshold of what limits a board from the start, and of others that take the CPU, on both of its sides."""

import numpy as np
import pytest

from edgetop.analysis.slowdowns.from_start import taken_of
from edgetop.analysis.slowdowns.signals import Machine
from tests.analysis.slowdowns.test_contended import session, view_of
from tests.support.sessions import make_sensor
from tests.support.slow_sessions import stretch
from tests.support.slow_sessions import view_of as view_of_seconds

ONE_THREAD = Machine(cores=2, threads=1)


def is_contended(machine: Machine = Machine(cores=2), **values: float) -> bool:  # noqa: B008  it is frozen
    """In a second in which sensors read that; `load_cpu` is `load/cpu`."""
    infos = [make_sensor(name.replace("__", "-").replace("_", "/", 1)) for name in values]
    held = np.array(list(values.values()), np.float64)[:, None]
    return bool(taken_of(infos, held, machine).is_contended[0])


@pytest.mark.parametrize(("percent", "found"), [(29, False), (31, True)])
def test_others_that_take_less_than_thirty_percent_of_a_core_are_none(percent: float, found: bool) -> None:
    assert is_contended(load_others=percent, load_engine=60, rate_run__queue__wait=300) is found


@pytest.mark.parametrize(("wait_ms", "found"), [(105, False), (115, True)])
def test_an_engine_that_waits_for_a_tenth_of_its_time_is_contended(wait_ms: float, found: bool) -> None:
    assert is_contended(load_others=190, load_engine=100, rate_run__queue__wait=wait_ms) is found


@pytest.mark.parametrize(("wait_ms", "found"), [(333, False), (350, True)])
def test_where_nothing_else_is_known_it_waits_for_a_quarter(wait_ms: float, found: bool) -> None:
    assert is_contended(rate_run__queue__wait=wait_ms) is found
    assert is_contended(rate_run__queue__wait=300) is False


@pytest.mark.parametrize(("wait_ms", "found"), [(28, False), (32, True)])
def test_a_paced_engine_waits_for_three_percent_of_a_core_as_it_wakes(wait_ms: float, found: bool) -> None:
    assert is_contended(load_others=190, load_engine=5, rate_run__queue__wait=wait_ms) is found


@pytest.mark.parametrize(("wait_ms", "found"), [(90, False), (110, True)])
def test_calls_of_a_program_wait_for_a_tenth_too(wait_ms: float, found: bool) -> None:
    felt = {"rate_call__run__queue__wait": wait_ms}
    assert is_contended(load_others=190, load_engine=10, rate_run__queue__wait=80, **felt) is found


@pytest.mark.parametrize(("used_up", "found"), [(89, True), (91, False)])
def test_others_take_nothing_from_an_engine_that_uses_up_its_quota(used_up: float, found: bool) -> None:
    """It waits for a CPU before it uses up its 5 ms, too: in each period it would otherwise be stopped for longer."""
    of_quota = {"pressure_cpu__quota": used_up, "rate_cpu__throttled": 690}
    assert is_contended(load_others=194, load_engine=5, rate_run__queue__wait=950, **of_quota) is found


@pytest.mark.parametrize(("engine", "found"), [(79, False), (81, True)])
def test_from_nine_tenths_on_the_cpus_are_full(engine: float, found: bool) -> None:
    assert is_contended(load_others=100, load_engine=engine, pressure_cpu__some=100) is found


@pytest.mark.parametrize(("engine", "found"), [(92, True), (94, False)])
def test_an_engine_that_has_93_percent_of_what_it_asks_for_misses_nothing(engine: float, found: bool) -> None:
    assert is_contended(ONE_THREAD, load_others=160, load_engine=engine, pressure_cpu__some=100) is found


@pytest.mark.parametrize(("pressure", "found"), [(29, False), (31, True)])
def test_beside_others_a_pressure_of_thirty_percent_tells(pressure: float, found: bool) -> None:
    assert is_contended(load_others=150, load_engine=40, pressure_cpu__some=pressure) is found


@pytest.mark.parametrize(("pressure", "found"), [(74, False), (76, True)])
def test_alone_a_pressure_of_three_quarters_tells(pressure: float, found: bool) -> None:
    assert is_contended(pressure_cpu__some=pressure) is found


@pytest.mark.parametrize(("steal", "found"), [(9, False), (10, True)])
def test_eight_percent_of_the_wanted_time_is_stolen(steal: float, found: bool) -> None:
    assert is_contended(load_steal=steal, load_cpu=110, load_engine=100) is found


@pytest.mark.parametrize(("steal", "found"), [(4.5, False), (5.5, True)])
def test_five_percent_of_a_core_is_stolen(steal: float, found: bool) -> None:
    assert is_contended(load_steal=steal, load_cpu=20, load_engine=10) is found


def from_start(*seconds: tuple[int, float]) -> bool:
    """Whether others took the CPU from the start, by waits of so long in so many seconds."""
    view = view_of(session({"rate/run-queue-wait": stretch(*seconds)}))
    return any(slowdown.from_start for slowdown in view.slowdowns)


def test_seven_of_the_first_ten_seconds_are_contended_from_the_start() -> None:
    assert from_start((7, 600.0), (53, 0.0))
    assert not from_start((6, 600.0), (54, 0.0))
    assert from_start((3, 0.0), (7, 600.0), (50, 0.0))
    assert not from_start((6, 600.0), (4, 0.0), (2, 600.0), (48, 0.0))


@pytest.mark.parametrize(
    ("last", "found"), [("cccc", True), ("ccc", False), ("c0c0cc", True), ("cc000cc", False), ("ccc000c", False)]
)
def test_four_of_the_last_six_seconds_are_contended_now(last: str, found: bool) -> None:
    waits = [*stretch((60 - len(last), 0.0)), *(600.0 * (second == "c") for second in last)]
    assert (view_of(session({"rate/run-queue-wait": waits})).contended_now is not None) is found


BUSY = stretch((60, 97.0))


def is_limited(**sensors: list[float]) -> bool:
    named = {name.replace("__", "-").replace("_", "/", 1): values for name, values in sensors.items()}
    return bool(view_of_seconds(stretch((60, 10.0)), named).slowdowns)


@pytest.mark.parametrize(("mhz", "limited"), [(1_060, True), (1_100, False)])
def test_a_clock_below_three_fifths_of_what_is_allowed_is_far_below(mhz: float, limited: bool) -> None:
    assert is_limited(freq_cpu0=stretch((60, mhz)), load_engine=BUSY) is limited


@pytest.mark.parametrize(("mhz", "limited"), [(1_690, True), (1_730, False)])
def test_at_its_trip_a_clock_below_95_percent_is_below(mhz: float, limited: bool) -> None:
    hot = {"temp_cpu__thermal": stretch((60, 85.3))}
    assert is_limited(freq_cpu0=stretch((60, mhz)), load_engine=BUSY, **hot) is limited


def test_a_low_clock_without_a_flag_is_believed_by_seven_tenths() -> None:
    """Of the 0.95 that are the most for what limits from the start."""
    (slowdown,) = view_of_seconds(stretch((60, 10.0)), {"freq/cpu0": stretch((60, 600)), "load/engine": BUSY}).slowdowns
    assert slowdown.confidence == pytest.approx(0.7 * 0.95, abs=0.01)


@pytest.mark.parametrize(("percent", "limited"), [(79, False), (81, True)])
def test_a_low_clock_counts_where_the_engine_keeps_a_core_busy(percent: float, limited: bool) -> None:
    assert is_limited(freq_cpu0=stretch((60, 600)), load_engine=stretch((60, percent))) is limited


@pytest.mark.parametrize(("set_s", "limited"), [((0, 4), True), ((0, 3), False), ((3, 7), False)])
def test_a_flag_limits_for_most_of_the_first_six_seconds(set_s: tuple[int, int], limited: bool) -> None:
    assert is_limited(throttle_thermal=[float(set_s[0] <= second < set_s[1]) for second in range(60)]) is limited


@pytest.mark.parametrize(("seconds", "limited"), [(5, False), (6, True)])
def test_after_six_seconds_a_board_is_limited_from_the_start(seconds: int, limited: bool) -> None:
    view = view_of_seconds(stretch((seconds, 10.0)), {"throttle/thermal": stretch((seconds, 1.0))})
    assert bool(view.slowdowns) is limited
