"""The journal: one writer, several readers, and nothing is believed that is not whole."""

import errno
import os
import threading
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.files import open_regular
from edgetop.recording.journal import (
    SEGMENT_NS,
    Follower,
    Journal,
    JournalState,
    Missing,
    SegmentReader,
    open_segment,
    segment_name,
    segments,
)
from edgetop.recording.journal_frames import DEFLATED, MAGIC, REFERENCE
from edgetop.recording.packing import Tally
from edgetop.recording.session_folder import Descriptor
from edgetop.session.batch import Batch, merge
from edgetop.session.records import Inferences
from edgetop.session.seconds import NS
from tests.support.recordings import back_to_back, first_manifest, session
from tests.support.scripted_engine import inferences

TICK_NS = NS // 4


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    """Ten seconds."""
    return list(session(back_to_back(500, 20e6), seed=2))


def written(folder: Path, batches: Sequence[Batch], segment_bytes: int = 2**30) -> Journal:
    journal = Journal(folder, NS, segment_bytes)
    for batch in batches:
        journal.append(batch)
    return journal


def read(folder: Path) -> list[Batch]:
    return [batch for number in segments(folder) for batch in open_segment(folder / segment_name(number)).read()]


def rows(batches: Sequence[Batch]) -> tuple[bytes, bytes, bytes, tuple[object, ...]]:
    whole = merge(batches) if batches else Batch()
    return whole.inferences.tobytes(), whole.readings.tobytes(), whole.seconds.rows.tobytes(), whole.events


def test_batches_come_back_one_by_one(tmp_path: Path, batches: list[Batch]) -> None:
    written(tmp_path, batches)
    back = read(tmp_path)
    assert [batch.until_ns for batch in back] == [batch.until_ns for batch in batches]
    assert [rows([batch]) for batch in back] == [rows([batch]) for batch in batches]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(limit=st.integers(1, 6_000))
def test_segments_of_any_size_hold_the_same(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Batch], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    written(folder, batches, limit)
    assert rows(read(folder)) == rows(batches)


def test_each_segment_begins_with_the_manifest_and_the_interval(tmp_path: Path, batches: list[Batch]) -> None:
    written(tmp_path, batches, 1_000)
    assert len(segments(tmp_path)) > 3
    for number in segments(tmp_path):
        segment = open_segment(tmp_path / segment_name(number))
        first = next(segment.read())
        assert first.manifest
        assert first.manifest.sensors == first_manifest().sensors
        assert segment.state.fsync_interval_ns == NS


def test_an_old_segment_is_closed_however_small_it_is(tmp_path: Path) -> None:
    written(tmp_path, [Batch(minute * 60 * NS, inferences([minute])) for minute in range(25)])
    assert len(segments(tmp_path)) == 25 * 60 * NS // SEGMENT_NS + 1


def test_a_journal_torn_at_any_byte_gives_all_earlier_batches(tmp_path: Path, batches: list[Batch]) -> None:
    journal = written(tmp_path, batches[:1])
    ends = [journal.size]
    for batch in batches[1:5]:
        journal.append(batch)
        ends.append(journal.size)
    whole = (tmp_path / segment_name(1)).read_bytes()
    torn = tmp_path / segment_name(2)
    for cut in range(ends[-3], ends[-1] + 1):
        torn.write_bytes(whole[:cut])
        segment = open_segment(torn)
        count = sum(end <= cut for end in ends)
        assert [batch.until_ns for batch in segment.read()] == [batch.until_ns for batch in batches[:count]]
        assert segment.frames.tail_bytes() == cut - ends[count - 1]
        assert segment.damaged_bytes == 0


def by_seconds(folder: Path) -> tuple[Path, list[int]]:
    """A segment of five minutes, a batch a second; and where each ends."""
    journal, ends = Journal(folder, NS), []
    for second in range(300):
        journal.append(Batch(second * NS, inferences([second * NS])))
        ends.append(journal.size)
    return folder / segment_name(1), ends


def damaged(path: Path, *places: int) -> None:
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 1
    path.write_bytes(data)


def test_a_damaged_frame_costs_itself_alone_and_is_counted(tmp_path: Path) -> None:
    path, ends = by_seconds(tmp_path)
    damaged(path, ends[101] - 40, ends[200] - 3, ends[201] - 3)
    segment = open_segment(path)
    seconds = [batch.until_ns // NS for batch in segment.read()]
    assert seconds == [*range(101), *range(102, 200), *range(202, 300)]
    missing = segment.state.missing
    assert (missing.ns, missing.inferences, missing.is_counted) == (3 * NS, 3, True)
    assert segment.damaged_bytes == ends[101] - ends[100] + ends[201] - ends[199]


def test_a_rotten_reference_costs_nothing(tmp_path: Path) -> None:
    path, _ = by_seconds(tmp_path)
    data = path.read_bytes()
    places = [place for place in range(len(data)) if data[place : place + 5] == MAGIC + bytes([REFERENCE | DEFLATED])]
    last = {data[place + 5 : place + 8]: place for place in places}  # of each run
    assert len(places) > len(last) > 2
    damaged(path, *(place + 30 for place in places if place not in last.values()))
    segment = SegmentReader(Descriptor(open_regular(path)), state=JournalState(Tally()))
    assert [batch.until_ns // NS for batch in segment.read()] == [*range(300)]
    assert segment.state.missing == Missing()
    assert segment.damaged_bytes > 0


def pieces_of(given: Inferences, count: int) -> list[Batch]:
    return [Batch((i + 1) * TICK_NS, piece) for i, piece in enumerate(np.array_split(given, count))]


def test_several_readers_follow_one_writer_across_segments(tmp_path: Path) -> None:
    given = back_to_back(4_000, 1e6)
    journal = Journal(tmp_path, NS, 3_000)
    journal.append(Batch(0, manifest=first_manifest()))
    followers = [Follower(tmp_path) for _ in range(3)]
    seen: list[list[Batch]] = [[] for _ in followers]
    for i, batch in enumerate(pieces_of(given, 60)):
        journal.append(batch)
        for place, follower in enumerate(followers):
            if i % (place + 1) == 0:
                seen[place] += follower.read()
    for place, follower in enumerate(followers):
        seen[place] += follower.read()
        assert merge(seen[place]).inferences.tobytes() == given.tobytes()
        assert list(follower.read()) == []
    assert len(segments(tmp_path)) > 4


def test_a_follower_goes_on_where_a_reader_stopped(tmp_path: Path) -> None:
    given = back_to_back(400, 1e6)
    pieces = pieces_of(given, 10)
    journal = written(tmp_path, pieces[:4])
    follower = Follower(tmp_path, 1, journal.size)
    for batch in pieces[4:]:
        journal.append(batch)
    assert merge(list(follower.read())).inferences.tobytes() == given[len(merge(pieces[:4]).inferences) :].tobytes()


def test_a_removed_segment_that_is_open_is_read_to_its_end(tmp_path: Path) -> None:
    given = back_to_back(300, 1e6)
    pieces = pieces_of(given, 3)
    journal = written(tmp_path, pieces[:1])
    follower = Follower(tmp_path)
    seen = list(follower.read())
    journal.append(pieces[1])
    journal.close()
    journal.append(pieces[2])
    (tmp_path / segment_name(1)).unlink()
    assert merge([*seen, *follower.read()]).inferences.tobytes() == given.tobytes()


def test_a_disk_failure_leaves_whole_frames_and_a_new_segment(tmp_path: Path) -> None:
    journal = written(tmp_path, [Batch(0, inferences([1]))])
    os.close(journal._fd)
    journal._fd = os.open(tmp_path / segment_name(1), os.O_RDONLY)
    with pytest.raises(OSError, match="Bad file descriptor"):
        journal.append(Batch(1, inferences([2])))
    journal.append(Batch(2, inferences([3])))
    assert segments(tmp_path) == [1, 2]
    assert [batch.inferences["t_ns"].tolist() for batch in read(tmp_path)] == [[1], [3]]


def test_a_failed_sync_is_told_by_the_next_batch(tmp_path: Path) -> None:
    journal = written(tmp_path, [Batch(0, inferences([1]))])
    read_end, write_end = os.pipe()
    journal._sync.begin(write_end, tmp_path)  # a pipe cannot be synced: EINVAL
    journal._sync.wait()
    with pytest.raises(OSError, match="Invalid argument"):
        journal.append(Batch(1, inferences([2])))
    journal.append(Batch(2, inferences([3])))
    journal.finish()
    os.close(read_end)
    os.close(write_end)


def test_a_failure_that_closing_a_synced_file_reports_is_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS with a full quota. Nobody may wait for this sync for ever."""
    journal, close = written(tmp_path, [Batch(0, inferences([1]))]), os.close

    def close_and_fail(fd: int) -> None:
        close(fd)
        if threading.current_thread().name == "journal sync":
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", close_and_fail)
    journal.sync()
    waiting = threading.Thread(target=journal._sync.wait, daemon=True)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
    with pytest.raises(OSError, match="quota"):
        journal.append(Batch(1, inferences([2])))
    journal.end()


def test_all_syncs_of_a_journal_share_a_thread_which_ends_with_it(tmp_path: Path) -> None:
    journal, before = written(tmp_path, [Batch(0, inferences([1]))]), set(threading.enumerate())
    threads = set()
    for _ in range(3):
        journal.sync()
        threads |= set(threading.enumerate()) - before
        journal._sync.wait()
    (thread,) = threads
    journal.end()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read_as_a_segment(tmp_path: Path, kind: str) -> None:
    path = tmp_path / segment_name(1)
    (tmp_path / "real").write_bytes(b"")
    {"link": lambda: path.symlink_to("real"), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    with pytest.raises(OSError, match=r".+"):
        open_segment(path)


def test_frame_sizes_follow_their_batches(batches: list[Batch], tmp_path: Path) -> None:
    """A quarter of a second of a 20 ms model costs a few hundred bytes, its overhead included."""
    journal = Journal(tmp_path, NS)
    sizes = []
    for batch in batches[1:-1]:
        journal.append(batch)
        sizes.append(journal.size)
    steps = np.diff(list(accumulate([0])) + sizes)
    assert np.median(steps) < 400
