"""The power that may be drawn: from a sensor's own limit, or from the name of the power mode."""

from dataclasses import replace

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.power_limit import PowerLimit, mode_limit_w
from edgetop.session.manifest import SensorInfo
from tests.support.scripts import Script, manifest, sensor


def limit_of(mode: str | None, *infos: SensorInfo, **watts: float) -> PowerLimit | None:
    whole = manifest(sensors=infos, board=replace(manifest().board, power_mode=mode))
    script = Script(whole, lambda _: {f"power/{name}": value for name, value in watts.items()})
    analysis = Analysis()
    analysis.fold(script.load().warm_up().begin().measure(3).whole())
    return analysis.view(None).power_limit


@pytest.mark.parametrize(
    ("mode", "limit_w"),
    [
        ("15W", 15.0), ("MODE_15W_6CORE", 15.0), ("MODE_10W_DESKTOP, clocks locked", 10.0), ("7W", 7.0), ("40W", 40.0),
        ("MAXN", None), ("MAXN_SUPER", None), ("mode 2", None), ("balanced", None), (None, None), ("0W", None),
        ("15W, limits differ from it", None), ("15Wide", None), ("v2.15W", None),
    ],
)  # fmt: skip
def test_a_mode_is_a_limit_if_its_name_has_one_that_is_in_force(mode: str | None, limit_w: float | None) -> None:
    assert mode_limit_w(mode) == limit_w


def test_a_mode_limits_the_power_of_the_whole_board() -> None:
    total, part = sensor("power/in", role="total"), sensor("power/cpu", role="part")
    assert limit_of("15W", part, total, cpu=4.0, **{"in": 9.5}) == PowerLimit(15.0, 9.5)
    assert limit_of("15W", part, cpu=4.0) is None
    assert limit_of("MAXN", total, **{"in": 9.5}) is None


def test_the_nearest_limit_of_a_sensor_goes_before_that_of_a_mode() -> None:
    total = sensor("power/in", role="total")
    package, card = sensor("power/package-0", role="part", max=28.0), sensor("power/gpu", role="part", max=100.0)
    found = limit_of("15W", total, package, card, **{"in": 90.0, "package-0": 27.0, "gpu": 50.0})
    assert found == PowerLimit(28.0, 27.0)
    assert limit_of(None, sensor("power/gpu", max=-1.0), gpu=3.0) is None
