"""ONNX Runtime's traces, line by line: names, providers, runs and what nested nodes take themselves."""

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from edgetop.engines.child.profilers import Profile
from edgetop.engines.child.profilers.interference import Interference
from edgetop.engines.child.profilers.onnx_trace import (
    add_kernels,
    add_runs,
    best_home,
    is_run,
    make_folder,
    read_events,
)


def node(name: str, ts: int, dur: int, op: str = "Conv", provider: str = "CPUExecutionProvider") -> dict[str, object]:
    args = {"op_name": op, "provider": provider, "node_index": "3"}
    return {"cat": "Node", "ph": "X", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": args}


def session(name: str, ts: int, dur: int) -> dict[str, object]:
    return {"cat": "Session", "ph": "X", "name": name, "ts": ts, "dur": dur, "args": {}}


def lines(*events: dict[str, object]) -> list[str]:
    """As ONNX Runtime writes them: an event a line, and an empty last one."""
    return ["[\n", *(f"{json.dumps(event)},\n" for event in events), "]\n", "\n"]


def operators(*events: dict[str, object]) -> list[list[object]]:
    profile = Profile()
    profile.begin_run(1_000)
    add_kernels(profile, [event for event in read_events(lines(*events)) if not is_run(event)])
    found: list[list[object]] = profile.describe()["operators"]
    return found


def test_kernels_come_in_run_order_with_short_names() -> None:
    later, earlier = node("b", 20, 7, "Relu", "CUDAExecutionProvider"), node("a_nchwc", 10, 5)
    assert operators(later, earlier) == [["a_nchwc", "Conv", "CPU", 1, 5_000], ["b", "Relu", "CUDA", 1, 7_000]]


def test_only_kernels_count() -> None:
    fence = {**node("a", 9, 1), "name": "a_fence_before"}
    assert operators(session("session_initialization", 0, 9), fence, node("a", 10, 5), session("model_run", 9, 8)) == [
        ["a", "Conv", "CPU", 1, 5_000]
    ]


def test_a_node_with_a_body_takes_what_its_body_does_not() -> None:
    found = operators(
        node("loop", 10, 100, "Loop"),
        node("x", 12, 30, "If"),
        node("y", 13, 20),
        node("x2", 50, 40),
        node("after", 111, 9),
    )
    assert {row[0]: row[4] for row in found} == {
        "loop": 30_000, "x": 10_000, "y": 20_000, "x2": 40_000, "after": 9_000,
    }  # fmt: skip


def looped(steps: int, cost: int, own: int) -> list[dict[str, object]]:
    """A Loop of two nodes that take 20 and 10 us; recording an event takes `cost`, and the Loop `own` us a step."""
    events, now = [], 100 + cost // 2
    for _ in range(steps):
        for name, took in (("product", 20), ("bend", 10)):
            events.append(node(name, now, took, "MatMul"))
            now += took + cost
        now += cost // 2 + own
    return [node("loop", 100, now - 100, "Loop"), *events]


@pytest.mark.parametrize("own", [0, 4])
def test_recording_the_events_of_a_body_is_no_time_of_the_loop(own: int) -> None:
    found = {row[0]: row[4] for row in operators(*looped(50, 6, own))}
    assert (found["product"], found["bend"]) == (1_000_000, 500_000)
    assert found["loop"] == pytest.approx(50 * own * 1000, abs=4_000)


def test_a_thread_that_is_held_up_in_a_body_does_not_raise_the_cost_of_an_event() -> None:
    events = looped(50, 6, 4)
    held_up = [{**event, "ts": event["ts"] + 9_000 * (k > 40)} for k, event in enumerate(events)]  # type: ignore[operator]
    held_up[0] = node("loop", 100, events[0]["dur"] + 9_000, "Loop")  # type: ignore[operator]
    found = {row[0]: row[4] for row in operators(*held_up)}
    assert found["loop"] == pytest.approx(9_000_000 + 50 * 4 * 1000, abs=4_000)


def test_of_many_sizes_of_blocks_only_the_number_is_read() -> None:
    stats = '{"main_thread": {"thread_pool_name": "p", "block_size": [%s], "core": 1}, "sub_threads": {"5": {}}}'
    texts = {json.dumps(list(range(90_000)))[1:-1]: 90_000, "1": 1, "": 0}
    for sizes, number in texts.items():
        line = json.dumps(node("a", 1, 2)).replace('"3"', f'"3", "thread_scheduling_stats": {stats % sizes}')
        (event,) = read_events(["[\n", line + ",\n", "]\n"])
        told = event["args"]["thread_scheduling_stats"]
        assert told["main_thread"] == {"thread_pool_name": "p", "block_size": number, "core": 1}
        assert told["sub_threads"] == {"5": {}}


def test_a_name_that_looks_like_sizes_of_blocks_is_left_alone() -> None:
    (event,) = read_events(lines(node('"block_size": [1, 2]', 1, 2)))
    assert event["name"] == '"block_size": [1, 2]_kernel_time'


def test_a_kernel_that_runs_often_is_one_operator_with_calls() -> None:
    assert operators(node("body", 10, 5), node("body", 20, 6)) == [["body", "Conv", "CPU", 2, 11_000]]


def test_the_last_runs_of_a_session_are_told_apart() -> None:
    events = [session("model_run", 100 * i, 50) for i in range(4)]
    events += [node("a", 100 * i + 5, 10 + i) for i in range(4)]
    profile = Profile()
    add_runs(profile, read_events(lines(*events)), [Interference(), Interference(3, 20_000)])
    assert profile.describe() == {
        "run_ns": [50_000],
        "left_out_ns": [50_000],
        "disturbed": False,
        "preempted": 3,
        "waited_ns": None,
        "first_run": [[0, 12_000]],
        "first_begins": [[0, 0]],
        "crossing_ns": 0,
        "operators": [["a", "Conv", "CPU", 1, 12_000]],
        "runs": [[12_000]],
    }


def test_names_may_hold_what_json_forbids() -> None:
    """ONNX Runtime escapes quotes of names, and leaves control characters as they are."""
    text = json.dumps(node("a", 1, 1)).replace('"a_kernel', '"[red]\x1b\x00 a_kernel')
    (event,) = read_events(["[\n", text + ",\n", "]\n"])
    assert event["name"] == "[red]\x1b\x00 a_kernel_time"


@pytest.mark.parametrize("text", ["not json\n", '{"cat": "Node", "na\n', '[{"cat": 1}]\n'])
def test_what_is_no_trace_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        read_events(["[\n", text])


NOBODY = 2**22 + 1  # beyond what the kernel numbers processes with (proc_sys_kernel(5), pid_max)


def left(home: Path, name: str, age_s: float) -> Path:
    folder = home / name
    folder.mkdir()
    (folder / "trace.json").write_text("[]")
    then = folder.stat().st_mtime - age_s
    os.utime(folder, (then, then))
    return folder


def test_traces_are_elsewhere_where_shared_memory_has_no_room(tmp_path: Path) -> None:
    """As in a container with a small `--shm-size`. The file system /proc has no free bytes."""
    assert best_home("/proc") == best_home("/nowhere") == tempfile.gettempdir()
    assert best_home(str(tmp_path)) == str(tmp_path)


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    folder = Path(make_folder(str(tmp_path)))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_killed_engines_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    gone = left(tmp_path, f"edgetop-{NOBODY}-abc", 3_600)
    young = left(tmp_path, f"edgetop-{NOBODY}-def", 1)
    lives = left(tmp_path, f"edgetop-{os.getpid()}-ghi", 3_600)
    another = left(tmp_path, f"other-{NOBODY}-jkl", 3_600)
    made = Path(make_folder(str(tmp_path)))
    assert not gone.exists()
    assert set(tmp_path.iterdir()) == {young, lives, another, made}


def test_a_crossing_costs_the_gap_beyond_the_usual_one_and_the_copies() -> None:
    """Gaps of 2 us within a provider; 10 us and 32 us between two of them, and a copy of 7 us."""
    on_gpu = {"args": {"provider": "CUDAExecutionProvider", "op_name": "Conv"}, "tid": 9}
    copy = {"args": {"provider": "CUDAExecutionProvider", "op_name": "MemcpyToHost"}, "tid": 9}
    events = [
        session("model_run", 0, 200),
        {**node("a", 0, 10), "tid": 4},
        {**node("b", 12, 10), "tid": 4},
        {**node("c", 32, 10), **on_gpu},
        {**node("d", 44, 10), **on_gpu},
        {**node("to_host", 56, 7), **copy},
        {**node("e", 95, 10), "tid": 4},
    ]
    profile = Profile()
    add_runs(profile, read_events(lines(*events)), [None])
    told = profile.describe()
    assert told["crossing_ns"] == (10 - 2 + 32 - 2 + 7) * 1000
    assert told["first_begins"] == [[0, 0], [12_000, 0], [32_000, 1], [44_000, 1], [56_000, 1], [95_000, 0]]
