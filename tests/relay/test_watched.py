"""A viewer gets every row once: live, from tables, after a gap, after the writer's end or death."""

import shutil
from collections.abc import Iterable

import pytest

from edgetop.errors import InputError
from edgetop.relay.encoding import NOWHERE, Position
from edgetop.relay.watched import QUIET_READS, Sent, WatchedSession
from edgetop.session.batch import Batch, merge
from edgetop.session.seconds import NS
from tests.support.relays import LiveRecording
from tests.support.scripts import Script
from tests.support.sessions import differences


def rows(batches: Iterable[Batch]) -> Batch:
    return merge(list(batches))


def taken(sent: Iterable[Sent]) -> tuple[list[Batch], Position]:
    pairs = list(sent)
    return [batch for batch, _ in pairs], pairs[-1][1] if pairs else NOWHERE


@pytest.fixture
def script() -> Script:
    return Script(step_s=0.5).load().warm_up().begin().measure(5)


@pytest.fixture
def live(script, tmp_path) -> LiveRecording:
    return LiveRecording(tmp_path / "s.edgetop", script.batches)


def go_on(script: Script, live: LiveRecording, seconds: float = 1.0) -> list[Batch]:
    script.batches.clear()
    batches = script.measure(seconds).batches
    live.put(*batches)
    return list(batches)


def assert_same(got: Iterable[Batch], made: Iterable[Batch]) -> None:
    one, other = rows(got), rows(made)
    for name in ("seconds", "readings", "events", "inferences", "until_ns"):
        assert differences(getattr(one, name), getattr(other, name)) == []


def test_first_all_that_was_and_then_what_comes(script, live):
    made = list(script.batches)
    session = WatchedSession(live.folder)
    got, _ = taken(session.begin(None))
    assert got[0].restart
    for _ in range(3):
        made += go_on(script, live)
        got += taken(session.read())[0]
    assert_same(got, made)
    assert not session.is_over


def test_nothing_new_is_no_batch(live):
    session = WatchedSession(live.folder)
    taken(session.begin(None))
    assert list(session.read()) == []


def test_who_comes_back_gets_what_was_missed_and_nothing_twice(script, live):
    made = list(script.batches)
    first = WatchedSession(live.folder)
    got, _ = taken(first.begin(None))
    made += go_on(script, live)
    batches, position = taken(first.read())
    made += go_on(script, live, 20)
    more, _ = taken(WatchedSession(live.folder).begin(position))
    assert not any(batch.restart for batch in more)
    assert_same([*got, *batches, *more], made)


def test_who_was_cut_off_in_the_middle_of_a_past_begins_anew(live):
    positions = [position for _, position in WatchedSession(live.folder).begin(None)]
    assert set(positions[:-1]) == {NOWHERE}
    assert min(positions[-1]) >= 0


@pytest.mark.parametrize("position", [(10**9, 0, 0, 0, 0), (0, 10**9, 0, 0, 0), (0, 0, 10**9, 0, 0)])
def test_a_position_in_no_such_session_begins_anew(live, position):
    assert taken(WatchedSession(live.folder).begin(position))[0][0].restart


def test_who_was_away_for_long_begins_anew(tmp_path):
    session = LiveRecording(
        tmp_path / "s.edgetop", Script(step_s=100).load().warm_up().begin().measure(700, rate_hz=1).batches
    )
    assert taken(WatchedSession(session.folder).begin((30, 30, 3, 0)))[0][0].restart


def test_it_ends_with_the_session(script, live):
    made = list(script.batches)
    session = WatchedSession(live.folder)
    got, _ = taken(session.begin(None))
    script.batches.clear()
    live.finish(*script.measure(1).end().batches)
    made += script.batches
    got += taken(session.read())[0]
    assert session.is_over
    assert_same(got, made)
    assert rows(got).manifest == script.manifest


def test_a_session_that_ended_meanwhile_gives_who_comes_back_its_end(script, live):
    session = WatchedSession(live.folder)
    got, position = taken(session.begin(None))
    made = list(script.batches)
    script.batches.clear()
    live.finish(*script.measure(3).end().batches)
    back = WatchedSession(live.folder)
    got += taken(back.begin(position))[0]
    assert back.is_over
    assert_same(got, [*made, *script.batches])


def test_a_session_whose_writer_dies_ends_as_recovered(script, live):
    session = WatchedSession(live.folder)
    got, _ = taken(session.begin(None))
    live.die()
    for _ in range(QUIET_READS):
        got += taken(session.read())[0]
    assert session.is_over
    assert rows(got).events[-1].kind == "recovered"
    assert rows(got).manifest.state == "recovered"
    assert len(rows(got).seconds) == script.now_ns // NS + 1


def test_a_writer_that_is_only_quiet_is_waited_for(live):
    session = WatchedSession(live.folder)
    taken(session.begin(None))
    for _ in range(3 * QUIET_READS):
        assert list(session.read()) == []
    assert not session.is_over


def test_who_falls_behind_gets_it_from_the_tables(script, live):
    session = WatchedSession(live.folder)
    got, _ = taken(session.begin(None))
    made = list(script.batches)
    live._recorder._journal_file.segment_bytes = 1_000  # the next ones become tables at once
    made += go_on(script, live, 15)
    got += taken(session.read())[0]
    made += go_on(script, live, 1)
    got += taken(session.read())[0]
    assert_same(got, made)


def test_a_session_that_was_removed_is_told(live):
    session = WatchedSession(live.folder)
    taken(session.begin(None))
    shutil.rmtree(live.folder)
    with pytest.raises(InputError, match=r"s.edgetop: not a recorded session .* \(it was deleted"):
        list(session.read())


def test_a_session_that_was_moved_is_followed(live, script, tmp_path):
    session = WatchedSession(live.folder)
    taken(session.begin(None))
    live.folder.rename(tmp_path / "elsewhere")
    made = go_on(script, live)
    assert_same(taken(session.read())[0], made)
