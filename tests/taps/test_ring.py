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
