"""Parse the profile that ONNX Runtime writes with `enable_profiling`: a Chrome trace of every kernel of every run.

edgetop uses the same parser for the inferences that it profiles itself. All inferences in the file were instrumented,
so their duration is no measure of the latency.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import median
from typing import Any

from edgetop.captured_text import LeftOut
from edgetop.engines.child.profilers import Profile
from edgetop.engines.child.profilers.onnx_trace import (
    WAITING,
    add_kernels,
    in_order,
    is_gpu,
    is_run,
    kernels_of,
    overlapping,
)
from edgetop.formatting import quantity
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import MAX_COUNT, MAX_LAYERS, MAX_NS, Layers, Origin
from edgetop.session.operators import Operator

_WAY = "kernels as ONNX Runtime's session profile has them"
ORIGIN = Origin("ONNX Runtime", "onnxruntime (imported from its profile)", "CPU", _WAY)
MAX_RUNS = 100  # only the last runs are read, when the model is warm
KEYS = {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}


def read_trace(entries: Sequence[Any], page: Page) -> Layers:
    """Return the time of each operator of the model.

    `entries` are the events of the profile's JSON list, each a dict. At most the last 100 runs count. Notes about what
    is left out are added to `page`. Raises ValueError if the events are not as ONNX Runtime writes them.
    """
    try:
        runs = _runs(entries, page)
        rows: dict[tuple[Any, ...], list[tuple[int, int]]] = {}  # by operator: calls and ns in each run
        for run in runs:
            for *key, calls, ns in run["operators"]:
                rows.setdefault(tuple(key), []).append((calls, ns))
        operators = tuple(_operator(key, per_run, len(runs)) for key, per_run in rows.items())
        gpu = sum(map(is_gpu, entries))
        launched = sorted({operator.provider for operator in operators} & set(WAITING))
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is not as ONNX Runtime writes its profile") from None
    if not 0 < len(operators) <= MAX_LAYERS:
        raise ValueError("it has no kernels" if not operators else f"more than {MAX_LAYERS} kernels")
    if launched:
        names = " and ".join(launched)
        page.notes.append(
            f"operators of {names} have the time of their {gpu} kernels on the GPU"
            if gpu
            else f"operators of {names} have the time of launching them, as the file has no events of the GPU"
        )
    return Layers(len(runs), operators, int(median(run["run_ns"][0] for run in runs)))


def _runs(entries: Sequence[Any], page: Page) -> list[dict[str, Any]]:
    events = in_order(entries)
    runs = [event for event in events if is_run(event)]
    if not runs:
        raise ValueError("it has no whole run of a model")
    if any(
        type(value) is not int or not 0 <= value <= MAX_NS // 1000
        for event in events
        for value in (event["ts"], event["dur"], event.get("gpu_us", 0))
    ):
        raise ValueError("it has times that are none of such a run")
    _note_others(entries, len(events), page)
    begins = [event["ts"] for event in events]
    found, unclear, shared = [], 0, 0
    for run in runs[-MAX_RUNS:]:
        begin, end = run["ts"], run["ts"] + run["dur"]
        during = events[bisect_left(begins, begin) : bisect_right(begins, end)]
        others = overlapping(run, runs)
        callers = {each.get("tid") for each in (run, *others)}
        if others and (
            len(callers) <= len(others) or any(event.get("tid") not in callers for event in during if not is_run(event))
        ):
            unclear += 1
            continue
        shared += bool(others)
        profile = Profile()
        profile.begin_run(run["dur"] * 1000, None)
        add_kernels(profile, kernels_of(run, during, others))
        found.append(profile.describe())
    if shared:
        page.notes.append(
            f"{quantity(shared, 'run')} at the same time as another: each operator counts for the run of its thread"
        )
    if unclear:
        page.notes.append(
            f"{quantity(unclear, 'run')} left out: others ran at the same time, and threads do not tell whose operators"
        )
    if not found:
        raise ValueError(
            "its runs were at the same time, and the threads of their operators do not tell which is whose"
        )
    return found


def _note_others(entries: Sequence[Any], used: int, page: Page) -> None:
    """Add a note to `page` that counts the events that are not read, such as events about loading the model.

    `used` is the number of events that were read.
    """
    first = next((e for e in entries if not (is_run(e) or is_gpu(e) or e["name"].endswith("_kernel_time"))), None)
    if first is not None:
        count = len(entries) - used - sum(map(is_gpu, entries))
        page.notes.append(LeftOut(count, len(entries), "events", "not read", first["name"]).words)


def _operator(key: tuple[Any, ...], per_run: Sequence[tuple[int, int]], runs: int) -> Operator:
    """Return an operator with its total time: its median time in a run, multiplied by the number of runs.

    Because of the median, one disturbed run has no effect. `key` is `(name, type, provider)`. `per_run` has `(calls,
    ns)` for each run that has the operator. `runs` is the number of runs.
    """
    name, op_type, provider = key
    calls = sum(calls for calls, _ in per_run)
    total_ns = int(median([ns for _, ns in per_run] + [0] * (runs - len(per_run)))) * runs
    if not (isinstance(name, str) and isinstance(op_type, str) and isinstance(provider, str)):
        raise TypeError
    return Operator(name, op_type, provider, min(calls, MAX_COUNT), total_ns)
