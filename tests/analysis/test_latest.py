"""The latest seconds: all of a long window, though most of them are compressed."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.latest import EXACT_INFERENCES, LatestInferences, LatestSeconds
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, Seconds, concatenate
from tests.support.scripted_engine import inferences
from tests.support.sessions import back_to_back
from tests.support.thorough import mostly_thorough

MOST = 601


@pytest.fixture(scope="module")
def seconds() -> Seconds:
    """Twelve minutes at about a thousand inferences per second, with response times."""
    latency_ns = np.random.default_rng(1).lognormal(np.log(NS / 1_000), 0.3, 720_000).astype(np.int64)
    return SecondAggregator(is_paced=True).add(back_to_back(0, latency_ns))


@pytest.mark.parametrize("step", [1, 7, 90, 300, 700])
@pytest.mark.parametrize("window_s", [0, 1, 60, 100, 600])
def test_a_window_has_its_seconds_whole(seconds: Seconds, step: int, window_s: int) -> None:
    latest = LatestSeconds(MOST)
    for begin in range(0, len(seconds), step):
        latest.keep(seconds.between(begin, min(begin + step, len(seconds))))
    expected = seconds.between(len(seconds) - window_s, len(seconds))
    given = latest.since(int(seconds.rows["t_ns"][-1]) + NS - window_s * NS)
    parts = [(given, expected), (given.response, expected.response)]
    for part, its in parts[: 1 + bool(window_s)]:  # of no seconds there is no response
        for name in ("rows", "offsets", "bucket", "bucket_count"):
            np.testing.assert_array_equal(getattr(part, name), getattr(its, name))
    np.testing.assert_array_equal(latest.rows()[-600:], seconds.rows[-600:])


def test_ten_minutes_of_histograms_take_little(seconds: Seconds) -> None:
    latest = LatestSeconds(MOST)
    for place in range(len(seconds)):
        latest.keep(seconds.between(place, place + 1))
    last = seconds.between(len(seconds) - MOST, len(seconds))
    assert last.response is not None
    histograms = sum(part.bucket.nbytes + part.bucket_count.nbytes for part in (last, last.response))
    assert MOST <= len(latest.rows()) < MOST + 130
    assert len(pickle.dumps(latest)) - 2 * latest.rows().nbytes < histograms / 2


@pytest.mark.parametrize("step", mostly_thorough([1, 50, 300, 600, 5_000], 300))
def test_it_holds_few_times_what_it_must_however_long_batches_are(seconds: Seconds, step: int) -> None:
    latest, day = LatestSeconds(MOST), concatenate([seconds] * 7)
    for begin in range(0, len(day), step):
        latest.keep(day.between(begin, min(begin + step, len(day))))
        assert len(latest.rows()) <= 4 * MOST
    assert len(latest.rows()) >= MOST


@pytest.mark.parametrize("rate", mostly_thorough([1_000, 4_000, 20_000], 20_000))
def test_a_steady_rate_takes_no_new_memory(rate):
    """New memory fills up slowly: it would look like a leak."""
    latest, one = LatestInferences(), back_to_back(0, np.full(rate, NS // rate, np.int64))
    arrays = []
    for second in range(4 * EXACT_INFERENCES // rate):
        moved = one.copy()
        moved["t_ns"] += second * NS
        latest.keep(moved)
        latest.drop_old()
        held = latest.since(0)
        assert len(held) >= min((second + 1) * rate, EXACT_INFERENCES)
        np.testing.assert_array_equal(held["t_ns"], np.sort(held["t_ns"]))
        assert held["t_ns"][-1] == moved["t_ns"][-1]
        arrays.append(held.base)
    assert len({id(array) for array in arrays[len(arrays) // 2 :]}) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 200), max_size=6), max_size=12))
def test_late_inferences_are_put_in_their_place(batches: list[list[int]]) -> None:
    """One of several streams hangs, and its inference comes after others that began later."""
    latest, every = LatestInferences(), []
    for batch in batches:
        latest.keep(inferences(batch))
        every += batch
        assert latest.since(0)["t_ns"].tolist() == sorted(every)
    assert pickle.loads(pickle.dumps(latest)).since(0)["t_ns"].tolist() == sorted(every)


def test_late_inferences_do_not_disturb_what_is_dropped() -> None:
    latest = LatestInferences()
    for second in range(200):
        starts = second * NS + np.arange(1_000) * (NS // 1_000)
        latest.keep(inferences([*starts.tolist(), max(0, (second - 6) * NS)]))
        latest.drop_old()
    held = latest.since(0)["t_ns"]
    assert EXACT_INFERENCES <= len(held) <= EXACT_INFERENCES + 2_000
    assert (np.diff(held) >= 0).all()
