"""Journals of earlier versions are read, and what is hostile in them is refused."""

import hashlib
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from numpy.lib.recfunctions import repack_fields

from edgetop.recording import arrow_frames
from edgetop.recording.frames import Frame
from edgetop.recording.journal import JournalState, SegmentReader, open_segment
from edgetop.recording.packing import Tally
from tests.support.recordings import played

V1 = Path(__file__).parents[1] / "recordings/v1"
FIRST = V1 / "killed.edgetop/journal/00000005.journal"  # each frame needs those before it
LATER = V1 / "arrow-journal.edgetop/journal/00000002.journal"


def test_what_a_writer_left_who_wrote_arrow_comes_back(tmp_path: Path) -> None:
    batch = played(shutil.copytree(V1 / "arrow-journal.edgetop", tmp_path / "s.edgetop"))
    counts = [len(rows) for rows in (batch.inferences, batch.readings, batch.events, batch.seconds, batch.bursts)]
    assert counts == [271, 40, 12, 7, 3]
    assert batch.seconds.response is not None
    assert not batch.inferences["variant"].any()
    of_then = repack_fields(batch.inferences[["t_ns", "latency_ns", "wait_ns", "stream", "phase", "ok"]])
    assert hashlib.sha256(of_then.tobytes()).hexdigest()[:16] == "d317b786c33748ea"


def test_of_more_inferences_than_are_wanted_the_last_comes() -> None:
    whole, last = (list(open_segment(LATER).read(most_inferences=most)) for most in (None, 1))
    assert [b.inferences[-1:].tobytes() for b in whole] == [b.inferences.tobytes() for b in last]
    assert max(len(batch.inferences) for batch in whole) > 1


@pytest.mark.parametrize("path", [FIRST, LATER])
def test_damage_is_told(tmp_path: Path, path: Path) -> None:
    whole = list(open_segment(path).read())
    data = bytearray(path.read_bytes())
    segment = tmp_path / path.name
    data[-60] ^= 1
    segment.write_bytes(data)
    reader = SegmentReader(open_segment(segment).file, state=JournalState(Tally()))
    read = list(reader.read())
    assert len(read) == len(whole) - 1
    assert reader.damaged_bytes or reader.frames.tail_bytes()


def test_what_is_not_compressed_is_refused() -> None:
    for packed in (b"", b"nothing of the kind", b"\x28\xb5\x2f\xfd" * 9):
        with pytest.raises(ValueError, match=r".+"):
            arrow_frames._Unpacker().unpack(Frame(0, 0, 10, packed))


def message(rows: pa.RecordBatch) -> bytes:
    return bytes(rows.serialize().to_pybytes())


def test_a_list_of_absurd_length_is_refused() -> None:
    schema = pa.schema([pa.field("bucket", pa.list_(pa.int16()), nullable=False)])
    whole = message(pa.record_batch([pa.array([[*range(7)]], pa.list_(pa.int16()))], schema=schema))
    offsets = struct.pack("<ii", 0, 7)
    assert offsets in whole
    for absurd in (2**30, -7, 2**31 - 1):
        with pytest.raises(ValueError, match="not an Arrow message"):
            arrow_frames._rows(whole.replace(offsets, struct.pack("<ii", 0, absurd)), schema)


def test_a_value_that_is_missing_is_refused() -> None:
    columns = [pa.array([1, 1]), pa.array([0, 0], pa.uint16()), pa.array([1.0, None])]
    with pytest.raises(ValueError, match="a value is missing"):
        arrow_frames._readings(message(pa.record_batch(columns, names=["step_ns", "sensor", "value"])))
