"""How often a comparison is right: sessions of one law, and of laws that are 3 % apart. `edgetop help compare`."""

from collections.abc import Iterable

import pytest

from edgetop.comparison.figures import FIGURES
from edgetop.comparison.ratios import Ratio, ratio
from edgetop.comparison.sample import Group, Sample
from tests.support.compared import made

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

GROUPS, EACH, SECONDS = 500, 5, 30
FIRST_SEED = 400_000  # none of which was looked at when the method was chosen
BY_KEY = {figure.key: figure for figure in FIGURES}


def group(samples: Iterable[Sample]) -> Group:
    return Group("a group", tuple(samples))


def test_groups_of_five_are_told_apart_only_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[tuple[str, str], list[Ratio]] = {}
    for number in range(GROUPS):
        seed = FIRST_SEED + 3 * EACH * number
        base = [made(seed + i, seconds=SECONDS) for i in range(EACH)]
        same = [made(seed + EACH + i, seconds=SECONDS) for i in range(EACH)]
        slower = [made(seed + 2 * EACH + i, seconds=SECONDS, times=1.03) for i in range(EACH)]
        for key in ("p50_ms", "p99_ms"):
            for what, first, second in (
                ("A/A", base, same), ("3 %", base, slower), ("A/A alone", base[:1], same[:1])
            ):  # fmt: skip
                found.setdefault((what, key), []).append(ratio(group(first), group(second), BY_KEY[key]))
    with capsys.disabled():
        print(f"\n{GROUPS} groups of {EACH} sessions of {SECONDS} s, seeds from {FIRST_SEED}")
        for (what, key), ratios in found.items():
            print(
                f"{what:<9} {key:<7} different {different(ratios):.3f}, interval holds the truth", covers(what, ratios)
            )
    for key in ("p50_ms", "p99_ms"):
        assert different(found["A/A", key]) <= 0.07
        assert different(found["A/A alone", key]) <= 0.07
        for what in ("A/A", "3 %"):
            assert 0.93 <= (covers(what, found[what, key]) or 0) <= 0.97
    assert sum(one.verdict == "slower" for one in found["3 %", "p50_ms"]) >= 0.9 * GROUPS


def different(ratios: list[Ratio]) -> float:
    return sum(one.verdict in ("slower", "faster") for one in ratios) / len(ratios)


def covers(what: str, ratios: list[Ratio]) -> float | None:
    truth = 1.03 if what == "3 %" else 1.0
    known = [one.ci95 for one in ratios if one.ci95]
    return round(sum(low <= truth <= high for low, high in known) / len(known), 4) if known else None
