"""One vocabulary of orders."""

from edgetop.control.wire import pack_order, parse_order
from edgetop.session.orders import ACTIONS, Order


def test_every_order_can_be_sent() -> None:
    for action in ACTIONS:
        assert parse_order(pack_order(Order(action))) == Order(action)
