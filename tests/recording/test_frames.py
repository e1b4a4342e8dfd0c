"""Frames say of themselves whether they are whole: nothing torn or rotten is ever believed."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.files import open_regular
from edgetop.recording.journal_frames import ALONE, MAGIC, OPENING, REFERENCE, FrameReader, seal
from edgetop.recording.session_folder import Descriptor

quick = settings(max_examples=60, deadline=None)
PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=6)


def opened(path: Path) -> tuple[Descriptor, FrameReader]:
    file = Descriptor(open_regular(path))
    return file, FrameReader(file.fd)


def payloads(path: Path) -> list[bytes]:
    _file, reader = opened(path)
    return [frame.payload for frame in reader.read()]


def written(folder: Path, frames: Sequence[bytes]) -> Path:
    path = folder / "frames"
    path.write_bytes(b"".join(frames))
    return path


@quick
@given(st.lists(st.tuples(st.integers(0, 255), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=99)), max_size=6))
def test_frames_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, bytes]]) -> None:
    path = written(tmp_path_factory.getbasetemp(), [seal(*row, unpacked_bytes=7) for row in rows])
    _file, reader = opened(path)
    assert [(f.flags, f.number, f.payload, f.unpacked_bytes) for f in reader.read()] == [(*row, 7) for row in rows]
    assert (reader.damaged_bytes, reader.tail_bytes()) == (0, 0)


def test_a_truncated_file_gives_the_frames_before_the_cut(tmp_path: Path) -> None:
    frames = [seal(OPENING, i, b"payload %d" % i * i) for i in range(5)]
    whole = b"".join(frames)
    ends = [sum(map(len, frames[: i + 1])) for i in range(5)]
    for cut in range(len(whole)):
        path = written(tmp_path, [whole[:cut]])
        file, reader = opened(path)
        assert [frame.number for frame in reader.read()] == [i for i, end in enumerate(ends) if end <= cut]
        assert reader.tail_bytes() == cut - max([0, *(end for end in ends if end <= cut)])
        del file


@quick
@given(PAYLOADS, st.data())
def test_a_flipped_bit_costs_its_frame_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], data: st.DataObject
) -> None:
    frames = [seal(OPENING, i, content) for i, content in enumerate(contents)]
    whole = bytearray(b"".join(frames))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= 1 << data.draw(st.integers(0, 7))
    hit = next(i for i in range(len(frames)) if place < sum(map(len, frames[: i + 1])))
    path = written(tmp_path_factory.getbasetemp(), [bytes(whole)])
    assert payloads(path) == contents[:hit] + contents[hit + 1 :]


def test_what_was_passed_over_is_counted(tmp_path: Path) -> None:
    rot = b"rot" * 100
    path = written(tmp_path, [seal(OPENING, 0, b"a"), rot, seal(OPENING, 1, b"b")])
    _file, reader = opened(path)
    assert [frame.payload for frame in reader.read()] == [b"a", b"b"]
    assert reader.damaged_bytes == len(rot)


def test_each_whole_frame_behind_a_damaged_one_is_found(tmp_path: Path) -> None:
    frames = [seal(0, 0, b"lost")[:-1] + b"?", seal(0, 1, b"next"), seal(OPENING, 2, b"another")]
    assert payloads(written(tmp_path, frames)) == [b"next", b"another"]


def test_a_later_reference_is_found_without_reading_up_to_it(tmp_path: Path) -> None:
    frames = [seal(ALONE, 0, b"a", run=7), seal(REFERENCE, 1, b"of 8", run=8), seal(REFERENCE, 1, b"of 7", run=7)]
    _file, reader = opened(written(tmp_path, frames))
    found = reader.next_reference(7)
    assert found
    assert (found.payload, reader.offset) == (b"of 7", 0)
    assert reader.next_reference(9) is None


def test_a_frame_is_found_however_the_file_is_searched(tmp_path: Path) -> None:
    for gap in (1, 2, 3, 2**20 - 3, 2**20 - 2, 2**20, 2**20 + 1, 3 * 2**20):
        assert payloads(written(tmp_path, [b"\0" * gap, seal(OPENING, 0, b"there")])) == [b"there"]


def test_a_reader_follows_a_file_that_grows_by_single_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, [])
    _file, reader = opened(path)
    read = []
    with path.open("ab", buffering=0) as growing:
        for i in range(3):
            for byte in seal(OPENING, i, b"frame %d" % i):
                read += [frame.number for frame in reader.read()]
                growing.write(bytes([byte]))
    assert read == [0, 1]
    assert [frame.number for frame in reader.read()] == [2]


def test_a_reader_with_an_end_reads_no_further(tmp_path: Path) -> None:
    first = seal(OPENING, 0, b"first")
    file = Descriptor(open_regular(written(tmp_path, [first, seal(OPENING, 1, b"later")])))
    assert [frame.payload for frame in FrameReader(file.fd, len(first)).read()] == [b"first"]


def test_a_frame_that_claims_to_be_huge_is_none(tmp_path: Path) -> None:
    huge = bytearray(seal(OPENING, 0, b""))
    huge[8:12] = b"\xff\xff\xff\xff"
    assert payloads(written(tmp_path, [bytes(huge), b"\0" * 100])) == []


def test_magic_without_a_frame_is_passed_over(tmp_path: Path) -> None:
    assert payloads(written(tmp_path, [MAGIC * 500 + b"\0", seal(OPENING, 0, b"there")])) == [b"there"]


def test_a_file_full_of_magic_is_not_read_for_ever(tmp_path: Path) -> None:
    fake = seal(OPENING, 0, b"x" * 100_000)[:28]
    _file, reader = opened(written(tmp_path, [fake * 50_000, seal(OPENING, 0, b"there")]))
    assert list(reader.read()) == []
    assert reader.tail_bytes() > 1_000_000


def test_a_descriptor_is_closed_with_its_last_user(tmp_path: Path) -> None:
    file, reader = opened(written(tmp_path, [seal(OPENING, 0, b"a")]))
    fd = file.fd
    del file, reader
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
