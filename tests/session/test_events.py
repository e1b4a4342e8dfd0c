"""Events and notices are values."""

import dataclasses
from dataclasses import replace

import pytest

from edgetop.control.control_socket import pack_order, parse_order
from edgetop.session.engine_events import RecordsLost
from edgetop.session.event_codec import read_event
from edgetop.session.event_kinds import Remark
from edgetop.session.events import ACTIONS, Event, Notice, Order


def test_an_event_cannot_be_changed() -> None:
    event = read_event(5, "mark", "info", "user", "here")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.t_ns = 6  # type: ignore[misc]


def test_events_that_say_the_same_are_equal() -> None:
    lost = Event(5, RecordsLost(3), "critical", "engine", "3 were lost")
    assert lost == read_event(5, "records-lost", "critical", "engine", "3 were lost", {"count": 3})
    assert lost != replace(lost, body=RecordsLost(4))
    assert Event(5, Remark("mark"), "info", "user", "x") != Event(5, Remark("log"), "info", "user", "x")


def test_a_notice_carries_its_advice() -> None:
    notice = Notice("code", "message", "advice")
    assert (notice.code, notice.message, notice.advice) == ("code", "message", "advice")


def test_every_order_can_be_sent() -> None:
    for action in ACTIONS:
        assert parse_order(pack_order(Order(action))) == Order(action)
