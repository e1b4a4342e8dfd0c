"""How forecasts between the rooms of a lake fared, counted one by one."""

from itertools import permutations
from pathlib import Path

from edgetop.lake.fared import fared
from edgetop.lake.place import Place
from edgetop.lake.query_engines import ask
from tests.support.lakes import make_lake


def test_each_pair_of_alike_sessions_in_two_rooms_is_a_case(tmp_path: Path) -> None:
    place = Place(str(make_lake(tmp_path, 12, 2).root))
    sessions = ask(place, "SELECT * FROM sessions").records()
    cases = told = right = 0
    for one, other in permutations(sessions, 2):
        change = other["ambient_c"] - one["ambient_c"]
        alike = all(one[key] == other[key] for key in ("model", "version", "enclosure"))
        if not alike or not 1 <= abs(change) <= 15:
            continue
        cases += 1
        low, high = (one[f"steady_{end}_c"] + change for end in ("low", "high"))
        error = abs(change) / 10
        if low - error > other["trip_c"] or high + error < other["trip_c"]:
            told += 1
            right += (low - error > other["trip_c"]) == other["throttled"]
    found = fared(place)
    assert (found.cases, found.told, found.right) == (cases, told, right)
    assert cases > told > right > 0
    assert found.measured >= found.inside > 0
