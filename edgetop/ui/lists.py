"""Sorting and filtering the panes that list."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from edgetop.ui.dialogs import FilterDialog
from edgetop.ui.orders import OrdersScreen
from edgetop.ui.pane_widget import PaneWidget
from edgetop.ui.panes.pane import Drawing

LISTS = ("hotspots", "events", "sensors")  # what a key is meant for first


class ListsScreen(OrdersScreen):
    _panes: Mapping[str, PaneWidget]

    def _chosen(self) -> str:
        """The pane that keys are meant for."""
        raise NotImplementedError

    def _list_keys(self) -> list[tuple[str, str]]:
        """Of the pane that is marked, as one is that is alone."""
        if not isinstance(self.focused, PaneWidget):
            return []
        drawing = self.focused.drawing
        keys = [("order", "sort")] if drawing.orders else []
        keys += [("filter", "filter")] if drawing.rows else []
        return [(self._pressed(name), does) for name, does in keys]

    def action_order(self) -> None:
        pane = self._listing(lambda drawing: bool(drawing.orders))
        pane.list_so(replace(pane.listing, order=pane.listing.order + 1))
        if not pane.display:
            drawing = pane.drawing
            self.notify(f"{drawing.name}: {pane.listing.order_of(drawing.orders)}", timeout=2, markup=False)

    def action_filter(self) -> None:
        pane = self._listing(lambda drawing: bool(drawing.rows))
        self.app.push_screen(
            FilterDialog(pane.drawing.rows, pane.listing.words),
            lambda words: None if words is None else pane.list_so(replace(pane.listing, words=words)),
        )

    def _listing(self, can: Callable[[Drawing], bool]) -> PaneWidget:
        """The pane that is meant by a key for lists: the chosen one if it is one, else the first that is seen."""
        able = [pane for pane in map(self._panes.__getitem__, LISTS) if can(pane.drawing)]
        return min(able, key=lambda pane: (pane.drawing.name != self._chosen(), not pane.display))
