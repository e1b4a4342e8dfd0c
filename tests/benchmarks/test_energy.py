"""How often the energy of a rail lies within the 95 % interval that is told for it: rails whose integral is known."""

from collections import Counter

import numpy as np
import pytest

from edgetop.analysis.rail_energy import RailEnergy
from edgetop.session.seconds import NS
from tests.support.rails import KINDS, SENSORS, make_case

pytestmark = pytest.mark.benchmark

SEEDS = range(10_000, 10_020)  # none of which was looked at when the method was chosen
WITHIN = 0.95


def test_energy_is_right_within_the_error_bar_in_95_of_100_cases(capsys: pytest.CaptureFixture[str]) -> None:
    hits: Counter[tuple[str, str]] = Counter()
    widths: dict[tuple[str, str], list[float]] = {(kind, sensor): [] for kind in KINDS for sensor in SENSORS}
    for (kind, sensor), found in widths.items():
        for seed in SEEDS:
            case = make_case(seed, kind, sensor)
            rail = RailEnergy()
            rail.began(case.began_ns)
            rail.add(case.t_ns, case.watts)
            mean = rail.precise(rail.until(case.until_ns))
            assert mean is not None
            truth_w = case.joules * NS / (case.until_ns - case.began_ns)
            hits[kind, sensor] += abs(mean.value - truth_w) <= mean.half_width
            found.append(mean.half_width / truth_w)
    cases = len(SEEDS) * len(widths)
    with capsys.disabled():
        print(f"\nseeds {SEEDS.start} to {SEEDS.stop - 1}, {cases} cases, within: {hits.total() / cases:.4f}")
        for (kind, sensor), found in widths.items():
            print(f"{kind:>12} {sensor:>8} {hits[kind, sensor]:>3} of {len(found)}  +-{100 * np.median(found):.2f} %")
    assert hits.total() / cases >= WITHIN
