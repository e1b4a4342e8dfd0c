"""Many boards: each is what its own analysis says, and one that is trouble costs no more than its line."""

import json

import pytest

from edgetop.feeds.fleet_feed import ORDERS, SILENT_NS, Board
from edgetop.relay import relay_frames
from edgetop.session.events import Order
from edgetop.session.seconds import NS
from edgetop.session.session_summary import MAX_EVENTS
from edgetop.wording import verdict_words
from tests.support.clocks import ManualClock
from tests.support.fleets import HELLO, SOON, Saying, address, fleet_of, recorded, unreachable, view, wait_for
from tests.support.relays import LiveRecording
from tests.support.scripts import Script, hot
from tests.support.sessions import folded
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def script() -> Script:
    return Script().load().warm_up().begin().measure(4)


def summary_of(**changed: object) -> bytes:
    return relay_frames.pack_message(relay_frames.SUMMARY, changed=changed)


def go_on(script: Script, live: LiveRecording, seconds: float = 1.0) -> None:
    before = len(script.batches)
    script.measure(seconds)
    live.put(*script.batches[before:])


@pytest.mark.slow
def test_good_and_troubled_boards_form_one_fleet_worst_first(script, tmp_path):
    _, steady_pipes = recorded(tmp_path / "steady.edgetop", script)
    throttled = Script(weather=hot).load().warm_up().begin().measure(30).measure(15, median_ms=8.0)
    _, throttled_pipes = recorded(tmp_path / "hot.edgetop", throttled)
    other = relay_frames.pack_message(relay_frames.HELLO, protocol=99, edgetop="9.9", format=1)
    none = relay_frames.pack_message(relay_frames.FAILED, message="no session runs now")
    hangs = Saying(relay_frames.hello())
    fleet = fleet_of(
        steady=steady_pipes, hot=throttled_pipes, other=Saying(other), gone=unreachable, idle=Saying(HELLO[0], none),
        hangs=hangs,
    )  # fmt: skip
    states = {"steady": "live", "hot": "live", "other": "misfit", "gone": "unreachable", "idle": "idle"}
    found = {name: wait_for(fleet, name, state) for name, state in states.items()}
    for name, of in (("steady", script), ("hot", throttled)):
        verdict = folded(of.batches).verdict()
        assert (found[name].word, found[name].summary.words) == (
            verdict_words.state_word(verdict),
            verdict_words.words(verdict),
        )
    assert (found["steady"].word, found["hot"].word) == ("MEASURING", "THROTTLING")
    assert (found["other"].version, found["gone"].reason, found["idle"].reason) == (
        "9.9", "no route to host", "no session runs now",
    )  # fmt: skip
    assert "update edgetop here" in found["other"].reason
    assert [v.address.name for v in fleet.views()][:2] == ["gone", "hot"]
    assert wait_for(fleet, "hangs", "connecting").word == "CONNECTING"
    fleet.close(0.1)


def test_a_board_that_was_cut_off_returns_and_repeats_no_events(script, tmp_path):
    live, pipes = recorded(tmp_path / "s.edgetop", script.tell("mark", message="door open"))
    fleet = fleet_of(a=pipes)
    wait_for(fleet, "a", "live")
    pipes.links[-1].hang_up()
    wait_until(lambda: len(pipes.links) == 2)
    assert pipes.asked_for == [None, str(live.folder)]
    go_on(script, live)
    wait_until(lambda: fleet.views()[0].summary.elapsed_s == script.now_ns // NS)
    texts = [of.happened.text for of in fleet.log()]
    assert texts.count("door open") == 1
    assert [text[:22] for text in texts if "link" in text] == ["the link is back after", "link lost: the link en"]
    before = len(script.batches)
    live.finish(*script.end().batches[before:])
    assert wait_for(fleet, "a", "over").word == "FINISHED"
    fleet.close(0.1)


def test_all_are_marked_and_one_that_refuses_tells_why(script, tmp_path):
    _, pipes = recorded(tmp_path / "s.edgetop", script)
    fleet = fleet_of(a=pipes, b=unreachable)
    wait_for(fleet, "a", "live")
    wait_for(fleet, "b", "unreachable")
    fleet.order_all(Order("mark", "fan on"))
    wait_until(lambda: pipes.given == [Order("mark", "fan on")])
    fleet.order_all(Order("mark", "x" * 501))
    wait_until(lambda: any("a note may have" in of.happened.text for of in fleet.log()))
    fleet.close(1.0)


def test_the_board_judges_the_gates_that_it_is_given(script, tmp_path):
    _, pipes = recorded(tmp_path / "s.edgetop", script)
    fleet = fleet_of(("p50>1ms", "p50>1s", "misses"), a=pipes)
    failed = wait_for(fleet, "a", "live").summary.failed_gates
    assert failed["p50>1ms"].startswith("p50>1ms: 5.0")
    assert failed["misses"] == "misses: unknown: no deadline was given"
    assert "p50>1s" not in failed
    fleet.close(0.1)


def test_what_is_no_gate_is_refused_by_the_board_in_words(script, tmp_path):
    _, pipes = recorded(tmp_path / "s.edgetop", script)
    fleet = fleet_of(("nonsense",), a=pipes)
    assert "no value is called nonsense" in wait_for(fleet, "a", "idle").reason
    fleet.close(0.1)


@pytest.mark.parametrize(
    "said",
    [
        summary_of(p99_ms="fast"),
        summary_of(p99_ms=1e300),
        summary_of(level="[red]"),
        summary_of(words=5),
        summary_of(p99_course_ms=[1.0] * 1000),
        summary_of(failed_gates={str(i): "" for i in range(99)}),
        summary_of(**{f"unknown{i}": "x" * 100 for i in range(400)}),
        relay_frames.pack_message(relay_frames.SUMMARY, changed=[]),
        relay_frames.pack_message(relay_frames.SUMMARY, changed={}, events=[[1, "info", "x"]] * (MAX_EVENTS + 1)),
        relay_frames.pack_message(relay_frames.SUMMARY, changed={}, events=[[1, "loud", "x"]]),
        relay_frames.seal(relay_frames.BATCH, b"garbage"),
    ],
)
def test_a_malformed_summary_from_a_stranger_is_a_broken_link(said):
    fleet = fleet_of(a=Saying(*HELLO, said))
    assert wait_for(fleet, "a", "unreachable").summary is None
    fleet.close(0.1)


def test_texts_and_fields_of_a_stranger_are_bounded():
    fleet = fleet_of(a=Saying(*HELLO, summary_of(word="W" * 5000, p50_ms=5, of_a_later_version={"x": [1]})))
    summary = wait_for(fleet, "a", "live").summary
    assert len(summary.word) == 300
    assert summary.p50_ms == 5.0
    fleet.close(0.1)


def test_the_age_of_what_is_shown_grows_while_a_board_hangs():
    clock = ManualClock()
    board = Board(address("a"), Saying(*HELLO, summary_of(word="STEADY")), (), clock, lambda _: None, SOON)
    board.start()
    wait_until(lambda: board.view.state == "live")
    clock.advance(SILENT_NS / NS + 8)
    assert (board.view.state, board.view.word, board.view.age_s) == ("silent", "SILENT", 12.0)
    assert board.view.reason == "no data for 12 s"
    board.hang_up()
    board.join(PATIENCE_S)


def test_boards_are_sorted_and_filtered_by_all_that_is_known():
    views = [
        view("b", word="STEADY", level="good", p99_ms=9.0, temperature_c=50.0),
        view("a", word="THROTTLING", level="critical", p99_ms=5.0, temperature_c=80.0),
        view("c", "unreachable", group="field"),
    ]
    names = {order: [v.address.name for v in sorted(views, key=key)] for order, key in ORDERS.items()}
    assert names == {
        "worst": ["a", "c", "b"], "name": ["a", "b", "c"], "group": ["a", "b", "c"], "p99": ["b", "a", "c"],
        "heat": ["a", "b", "c"],
    }  # fmt: skip
    assert [v.address.name for v in views if "throttling" in v.searched()] == ["a"]
    assert "field" in views[2].searched()


def test_equally_bad_boards_keep_their_places_and_10_follows_2():
    views = [view(name, word="STEADY", level="good", p99_ms=p99_ms, deadline_ms=33.0) for name, p99_ms in
             (("b10", 12.9), ("b2", 12.1), ("b1", 30.0))]  # fmt: skip
    assert [of.address.name for of in sorted(views, key=ORDERS["worst"])] == ["b1", "b2", "b10"]
    assert [of.address.name for of in sorted(views, key=ORDERS["name"])] == ["b1", "b2", "b10"]


def test_after_the_first_summary_only_what_changed_is_sent(script, tmp_path):
    live, pipes = recorded(tmp_path / "s.edgetop", script)
    link = pipes(None, False)
    link.write(relay_frames.hello(summaries={"gates": []}))
    parser, sent = relay_frames.FrameParser(), []

    def has_come(count: int) -> bool:
        frames = list(parser.feed(link.read(10)))
        assert all(frame.kind != relay_frames.BATCH for frame in frames)
        sent.extend(json.loads(frame.payload) for frame in frames if frame.kind == relay_frames.SUMMARY)
        return len(sent) == count

    wait_until(lambda: has_come(1))
    assert sent[0]["changed"]["model"] == "mobilenet_v2.onnx"
    go_on(script, live)
    wait_until(lambda: has_come(2))
    assert sent[1]["changed"]["elapsed_s"] == script.now_ns // NS
    assert "model" not in sent[1]["changed"]
    assert len(json.dumps(sent[1])) < 500
    link.close()
