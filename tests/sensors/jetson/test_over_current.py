"""Over-current events: counters become rates, and single events are no alarm."""

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.counters import FIRST, WENT_BACK
from edgetop.sensors.jetson import discover_over_current, over_current_of
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from tests.support.clocks import NS, ManualClock
from tests.support.trees import RefusingRoot, plant

FOLDER = "sys/class/hwmon/hwmon3"


def plant_counts(tree: Path, *counts: int | str, throttles: str = "111") -> Root:
    files = {f"{FOLDER}/name": "soctherm_oc\n"}
    files |= {f"{FOLDER}/oc{n}_event_cnt": f"{count}\n" for n, count in enumerate(counts, 1)}
    files |= {f"{FOLDER}/oc{n}_throt_en": f"{flag}\n" for n, flag in enumerate(throttles, 1)}
    return plant(tree, files)


class Watched:
    """The source on a clock that the test moves on."""

    def __init__(self, tree: Path, *counts: int, throttles: str = "111", root: Root | None = None) -> None:
        self._tree = tree
        planted = plant_counts(tree, *counts, throttles=throttles)
        self._clock = ManualClock()
        alarms = range(1, len(counts) + 1)
        self.source = over_current_of(root or planted, FOLDER, alarms, lambda: self._clock.monotonic_ns() / NS)
        self.source.read()

    def after(self, seconds: float, *counts: int | str) -> dict[str, float | Gap]:
        self._clock.advance(seconds)
        plant_counts(self._tree, *counts)
        return self.now()

    def now(self) -> dict[str, float | Gap]:
        return {info.id: value for info, value in zip(self.source.sensors, self.source.read(), strict=True)}


def test_what_was_counted_before_is_not_told(tmp_path: Path) -> None:
    (source,) = discover_over_current(plant_counts(tmp_path, 0, 0, 27390)).sources
    assert set(source.read()) == {FIRST}


def test_counters_become_rates_and_a_share_of_time(tmp_path: Path) -> None:
    told = Watched(tmp_path, 0, 10, 27390).after(2.0, 0, 14, 27430)
    assert told == {
        "rate/oc1": 0.0,
        "rate/oc2": 2.0,
        "rate/oc3": 20.0,
        "rate/over-current-events": 22.0,
        "pressure/over-current": pytest.approx(2.2),
        "throttle/over-current": 1.0,
        "throttle/under-voltage": 0.0,
    }


def test_events_that_cost_less_than_a_percent_are_no_alarm(tmp_path: Path) -> None:
    """7.6 a second, for an hour, were seen on a board that runs as it should."""
    told = Watched(tmp_path, 0, 0, 0).after(3600.0, 0, 0, 27390)
    assert told["pressure/over-current"] == pytest.approx(0.76, abs=0.005)
    assert told["throttle/over-current"] == 0.0


def test_the_first_alarm_is_under_voltage(tmp_path: Path) -> None:
    watched = Watched(tmp_path, 3, 0, 0)
    told = watched.after(2.0, 4, 0, 0)
    assert (told["throttle/under-voltage"], told["rate/over-current-events"]) == (1.0, 0.0)
    assert watched.after(2.0, 4, 0, 0)["throttle/under-voltage"] == 0.0


def test_an_alarm_that_slows_nothing_costs_no_time(tmp_path: Path) -> None:
    watched = Watched(tmp_path, 0, 0, 0, throttles="110")
    told = watched.after(1.0, 0, 0, 500)
    assert (told["rate/oc3"], told["pressure/over-current"]) == (500.0, 0.0)
    assert watched.source.sensors[2].note == "this alarm is set not to slow anything"


def test_an_alarm_that_the_chip_has_not_is_not_told(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"{FOLDER}/name": "soctherm_oc\n", f"{FOLDER}/oc1_event_cnt": "0\n"})
    (source,) = discover_over_current(root).sources
    assert [info.id for info in source.sensors] == ["rate/oc1", "throttle/under-voltage"]
    plant(tmp_path, {f"{FOLDER}/oc2_event_cnt": "0\n"})
    (tmp_path / FOLDER / "oc1_event_cnt").unlink()
    (source,) = discover_over_current(root).sources
    assert [info.id for info in source.sensors] == [
        "rate/oc2",
        "rate/over-current-events",
        "pressure/over-current",
        "throttle/over-current",
    ]
    assert len(source.read()) == len(source.sensors)


def test_no_share_is_more_than_the_whole(tmp_path: Path) -> None:
    assert Watched(tmp_path, 0, 0, 0).after(1.0, 0, 0, 2_000)["pressure/over-current"] == 100.0


def test_a_count_that_leaps_is_a_gap_and_no_alarm(tmp_path: Path) -> None:
    watched = Watched(tmp_path, 0, 0, 0)
    leap = watched.after(2.0, 0, 0, 4_000_000_000).values()
    assert all(isinstance(value, Gap) and "leapt" in value.reason for value in leap)
    assert watched.after(2.0, 0, 0, 4_000_000_004)["rate/oc3"] == 2.0


def test_a_counter_that_went_back_is_a_gap_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path, 0, 0, 500)
    assert set(watched.after(2.0, 0, 0, 3).values()) == {WENT_BACK}
    assert watched.after(2.0, 0, 0, 7)["rate/oc3"] == 2.0


def test_a_clock_that_stands_still_makes_no_rate(tmp_path: Path) -> None:
    assert set(Watched(tmp_path, 0, 0, 0).now().values()) == {FIRST}


@pytest.mark.parametrize("error", [errno.EINVAL, errno.EDOM, errno.ETIMEDOUT])
def test_after_a_failure_of_the_bpmp_the_next_interval_is_whole(tmp_path: Path, error: int) -> None:
    root = RefusingRoot(tmp_path, error)
    watched = Watched(tmp_path, 0, 0, 0, root=root)
    root.endings = ("oc2_event_cnt",)
    with pytest.raises(OSError, match=f"Errno {error}"):
        watched.after(2.0, 0, 0, 20)
    root.endings = ()
    assert watched.after(2.0, 0, 0, 40)["rate/oc3"] == 10.0


def test_a_chip_of_that_name_with_other_files_gives_nothing(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"{FOLDER}/name": "soctherm_oc\n", f"{FOLDER}/oc_count": "1\n"})
    assert discover_over_current(root).sources == ()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(10**18), 10**18).map(str) | st.text(max_size=6), min_size=3, max_size=3))
def test_no_content_breaks_it_or_makes_a_rate_below_zero(
    tmp_path_factory: pytest.TempPathFactory, contents: list[str]
) -> None:
    watched = Watched(tmp_path_factory.getbasetemp() / "oc", 0, 0, 0)
    try:
        told = watched.after(2.0, *(text.replace("\ud800", "") for text in contents))
    except ValueError:
        return
    assert all(isinstance(value, Gap) or value >= 0 for value in told.values())
