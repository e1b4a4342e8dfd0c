"""Stages become frames: those of one thread by themselves, those of several by their number."""

import threading

import pytest

from edgetop.probe import edgetop_probe as layout
from edgetop.taps.ring import Ring
from edgetop.taps.stage_frames import MOST_PARTS, Frames

MS = 1_000_000
LATER = 10**15


@pytest.fixture
def program(tmp_path):
    """A ring with its reader, and a way to report: `stage(NAME, begin, end)` in ms."""
    writer = layout.Ring(str(tmp_path), "probe")
    (path,) = tmp_path.iterdir()
    return writer, Ring(path)


def report(writer, kind, name, begin_ms, end_ms, frame=0):
    writer.put(1 + begin_ms * MS, 1 + end_ms * MS, writer.name(f"\t\t\t{name}"), kind, number=frame)


def released(reader, frames=None, *, is_over=True, now_ns=LATER):
    frames = frames or Frames()
    reader.find_whole()
    frames.add([(reader, reader.read())])
    return {name: [ms for _, ms in each] for name, each in frames.release(now_ns, is_over=is_over).items()}


def test_a_frame_begins_with_the_first_stage_of_its_thread(program):
    writer, reader = program
    for begin in (0, 40):
        report(writer, layout.STAGE, "capture", begin, begin + 5)
        report(writer, layout.CALL, "model", begin + 7, begin + 17)
        report(writer, layout.STAGE, "send", begin + 17, begin + 20)
    assert released(reader) == {
        "frame/between": [2, 2],
        "stage/capture": [5, 5],
        "stage/inference": [10, 10],
        "stage/send": [3, 3],
        "frame/total": [20, 20],
    }


def test_the_last_frame_waits_for_its_end(program):
    writer, reader = program
    report(writer, layout.STAGE, "capture", 0, 5)
    frames = Frames()
    assert not released(reader, frames, is_over=False, now_ns=1_000 * MS)
    report(writer, layout.STAGE, "capture", 40, 45)
    assert released(reader, frames, is_over=False, now_ns=1_000 * MS)["frame/total"] == [5]


def test_the_only_frame_of_a_thread_is_told_while_others_go_on(program):
    writer, reader = program
    frames = Frames()
    report(writer, layout.STAGE, "request", 0, 5)
    assert not released(reader, frames, is_over=False, now_ns=1_000 * MS)
    assert released(reader, frames, is_over=False, now_ns=11_000 * MS)["frame/total"] == [5]
    assert not released(reader, frames)


def test_a_call_within_a_stage_is_part_of_it(program):
    writer, reader = program
    report(writer, layout.CALL, "model", 1, 9)
    report(writer, layout.STAGE, "detect", 0, 10)
    assert released(reader) == {"frame/between": [0], "stage/detect": [10], "frame/total": [10]}


def test_calls_before_the_first_stage_are_no_frame(program):
    writer, reader = program
    for begin in (0, 10):
        report(writer, layout.CALL, "warm-up", begin, begin + 9)
    report(writer, layout.STAGE, "capture", 40, 45)
    assert released(reader)["frame/total"] == [5]


def test_what_is_done_once_at_the_beginning_is_no_frame(program):
    writer, reader = program
    report(writer, layout.STAGE, "load", 0, 500)
    for number in range(MOST_PARTS):
        report(writer, layout.STAGE, "capture", 1_000 + number, 1_001 + number)
    frames = Frames()
    released(reader, frames, is_over=False, now_ns=2_000 * MS)
    report(writer, layout.STAGE, "capture", 5_000, 5_001)
    assert set(released(reader, frames)["frame/total"]) == {1}


def test_stages_of_several_threads_join_by_frame_number(program):
    writer, reader = program
    report(writer, layout.STAGE, "capture", 0, 5, frame=7)
    work = threading.Thread(target=report, args=(writer, layout.CALL, "model", 9, 19, 7))
    work.start()
    work.join()
    report(writer, layout.STAGE, "capture", 8, 12, frame=8)
    made = released(reader, is_over=False)
    assert made["frame/queue"] == [4, 0]
    assert made["frame/total"] == [19, 4]


def test_drops_and_the_deadline_are_told(program):
    writer, reader = program
    frames = Frames()
    report(writer, layout.DEADLINE, "", 100, 133)
    for t_ms in (1, 2):
        report(writer, layout.DROP, "", t_ms, t_ms)
    assert released(reader, frames) == {"drop/frames": [1, 1]}
    assert frames.deadline_ns == 33 * MS


def test_hostile_names_of_stages_are_bounded(program):
    writer, reader = program
    report(writer, layout.STAGE, "a/b\x1b[2J" + "x" * 100, 0, 1)
    names = [name for name in released(reader) if name.startswith("stage/")]
    assert names == ["stage/a-b\\x1b[2J" + "x" * 30]
