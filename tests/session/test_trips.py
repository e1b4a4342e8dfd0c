"""Where a zone throttles: by its passive trip, or as a Raspberry Pi's firmware does."""

import pytest

from edgetop.session.trips import throttles_at_c
from tests.support.sessions import make_sensor

BARE = make_sensor("temp/cpu-thermal", trips={"critical": 110.0})


@pytest.mark.parametrize(
    ("model", "celsius"),
    [
        ("Raspberry Pi 5 Model B Rev 1.0", 80.0),
        ("Raspberry Pi Compute Module 4 Rev 1.1", 80.0),
        ("Raspberry Pi 3 Model B Plus Rev 1.3", 60.0),
        ("NVIDIA Jetson Orin Nano", None),
        (None, None),
    ],
)
def test_without_a_trip_it_is_what_the_firmware_is_known_to_do(model: str | None, celsius: float | None) -> None:
    assert throttles_at_c(BARE, model) == celsius


def test_a_passive_trip_comes_first() -> None:
    assert throttles_at_c(make_sensor("temp/cpu-thermal", trips={"passive": 75.0}), "Raspberry Pi 5") == 75.0


def test_only_the_chips_own_zone_is_the_firmwares() -> None:
    assert throttles_at_c(make_sensor("temp/rp1_adc"), "Raspberry Pi 5") is None
    assert throttles_at_c(make_sensor("freq/cpu0"), "Raspberry Pi 5") is None
