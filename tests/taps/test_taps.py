"""The rings of a whole application: where they are, how many there may be, and what does not count."""

import fcntl
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from edgetop.engines.engine_protocol import LogLine, RecordsLost, StreamsSeen
from edgetop.probe import edgetop_probe as layout
from edgetop.taps import rings
from edgetop.taps.call_streams import MAX_STREAMS
from edgetop.taps.rings import LOCK, PREFIX, Rings
from edgetop.taps.taps import Taps


@pytest.fixture
def taps(tmp_path):
    taps = Taps()
    taps.open(tmp_path)
    taps.started_ns = time.monotonic_ns()
    yield taps
    taps.close()


def process(folder, calls=2, name="worker", *, start_ns=None, is_alive=False):
    """A ring as a process leaves it."""
    ring = layout.Ring(str(folder), "probe")
    number = ring.name(f"\t\t\t{name}")
    for place in range(calls):
        at_ns = start_ns or time.monotonic_ns()
        ring.put(at_ns, at_ns + 1_000, number, flags=0 if place else layout.FIRST)
    if not is_alive:
        ring._numbers.release()
        ring._map.close()
    return ring


def polled(taps, *, is_over=False):
    records, messages = taps.poll(time.monotonic_ns(), is_over=is_over)
    return records, [message for message in messages if isinstance(message, (LogLine, RecordsLost))], messages


@pytest.mark.parametrize("shared", ["/proc", "/nowhere"], ids=["full", "not there"])
def test_rings_are_elsewhere_where_shared_memory_has_no_room(shared: str) -> None:
    """As in a container with a small `--shm-size`. The file system /proc has no free bytes."""
    taps = Taps()
    folder = taps.open(Path(shared))
    assert folder.parent == Path(tempfile.gettempdir())
    taps.close()
    assert not folder.exists()


def test_rings_are_in_shared_memory_where_it_has_room(tmp_path: Path) -> None:
    taps = Taps()
    assert taps.open(tmp_path).parent == tmp_path
    taps.close()


def test_a_folder_is_left_alone_while_its_edgetop_holds_it(taps, tmp_path):
    """Also where the number of its process says nothing, as in another PID namespace that shares /dev/shm."""
    living = taps.folder.rename(tmp_path / f"{PREFIX}{2**22 + 1}-x")
    taps._rings.folder = living
    other = Rings()
    other.open(tmp_path)
    other.close()
    process(living)
    assert len(polled(taps, is_over=True)[0]) == 2


def test_folders_that_were_left_behind_are_removed(tmp_path):
    left, locked, new, old = (tmp_path / f"{PREFIX}{os.getpid()}-{name}" for name in "abcd")
    for folder in (left, locked, new, old):
        folder.mkdir()
    for folder in (left, locked):
        (folder / LOCK).touch()
    with (locked / LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        other = Rings()
        other.open(tmp_path)
    assert [folder.name[-1] for folder in (left, locked, new, old) if folder.exists()] == ["b", "c", "d"]
    other.close()


def test_any_number_of_processes_is_counted_exactly_in_bounded_memory(taps):
    counted, most = 0, 0
    for _ in range(15):
        for _ in range(40):
            process(taps.folder)
        most = max(most, len(list(taps.folder.glob("*.tap"))))
        counted += len(polled(taps)[0])
    records, news, _ = polled(taps, is_over=True)
    assert counted + len(records) == 1_200
    assert most == 40
    assert [message for message in news if isinstance(message, RecordsLost)] == []
    assert len(taps._streams.names) == 1  # the stream of an ended process goes on in the next


def test_the_stream_of_a_living_process_is_its_own(taps):
    living, seen = process(taps.folder, is_alive=True), []
    for is_over in (False, False, True):
        seen += [message.names for message in polled(taps, is_over=is_over)[2] if isinstance(message, StreamsSeen)]
        process(taps.folder)
    assert living
    assert seen == [("worker",), ("worker", "worker")]


def test_processes_beyond_the_limit_are_told_and_counted_at_the_end(taps, monkeypatch):
    monkeypatch.setattr(rings, "MAX_RINGS", 3)
    living = [process(taps.folder, is_alive=True) for _ in range(10)]
    _, news, _ = polled(taps)
    polled(taps)
    assert [message.kind for message in news] == ["rings-full"]
    assert living
    assert sum(len(polled(taps, is_over=is_over)[0]) for is_over in (False, True)) == 20


def test_streams_beyond_the_limit_are_counted_as_others(taps):
    living = process(taps.folder, calls=0, is_alive=True)
    others = [layout.Ring(str(taps.folder), "probe") for _ in range(5)]
    for number, ring in enumerate((living, *others)):
        for place in range(60):
            at_ns = time.monotonic_ns()
            ring.put(at_ns, at_ns + 1_000, ring.name(f"\t\t\tmodel-{number}-{place}"))
    records, news, messages = polled(taps, is_over=True)
    seen = next(message for message in messages if isinstance(message, StreamsSeen))
    assert (len(seen.names), seen.names[-1]) == (MAX_STREAMS, "others")
    assert np.bincount(records["stream"])[-1] == 360 - (MAX_STREAMS - 1)
    assert [message.kind for message in news if isinstance(message, LogLine)] == ["streams-full"]


def test_calls_of_another_clock_do_not_count_and_are_told_once(taps):
    ring = process(taps.folder, is_alive=True)
    for start_ns in (time.time_ns(), 5, 2**62, time.monotonic_ns() + 10**12):
        ring.put(start_ns, start_ns + 5_000_000, 0)
    records, news, _ = polled(taps)
    ring.put(time.time_ns(), time.time_ns(), 0)
    last, more, _ = polled(taps, is_over=True)
    assert len(records) + len(last) == 2
    warning, lost = news
    assert (warning.kind, "CLOCK_MONOTONIC" in warning.message) == ("foreign-times", True)
    assert lost.count == 4
    assert [(message.count, message.why) for message in more] == [(1, lost.why)]


def test_the_cost_is_that_of_a_usual_process_also_when_it_has_ended(taps):
    """A process that lost its CPU while it measured does not speak for all."""
    for cost_ns in (0, 400, 15_000_000, 500):
        ring = process(taps.folder, is_alive=True)
        ring.has_cost(cost_ns)
        ring._numbers.release()
        ring._map.close()
    *_, messages = polled(taps, is_over=True)
    assert [message.cost_ns for message in messages if isinstance(message, StreamsSeen)] == [500]


def test_a_removed_folder_is_told(taps):
    for path in taps.folder.iterdir():
        path.unlink()
    taps.folder.rmdir()
    _, news, _ = polled(taps)
    assert [message.kind for message in news] == ["calls-unseen"]


@pytest.mark.parametrize("kind", ["symlink", "file", "fifo", "folder"])
def test_a_folder_that_was_replaced_is_told_and_what_is_in_its_place_goes(taps, tmp_path, kind):
    folder = taps.folder
    shutil.rmtree(folder)
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "kept").touch()
    make = {
        "symlink": lambda: folder.symlink_to(tmp_path / "others"),
        "file": folder.touch,
        "fifo": lambda: os.mkfifo(folder),
        "folder": folder.mkdir,
    }
    make[kind]()
    (warning,) = polled(taps)[1]
    assert "was removed or replaced" in warning.message
    taps.close()
    assert not os.path.lexists(folder)
    assert (tmp_path / "others" / "kept").exists()


@pytest.mark.parametrize("kind", ["fifo", "symlink", "sparse", "folder", "socket"])
def test_what_is_no_ring_in_the_folder_hides_no_call(taps, kind):
    """It is met before a ring, beside one, and in the place of one that is read."""
    for name in ("0-0.tap", "z.tap"):
        put_no_ring(taps.folder / name, kind)
    process(taps.folder)
    counted = len(polled(taps)[0])
    process(taps.folder)
    for path in set(taps.folder.glob("*.tap")) - {taps.folder / "0-0.tap", taps.folder / "z.tap"}:
        counted += len(polled(taps)[0])
        if path.exists():
            path.unlink()
            put_no_ring(path, kind)
    process(taps.folder)
    assert counted + len(polled(taps, is_over=True)[0]) == 6


def put_no_ring(path, kind):
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "symlink":
        path.symlink_to("/dev/zero")
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(2**40)
    elif kind == "folder":
        path.mkdir()
    else:
        folder = os.open(path.parent, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{folder}/{path.name}")  # a socket's path may have 107 bytes
        os.close(folder)


def test_a_ring_that_is_overrun_is_read_as_often_as_it_fills(taps: Taps) -> None:
    """By the calls that were overwritten too: those that are left would never be more than one ring."""
    ring = process(taps.folder, is_alive=True)
    polled(taps)
    begin = time.monotonic()
    number = ring.name("\t\t\tworker")
    for at_ns in range(time.monotonic_ns(), time.monotonic_ns() + 5 * layout.SLOTS):
        ring.put(at_ns, at_ns + 1, number)
    _, (lost,), _ = polled(taps)
    elapsed_s = time.monotonic() - begin
    assert isinstance(lost, RecordsLost)
    assert lost.count > 3 * layout.SLOTS
    assert taps.poll_within_s < elapsed_s / 2 / 4
