"""Forecasts from one room to another, of boards of which it is known what they do there."""

import numpy as np
import pytest

from edgetop.analysis.forecast.elsewhere import FARTHEST_C, Elsewhere, UnsuitableError, elsewhere
from edgetop.session.manifest import Manifest, Methodology
from edgetop.session.seconds import NS
from tests.support.heating import BEGAN_S, Heating, heating
from tests.support.sessions import make_manifest

DESK_C, SEEN_S = 22.0, 900


def declared(board: Heating, ambient_c: float | None = DESK_C, enclosure: str | None = "box") -> Manifest:
    return make_manifest(*board.sensors, methodology=Methodology(ambient_c=ambient_c, enclosure=enclosure))


def forecast(board: Heating, ambient_c: float, seen_s: float = SEEN_S) -> Elsewhere:
    """From as much as was seen, or up to where it throttled."""
    end_s = min(seen_s, board.hit_s or seen_s)
    return elsewhere(board.batches(end_s), declared(board), ambient_c, round((end_s + BEGAN_S) * NS))


def still(seed: int, trip_c: float) -> Heating:
    return heating(seed, change="none", room="still", trip_c=trip_c)


@pytest.mark.parametrize("seed", range(3))
def test_a_board_that_holds_at_the_desk_throttles_in_the_field(seed: int) -> None:
    steady_c = float(still(seed, 200.0).true_c[-1])
    board = still(seed, round(steady_c + 6))
    found = forecast(board, DESK_C + 14)
    warmer_c = board.true_c + 14
    hit_s = float(np.flatnonzero(warmer_c >= board.trip_c)[0])
    assert found.throttles
    assert found.trip_c == board.trip_c
    assert found.trip_after_s.low - 1 <= hit_s <= found.trip_after_s.high + 1
    assert found.steady_c.low <= warmer_c[-1] <= found.steady_c.high
    assert found.share is None
    assert found.share_silence == "idle-unknown"


@pytest.mark.parametrize("seed", range(2))
def test_a_board_that_throttles_at_the_desk_holds_in_the_cold(seed: int) -> None:
    steady_c = float(still(seed, 200.0).true_c[-1])
    board = still(seed, round(steady_c - 2))
    assert board.hit_s
    found = forecast(board, DESK_C - 14, seen_s=3600)
    assert found.throttles in (False, None)  # what is known of it ends where it throttles
    assert found.steady_c is None or found.steady_c.low <= board.true_c[-1] - 14 <= found.steady_c.high


def test_in_the_same_room_it_is_the_forecast_of_the_session() -> None:
    board = still(0, 200.0)
    found = forecast(board, DESK_C)
    assert found.throttles is False
    assert found.share == (1.0, 1.0)
    assert found.steady_c.low <= board.true_c[-1] <= found.steady_c.high


def test_near_the_trip_nothing_is_told() -> None:
    steady_c = float(still(0, 200.0).true_c[-1])
    found = forecast(still(0, round(steady_c + 10)), DESK_C + 10)
    assert found.throttles is None
    assert found.silence == "near-trip"


def test_beyond_what_the_session_tells_it_refuses() -> None:
    board = still(0, 90.0)
    for manifest, ambient_c, reason in (
        (declared(board, ambient_c=None), 30.0, "no-ambient"),
        (declared(board, enclosure=None), 30.0, "no-enclosure"),
        (declared(board), DESK_C + FARTHEST_C + 1, "too-far"),
    ):
        with pytest.raises(UnsuitableError) as refused:
            elsewhere(board.batches(60), manifest, ambient_c, 60 * NS)
        assert refused.value.reason == reason
    assert forecast(board, DESK_C + 5, seen_s=10).silence == "early"


def test_a_tenth_of_the_change_is_its_error() -> None:
    here, there = (forecast(still(0, 200.0), DESK_C + change_c).steady_c for change_c in (0, 10))
    assert here is not None
    assert there is not None
    assert there.high - there.low == pytest.approx(here.high - here.low + 2 * 0.1 * 10)
