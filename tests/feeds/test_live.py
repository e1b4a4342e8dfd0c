"""The live feed between two threads: what waits stays bounded, and nothing of the summary is lost."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.feeds.feed_protocol import MAX_WAITING_BATCHES, MAX_WAITING_INFERENCES, Can
from edgetop.feeds.live import LiveFeed
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Order
from edgetop.session.records import NO_INFERENCES
from tests.support.scripts import OrderLog, Script

pytestmark = pytest.mark.slow


def busy_session() -> list[Batch]:
    """More inferences than may wait: twelve seconds at 50,000 Hz."""
    return Script().load().warm_up().begin().measure(12, rate_hz=50_000, median_ms=0.018).end().batches


def test_before_a_session_is_connected_it_can_do_nothing() -> None:
    feed = LiveFeed()
    assert feed.can == Can.NOTHING
    feed.order(Order("stop"))
    feed.order(Order("mark", ""))
    feed.order(Order("pause"))


def test_it_can_detach_only_where_it_outlives_its_screen() -> None:
    for outlives in (False, True):
        feed = LiveFeed(outlives_its_screen=outlives)
        feed.connect(OrderLog())
        assert (Can.DETACH in feed.can) is outlives
        feed.close()
        assert feed.can == Can.NOTHING


def test_unread_inferences_are_bounded_and_their_seconds_kept() -> None:
    feed, given = LiveFeed(), busy_session()
    for batch in given:
        feed.put(batch)
    got = feed.read()
    assert got is not None
    assert 0 < len(got.inferences) <= MAX_WAITING_INFERENCES < sum(len(batch.inferences) for batch in given)
    assert np.array_equal(got.seconds.rows, merge(given).seconds.rows)
    assert got.events == merge(given).events


def test_a_session_with_dropped_inferences_has_the_same_figures() -> None:
    given = busy_session()
    feed = LiveFeed()
    for batch in given:
        feed.put(batch)
    late, prompt = Analysis(), Analysis()
    late.fold(feed.read() or Batch())
    for batch in given:
        prompt.fold(batch)
    assert late.statistics() == prompt.statistics()


def test_after_a_read_everything_is_taken_in_again() -> None:
    feed = LiveFeed()
    for batch in busy_session():
        feed.put(batch)
    feed.read()
    again = busy_session()[-4]
    feed.put(again)
    got = feed.read()
    assert got is not None
    assert np.array_equal(got.inferences, again.inferences)


def test_what_waits_is_few_batches_however_many_came() -> None:
    feed = LiveFeed()
    for i in range(10 * MAX_WAITING_BATCHES):
        feed.put(Batch(until_ns=i))
        assert len(feed._waiting) <= MAX_WAITING_BATCHES
    got = feed.read()
    assert got is not None
    assert got.until_ns == 10 * MAX_WAITING_BATCHES - 1


def test_two_threads_lose_nothing() -> None:
    feed, given = LiveFeed(), [replace(batch, inferences=NO_INFERENCES) for batch in busy_session() * 200]

    def conduct() -> None:
        for batch in given:
            feed.put(batch)
        feed.close()

    thread = threading.Thread(target=conduct)
    thread.start()
    got = []
    while not feed.is_over:
        feed.ended.wait(0.001)
        if (batch := feed.read()) is not None:
            got.append(batch)
    thread.join()
    assert sum(len(batch.seconds) for batch in got) == sum(len(batch.seconds) for batch in given)
    assert [event for batch in got for event in batch.events] == [event for batch in given for event in batch.events]


def test_it_wakes_who_waits_for_the_end() -> None:
    feed = LiveFeed()
    feed.put(Batch(until_ns=1))
    assert not feed.ended.is_set()
    feed.close()
    assert feed.ended.is_set()
    assert not feed.is_over
    feed.read()
    assert feed.is_over
