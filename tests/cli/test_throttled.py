"""A board that says it is throttled, under a real engine: readings, report, events and hook tell the same spans."""

import pytest

from tests.support.demo_runs import Burners, check_told, demo

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("scenario", "speed", "engine", "burners"),
    [
        pytest.param("under-voltage", "180x", "onnxruntime", 1, marks=pytest.mark.thorough),
        ("power-cap", "120x", "litert", 0),
    ],
)
def test_every_span_of_a_flag_is_told(scenario, speed, engine, burners, tmp_path):
    with Burners(burners):
        said = demo(tmp_path, "--scenario", scenario, "--speed", speed, "--engine", engine, "--duration", "6s")
    assert check_told(tmp_path, said)
    assert {span["cause"] for span in said[0]["throttles"]} == {scenario}
