import numpy as np
import pytest

from edgetop.session.clock import Anchor
from edgetop.session.manifest import ClockInfo
from tests.support.sessions import make_manifest

US = 1_000_000


def test_the_clock_as_it_was_set_last_dates_the_whole_session():
    anchors = (Anchor(0, "1970-01-01T00:00:07.000000Z"), Anchor(60 * 10**9, "2026-11-21T10:16:00.000000Z"))
    wall = make_manifest(clock=ClockInfo(0, None, anchors)).wall_time()
    assert wall.utc(0) == "2026-11-21T10:15:00.000000Z"
    assert np.diff(wall.microseconds(np.array([0, 2 * 10**9]))) == [2 * US]


def test_without_an_anchor_the_session_began_when_it_was_created():
    wall = make_manifest(created_utc="2026-11-21T10:15:02.123456Z").wall_time()
    assert wall.utc(10**9) == "2026-11-21T10:15:03.123456Z"


@pytest.mark.parametrize("utc", ["", "soon", "2026-11-21", "99999-01-01T00:00:00Z"])
def test_what_is_no_time_dates_nothing(utc):
    assert make_manifest(created_utc=utc).wall_time() is None
