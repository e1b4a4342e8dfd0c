"""A warning that comes and goes within ten seconds is shown until it could be seen."""

from edgetop.analysis.findings import BackgroundLoad, HalvesDiffer
from edgetop.session.seconds import NS
from edgetop.ui.held_warnings import HeldWarnings

BUSY, BUSIER, HALVES = BackgroundLoad(40.0, ("cc1",)), BackgroundLoad(60.0, ("cc1",)), HalvesDiffer(10e6, 12e6)


def test_a_warning_that_goes_at_once_stays_for_ten_seconds() -> None:
    held = HeldWarnings()
    assert held.with_held((HALVES,), 5 * NS, is_over=False) == (HALVES,)
    assert held.with_held((HALVES, BUSY), 20 * NS, is_over=False) == (HALVES, BUSY)
    assert held.with_held((HALVES,), 22 * NS, is_over=False) == (HALVES, BUSY)
    assert held.with_held((HALVES,), 29 * NS, is_over=False) == (HALVES, BUSY)
    assert held.with_held((HALVES,), 30 * NS, is_over=False) == (HALVES,)


def test_a_warning_that_was_seen_goes_at_once_and_none_is_there_twice() -> None:
    held = HeldWarnings()
    for second in range(15):
        assert held.with_held((BUSY,), second * NS, is_over=False) == (BUSY,)
    assert held.with_held((), 15 * NS, is_over=False) == ()
    held.with_held((BUSY,), 20 * NS, is_over=False)
    held.with_held((), 21 * NS, is_over=False)
    assert held.with_held((BUSIER,), 22 * NS, is_over=False) == (BUSIER,)


def test_the_end_and_a_jump_back_show_what_holds_then() -> None:
    held = HeldWarnings()
    held.with_held((BUSY,), 20 * NS, is_over=False)
    assert held.with_held((), 3 * NS, is_over=False) == ()
    held.with_held((BUSY,), 20 * NS, is_over=False)
    assert held.with_held((), 21 * NS, is_over=True) == ()
