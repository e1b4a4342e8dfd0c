"""What every feed keeps to, whoever makes the session that it plays."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from edgetop.feeds.attach_feed import AttachFeed
from edgetop.feeds.feed_protocol import MAX_WAITING_BATCHES, Can, Feed
from edgetop.feeds.live import LiveFeed
from edgetop.feeds.remote import RemoteFeed
from edgetop.recording.recorder import Recorder
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import SystemClock
from edgetop.session.events import Order
from tests.support.clocks import ManualClock
from tests.support.recordings import record
from tests.support.relays import Pipes
from tests.support.replays import replay_of
from tests.support.scripts import ListFeed, OrderLog, Script, measured
from tests.support.waiting import wait_until

WHOLE = Can.STOP | Can.MARK | Can.PAUSE_RECORDING | Can.PROFILE


class Source(Feed, Protocol):
    """A feed, and the end of it at which a session puts in what happens."""

    def put(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


def live() -> tuple[Source, list[Order]]:
    feed, session = LiveFeed(), OrderLog()
    feed.connect(session)
    return feed, session.asked


def listed() -> tuple[Source, list[Order]]:
    feed = ListFeed()
    return feed, feed.asked


Make = Callable[[], tuple[Source, list[Order]]]
every_feed = pytest.mark.parametrize("make", [live, listed])
every_whole_feed = pytest.mark.parametrize("kind", ["live", "listed", "replayed", "attached", "remote"])


def session(batches: int) -> list[Batch]:
    """So many batches and more, with something of every kind in them."""
    script = Script(step_s=0.5).load().warm_up().begin()
    while len(script.batches) < batches:
        script.measure(2).tell("log", message="a line").lose("temp/cpu-thermal").profile()
    return script.end().batches


def drained(feed: Feed) -> list[Batch]:
    got = []
    while (batch := feed.read()) is not None:
        got.append(batch)
    return got


def assert_same(got: Sequence[Batch], given: Sequence[Batch]) -> None:
    one, other = merge(got), merge(given)
    assert np.array_equal(one.inferences, other.inferences)
    assert np.array_equal(one.seconds.rows, other.seconds.rows)
    assert np.array_equal(one.seconds.histogram(), other.seconds.histogram())
    assert np.array_equal(one.readings, other.readings)
    assert (one.events, one.bursts) == (other.events, other.bursts)
    assert (one.until_ns, one.manifest) == (other.until_ns, other.manifest)


@every_feed
def test_everything_is_read_once_and_in_order(make: Make) -> None:
    feed, _ = make()
    given, got = session(40), []
    for i, batch in enumerate(given):
        feed.put(batch)
        if i % 3 == 0:
            got += drained(feed)
    got += drained(feed)
    assert_same(got, given)


def fed(kind: str, given: Sequence[Batch], folder: Path) -> Feed:
    """A feed that plays this whole session to its end."""
    if kind == "replayed":
        feed, clock = replay_of(given, folder)
        clock.advance(3600)
        return feed
    if kind == "attached":
        return attached(given, folder / "s.edgetop")
    if kind == "remote":
        remote = RemoteFeed(Pipes(record(folder / "s.edgetop", list(given))), "a board", SystemClock())
        wait_until(lambda: remote.can is Can.NOTHING)
        return remote
    source, _ = live() if kind == "live" else listed()
    for batch in given:
        source.put(batch)
    source.close()
    return source


def attached(given: Sequence[Batch], folder: Path) -> Feed:
    """To a session that began a little before and ends a little later."""
    manifests = [batch.manifest for batch in given if batch.manifest]
    recorder = Recorder(folder, manifests[0])
    feed: Feed | None = None
    for place, batch in enumerate(given):
        recorder.write(batch)
        feed = feed or (AttachFeed(folder, ManualClock()) if place == len(given) // 2 else None)
    recorder.finish(manifests[-1])
    assert feed
    return feed


@every_whole_feed
def test_a_whole_session_is_read_once_and_then_it_is_over(kind: str, tmp_path: Path) -> None:
    given = session(40)
    feed = fed(kind, given, tmp_path)
    assert not feed.is_over
    got = drained(feed)
    assert feed.is_over
    assert feed.read() is None
    assert_same(got, given)


@every_whole_feed
def test_a_session_that_is_over_takes_no_orders(kind: str, tmp_path: Path) -> None:
    feed = fed(kind, session(3), tmp_path)
    drained(feed)
    assert not feed.can & WHOLE
    feed.order(Order("mark", "late"))
    feed.order(Order("stop"))
    feed.order(Order("pause"))
    assert feed.read() is None
    assert feed.trouble == ""


@every_whole_feed
def test_only_a_playable_feed_has_a_player(kind: str, tmp_path: Path) -> None:
    feed = fed(kind, session(3), tmp_path)
    assert (feed.player is not None) == (Can.SEEK in feed.can) == (Can.SPEED in feed.can)


@pytest.mark.parametrize("to_s", [0.0, 3.3, 1e9])
def test_after_a_seek_the_next_batch_begins_anew(to_s: float, tmp_path: Path) -> None:
    feed = fed("replayed", session(40), tmp_path)
    drained(feed)
    assert feed.player
    feed.player.seek(int(to_s * 1e9))
    batch = feed.read()
    assert batch is not None
    assert batch.restart
    assert batch.manifest is not None
    assert batch.until_ns == feed.player.transport.t_ns


@every_feed
def test_a_read_of_nothing_new_is_none_and_does_not_wait(make: Make) -> None:
    feed, _ = make()
    assert feed.read() is None
    feed.put(measured(1).whole())
    assert drained(feed)
    assert feed.read() is None
    assert not feed.is_over


@every_feed
def test_what_waits_is_known_before_it_is_read(make: Make) -> None:
    feed, _ = make()
    assert not feed.waiting
    batch = measured(1).whole()
    feed.put(batch)
    assert list(feed.waiting) == list(feed.waiting) == [batch]
    assert feed.read() is batch
    assert not feed.waiting


@every_feed
def test_it_is_over_only_when_what_came_has_been_read(make: Make) -> None:
    feed, _ = make()
    for batch in session(10):
        feed.put(batch)
    assert not feed.is_over
    feed.close()
    assert not feed.is_over
    drained(feed)
    assert feed.is_over
    assert feed.read() is None


@every_feed
def test_after_the_end_it_can_do_nothing(make: Make) -> None:
    feed, _ = make()
    feed.put(measured(1).whole())
    assert feed.can == WHOLE
    feed.close()
    drained(feed)
    assert feed.can == Can.NOTHING


@every_feed
def test_what_it_is_asked_reaches_the_session(make: Make) -> None:
    feed, asked = make()
    feed.order(Order("mark", "fan on"))
    feed.order(Order("pause"))
    feed.order(Order("resume"))
    feed.order(Order("profile"))
    feed.order(Order("stop"))
    assert asked == [Order("mark", "fan on"), Order("pause"), Order("resume"), Order("profile"), Order("stop")]


@every_feed
def test_a_reader_that_sleeps_long_misses_nothing(make: Make) -> None:
    feed, _ = make()
    given = session(3 * MAX_WAITING_BATCHES)
    for batch in given:
        feed.put(batch)
    assert_same(drained(feed), given)
