"""Sweeps: which runs are planned, in which order, what their file says of them, and what is recommended."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from edgetop.errors import InputError
from edgetop.sweep_plan import (
    FIELDS,
    FILE,
    KEYS,
    Candidate,
    Plan,
    Settings,
    Wanted,
    choose,
    combined,
    hold,
    ordered,
    read_plan,
    same_runs,
    write_plan,
)

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
    set_up = Settings("/m/a.onnx", optimize=0, execution_mode="parallel", inter_op_threads=2)
    assert set_up.words(FIELDS) == "a.onnx optimize 0 parallel 2 inter-op"
    assert set_up.arguments[1:] == ["--optimize", "0", "--execution-mode", "parallel", "--inter-op-threads", "2"]
    assert Settings("/m/a.onnx", 2, "CPU", None, 30.0).words(("provider", "rate_hz")) == "CPU 30 Hz"
    assert Plan(tuple(ordered(EIGHT[:1], 2, 0)), (), "/", 0, None, 1.0).varied == ("model",)


def test_what_a_run_is_given() -> None:
    assert Settings("/a.onnx", 2, "XNNPACK", 4, 30.0).arguments == [
        "/a.onnx", "--threads", "2", "--provider", "XNNPACK", "--batch", "4", "--rate", "30.0"
    ]  # fmt: skip
    assert Settings("/a.tflite", provider="XNNPACK").arguments == ["/a.tflite", "--provider", "XNNPACK"]


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


HOSTILE = [
    ("runs", 5), ("runs", []), ("runs", ["x"]), ("options", "--on-event"), ("options", [5]), ("seed", "x"),
    ("seed", None), ("duration_s", "x"), ("duration_s", float("nan")), ("cooldown_max_s", None), ("asked", "x"),
    ("wanted", []), ("wanted", {"goal": "x"}), ("wanted", {"goal": []}), ("wanted", {"max_temp": "x"}),
    ("wanted", {"metric": 5}), ("folder", 5), ("cooldown_max_s", 10**400),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), HOSTILE)
def test_values_of_a_plan_have_their_types(tmp_path: Path, key: str, value: object) -> None:
    write_plan(tmp_path, plan())
    document = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**document, key: value}))
    with pytest.raises(InputError, match=FILE):
        read_plan(tmp_path)
    for of_run in ({"repetition": "x"}, {"state": "x"}, {"settings": {}}, {"settings": {"model": 5}}, {"figures": 5},
                   {"figures": {"p50_ms": "x"}}, {"reason": 5}):  # fmt: skip
        (tmp_path / FILE).write_text(json.dumps({**document, "runs": [{**document["runs"][0], **of_run}]}))
        with pytest.raises(InputError, match=FILE):
            read_plan(tmp_path)


def test_no_pipe_or_endless_file_is_read_as_a_plan(tmp_path: Path) -> None:
    path = tmp_path / FILE
    for plant in (os.mkfifo, lambda p: p.symlink_to("/dev/zero"), lambda p: p.write_text("[" * 99_999)):
        plant(path)
        with pytest.raises(InputError, match=FILE):
            read_plan(tmp_path)
        path.unlink()
    with path.open("wb") as file:
        file.truncate(2**34)
    with pytest.raises(InputError, match="larger than"):
        read_plan(tmp_path)


@pytest.mark.parametrize("name", ["../../etc.edgetop", "/x.edgetop", "x", 7, "-x.edgetop", "..edgetop"])
def test_a_session_lies_in_the_folder_of_its_sweep(name: object, tmp_path: Path) -> None:
    write_plan(tmp_path, plan())
    document = json.loads((tmp_path / FILE).read_text())
    document["runs"][0]["session"] = name
    (tmp_path / FILE).write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"is not the plan|session has an unexpected value"):
        read_plan(tmp_path)


def test_one_process_at_a_time_runs_it(tmp_path: Path) -> None:
    first = hold(tmp_path)
    assert first is not None
    assert hold(tmp_path) is None


def ran(provider: str | None, *ran_on: str, threads: int = 1) -> Candidate:
    settings = Settings("/m/a.onnx", threads, provider)
    return Candidate(settings, settings.words(("threads", "provider")), ("x",), {}, ran_on=ran_on)


def test_combinations_that_ran_on_the_same_are_one_named_by_what_ran() -> None:
    cuda, cpu, other = ran("CUDA:a=1", "CPU"), ran("CPU", "CPU"), ran("CUDA:a=1", "CPU", threads=2)
    assert same_runs([cuda, cpu, other]) == [[cpu, cuda], [other]]


def test_options_of_a_provider_that_ran_make_a_difference() -> None:
    each = [ran("TensorRT:fp16=1", "TensorRT", "CPU"), ran("TensorRT", "TensorRT", "CPU"), ran("CPU", "CPU")]
    assert same_runs(each) == [[one] for one in each]


def test_what_did_not_run_is_like_nothing_else() -> None:
    each = [ran("CUDA"), ran("ROCM")]
    assert same_runs(each) == [[one] for one in each]


def candidate(name: str, *figures: float | None, reason: str | None = None) -> Candidate:
    """Figures in the order of KEYS."""
    return Candidate(Settings(f"/{name}"), name, ("s",), dict(zip(KEYS, figures, strict=True)), reason)


#                           p50   p99   items  mJ    MiB    °C
FAST = candidate("fast", 5.0, 9.0, 180.0, 60.0, 200.0, 82.0)
EVEN = candidate("even", 8.0, 8.5, 120.0, 40.0, 120.0, 70.0)
SMALL = candidate("small", 20.0, 25.0, 50.0, 30.0, 40.0, 55.0)
WORSE = candidate("worse", 21.0, 26.0, 45.0, 45.0, 125.0, 71.0)
DEAD = candidate("dead", None, None, None, None, None, None, reason="out of memory")
ALL = (FAST, EVEN, SMALL, WORSE, DEAD)


@pytest.mark.parametrize(("goal", "best"), [("p50", FAST), ("p99", EVEN), ("throughput", FAST), ("energy", SMALL)])
def test_the_best_for_the_goal_is_recommended(goal: str, best: Candidate) -> None:
    assert choose(ALL, Wanted(goal)).recommended is best


def test_what_breaks_the_limits_is_left_out_with_the_reason() -> None:
    chosen = choose(ALL, Wanted("throughput", deadline_ms=10.0, max_c=75.0, max_rss_mib=150.0))
    assert chosen.recommended is EVEN
    assert chosen.excluded == {
        "fast": "the hottest zone 82 °C is above 75",
        "small": "p99 25 ms is above 10",
        "worse": "p99 26 ms is above 10",
    }


def test_where_none_keeps_them_none_is_recommended() -> None:
    assert choose(ALL, Wanted(max_c=20.0)).recommended is None
    assert choose([DEAD], Wanted()).recommended is None


def test_what_is_not_known_keeps_no_limit_and_is_no_best() -> None:
    unknown = candidate("unknown", 1.0, 2.0, 500.0, None, None, None)
    assert choose([unknown, FAST], Wanted("throughput", max_c=90.0)).recommended is FAST
    chosen = choose([unknown, FAST], Wanted("energy"))
    assert chosen.recommended is FAST
    assert chosen.excluded == {"unknown": "energy of an item is not known"}


def test_the_front_has_those_that_none_beats_in_everything() -> None:
    chosen = choose(ALL, Wanted())
    assert chosen.axes == ("p99_ms", "energy_mj", "rss_peak_mib")
    assert chosen.pareto == (EVEN, SMALL)
    assert choose(ALL, Wanted("p50")).pareto == (FAST, EVEN, SMALL)


def test_what_one_does_not_know_is_no_axis() -> None:
    unmeasured = candidate("unmeasured", 9.0, 9.9, 100.0, None, 300.0, None)
    chosen = choose([unmeasured, EVEN], Wanted())
    assert chosen.axes == ("p99_ms", "rss_peak_mib")
    assert chosen.pareto == (EVEN,)
