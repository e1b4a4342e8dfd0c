"""Each threshold of the spans in which the board reports a limit, on both of its sides."""

import pytest

from edgetop.session.seconds import NS
from tests.analysis.slowdowns.test_throttles import CLOCK, FLAG, ZONE, spans_s, view, whole

UNNAMED = "throttle/throttled"  # It does not say why.


@pytest.mark.parametrize(("after_s", "cause"), [(2.5, "thermal"), (3.5, "unknown")])
def test_heat_explains_a_flag_within_three_seconds(after_s: float, cause: str) -> None:
    batch = whole({UNNAMED: {0: 0, 20: 1, 40: 0}, ZONE: {0: 60, 20 + int(after_s): 85.2}})
    is_heat = batch.readings["sensor"] == 1
    batch.readings["t_ns"][is_heat] += NS // 2
    assert spans_s(view(batch)) == [(20, 40, cause)]


@pytest.mark.parametrize(("lowest_s", "mhz"), [(2, 900.0), (3, 1200.0)])
def test_a_span_begins_with_the_lowest_clock_of_three_seconds(lowest_s: int, mhz: float) -> None:
    clock = {0: 1700.0, 20: 1200.0, 20 + lowest_s: 900.0, 21 + lowest_s: 1200.0}
    (span,) = view(whole({FLAG: {0: 0, 20: 1, 40: 0}, CLOCK: clock})).spans
    assert span.begin_clock_mhz == mhz


def test_a_span_is_compared_with_the_first_thirty_seconds_in_none() -> None:
    """In half of them the latency was 30 % higher, as it is later."""
    (span,) = view(whole({FLAG: {0: 0, 60: 1}}, 90.0, slow_s=[(16, 90)])).spans
    assert span.latency_ratio == pytest.approx(1.3**0.5, abs=0.002)


@pytest.mark.parametrize(("until_s", "is_over"), [(31, False), (33, True)])
def test_a_flag_that_is_not_read_for_twelve_seconds_is_over(until_s: int, is_over: bool) -> None:
    (span,) = view(whole({FLAG: {0: 0, 17: 1, 20: None}}, float(until_s))).spans
    assert (span.end_ns is not None) is is_over
