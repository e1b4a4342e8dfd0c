"""A session from afar is the session: whatever the link does, nothing twice and nothing missing at its end."""

import threading

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.errors import EdgetopError, InputError
from edgetop.feeds.feed_protocol import Can
from edgetop.feeds.remote import ALIVE_EVERY_NS, SILENCE_S, Conversation, LinkEndedError, RemoteFeed, UnreachableError
from edgetop.relay import relay_frames
from edgetop.relay.relay_frames import pack_message
from edgetop.session.clock import SystemClock
from edgetop.session.events import Order
from edgetop.session.seconds import NS
from tests.support.clocks import ManualClock
from tests.support.fleets import Saying
from tests.support.relays import LiveRecording, Pipes, read_until
from tests.support.scripts import Script
from tests.support.sessions import differences, folded
from tests.support.waiting import PATIENCE_S, wait_until

SOON = (0.01,)


@pytest.fixture
def script() -> Script:
    return Script(step_s=0.5).load().warm_up().begin().measure(4)


@pytest.fixture
def live(script, tmp_path) -> LiveRecording:
    return LiveRecording(tmp_path / "s.edgetop", script.batches)


@pytest.fixture
def pipes(live) -> Pipes:
    return Pipes(live.folder)


@pytest.fixture
def feed(pipes):
    feed = RemoteFeed(pipes, "pi@board", SystemClock(), SOON)
    yield feed
    feed.close(0.1)


def shown(analysis: Analysis):
    return [analysis.view(window_ns).freeze() for window_ns in (10 * NS, 60 * NS, 600 * NS, None)]


def go_on(script: Script, live: LiveRecording, seconds: float = 1.0) -> None:
    before = len(script.batches)
    script.measure(seconds)
    live.put(*script.batches[before:])


def end(script: Script, live: LiveRecording) -> None:
    before = len(script.batches)
    live.finish(*script.end().batches[before:])


def test_the_view_at_the_end_is_the_one_on_the_board(feed, script, live):
    analysis = Analysis()
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    go_on(script, live, 2)
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    end(script, live)
    read_until(feed, analysis.fold, lambda: feed.is_over)
    assert differences(shown(analysis), shown(folded(script.batches))) == []
    assert feed.trouble == ""
    assert feed.can is Can.NOTHING


def test_a_dropped_link_comes_back_and_the_view_is_unchanged(feed, script, live, pipes):
    analysis = Analysis()
    for _ in range(3):
        read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
        links = len(pipes.links)
        pipes.links[-1].hang_up()
        go_on(script, live, 3)
        wait_until(lambda links=links: len(pipes.links) > links)
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    end(script, live)
    read_until(feed, analysis.fold, lambda: feed.is_over)
    assert differences(shown(analysis), shown(folded(script.batches))) == []
    assert pipes.asked_for == [None, *[str(live.folder)] * 3]
    assert pipes.attended == [True, False, False, False]


def test_only_what_was_missed_is_sent_again(feed, script, live, pipes):
    analysis = Analysis()
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    wait_until(lambda: feed._position is not None)  # who is cut off in the middle of a past begins anew
    pipes.links[0].hang_up()
    wait_until(lambda: len(pipes.links) == 2)
    restarts = []
    go_on(script, live)
    read_until(
        feed, lambda batch: restarts.append(batch.restart) or analysis.fold(batch),
        lambda: analysis.progress.view().now_ns == script.now_ns,
    )  # fmt: skip
    assert not any(restarts)


def test_a_session_that_ended_while_unlinked_is_shown_to_its_end(script, live, pipes):
    pipes_then = [pipes]

    def connect(session, attended):
        if not attended:
            wait_until(lambda: not pipes_then)
        return pipes(session, attended)

    feed = RemoteFeed(connect, "pi@board", SystemClock(), SOON)
    analysis = Analysis()
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    pipes.links[0].hang_up()
    end(script, live)
    pipes_then.clear()
    read_until(feed, analysis.fold, lambda: feed.is_over)
    assert differences(shown(analysis), shown(folded(script.batches))) == []
    feed.close(0.1)


class Gone:
    """Attempts to come back, none of which succeeds until it is let."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self.attempts = 0
        self.is_back = False

    def __call__(self, session, attended):
        self.attempts += not attended
        if attended or self.is_back:
            return self._pipes(session, attended)
        raise UnreachableError("no route to host")


def test_the_screen_shows_the_lost_link_and_the_next_attempt(pipes):
    clock, gone = ManualClock(), Gone(pipes)
    feed = RemoteFeed(gone, "pi@board", clock, (0.01, 3600.0))
    pipes.links[0].hang_up()
    wait_until(lambda: gone.attempts == 1 and "3600" in feed.trouble)
    assert feed.trouble == "LINK LOST, reconnecting in 3600 s"
    clock.advance(3596.5)
    assert feed.trouble == "LINK LOST, reconnecting in 4 s"
    clock.advance(10)
    assert feed.trouble == "LINK LOST, reconnecting"
    assert not feed.can & (Can.STOP | Can.MARK | Can.PAUSE_RECORDING)
    assert Can.VISIT in feed.can
    feed.order(Order("mark", "nobody hears"))
    assert not feed.is_over
    feed.close(0.1)


class Slow(Saying):
    clock = ManualClock()

    def read(self, timeout_s: float) -> bytes:
        self.clock.advance(ALIVE_EVERY_NS / NS / 2)
        return super().read(timeout_s)


def test_a_board_hears_of_its_viewer_while_a_large_frame_arrives():
    large = relay_frames.seal(relay_frames.BATCH, bytes(60))
    link = Slow(
        relay_frames.hello(), pack_message(relay_frames.BEGIN, session="s"), *(large[i : i + 1] for i in range(20))
    )
    feed = RemoteFeed(link, "pi@board", link.clock, SOON)
    wait_until(lambda: link.heard.count(pack_message(relay_frames.ALIVE)) > 5)
    feed.close(0.1)


def test_it_is_tried_until_it_succeeds(pipes, script, live):
    gone = Gone(pipes)
    feed = RemoteFeed(gone, "pi@board", SystemClock(), SOON)
    pipes.links[0].hang_up()
    wait_until(lambda: gone.attempts > 5)
    gone.is_back = True
    wait_until(lambda: feed.trouble == "")
    analysis = Analysis()
    read_until(feed, analysis.fold, lambda: analysis.progress.view().now_ns == script.now_ns)
    feed.close(0.1)


def test_who_leaves_while_the_link_is_lost_need_not_wait(pipes):
    feed = RemoteFeed(Gone(pipes), "pi@board", SystemClock(), (3600.0,))
    pipes.links[0].hang_up()
    wait_until(lambda: feed.trouble)
    assert feed.close(10.0) == ()
    assert not feed._thread.is_alive()


def test_orders_reach_the_board(feed, pipes):
    feed.order(Order("mark", "fan on"))
    feed.order(Order("pause"))
    feed.order(Order("resume"))
    feed.order(Order("stop"))
    assert feed.close(20.0) == ()
    assert sorted(pipes.given, key=str) == [Order("mark", "fan on"), Order("pause"), Order("resume"), Order("stop")]


def test_why_an_order_was_refused_is_shown_for_a_while(live):
    def refuse(*_):
        raise EdgetopError("s: is not running, or takes no orders")

    clock = ManualClock()
    feed = RemoteFeed(Pipes(live.folder, refuse), "pi@board", clock, SOON)
    feed.order(Order("mark", "x"))
    wait_until(lambda: feed.trouble)
    assert feed.trouble == "cannot mark: s: is not running, or takes no orders"
    clock.advance(11)
    assert not feed.trouble.startswith("cannot")
    feed.close(0.1)


def test_an_order_not_yet_confirmed_is_reported_on_leaving(live):
    go = threading.Event()
    feed = RemoteFeed(Pipes(live.folder, lambda *_: go.wait(PATIENCE_S)), "pi@board", SystemClock(), SOON)
    feed.order(Order("stop"))
    assert feed.close(0.3) == ("stop",)
    go.set()


def test_a_stop_is_confirmed_by_the_sessions_end(script, live):
    go = threading.Event()
    feed = RemoteFeed(Pipes(live.folder, lambda *_: go.wait(PATIENCE_S)), "pi@board", SystemClock(), SOON)
    feed.order(Order("stop"))
    end(script, live)
    assert feed.close(20.0) == ()
    go.set()


class Scripted:
    """A board that says what it is given, and then is silent, or ends."""

    def __init__(self, *said: bytes, ends: bool = True, why: str = "") -> None:
        self._said = list(said)
        self._ends, self._why = ends, why
        self.heard: list[bytes] = []
        self.is_closed = False

    def read(self, timeout_s):
        if self._said:
            return self._said.pop(0)
        raise LinkEndedError if self._ends else TimeoutError

    def write(self, data):
        self.heard.append(data)

    def hang_up(self):
        self._ends = True

    def answered(self):
        pass

    def close(self):
        self.is_closed = True
        return self._why


def fails(*said: bytes, why: str = "") -> str:
    link = Scripted(*said, why=why)
    with pytest.raises(InputError) as told:
        RemoteFeed(lambda *_: link, "pi@board", SystemClock(), SOON)
    assert link.is_closed
    return str(told.value)


def test_another_protocol_is_reported_before_a_screen_opens():
    newer = pack_message(relay_frames.HELLO, protocol=99, edgetop="9.9", format=1)
    assert fails(newer).startswith("edgetop 9.9 on pi@board speaks relay protocol 99")


def test_a_board_that_has_no_session_is_told_in_its_words():
    assert (
        fails(relay_frames.hello(), pack_message(relay_frames.FAILED, message="no session runs now"))
        == "pi@board: no session runs now"
    )


def test_why_ssh_ended_is_told():
    assert fails(why="pi@board: Permission denied (publickey).") == "pi@board: Permission denied (publickey)."


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "pi@board ended without an answer"),
        (b"\x1b[2JGo away\n", 'pi@board ended without an answer; it said "\\x1b[2JGo away"'),
        (b"no " * 50_000, 'pi@board said "no no'),
        (relay_frames.hello()[:-1] + b"?", "pi@board said which no edgetop relay says: a frame was damaged on its way"),
    ],
)
def test_what_is_no_relay_is_told_with_what_it_said(said, words):
    assert fails(said).startswith(words)
    assert len(fails(said)) < 400


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((), "pi@board said nothing for 60 s (what starts there? ssh pi@board edgetop --version)"),
        ((b"Welcome\xc2\x9b31m\n",), 'pi@board said "Welcome\\x9b31m", and then nothing for 60 s (what'),
        ((relay_frames.hello(),), "pi@board answered, and then said nothing for 60 s"),
    ],
)
def test_a_silent_board_is_given_up_but_is_no_ssh_failure(said, words):
    link = Scripted(*said, ends=False, why="ssh could not reach pi@board")
    with pytest.raises(InputError) as told:
        RemoteFeed(lambda *_: link, "pi@board", SystemClock(), SOON)
    assert str(told.value).startswith(words)
    assert link.is_closed


def test_noise_without_an_end_is_given_up_too():
    class Dribbling(Scripted):
        def read(self, timeout_s):
            return super().read(timeout_s) if self._said else b""

    with pytest.raises(UnreachableError, match=r'said "\.\.\.", and then nothing for 0.1 s'):
        Conversation(Dribbling(b"..."), "pi@board", None, 0.1)


def test_a_board_that_needs_long_says_so_and_is_waited_for():
    good = [
        relay_frames.hello(),
        pack_message(relay_frames.BEGIN, session="/x"),
        pack_message(relay_frames.ALIVE),
        pack_message(relay_frames.END),
    ]
    feed = RemoteFeed(lambda *_: Scripted(*good, ends=False), "pi@board", SystemClock(), SOON)
    wait_until(lambda: feed.is_over)
    assert feed.failure == ""
    feed.close(0.1)


def test_garbage_in_the_stream_is_a_lost_link_and_not_more():
    good = [relay_frames.hello(), pack_message(relay_frames.BEGIN, session="/x")]
    bad = [
        b"\x00" * 50,
        relay_frames.seal(relay_frames.BATCH, b"garbage"),
        relay_frames.seal(relay_frames.BATCH, b""),
        relay_frames.seal(relay_frames.ACK, b"[]"),
        relay_frames.pack_line(relay_frames.ACK, 1, b"{}"),
        relay_frames.seal(77, b"of a later version"),
    ]
    links = [Scripted(*good, said) for said in bad]
    made = iter(links)
    last = Scripted(*good, pack_message(relay_frames.END))
    feed = RemoteFeed(lambda *_: next(made, last), "pi@board", SystemClock(), SOON)
    wait_until(lambda: feed.is_over)
    assert all(link.is_closed for link in links)
    assert feed.failure == ""
    assert feed.read() is None
    feed.close(0.1)


def test_a_board_that_cannot_go_on_ends_it_with_its_reason():
    link = Scripted(
        relay_frames.hello(),
        pack_message(relay_frames.BEGIN, session="/x"),
        pack_message(relay_frames.FAILED, message="s: is damaged"),
    )
    feed = RemoteFeed(lambda *_: link, "pi@board", SystemClock(), SOON)
    wait_until(lambda: feed.is_over)
    assert feed.failure == "pi@board: s: is damaged"
    assert feed.trouble == "LINK LOST: pi@board: s: is damaged"
    feed.close(0.1)


def test_a_board_updated_meanwhile_ends_it_with_the_mismatch():
    good = [relay_frames.hello(), pack_message(relay_frames.BEGIN, session="/x")]
    links = iter([Scripted(*good), Scripted(pack_message(relay_frames.HELLO, protocol=99, edgetop="9.9", format=1))])
    feed = RemoteFeed(lambda *_: next(links), "pi@board", SystemClock(), SOON)
    wait_until(lambda: feed.is_over)
    assert "update edgetop here" in feed.failure
    feed.close(0.1)


def test_a_silent_board_is_told_of():
    clock = ManualClock()
    waiting = threading.Event()

    class Silent(Scripted):
        def read(self, timeout_s):
            if self._said:
                return self._said.pop(0)
            assert timeout_s == SILENCE_S
            waiting.wait(PATIENCE_S)
            raise LinkEndedError

        def hang_up(self):
            waiting.set()

    link = Silent(relay_frames.hello(), pack_message(relay_frames.BEGIN, session="/x"))
    feed = RemoteFeed(lambda *_: link, "pi@board", clock, (3600.0,))
    assert feed.trouble == ""
    clock.advance(6)
    assert feed.trouble == "LINK SILENT for 6 s"
    feed.close(1.0)
