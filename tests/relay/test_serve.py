"""The board's side of a link: versions first, then the session; it obeys, and it never outlives its viewer."""

import json
import os
import re
import select
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from edgetop import __version__
from edgetop.control.control_socket import Answer, pack_order, parse_answer
from edgetop.errors import EdgetopError, InputError
from edgetop.relay import relay_frames, serve
from edgetop.relay.encoding import NOWHERE, Decoder, Position
from edgetop.relay.relay_frames import Frame, FrameParser
from edgetop.relay.serve import Link, LinkLostError
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import SystemClock
from edgetop.session.events import Order
from edgetop.session.manifest import FORMAT_VERSION
from edgetop.session.seconds import NS
from tests.support.clocks import ManualClock
from tests.support.relays import LiveRecording, PipeLink, past_of
from tests.support.scripts import Script
from tests.support.sessions import differences
from tests.support.waiting import PATIENCE_S, wait_until

FOLLOWING = "0b5f6f3e-8f0e-4c57-9f3c-6f5a4f1f2a99"  # the id of the session that follows


@pytest.fixture
def script() -> Script:
    return Script(step_s=0.5).load().warm_up().begin().measure(3)


@pytest.fixture
def live(script, tmp_path) -> LiveRecording:
    return LiveRecording(tmp_path / "s.edgetop", script.batches)


class Viewer:
    """The other end, frame by frame."""

    def __init__(self, link: PipeLink) -> None:
        self.link = link
        self._parser, self._frames = FrameParser(), []

    def next(self) -> Frame:
        while not self._frames:
            self._frames += self._parser.feed(self.link.read(PATIENCE_S))
        return self._frames.pop(0)

    def until(self, kind: int) -> Frame:
        while (frame := self.next()).kind != kind:
            pass
        return frame


@pytest.fixture
def orders() -> list[Order]:
    return []


@pytest.fixture
def viewer(live, orders):
    link = PipeLink(live.folder, lambda _, order: orders.append(order) or Answer())
    yield Viewer(link)
    link.close()


def test_it_says_what_it_is_before_it_is_asked(viewer):
    hello = viewer.next()
    assert hello.kind == relay_frames.HELLO
    assert hello.message == {"protocol": relay_frames.PROTOCOL, "edgetop": __version__, "format": FORMAT_VERSION}


def test_it_names_the_session_and_then_sends_everything(viewer, live, script):
    viewer.link.write(relay_frames.hello())
    assert viewer.until(relay_frames.BEGIN).message == {"session": str(live.folder)}
    decoder, batches = Decoder(), []
    while not batches or batches[-1].until_ns < script.now_ns:
        batches.append(decoder.decode(viewer.until(relay_frames.BATCH).payload)[0])
    assert differences(merge(batches).seconds, script.whole().seconds) == []


@pytest.mark.parametrize(("protocol", "older"), [(relay_frames.PROTOCOL + 1, "here"), (0, "on the laptop")])
def test_a_viewer_of_another_protocol_is_told_and_gets_nothing(viewer, protocol, older):
    viewer.link.write(relay_frames.pack_message(relay_frames.HELLO, protocol=protocol, edgetop="9.9", format=1))
    viewer.next()
    message = viewer.next().text("message")
    assert message.startswith(f"edgetop 9.9 on the laptop speaks relay protocol {protocol}")
    assert message.endswith(f"update edgetop {older}")


def test_why_there_is_no_session_is_told(tmp_path):
    def find():
        raise InputError("no session is running", "start one with edgetop run")

    frames = spoken(relay_frames.hello(), find)
    assert [frame.kind for frame in frames] == [relay_frames.HELLO, relay_frames.FAILED]
    assert frames[1].text("message") == "no session is running (start one with edgetop run)"


def spoken(said: bytes, find) -> list[Frame]:
    """All that a relay says to who says that and then nothing more."""
    there, sink = os.pipe()
    source, back = os.pipe()
    os.write(sink, said)
    os.close(sink)
    link = Link(there, back, SystemClock())
    serve.serve(link, find, lambda *_: None, past_of, SystemClock())
    link.close()
    os.close(back)
    os.close(there)
    with os.fdopen(source, "rb") as answers:
        return list(FrameParser().feed(answers.read()))


@pytest.mark.parametrize(
    "said", [b"", b"x" * 1_000, relay_frames.hello()[:-1] + b"?", relay_frames.pack_message(relay_frames.ALIVE)]
)
def test_who_says_nothing_sensible_gets_a_hello_and_no_more(said, live):
    assert [frame.kind for frame in spoken(said, lambda: live.folder)] == [relay_frames.HELLO]


@pytest.mark.parametrize("position", [[1, 2], "all", [1, 2, True], [2**70, 0, 0], [-1, -1, -1], {"a": 1}])
def test_a_position_that_is_none_begins_anew(position):
    assert serve._position(Frame(relay_frames.HELLO, json.dumps({"position": position}).encode())) is None


def command(number: int, order: Order) -> bytes:
    return relay_frames.pack_line(relay_frames.COMMAND, number, pack_order(order))


def answered(viewer: Viewer) -> tuple[int, Answer]:
    number, line = viewer.until(relay_frames.ACK).line
    return number, parse_answer(line)


def test_orders_are_carried_out_and_confirmed(viewer, orders):
    viewer.link.write(relay_frames.hello())
    for number, order in enumerate([Order("mark", "fan on"), Order("pause"), Order("resume")], 1):
        viewer.link.write(command(number, order))
        assert answered(viewer) == (number, Answer())
    assert orders == [Order("mark", "fan on"), Order("pause"), Order("resume")]


@pytest.mark.parametrize("line", [b"rm -rf", b"", b'{"edgetop": 1, "do": 5}\n', b'{"edgetop": 9, "do": "stop"}\n'])
def test_an_order_that_is_none_is_refused(viewer, orders, line):
    viewer.link.write(relay_frames.hello() + relay_frames.pack_line(relay_frames.COMMAND, 1, line))
    number, answer = answered(viewer)
    assert number == 1
    assert answer.is_refusal
    assert orders == []


def test_why_an_order_was_refused_is_told(live):
    def refuse(*_):
        raise EdgetopError("it belongs to another user")

    link = PipeLink(live.folder, refuse)
    viewer = Viewer(link)
    link.write(relay_frames.hello() + command(7, Order("stop")))
    assert answered(viewer) == (7, Answer("it belongs to another user"))
    link.close()


def test_the_stream_goes_on_while_an_order_takes_its_time(live, script):
    go, started = threading.Event(), threading.Event()

    def slow(*_):
        started.set()
        go.wait(PATIENCE_S)
        return Answer()

    link = PipeLink(live.folder, slow)
    viewer = Viewer(link)
    link.write(relay_frames.hello() + command(1, Order("stop")))
    viewer.until(relay_frames.BATCH)
    assert started.wait(PATIENCE_S)
    script.batches.clear()
    live.put(*script.measure(1).batches)
    decoder_free = viewer.until(relay_frames.BATCH)
    assert decoder_free.payload
    go.set()
    assert answered(viewer) == (1, Answer())
    link.close()


def test_too_many_orders_at_once_are_refused(live):
    go = threading.Event()
    link = PipeLink(live.folder, lambda *_: go.wait(PATIENCE_S) and Answer())
    viewer = Viewer(link)
    link.write(relay_frames.hello())
    for number in range(serve.MAX_ORDERS + 1):
        link.write(command(number, Order("mark")))
    assert answered(viewer) == (serve.MAX_ORDERS, Answer("too many orders at once"))
    go.set()
    link.close()


def test_orders_that_are_done_make_room_for_others(viewer, orders):
    viewer.link.write(relay_frames.hello())
    for number in range(serve.MAX_ORDERS + 1):
        viewer.link.write(command(number, Order("mark")))
        assert answered(viewer) == (number, Answer())
    assert len(orders) == serve.MAX_ORDERS + 1


def test_it_ends_when_the_session_does_and_says_so(viewer, live, script):
    viewer.link.write(relay_frames.hello())
    viewer.until(relay_frames.BATCH)
    script.batches.clear()
    live.finish(*script.end().batches)
    viewer.until(relay_frames.END)
    wait_until(lambda: not viewer.link._thread.is_alive())


def received(viewer: Viewer) -> Iterator[tuple[Batch, Position]]:
    """What comes up to the end."""
    decoder = Decoder()
    while (frame := viewer.next()).kind != relay_frames.END:
        if frame.kind == relay_frames.BATCH:
            yield decoder.decode(frame.payload)


def test_a_session_whose_writer_dies_ends_as_recovered(viewer, live, script):
    viewer.link.write(relay_frames.hello())
    viewer.until(relay_frames.BEGIN)
    live.die()
    whole = merge([batch for batch, _ in received(viewer)])
    assert whole.events[-1].kind == "recovered"
    assert whole.manifest.state == "recovered"
    assert len(whole.seconds) == script.now_ns // NS + 1


def test_a_session_that_is_removed_is_told(viewer, live):
    viewer.link.write(relay_frames.hello())
    viewer.until(relay_frames.BATCH)
    shutil.rmtree(live.folder)
    message = viewer.until(relay_frames.FAILED).text("message")
    assert re.search(r"s.edgetop: not a recorded session .* \(it was deleted", message)


def test_a_session_that_is_moved_is_followed(viewer, live, script, tmp_path):
    viewer.link.write(relay_frames.hello())
    batches = received(viewer)
    next(batches)
    live.folder.rename(tmp_path / "elsewhere")
    script.batches.clear()
    live.put(*script.measure(1).batches)
    live.finish(*script.end().batches[-1:])
    assert list(batches)[-1][0].until_ns == script.now_ns


def test_who_is_cut_off_in_the_middle_of_a_past_begins_anew(viewer, live, script):
    live.finish(*script.end().batches[-1:])
    viewer.link.write(relay_frames.hello())
    assert {position for _, position in received(viewer)} == {NOWHERE}


@pytest.mark.parametrize("position", [[10**6, 0, 0], [10**6, 5, 2**60]])
def test_a_position_in_no_such_session_begins_anew(viewer, position):
    viewer.link.write(relay_frames.hello(position=position))
    assert Decoder().decode(viewer.until(relay_frames.BATCH).payload)[0].restart


def test_it_ends_when_its_viewer_leaves(viewer):
    viewer.link.write(relay_frames.hello())
    viewer.until(relay_frames.BATCH)
    viewer.link.hang_up()
    wait_until(lambda: not viewer.link._thread.is_alive())


@pytest.fixture
def ends():
    """A link whose time a test moves, and the viewer's ends of its pipes."""
    there, sink = os.pipe()
    source, back = os.pipe()
    clock = ManualClock()
    link = Link(there, back, clock)
    yield link, clock, sink, source
    link.close()
    for end in (there, sink, source, back):
        os.close(end)


def test_a_viewer_that_is_silent_for_a_minute_is_gone(ends):
    link, clock, sink, _ = ends
    clock.advance(59.999)
    assert link.receive(clock.monotonic_ns()) == []
    os.write(sink, relay_frames.hello())
    assert len(link.receive(None)) == 1
    clock.advance(59.999)
    assert link.receive(0) == []
    clock.advance(0.001)
    with pytest.raises(LinkLostError):
        link.receive(clock.monotonic_ns() + NS)


def test_a_viewer_that_takes_nothing_for_a_minute_is_gone(ends, monkeypatch):
    monkeypatch.setattr(serve, "PATIENCE_NS", 1_000_000)
    link, _, _, source = ends
    with pytest.raises(LinkLostError):
        link.send(b"x" * 2_000_000)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    assert poll.poll(0)


def test_a_lost_viewer_is_noticed_at_the_next_frame():
    there, sink = os.pipe()
    source, back = os.pipe()
    os.close(source)
    link = Link(there, back, SystemClock())
    with pytest.raises(LinkLostError):
        link.send(b"x")
    link.close()
    for end in (there, sink, back):
        os.close(end)


def test_a_relay_goes_on_with_the_session_that_follows(viewer, live, script, tmp_path):
    """The viewer sees it begin anew; its orders go there."""
    clock = replace(script.manifest.clock, origin_monotonic_ns=script.manifest.clock.origin_monotonic_ns + 10**9)
    manifest = replace(script.manifest, id=FOLLOWING, name="t", clock=clock)
    following = Script(manifest, step_s=0.5).load().warm_up().begin().measure(2)
    script.manifest = replace(script.manifest, followed_by=FOLLOWING)
    viewer.link.write(relay_frames.hello())
    decoder, restarted = Decoder(), None
    decoder.decode(viewer.until(relay_frames.BATCH).payload)
    other = LiveRecording(tmp_path / "t.edgetop", following.batches)
    live.finish(script.end("rotated").batches[-1])
    while restarted is None or restarted.manifest.name != "t":
        batch = decoder.decode(viewer.until(relay_frames.BATCH).payload)[0]
        restarted = batch if batch.restart and batch.manifest else restarted
    other.finish(following.end().batches[-1])
    viewer.until(relay_frames.END)
