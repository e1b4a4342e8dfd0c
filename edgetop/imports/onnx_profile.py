"""What ONNX Runtime writes of a session with `enable_profiling`: a Chrome trace of every kernel of every run.

It is read as edgetop's own bursts are. It has no inference that was not instrumented, and so no latency.
"""

from collections.abc import Sequence
from typing import Any

from edgetop.engines.child.profilers import Profile
from edgetop.engines.child.profilers.onnx_trace import add_runs, in_order, is_run
from edgetop.imports.measured import MAX_COUNT, MAX_LAYERS, MAX_NS, Layers, Origin
from edgetop.session.operators import Operator

ORIGIN = Origin(
    tool="ONNX Runtime",
    runtime="onnxruntime (imported from its profile)",
    provider="CPU",
    way="kernels as ONNX Runtime's session profile has them",
)

MAX_RUNS = 100  # the last ones, when all is warm
_KEYS = {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}


def is_trace(entries: Sequence[Any]) -> bool:
    return isinstance(entries[0], dict) and entries[0].keys() >= _KEYS


def read_trace(entries: Sequence[Any]) -> Layers:
    """Raises ValueError."""
    try:
        described = _described(entries)
        operators = tuple(_operator(*row) for row in described["operators"])
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is not as ONNX Runtime writes its profile") from None
    if not 0 < len(operators) <= MAX_LAYERS:
        raise ValueError("it has no kernels" if not operators else f"more than {MAX_LAYERS} kernels")
    run_ns: list[int] = sorted(described["run_ns"])
    return Layers(len(run_ns), operators, run_ns[len(run_ns) // 2])


def _described(entries: Sequence[Any]) -> dict[str, Any]:
    events = in_order(entries)
    runs = sum(map(is_run, events))
    if not runs:
        raise ValueError("it has no whole run of a model")
    if any(
        type(event[key]) is not int or not 0 <= event[key] <= MAX_NS // 1000
        for event in events
        for key in ("ts", "dur")
    ):
        raise ValueError("it has times that are none of such a run")
    profile = Profile()
    add_runs(profile, events, min(runs, MAX_RUNS))
    return profile.describe()


def _operator(name: object, op_type: object, provider: object, calls: int, total_ns: int) -> Operator:
    if not (isinstance(name, str) and isinstance(op_type, str) and isinstance(provider, str)):
        raise TypeError
    return Operator(name, op_type, provider, min(calls, MAX_COUNT), total_ns)
