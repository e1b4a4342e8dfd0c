"""The plan of a sweep: which runs, in which order, and what its file says of them."""

import json
from collections import Counter
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.sweep.plan import FILE, Plan, Settings, combined, hold, ordered, read_plan, write_plan

MODELS = ("/m/a.onnx", "/m/b.tflite")
EIGHT = combined(MODELS, (1, 2), (None,), (None, 4), (None,))


def plan(repeat: int = 3, seed: int = 0) -> Plan:
    return Plan(tuple(ordered(EIGHT, repeat, seed)), ("--duration=5s",), "/m", seed, 5.0, 600.0, 45.0, 43.0)


def test_every_combination_runs_once_in_each_repetition() -> None:
    runs = plan().runs
    assert len(EIGHT) == 8
    assert Counter((run.repetition, run.settings) for run in runs) == {(n, one): 1 for n in (1, 2, 3) for one in EIGHT}
    assert len({run.session for run in runs}) == len(runs)


def test_the_order_is_random_and_the_seeds() -> None:
    order = [run.settings for run in plan().runs]
    assert order[:8] != order[8:16]
    assert order == [run.settings for run in plan().runs]
    assert order != [run.settings for run in plan(seed=1).runs]


def test_what_differs_names_a_combination() -> None:
    assert plan().varied == ("model", "threads", "batch")
    assert plan().combinations == EIGHT
    assert EIGHT[1].words(plan().varied) == "a.onnx 1 thread batch 4"
    assert Settings("/m/a.onnx", 2, "CPU", None, 30.0).words(("provider", "rate_hz")) == "CPU 30 Hz"
    assert Plan(tuple(ordered(EIGHT[:1], 2, 0)), (), "/", 0, None, 1.0).varied == ("model",)


def test_what_a_run_is_given() -> None:
    assert Settings("/a.onnx", 2, "XNNPACK", 4, 30.0).arguments == [
        "/a.onnx", "--threads", "2", "--provider", "XNNPACK", "--batch", "4", "--rate", "30.0"
    ]  # fmt: skip
    assert Settings("/a.tflite", provider="XNNPACK").arguments == ["/a.tflite"]  # that is its runtime's own default


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = plan()
    done = whole.amended(whole.runs[0], state="done", figures={"p50_ms": 1.5, "max_c": None})
    write_plan(tmp_path, done)
    assert read_plan(tmp_path) == done
    assert read_plan(tmp_path).next_run == whole.runs[1]


def test_a_combination_that_failed_is_not_tried_again() -> None:
    whole = plan(repeat=2)
    failed = whole.amended(whole.runs[0], state="failed", reason="no such provider")
    left = failed
    tried = []
    while run := left.next_run:
        tried.append(run)
        left = left.amended(run, state="done")
    assert len(tried) == 14
    assert whole.runs[0].settings not in {run.settings for run in tried}


BROKEN = {
    "no file": None,
    "no JSON": "{",
    "a list": "[]",
    "another version": '{"format_version": 9}',
    "keys missing": '{"format_version": 1, "runs": []}',
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_plan_is_told_in_a_line(case: str, tmp_path: Path) -> None:
    if (content := BROKEN[case]) is not None:
        (tmp_path / FILE).write_text(content)
    with pytest.raises(InputError):
        read_plan(tmp_path)


@pytest.mark.parametrize("name", ["../../etc.edgetop", "/x.edgetop", "x", 7])
def test_a_session_lies_in_the_folder_of_its_sweep(name: object, tmp_path: Path) -> None:
    write_plan(tmp_path, plan())
    document = json.loads((tmp_path / FILE).read_text())
    document["runs"][0]["session"] = name
    (tmp_path / FILE).write_text(json.dumps(document))
    with pytest.raises(InputError, match="is not the plan"):
        read_plan(tmp_path)


def test_one_process_at_a_time_runs_it(tmp_path: Path) -> None:
    first = hold(tmp_path)
    assert first is not None
    assert hold(tmp_path) is None
