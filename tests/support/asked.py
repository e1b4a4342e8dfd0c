"""A session that keeps the orders that it gets."""

from edgetop.session.orders import Order


class Asked:
    def __init__(self) -> None:
        self.asked: list[Order] = []

    def order(self, order: Order) -> None:
        self.asked.append(order)
