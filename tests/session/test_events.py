"""Events and notices are values."""

import dataclasses

import pytest

from edgetop.control.control_socket import pack_order, parse_order
from edgetop.session.events import ACTIONS, Event, Notice, Order


def test_an_event_cannot_be_changed() -> None:
    event = Event(5, "mark", "info", "user", "here")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.t_ns = 6  # type: ignore[misc]


def test_events_that_say_the_same_are_equal() -> None:
    assert Event(5, "mark", "info", "user", "here", {"a": 1}) == Event(5, "mark", "info", "user", "here", {"a": 1})
    assert Event(5, "mark", "info", "user", "here", {"a": 1}) != Event(5, "mark", "info", "user", "here")


def test_an_event_has_no_data_unless_given() -> None:
    assert dict(Event(5, "mark", "info", "user", "here").data) == {}


def test_a_notice_carries_its_advice() -> None:
    notice = Notice("code", "message", "advice")
    assert (notice.code, notice.message, notice.advice) == ("code", "message", "advice")


def test_every_order_can_be_sent() -> None:
    for action in ACTIONS:
        assert parse_order(pack_order(Order(action))) == Order(action)
