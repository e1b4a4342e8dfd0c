"""What a program writes into its ring is what is read of it, whatever becomes of the program or the ring."""

import os
import threading

import numpy as np
import pytest

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.ring import Ring


@pytest.fixture
def writer(tmp_path):
    return layout.Ring(str(tmp_path), "hook")


@pytest.fixture
def reader(tmp_path, writer):
    (path,) = tmp_path.iterdir()
    return Ring(path)


def read(ring):
    ring.find_whole()
    return ring.read()


def test_calls_are_read_once_with_their_names(writer, reader):
    name = writer.name("onnxruntime\t1.2\tCUDAExecutionProvider,CPUExecutionProvider\t/models/größe.onnx")
    writer.put(1_000, 3_000, name, flags=layout.FIRST)
    writer.put(4_000, 5_000, name, ok=0)
    calls = read(reader)
    assert calls["start_ns"].tolist() == [1_000, 4_000]
    assert calls["ok"].tolist() == [1, 0]
    assert calls["flags"].tolist() == [layout.FIRST, 0]
    found = reader.name(name)
    assert (found.runtime, found.version, found.model) == ("onnxruntime", "1.2", "/models/größe.onnx")
    assert found.providers == ("CUDA", "CPU")
    assert not len(read(reader))
    assert (reader.pid, reader.source, reader.lost) == (os.getpid(), "hook", 0)


def test_threads_write_into_one_ring(writer, reader):
    together = threading.Barrier(4)

    def work():
        together.wait()
        for _ in range(500):
            writer.put(1, 2, 0)
        together.wait()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = read(reader)
    assert len(calls) == 2_000
    assert len(np.unique(calls["thread"])) == 4


def test_overwritten_calls_are_counted(writer, reader):
    for _ in range(layout.SLOTS + 100):
        writer.put(1, 2, 0)
    assert len(read(reader)) == layout.SLOTS
    assert reader.lost == 100


def test_a_call_that_is_not_whole_is_waited_for(writer, reader):
    writer.put(1, 2, 0)
    at = layout.HEADER_BYTES + layout.SLOT.size
    layout.SLOT.pack_into(writer._map, at, 0, 3, 4, 0, 0, layout.CALL, 1, 0, 0, 0)
    assert len(read(reader)) == 1
    writer._numbers[at >> 3] = 2
    assert read(reader)["start_ns"].tolist() == [3]


def test_what_a_dead_thread_left_is_passed_over(writer, reader):
    writer._next()  # it took its number, and wrote nothing
    writer.put(5, 6, 0)
    read(reader)
    assert read(reader)["start_ns"].tolist() == [5]
    assert reader.lost == 1


def test_calls_that_cannot_be_are_left_out(writer, reader):
    for start, end in ((9, 5), (-1, 5), (1, 1 + 10**15), (1, 2)):
        writer.put(start, end, 0)
    assert read(reader)["end_ns"].tolist() == [2]


@pytest.mark.parametrize("damage", ["empty", "short", "magic", "version", "link", "fifo"])
def test_a_file_that_is_no_ring_is_refused(tmp_path, writer, damage):
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "short":
        path.write_bytes(whole[:-1])
    elif damage == "magic":
        path.write_bytes(b"x" + whole[1:])
    elif damage == "version":
        path.write_bytes(whole[:8] + b"\x09" + whole[9:])
    else:
        path.unlink()
        os.mkfifo(path) if damage == "fifo" else path.symlink_to("/etc/passwd")
    with pytest.raises((ValueError, OSError)):
        Ring(path)


def test_hostile_names_are_bounded(writer, reader):
    number = writer.name("a\tb\tc\t" + "x" * 10_000)
    assert reader.name(number).model == ""  # of what is too long its end is kept
    writer._map[layout.NAMES_AT : layout.NAMES_AT + 2] = b"\xff\xff"
    assert len(reader.name(0).runtime) < layout.NAME_BYTES
    assert reader.name(60_000).model == ""
    for i in range(200):
        assert writer.name(f"name {i}") < layout.NAMES


def forge(writer, slot, sequence):
    writer._numbers[(layout.HEADER_BYTES + slot * layout.SLOT_BYTES) >> 3] = sequence


@pytest.mark.parametrize(
    "sequence",
    [2**62, 2**62 + 4_001, 2**64 - 5, 2**64 - 1, 4_001 + layout.SLOTS, 4_001 + 100 * layout.SLOTS, 4_001],
    ids=["huge", "huge in its place", "negative", "largest", "next lap", "many laps", "this lap"],
)
@pytest.mark.parametrize("is_idle", [False, True])
def test_a_forged_sequence_number_hides_no_calls(writer, reader, sequence, is_idle):
    for _ in range(50):
        writer.put(1, 2, 0)
    seen = len(read(reader))
    forge(writer, 4_000, sequence)
    for _ in range(12 if is_idle else 0):
        read(reader)
    for _ in range(10):
        for _ in range(100):
            writer.put(3, 4, 0)
        seen += len(read(reader))
    assert (seen, reader.lost) == (1_050, 0)


def test_forged_numbers_that_follow_each_other_hide_calls_only_until_the_true_ones_come(writer, reader):
    for slot in range(4_000, 4_100):
        forge(writer, slot, slot + 1 + 7 * layout.SLOTS)
    for _ in range(4):
        read(reader)
    for _ in range(300):
        writer.put(3, 4, 0)
    assert len(read(reader)) == 300
    assert (reader.lost, reader.is_damaged) == (0, True)


def test_scrambled_numbers_are_survived(writer, reader):
    random = np.random.default_rng(1)
    for slot, sequence in enumerate(random.integers(0, 2**64, layout.SLOTS, np.uint64).tolist()):
        forge(writer, slot, sequence)
    read(reader)
    for _ in range(5):
        writer.put(3, 4, 0)
    assert len(read(reader)) == 5
    assert reader.is_damaged


def test_a_long_gap_is_passed_over_and_counted(writer, reader):
    """As the helper for uprobes leaves out calls that the kernel could not deliver."""
    writer.put(1, 2, 0)
    writer.leave_out(100_000)
    for _ in range(10):
        writer.put(3, 4, 0)
    assert sum(len(read(reader)) for _ in range(4)) == 11
    assert reader.lost == 100_000


def test_a_late_thread_is_waited_for_before_its_call_counts_as_lost(writer, reader):
    late, _ = writer._next(), writer.put(5, 6, 0)
    assert not len(read(reader))
    at = layout.HEADER_BYTES + late * layout.SLOT.size
    layout.SLOT.pack_into(writer._map, at, late + 1, 3, 4, 0, 0, layout.CALL, 1, 0, 0, 0)
    assert read(reader)["start_ns"].tolist() == [3, 5]
    assert reader.lost == 0


@pytest.mark.parametrize("size", [0, 10_000, layout.HEADER_BYTES + 100])
def test_a_file_that_becomes_shorter_ends_nothing(tmp_path, writer, reader, size):
    name = writer.name("a\tb\tc\tmodel")
    writer.put(1, 2, name)
    (path,) = tmp_path.iterdir()
    os.truncate(path, size)
    assert len(read(reader)) == (size > layout.HEADER_BYTES)
    assert not len(reader.read_to_end())
    assert reader.name(name).model == ("model" if size else "")
    assert reader.is_cut


def test_an_end_with_gaps_is_read_to_the_end(writer, reader):
    for _ in range(5):
        writer._next()
        writer.put(3, 4, 0)
    assert len(reader.read_to_end()) == 5
    assert reader.lost == 5


def test_nobody_writes_any_more_once_every_mapping_is_gone(writer, reader):
    pipe = os.pipe()
    child = os.fork()
    if not child:  # a child shares its parent's mapping
        os.close(pipe[1])
        os.read(pipe[0], 1)
        os._exit(0)
    writer._numbers.release()
    writer._map.close()
    shared = reader.is_abandoned()
    os.close(pipe[1])
    os.waitpid(child, 0)
    os.close(pipe[0])
    assert (shared, reader.is_abandoned()) == (False, True)


def test_names_cannot_act_on_a_terminal(writer, reader):
    found = reader.name(writer.name("onnx\x1b]0;pwn\x07\t1\x1b[2J\tCPU\x9b1mExecutionProvider\t/m/\u202e\x1b[31m.onnx"))
    assert all(text.isprintable() for text in (found.runtime, found.version, *found.providers, found.model))
