"""Intel's counters of throttling: deltas, each core and package once, CPUs that come and go."""

from pathlib import Path

from edgetop.sensors import throttling
from edgetop.sensors.sensor_protocol import Gap
from edgetop.sensors.throttling import FIRST, OFFLINE, Advance, ThrottleCounts
from tests.support.trees import plant

NAMES = (
    "core_throttle_count",
    "core_throttle_total_time_ms",
    "package_throttle_count",
    "package_throttle_total_time_ms",
)


def plant_cpu(
    tree: Path, cpu: int, counts: tuple[int | str, ...] = (0, 0, 0, 0), *, core: int = 0, package: int = 0
) -> None:
    """`counts` in the order of NAMES."""
    folder = f"sys/devices/system/cpu/cpu{cpu}"
    files = {f"{folder}/thermal_throttle/{name}": f"{count}" for name, count in zip(NAMES, counts, strict=False)}
    plant(
        tree, files | {f"{folder}/topology/core_id": f"{core}", f"{folder}/topology/physical_package_id": f"{package}"}
    )


def found(tree: Path) -> ThrottleCounts:
    counts = throttling.find_counts(plant(tree, {}))
    assert counts is not None
    return counts


def begun(tree: Path) -> ThrottleCounts:
    """After the first look, which only begins the interval."""
    counts = found(tree)
    assert counts.advance(1.0) == Advance(FIRST, FIRST, FIRST)
    return counts


def test_what_was_counted_before_the_first_look_is_not_of_now(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0, (3, 118, 8, 240))
    counts = begun(tmp_path)
    assert counts.advance(1.0) == Advance(0, 0, throttled=False)
    assert counts.ever() == 1.0


def test_threads_of_a_core_and_cores_of_a_package_count_once(tmp_path: Path) -> None:
    for cpu, core in enumerate((0, 0, 1, 1)):
        plant_cpu(tmp_path, cpu, core=core)
    counts = begun(tmp_path)
    for cpu, core in enumerate((0, 0, 1, 1)):
        plant_cpu(tmp_path, cpu, (2, 0, 5, 0), core=core)
    assert counts.advance(1.0) == Advance(core_events=4, package_events=5, throttled=True)


def test_cores_of_one_number_in_two_packages_are_two(tmp_path: Path) -> None:
    for package in (0, 1):
        plant_cpu(tmp_path, package, package=package)
    counts = begun(tmp_path)
    for package in (0, 1):
        plant_cpu(tmp_path, package, (1, 0, 1, 0), package=package)
    assert counts.advance(1.0) == Advance(2, 2, throttled=True)


def test_an_event_that_ends_has_throttled_too(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0, (1, 0, 1, 0))
    counts = begun(tmp_path)
    plant_cpu(tmp_path, 0, (1, 44, 1, 44))
    assert counts.advance(1.0) == Advance(0, 0, throttled=True)
    assert counts.advance(1.0) == Advance(0, 0, throttled=False)


def test_a_cpu_that_goes_offline_hands_over_without_a_jump(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0, (1, 1, 1, 1))
    plant_cpu(tmp_path, 1, (90, 90, 90, 90))
    counts = begun(tmp_path)
    plant_cpu(tmp_path, 0, ("", "", "", ""))
    assert counts.advance(1.0) == Advance(FIRST, FIRST, FIRST)
    plant_cpu(tmp_path, 1, (91, 90, 90, 90))
    assert counts.advance(1.0) == Advance(1, 0, throttled=True)


def test_a_core_that_is_offline_costs_the_others_nothing(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0)
    plant_cpu(tmp_path, 1, ("", ""), core=1)
    counts = begun(tmp_path)
    plant_cpu(tmp_path, 0, (2, 0, 0, 0))
    assert counts.advance(1.0) == Advance(2, 0, throttled=True)


def test_where_all_are_offline_nothing_is_known(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0, ("", "", "", ""))
    counts = found(tmp_path)
    assert counts.advance(1.0) == Advance(OFFLINE, OFFLINE, OFFLINE)
    assert counts.ever() is OFFLINE


def test_a_counter_that_went_back_is_no_event(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0, (9, 9, 9, 9))
    counts = begun(tmp_path)
    plant_cpu(tmp_path, 0, (0, 0, 0, 0))
    assert isinstance(counts.advance(1.0).core_events, Gap)
    assert counts.ever() == 0.0
    assert counts.advance(1.0) == Advance(0, 0, throttled=False)


def test_without_a_counter_of_the_package_its_cores_count(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0, (0,))
    counts = begun(tmp_path)
    plant_cpu(tmp_path, 0, (3,))
    assert counts.advance(1.0) == Advance(3, 3, throttled=True)


def test_a_machine_without_counters_has_none(tmp_path: Path) -> None:
    assert throttling.find_counts(plant(tmp_path, {"sys/devices/system/cpu/cpu0/online": "1"})) is None


def test_a_count_that_leaps_is_a_gap_and_no_throttling(tmp_path: Path) -> None:
    plant_cpu(tmp_path, 0)
    counts = begun(tmp_path)
    plant_cpu(tmp_path, 0, (2**31, 0, 0, 0))
    leap = counts.advance(1.0)
    assert isinstance(leap.core_events, Gap)
    assert "leapt" in leap.core_events.reason
    assert isinstance(leap.throttled, Gap)
    assert counts.advance(1.0) == Advance(0, 0, throttled=False)
