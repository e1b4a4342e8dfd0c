"""Zooming and panning: the axis always lies in the session, and no step is lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.lens import ZOOMS_S, Lens
from edgetop.analysis.timeline import SPANS_S, Axis, choose_axis

steps = st.lists(st.sampled_from(("closer", "wider", "back", "on")), max_size=30)


def after(lens: Lens, steps: list[str], now_s: float, *, whole: bool = False) -> Lens:
    for step in steps:
        if step in ("back", "on"):
            lens = lens.moved(-1 if step == "back" else 1, now_s, whole=whole)
        else:
            lens = getattr(lens, step)(now_s, whole=whole)
    return lens


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("now_s", [0.0, 75.5, 4_000.0])
def test_an_untouched_lens_shows_the_axis_for_the_age(now_s: float, whole: bool) -> None:
    assert Lens().axis(now_s, whole=whole) == choose_axis(now_s, whole)


def test_zooming_in_follows_time_and_out_ends_at_the_whole() -> None:
    lens = after(Lens(), ["closer", "closer"], 4_000)
    assert lens.axis(4_000, whole=False) == Axis(3_885, 4_005)
    assert lens.axis(4_101, whole=False) == Axis(3_985, 4_105)
    wide = after(Lens(), ["wider"] * 20, 4_000)
    assert wide.axis(4_000, whole=False) == Axis(0, 7_200)


def test_closer_and_wider_are_each_others_way_back() -> None:
    assert after(Lens(600), ["closer", "wider"], 5_000) == Lens(600)


def test_zooming_in_keeps_the_middle_of_the_axis() -> None:
    looked = after(Lens(600), ["back"] * 8, 5_000)
    before, now = (lens.axis(5_000, whole=False) for lens in (looked, after(looked, ["closer"], 5_000)))
    assert now.to_s - now.from_s == 300
    assert abs((before.from_s + before.to_s) - (now.from_s + now.to_s)) <= 2


def test_back_goes_to_the_beginning_and_on_to_now() -> None:
    assert after(Lens(60), ["back"] * 500, 1_000).axis(1_000, whole=False) == Axis(0, 60)
    assert after(Lens(60), ["back"] * 500 + ["on"] * 500, 1_000) == Lens(60)


@settings(deadline=None, max_examples=100)
@given(steps, st.floats(0, 1e6), st.booleans())
def test_the_axis_always_lies_in_the_session(todo: list[str], now_s: float, whole: bool) -> None:
    lens = after(Lens(), todo, now_s, whole=whole)
    axis = lens.axis(now_s, whole=whole)
    assert 0 <= axis.from_s < axis.to_s
    assert axis.from_s <= now_s
    assert lens.span_s is None or lens.span_s in (*ZOOMS_S, *SPANS_S) or "back" in todo or "on" in todo
    if not lens.back_s:
        assert axis.to_s >= now_s


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(ZOOMS_S), st.integers(100, 100_000))
def test_an_axis_that_follows_time_moves_seldom(span: int, now_s: int) -> None:
    axes = {Lens(span).axis(now_s + i, whole=False) for i in range(100)}
    assert len(axes) <= 21
