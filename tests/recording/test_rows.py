import sys
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.rows import Span, release_memory, sound
from edgetop.recording.snapshot import Snapshot
from edgetop.session.batch import merge
from edgetop.session.records import READING
from edgetop.session.seconds import NS
from tests.support.recordings import back_to_back, record, session

TABLES = ("inferences", "readings", "events", "seconds")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record(tmp_path_factory.mktemp("spans") / "s.edgetop", list(session(back_to_back(400, 20e6))))


def times(recording, span=None):
    batch = merge(list(recording.play(inferences=True, span=span) if span else recording.play(inferences=True)))
    events = np.array([event.t_ns for event in batch.events])
    return [batch.inferences["t_ns"], batch.readings["t_ns"], events, batch.seconds.rows["t_ns"]]


def test_a_span_plays_what_lies_in_it_and_nothing_else(recorded):
    span = Span(2 * NS + 5, 5 * NS)
    for all_of_it, part in zip(times(Recording(recorded)), times(Recording(recorded), span), strict=True):
        assert len(part) > 0
        np.testing.assert_array_equal(part, all_of_it[(all_of_it >= span.begin_ns) & (all_of_it < span.end_ns)])


def test_its_begin_belongs_to_a_span_and_its_end_does_not():
    np.testing.assert_array_equal(Span(10, 20).holds(np.array([9, 10, 19, 20])), [False, True, True, False])


def test_a_played_span_ends_where_the_span_does(recorded):
    assert list(Recording(recorded).play(span=Span(0, 3 * NS)))[-1].until_ns == 3 * NS


def test_row_groups_beside_the_span_are_not_read(tmp_path, recorded):
    table = pq.read_table(recorded / "inferences.parquet")
    pq.write_table(table, tmp_path / "inferences.parquet", row_group_size=50)
    rows = list(Snapshot(tmp_path, Recording(recorded).manifest).rows("inferences", Span(3 * NS, 4 * NS)))
    assert [len(piece) for piece in rows] == [50, 50]


def test_a_span_of_a_live_session_is_played_from_its_journal(tmp_path):
    first, *rest, _ = session(back_to_back(400, 20e6))
    recorder = Recorder(tmp_path / "s.edgetop", first.manifest)
    for batch in [first, *rest]:
        recorder.write(batch)
    recording = Recording(recorder.folder)
    assert recording.is_live
    played, *_ = times(recording, Span(2 * NS, 3 * NS))
    assert len(played) == np.count_nonzero(played // NS == 2) > 40
    recorder.discard()


@pytest.mark.parametrize("arrow", [None, ModuleType("pyarrow")])
def test_memory_is_released_without_arrow_and_while_another_thread_imports_it(monkeypatch, arrow):
    monkeypatch.setitem(sys.modules, "pyarrow", arrow)
    release_memory()


def test_a_reading_that_no_quantity_can_have_is_left_out():
    values = [1e29, -1e29, 0.0, 1e31, -1e300, np.inf, np.nan]
    rows = np.array([(second * NS, 0, value) for second, value in enumerate(values)], READING)
    assert sound("readings", rows)["value"].tolist() == [1e29, -1e29, 0.0]
