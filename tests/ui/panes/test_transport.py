"""The line of a replay: where it stands among what happened."""

import pytest

from edgetop.feeds.feed_protocol import Mark, Transport
from edgetop.session.seconds import NS
from edgetop.ui.panes.header import time_at, transport_line
from tests.support.screens import area, plain

END_S = 100


def transport(
    t_s: float = 0, *marks: Mark, speed: float = 1.0, is_playing: bool = True, end_s: int = END_S
) -> Transport:
    return Transport(int(t_s * NS), end_s * NS, speed, is_playing, marks)


def mark(t_s: float, severity: str = "info", kind: str = "phase") -> Mark:
    return Mark(int(t_s * NS), kind, severity)  # type: ignore[arg-type]


def shown(of: Transport, cells: int = 136) -> str:
    """In ASCII; of 136 cells the bar has 100."""
    return plain(transport_line(of, area(cells, 1, ascii_only=True)))


def bar(of: Transport) -> str:
    return shown(of)[35:135]


def test_it_says_whether_it_plays_how_fast_and_where() -> None:
    assert shown(transport(65)).startswith(" PLAY      1x 00:01:05 of 00:01:40 =")
    assert shown(transport(65, speed=0.1, is_playing=False)).startswith(" PAUSE   0.1x 00:01:05 of 00:01:40 =")
    assert shown(transport(65, speed=1000)).startswith(" PLAY   1000x 00:01:05 ")


@pytest.mark.parametrize(("t_s", "played"), [(0, 0), (50, 49), (100, 99)])
def test_the_bar_is_filled_up_to_where_it_stands(t_s: float, played: int) -> None:
    assert bar(transport(t_s)) == "=" * played + ">" + "-" * (99 - played)


def test_what_happened_stands_where_it_happened_ahead_too() -> None:
    marks = (mark(20), mark(40, "warning"), mark(60, "critical"), mark(80, kind="mark"))
    found = {x: c for x, c in enumerate(bar(transport(0, *marks))) if c not in ">-"}
    assert found == {19: "|", 39: "!", 59: "X", 79: "m"}


def test_of_what_falls_into_one_cell_the_gravest_is_shown() -> None:
    both = (mark(40.0), mark(40.1, "critical"), mark(40.2, "warning"), mark(40.3, kind="mark"))
    assert bar(transport(0, *both))[39] == "X"
    assert bar(transport(0, mark(40.0), mark(40.3, kind="mark")))[39] == "m"


def test_each_severity_has_its_style() -> None:
    marks = (mark(20), mark(40, "warning"), mark(60, "critical"))
    styles = {span.text: span.style for span in transport_line(transport(0, *marks), area(136, 1))}
    assert (styles["|"], styles["!"], styles["X"]) == ("accent", "warning", "critical")


@pytest.mark.parametrize("cells", range(1, 140, 3))
def test_it_fills_its_line_and_no_more(cells: int) -> None:
    marks = (mark(0), mark(100, "critical"))
    for of in (transport(50, *marks), transport(0), transport(0, end_s=0), transport(90_000, *marks, end_s=400_000)):
        assert len(shown(of, cells)) == cells


def test_a_bar_cell_stands_for_the_time_shown_at_it() -> None:
    for t_s in (0, 33, 50, 100):
        x = shown(transport(t_s)).index(">")
        found = time_at(transport(t_s), area(136, 1), x)
        assert found is not None
        assert found / NS == pytest.approx(t_s, abs=2)


@pytest.mark.parametrize("x", [0, 10, 34, 135, 200])
def test_beside_the_bar_there_is_no_time(x: int) -> None:
    assert time_at(transport(50), area(136, 1), x) is None
    assert time_at(transport(50), area(40, 1), 37) is None
