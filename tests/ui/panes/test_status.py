"""The last line: keys that apply, and what edgetop costs."""

from edgetop.ui.panes.header import status_line
from tests.support.screens import area, plain, view_of
from tests.support.scripts import Script, measured

KEYS = (("?", "help"), ("q", "leave"), ("space", "freeze"), ("w", "10s"), ("1-6", "panes"), ("m", "mark"))


def status(script: Script, cells: int) -> str:
    return plain(status_line(view_of(script), area(cells, 1), KEYS))


def test_keys_stand_left_and_the_cost_right() -> None:
    text = status(measured(5), 100)
    assert text.startswith(" ? help  q leave  space freeze  w 10s  1-6 panes  m mark ")
    assert text.endswith("edgetop 1.3 % 71.4 MiB ")
    assert len(text) == 100


def test_as_many_keys_as_fit_are_shown_whole() -> None:
    view = view_of(measured(5))
    whole = {"", *(" " + "  ".join(f"{key} {does}" for key, does in KEYS[:n]) for n in range(1, 7))}
    for cells in range(30, 100):
        text = plain(status_line(view, area(cells, 1), KEYS))
        assert len(text) == cells
        assert text.removesuffix("edgetop 1.3 % 71.4 MiB ").rstrip() in whole


def test_a_cost_that_is_not_known_is_a_dash() -> None:
    assert status(Script(), 80).endswith("edgetop - % ")
    assert status(measured(5).lose("load/edgetop", "mem/edgetop"), 80).endswith("edgetop - % ")
