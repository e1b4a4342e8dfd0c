"""A live session is followed to its end, to its writer's death, or until its journal has become tables."""

from pathlib import Path

import pytest

from edgetop.recording.journal import SILENT_NS, FellBehindError, Follower, JournalTail
from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import JOURNAL, open_folder
from edgetop.session.batch import merge
from edgetop.session.seconds import NS
from tests.support.clocks import ManualClock
from tests.support.relays import LiveRecording
from tests.support.scripts import Script
from tests.support.sessions import differences


@pytest.fixture
def script() -> Script:
    return Script(step_s=0.5).load().warm_up().begin().measure(5)


@pytest.fixture
def live(script: Script, tmp_path: Path) -> LiveRecording:
    return LiveRecording(tmp_path / "s.edgetop", script.batches)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def tail_of(live: LiveRecording, clock: ManualClock) -> JournalTail:
    return JournalTail(open_folder(live.folder), Recording(live.folder).follow(), clock)


def test_what_is_appended_comes_once(script: Script, live: LiveRecording, clock: ManualClock) -> None:
    tail = tail_of(live, clock)
    assert tail.read() is None
    for _ in range(2):
        script.batches.clear()
        live.put(*script.measure(1).batches)
        batch = tail.read()
        assert batch
        assert differences(batch.seconds, merge(script.batches).seconds) == []
    assert tail.read() is None


def test_who_was_away_goes_on_from_a_place(script: Script, live: LiveRecording, clock: ManualClock) -> None:
    first = tail_of(live, clock)
    script.batches.clear()
    live.put(*script.measure(20).batches)
    number, offset = first.follower.place
    batch = JournalTail(open_folder(live.folder), Follower(live.folder / JOURNAL, number, offset), clock).read()
    assert batch
    whole = merge(script.batches)
    for name in ("seconds", "readings", "events", "inferences", "until_ns"):
        assert differences(getattr(batch, name), getattr(whole, name)) == []


def test_a_place_that_is_none_is_an_error_of_the_system(live: LiveRecording) -> None:
    with pytest.raises(OSError, match="No such file"):
        Follower(live.folder / JOURNAL, 10**7, 0)


def test_it_is_over_when_the_tables_are_complete(script: Script, live: LiveRecording, clock: ManualClock) -> None:
    tail = tail_of(live, clock)
    script.batches.clear()
    live.finish(*script.measure(1).end().batches)
    batch = tail.read()
    assert batch
    assert batch.manifest == script.manifest
    assert tail.has_ended
    assert tail.is_over


def test_a_writer_that_is_only_quiet_is_waited_for(live: LiveRecording, clock: ManualClock) -> None:
    tail = tail_of(live, clock)
    for _ in range(3):
        clock.advance(SILENT_NS / NS + 0.1)
        assert tail.read() is None


def test_after_the_death_of_the_writer_it_must_be_read_anew(live: LiveRecording, clock: ManualClock) -> None:
    tail = tail_of(live, clock)
    live.die()
    assert tail.read() is None
    clock.advance(SILENT_NS / NS + 0.1)
    with pytest.raises(FellBehindError):
        tail.read()
