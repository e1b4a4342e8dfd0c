"""The one clock of a session, and its ties to wall time."""

import uuid
from datetime import datetime, timezone

import numpy as np
import pytest

from edgetop.session.clock import Anchor, SystemClock, anchor, boot_id, format_utc
from edgetop.session.manifest import ClockInfo
from tests.support.sessions import make_manifest

MOMENT = datetime(2026, 11, 21, 10, 15, 2, 123456, tzinfo=timezone.utc)


class StandingClock:
    def monotonic_ns(self) -> int:
        return 5_000

    def utc(self) -> datetime:
        return MOMENT


def test_an_anchor_ties_session_time_to_wall_time() -> None:
    assert anchor(StandingClock(), 2_000) == Anchor(3_000, "2026-11-21T10:15:02.123456Z")


def test_whole_seconds_have_their_microseconds_too() -> None:
    assert format_utc(MOMENT.replace(microsecond=0)) == "2026-11-21T10:15:02.000000Z"


def test_a_written_moment_reads_back_as_itself() -> None:
    assert datetime.strptime(format_utc(MOMENT), "%Y-%m-%dT%H:%M:%S.%f%z") == MOMENT


def test_the_systems_clock_never_goes_back_and_tells_utc() -> None:
    clock = SystemClock()
    before = clock.monotonic_ns()
    assert clock.utc().utcoffset() == timezone.utc.utcoffset(None)
    assert clock.monotonic_ns() >= before


def test_the_boot_has_one_id_which_is_a_uuid() -> None:
    found = boot_id()
    assert found is not None
    assert str(uuid.UUID(found)) == found == boot_id()


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
