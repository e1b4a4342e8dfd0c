"""What goes over a session's socket."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.control.control_socket import (
    MAX_LINE,
    MAX_NOTE,
    VERSION,
    Answer,
    pack_answer,
    pack_order,
    parse_answer,
    parse_order,
)
from edgetop.session.events import ACTIONS, Order

orders = st.builds(Order, st.sampled_from(ACTIONS), st.text(max_size=MAX_NOTE))
answers = st.builds(Answer, st.text(max_size=200), st.none() | st.text(min_size=1, max_size=20), st.integers(0, 255))


@settings(deadline=None, max_examples=30)
@given(orders)
def test_an_order_comes_over_as_it_was_given_in_one_line(order: Order) -> None:
    line = pack_order(order)
    assert line.count(b"\n") == 1
    assert len(line) <= MAX_LINE
    assert parse_order(line[:-1]) == order


@settings(deadline=None, max_examples=30)
@given(answers)
def test_an_answer_comes_over_as_it_was_given(answer: Answer) -> None:
    line = pack_answer(answer)
    assert len(line) <= MAX_LINE
    assert parse_answer(line[:-1]) == answer


@pytest.mark.parametrize("character", ["x", "\0", "\N{SNOWMAN}", "\U0001f525", '"', "\ud800"])
def test_a_whole_note_of_any_character_fits_into_a_line(character: str) -> None:
    line = pack_order(Order("mark", character * MAX_NOTE))
    assert len(line) <= MAX_LINE
    assert len(parse_order(line).note) == MAX_NOTE


def test_a_note_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(ValueError, match=f"{MAX_NOTE} characters"):
        pack_order(Order("mark", "x" * (MAX_NOTE + 1)))


def test_a_long_error_is_cut_to_fit_its_line() -> None:
    assert len(pack_answer(Answer("\N{SNOWMAN}" * 10_000))) <= MAX_LINE


WRONG = {
    b"": "not a line of JSON",
    b"\xff\x00": "not a line of JSON",
    b"stop": "not a line of JSON",
    b"[" * 4000: "not a line of JSON",
    b"[]": "not of edgetop",
    b"{}": "not of edgetop",
    b'{"edgetop": "1", "do": "stop"}': "not of edgetop",
    b'{"edgetop": true, "do": "stop"}': "not of edgetop",
    b'{"edgetop": 2, "do": "stop"}': f"version 2 of the protocol; this edgetop speaks {VERSION}",
    b'{"edgetop": 1}': "no such order",
    b'{"edgetop": 1, "do": "reboot"}': "no such order; there are stop, mark",
    b'{"edgetop": 1, "do": ["stop"]}': "no such order",
    b'{"edgetop": 1, "do": "mark", "note": 7}': "a note is a text",
    json.dumps({"edgetop": 1, "do": "mark", "note": "x" * 501}).encode(): "a note is a text",
}


@pytest.mark.parametrize("line", WRONG, ids=[str(line[:30]) for line in WRONG])
def test_what_is_no_order_is_said_to_be_none(line: bytes) -> None:
    with pytest.raises(ValueError, match=WRONG[line]):
        parse_order(line)


def test_an_answer_without_a_reason_is_a_refusal_all_the_same() -> None:
    assert parse_answer(b'{"edgetop": 1, "ok": false}').error == "it gave no reason"
    assert parse_answer(b'{"edgetop": 1, "ok": "yes", "exit_code": "4", "end_reason": 3}') == Answer(
        "it gave no reason"
    )
