"""Every scenario of the demo at every speed, alone and beside programs that ask for every core, with real engines.

What is told of throttling is compared with `readings.parquet`. At 1x the trouble comes after seven minutes.
"""

import os

import pytest

from edgetop.simulation.scenarios import SCENARIOS
from tests.support.demo_runs import Burners, check_told, demo

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1_800)]

THROTTLING = ("thermal", "power-cap", "under-voltage")
LENGTH = {"1x": "470s", "20x": "70s", "60x": "40s", "120x": "30s"}
CALM = "20s"  # of what never throttles, at 1x
ENGINES = {"power-cap": "litert", "leak": "litert"}  # of the rest: onnxruntime


@pytest.mark.parametrize("burners", [0, os.cpu_count()], ids=["alone", "beside-burners"])
@pytest.mark.parametrize("speed", LENGTH)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_span_of_a_flag_is_told(scenario, speed, burners, tmp_path, capsys):
    length = LENGTH[speed] if speed != "1x" or scenario in THROTTLING else CALM
    engine = ENGINES.get(scenario, "onnxruntime")
    with Burners(burners):
        said = demo(tmp_path, "--scenario", scenario, "--speed", speed, "--engine", engine, "--duration", length)
    with capsys.disabled():
        print(f"\n{scenario} {speed} beside {burners}: {said[0]['verdict']['words']}")
        print(*(f"  {span}" for span in said[0]["throttles"]), sep="\n")
    up = check_told(tmp_path, said)
    if scenario not in THROTTLING:
        assert not up
    elif scenario != "thermal" or not burners:  # beside others the engine may heat too little
        assert up
