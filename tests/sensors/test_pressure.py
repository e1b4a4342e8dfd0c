"""Pressure stall information: shares of the interval, from the totals."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.sensors import cpu_load
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap, Source
from tests.support.trees import plant


def plant_memory(tree: Path, some_us: int | str, full_us: int | str) -> Root:
    averages = "avg10=77.00 avg60=66.00 avg300=55.00"
    return plant(tree, {"proc/pressure/memory": f"some {averages} total={some_us}\nfull {averages} total={full_us}\n"})


def memory(root: Root, now_s: Callable[[], float] = time.monotonic) -> Source:
    return next(each for each in cpu_load.discover_pressure(root, now_s).sources if each.name == "memory pressure")


def after(tree: Path, seconds: float, some_us: int | str, full_us: int | str) -> list[float | Gap]:
    """The shares of an interval in which the totals grew from 0 to these."""
    times = iter((100.0, 100.0 + seconds))
    source = memory(plant_memory(tree, 0, 0), lambda: next(times))
    assert all(isinstance(value, Gap) for value in source.read())
    plant_memory(tree, some_us, full_us)
    return list(source.read())


def test_a_share_is_the_growth_of_the_total_over_the_interval(tmp_path: Path) -> None:
    assert after(tmp_path, 2.0, 500_000, 20_000) == [25.0, 1.0]


def test_a_share_never_exceeds_the_whole(tmp_path: Path) -> None:
    whole, too_much = after(tmp_path, 1.0, 1_004_000, 3_000_000)
    assert whole == 100.0
    assert isinstance(too_much, Gap)


def test_a_total_that_went_back_is_a_gap(tmp_path: Path) -> None:
    assert all(isinstance(value, Gap) for value in after(tmp_path, 1.0, -5, -5))


@pytest.mark.parametrize("text", ["", "x", "1_0", "9" * 400])
def test_a_total_that_is_no_number_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        memory(plant_memory(tmp_path, text or "-", 0)).read()


def test_a_line_that_is_not_there_is_a_gap(tmp_path: Path) -> None:
    root = plant(tmp_path, {"proc/pressure/memory": "some avg10=0.00 total=5\n"})
    assert "full" in memory(root).read()[1].reason  # type: ignore[union-attr]


def test_the_cpu_has_no_full_pressure(tmp_path: Path) -> None:
    root = plant(tmp_path, {f"proc/pressure/{name}": "some total=0\nfull total=0\n" for name in ("cpu", "io")})
    ids = [info.id for source in cpu_load.discover_pressure(root).sources for info in source.sensors]
    assert ids == ["pressure/cpu-some", "pressure/io-some", "pressure/io-full"]


@pytest.mark.parametrize(
    ("kernel", "fix"), [("6.12.25+rpt-rpi-2712", "psi=1"), ("4.19.1", None), ("4.9.337-tegra", None), (None, "psi=1")]
)
def test_where_it_is_off_that_is_said_with_what_would_help(tmp_path: Path, kernel: str | None, fix: str | None) -> None:
    (missing,) = cpu_load.discover_pressure(
        plant(tmp_path, {"proc/sys/kernel/osrelease": kernel} if kernel else {})
    ).missing
    assert fix in missing.fix if fix and missing.fix else missing.fix is None
