"""Parse the profile that ONNX Runtime writes with `enable_profiling`: a Chrome trace of every kernel of every run.

The parser is the one of edgetop's own profiling bursts. All inferences in the file were instrumented, so their
duration is no measure of latency.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

from edgetop.engines.child.profilers import Profile
from edgetop.engines.child.profilers.onnx_trace import add_runs, in_order, is_run
from edgetop.imports.measured import MAX_COUNT, MAX_LAYERS, MAX_NS, Layers, Origin
from edgetop.session.operators import Operator

_WAY = "kernels as ONNX Runtime's session profile has them"
ORIGIN = Origin("ONNX Runtime", "onnxruntime (imported from its profile)", "CPU", _WAY)

MAX_RUNS = 100  # only the last runs are read, when the model is warm
KEYS = {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}


def read_trace(entries: Sequence[Any]) -> Layers:
    """Return the time of each operator from the entries of a trace. Raises ValueError if they are no such profile."""
    try:
        runs = _runs(entries)
        rows: dict[tuple[Any, ...], list[tuple[int, int]]] = {}  # by operator: calls and ns in each run
        for run in runs:
            for *key, calls, ns in run["operators"]:
                rows.setdefault(tuple(key), []).append((calls, ns))
        operators = tuple(_operator(key, per_run, len(runs)) for key, per_run in rows.items())
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is not as ONNX Runtime writes its profile") from None
    if not 0 < len(operators) <= MAX_LAYERS:
        raise ValueError("it has no kernels" if not operators else f"more than {MAX_LAYERS} kernels")
    return Layers(len(runs), operators, int(median(run["run_ns"][0] for run in runs)))


def _runs(entries: Sequence[Any]) -> list[dict[str, Any]]:
    events = in_order(entries)
    if not any(map(is_run, events)):
        raise ValueError("it has no whole run of a model")
    if any(
        type(event[key]) is not int or not 0 <= event[key] <= MAX_NS // 1000
        for event in events
        for key in ("ts", "dur")
    ):
        raise ValueError("it has times that are none of such a run")
    found = []
    for run in [event for event in events if is_run(event)][-MAX_RUNS:]:
        profile = Profile()
        end = run["ts"] + run["dur"]
        add_runs(profile, [event for event in events if run["ts"] <= event["ts"] <= end], [None])
        found.append(profile.describe())
    return found


def _operator(key: tuple[Any, ...], per_run: Sequence[tuple[int, int]], runs: int) -> Operator:
    """Return an operator. Its total time is its median time multiplied by `runs`, so one disturbed run has no effect.

    `key`: name, type and provider. `per_run`: calls and ns in each run that has the operator.
    """
    name, op_type, provider = key
    calls = sum(calls for calls, _ in per_run)
    total_ns = int(median([ns for _, ns in per_run] + [0] * (runs - len(per_run)))) * runs
    if not (isinstance(name, str) and isinstance(op_type, str) and isinstance(provider, str)):
        raise TypeError
    return Operator(name, op_type, provider, min(calls, MAX_COUNT), total_ns)
