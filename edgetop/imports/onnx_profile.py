"""ONNX Runtime's profile with `enable_profiling`: a Chrome trace of every kernel of every run.

It is read as edgetop's own bursts are. It has no inference that was not instrumented, and so no latency.
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

MAX_RUNS = 100  # the last ones, when all is warm
KEYS = {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}


def read_trace(entries: Sequence[Any]) -> Layers:
    """Raises ValueError."""
    try:
        runs = _runs(entries)
        rows: dict[tuple[Any, ...], list[tuple[int, int]]] = {}  # of each operator: calls and ns in each run
        for run in runs:
            for *key, calls, ns in run["operators"]:
                rows.setdefault(tuple(key), []).append((calls, ns))
        operators = tuple(_operator(key, of, len(runs)) for key, of in rows.items())
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


def _operator(key: tuple[Any, ...], of: Sequence[tuple[int, int]], runs: int) -> Operator:
    """Return an operator whose total is its median time, times the runs: one disturbed run leaves no mark."""
    name, op_type, provider = key
    calls = sum(calls for calls, _ in of)
    total_ns = int(median([ns for _, ns in of] + [0] * (runs - len(of)))) * runs
    if not (isinstance(name, str) and isinstance(op_type, str) and isinstance(provider, str)):
        raise TypeError
    return Operator(name, op_type, provider, min(calls, MAX_COUNT), total_ns)
