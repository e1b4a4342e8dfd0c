"""A recording by time: each row is given once, at its time; what an analysis knew comes back as it was then."""

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.precision import Precision
from edgetop.analysis.statistics import Totals
from edgetop.recording import columns
from edgetop.recording.by_time import (
    LAST_INFERENCES,
    SEPARATE_S,
    START,
    SUMMED_S,
    RecordingByTime,
    SecondsTable,
    TimedTable,
)
from edgetop.recording.reader import Recording
from edgetop.recording.rows import Piece
from edgetop.session.batch import merge
from edgetop.session.operators import Operator
from edgetop.session.records import READING, Readings
from edgetop.session.seconds import NS, Seconds, concatenate
from tests.support.recordings import back_to_back, record, session, with_phases
from tests.support.scripts import measured
from tests.support.sessions import back_to_back as made
from tests.support.sessions import histogram_of, seconds_of

pytestmark = pytest.mark.slow


def rows(*t_ns: int) -> Readings:
    readings = np.zeros(len(t_ns), READING)
    readings["t_ns"], readings["value"] = t_ns, np.arange(len(t_ns))
    return readings


class Counted:
    """Pieces that count how often each is read."""

    def __init__(self, *pieces: Readings) -> None:
        self.reads = [0] * len(pieces)
        self.pieces = [
            Piece(int(piece["t_ns"].min()), int(piece["t_ns"].max()), len(piece), self._reader(i, piece))
            for i, piece in enumerate(pieces)
        ]

    def _reader(self, number: int, piece: Readings) -> Callable[[], Readings]:
        def read() -> Readings:
            self.reads[number] += 1
            return piece

        return read

    def table(self, kept_rows: int = 1_000) -> TimedTable:
        return TimedTable(self.pieces, lambda piece: piece["t_ns"], kept_rows)


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    cuts=st.lists(st.integers(1, 39), max_size=5),
    moments=st.lists(st.integers(-1, 60), max_size=10),
)
def test_rows_in_order_are_given_once_and_none_before_its_time(
    times: list[int], cuts: list[int], moments: list[int]
) -> None:
    whole = rows(*sorted(times))
    pieces = [piece for piece in np.split(whole, sorted({cut for cut in cuts if cut < len(whole)})) if len(piece)]
    table, begin, given_out = Counted(*pieces).table(), START, [whole[:0]]
    for moment in sorted(moments):
        end = table.place(moment)
        given_out += table.between(begin, end)
        begin = max(begin, end)
        assert sum(map(len, given_out)) == np.count_nonzero(whole["t_ns"] <= moment)
    given_out += table.between(begin, table.end)
    assert np.array_equal(np.concatenate(given_out), whole)


def test_a_row_that_came_late_holds_up_those_behind_it() -> None:
    table = Counted(rows(1, 9, 2, 3), rows(10, 11)).table()
    assert table.place(3) == (0, 1)
    assert table.place(9) == (0, 4)


def test_only_the_pieces_of_a_time_are_read() -> None:
    counted = Counted(*(rows(*range(i, i + 10)) for i in range(0, 100, 10)))
    table = counted.table()
    assert len(table.joined(table.place(42), table.place(57), READING)) == 15
    assert counted.reads == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]


def test_pieces_that_were_used_longest_ago_are_let_go() -> None:
    counted = Counted(*(rows(*range(i, i + 10)) for i in range(0, 40, 10)))
    table = counted.table(kept_rows=20)
    for number in (0, 1, 0, 2, 0, 1):
        table.read(number)
    assert counted.reads == [1, 2, 1, 0]


def test_a_piece_of_which_nothing_can_be_read_is_passed_over() -> None:
    gone = Piece(10, 19, 10, rows)
    first, last = Counted(rows(1, 2)).pieces[0], Counted(rows(20, 30)).pieces[0]
    table = TimedTable([first, gone, last], lambda piece: piece["t_ns"], 100)
    assert table.place(15) == (0, 2)
    assert [piece["t_ns"].tolist() for piece in table.between(START, table.end)] == [[1, 2], [20, 30]]
    assert table.next_ns(table.place(15)) is None or table.next_ns(table.place(15)) == 10


def test_a_table_without_rows_has_no_places() -> None:
    table = TimedTable([], lambda piece: piece["t_ns"], 100)
    assert table.place(5) == table.end == START
    assert list(table.between(START, table.end)) == []
    assert len(table.joined(START, table.end, READING)) == 0
    assert table.next_ns(START) is None


# Seconds.


@functools.cache
def seconds(count: int) -> Seconds:
    return seconds_of(made(0, np.full(count * 4, NS // 4)))


def table_of(whole: Seconds, piece_s: int) -> SecondsTable:
    places = np.arange(len(whole))
    pieces = []
    for begin in range(0, len(whole), piece_s):
        part = whole.where((places >= begin) & (places < begin + piece_s))
        pieces.append(Piece(int(part.rows["t_ns"][0]), int(part.rows["t_ns"][-1]), len(part), lambda part=part: part))  # type: ignore[misc]
    return SecondsTable(pieces)


@pytest.mark.parametrize("begin", [0, 1, 399, 400, 1_700])
@pytest.mark.parametrize("end", [1, 100, SEPARATE_S, 2_000, 3_000])
def test_old_seconds_keep_figures_and_summed_histograms(begin: int, end: int) -> None:
    whole = seconds(3_000)
    begin = min(begin, end)
    given_out = table_of(whole, 400).until(end, begin)
    assert np.array_equal(given_out.rows, whole.rows[begin:end])
    place = np.arange(len(whole))
    expected = whole.where((place >= begin) & (place < end))
    assert np.array_equal(given_out.histogram(), expected.histogram())
    for row in range(max(begin, end - SEPARATE_S), end):
        assert [part.tolist() for part in histogram_of(given_out, row - begin)] == [
            part.tolist() for part in histogram_of(whole, row)
        ]


@pytest.mark.thorough
def test_from_a_stop_on_only_the_seconds_of_late_are_read_again() -> None:
    whole = seconds(4_000)
    table = table_of(whole, 400)
    assert [stop_ns / NS for stop_ns in table.stops_ns] == [400 * n + 0.5 for n in range(1, 10)]
    assert [table.row(stop_ns) for stop_ns in table.stops_ns] == [400 * n for n in range(1, 10)]
    own = [row for row in range(3_200) if len(histogram_of(table.until(4_000, 800), row)[0])]
    assert own[:126] == list(range(0, 2_001, SUMMED_S))  # of whole pieces the first of each holds the sum
    assert own[126:] == list(range(2_000 + 1, 3_200))


@pytest.mark.parametrize("begin_s", [0, 7, 700])
def test_summed_old_seconds_give_the_same_precision(begin_s: int) -> None:
    random = np.random.default_rng(begin_s)
    latency_ns = (random.lognormal(0, 0.2, 3_000 * 8) * NS / 16).astype(np.int64)
    whole = seconds_of(made(begin_s * NS, latency_ns))
    totals, views = Totals(), []
    totals.add(whole)
    for given_out in (whole, table_of(whole, 400).until(len(whole))):
        precision = Precision()
        precision.fold(given_out)
        views.append(precision.view(totals.statistics(3_000 * NS), totals.buckets))
    assert views[0] == views[1]
    assert views[0].intervals_ns[2] is not None


def test_seconds_between_two_rows_have_their_own_histograms() -> None:
    whole = seconds(1_000)
    given_out = table_of(whole, 64).between(100, 300)
    assert np.array_equal(given_out.rows, whole.rows[100:300])
    assert histogram_of(given_out, 5)[0].tolist() == histogram_of(whole, 105)[0].tolist()


def test_seconds_that_come_twice_count_once() -> None:
    whole = seconds(10)
    table = table_of(concatenate([whole, whole]), 10)
    assert len(table) == 10
    assert np.array_equal(table.until(10).histogram(), whole.histogram())


def test_a_table_of_no_seconds_gives_none() -> None:
    table = SecondsTable([])
    assert (len(table), table.row(NS), table.begin_of_last(5, 0)) == (0, 0, 0)
    assert len(table.until(0)) == 0


# Whole recordings.


def test_only_as_many_inferences_are_read_as_small_windows_need(tmp_path: Path) -> None:
    live = list(session(with_phases(back_to_back(400_000, 50e3, 1)), 1))
    recorded = RecordingByTime(Recording(record(tmp_path / "s.edgetop", live)))
    whole = merge(live).inferences
    batch = recorded.until(recorded.moment(recorded.end_ns))
    assert LAST_INFERENCES <= len(batch.inferences) < len(whole) / 2
    assert np.array_equal(batch.inferences, whole[-len(batch.inferences) :])


def test_without_an_end_in_the_manifest_the_last_row_is_it(tmp_path: Path) -> None:
    live = list(session(back_to_back(100, 20e6)))
    manifest = live[-1].manifest
    assert manifest
    live[-1] = replace(live[-1], manifest=replace(manifest, duration_ns=None))
    recorded = RecordingByTime(Recording(record(tmp_path / "s.edgetop", live)))
    assert abs(recorded.end_ns - live[-1].until_ns) <= NS
    assert len(recorded.until(recorded.moment(recorded.end_ns)).inferences) == 100


def test_a_damaged_row_group_costs_itself_alone(tmp_path: Path) -> None:
    folder = record(tmp_path / "s.edgetop", list(session(back_to_back(600, 20e6), seed=5)))
    path = folder / "readings.parquet"
    table = pq.read_table(path)
    pq.write_table(table, path, row_group_size=5, write_page_checksum=True, compression="none", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(2)
    with path.open("r+b") as file:
        file.seek(column.data_page_offset + column.total_compressed_size - 1)
        file.write(b"\xff")
    recording = Recording(folder)
    recorded = RecordingByTime(recording)
    given_out = recorded.until(recorded.moment(recorded.end_ns)).readings
    expected = columns.from_arrow("readings", table, [info.id for info in recording.manifest.sensors])
    assert np.array_equal(given_out, np.concatenate([expected[:5], expected[10:]]))
    assert len(recording.problems) == 1


@pytest.mark.thorough
def test_of_many_bursts_reading_the_first_and_last_suffices(tmp_path: Path) -> None:
    script = measured(1)
    for number in range(120):
        script.profile([Operator(f"op{i}", "Conv", "CPU", 8, 1000 + i * number) for i in range(1_500)])
        script.measure(1, rate_hz=10)
    script.end()
    recorded = RecordingByTime(Recording(record(tmp_path / "s.edgetop", script.batches)))
    for end_ns in (recorded.end_ns, 90 * NS, 5 * NS):
        live, replayed = Analysis(), Analysis()
        for batch in script.batches:
            if batch.until_ns <= end_ns:
                live.fold(batch)
        batch = recorded.until(recorded.moment(end_ns))
        assert {len(burst) for burst in batch.bursts} == {1_500}
        replayed.fold(batch)
        assert replayed.view(None).operators == live.view(None).operators
    last = recorded.until(recorded.moment(recorded.end_ns)).bursts
    assert len(last) < 90
    assert last[-1].number == 119
    assert [burst.number for burst in recorded.whole().bursts] == list(range(120))


def test_the_inferences_of_a_second_that_is_not_over_count_however_a_recording_is_read(tmp_path: Path) -> None:
    folder = record(tmp_path / "s.edgetop", measured(12).batches)
    by_time = Analysis.of([RecordingByTime(Recording(folder)).whole()])
    counts = [Analysis.of(Recording(folder).play(inferences=single)).totals() for single in (False, True)]
    assert counts[0] == counts[1] == by_time.totals()
