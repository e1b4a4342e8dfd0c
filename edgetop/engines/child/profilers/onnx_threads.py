"""How well ONNX Runtime's threads shared the work, from the `thread_scheduling_stats` of its kernels' events.

Source: onnxruntime/core/common/threadpool.cc (ThreadPoolProfiler). Of the thread that runs the model (`main_thread`)
it has the microseconds in which it ran its own part of loops (`Run`) and then waited for the others to end theirs
(`Wait`), and the CPU where the last loop began; of the others (`sub_threads`) the CPU, looked up when a task is
taken and at most every 10 ms, and `num_run`, tasks taken since the session began. A task may be a block or all loops
of an inference: so how the blocks were shared out it does not tell. `block_size` is the number of loops here
(onnx_trace.py). With one thread there is an empty string.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

ROUNDED_US = 20  # each loop's times are in whole microseconds


class ThreadUse:
    """How the threads shared the work of one run."""

    def __init__(self) -> None:
        self._count = 0
        self._all_ns = 0
        self._moves = 0
        self._waited_ns: Dict[str, int] = {}
        self._cpus: Dict[str, int] = {}

    def add(self, name: str, dur_us: int, stats: Any) -> None:
        """The next kernel. Raises where `stats` are no such ones; those of inferences before this one are left out."""
        if not stats:
            return
        main, others = stats["main_thread"], stats["sub_threads"]
        if int(main["Run"]) + int(main["Wait"]) > dur_us + ROUNDED_US:
            return
        self._count = max(self._count, 1 + len(others))
        self._all_ns += dur_us * 1000
        self._waited_ns[name] = self._waited_ns.get(name, 0) + int(main["Wait"]) * 1000
        self._seen(main["thread_id"], main["core"])
        for thread, other in others.items():
            self._seen(thread, other["core"])

    def _seen(self, thread: str, cpu: int) -> None:
        if cpu < 0:  # it has not run yet
            return
        self._moves += self._cpus.get(thread, cpu) != cpu
        self._cpus[thread] = cpu

    def describe(self) -> Optional[Dict[str, Any]]:
        """Return the sums; None where the run used one thread."""
        if not self._count:
            return None
        return {"count": self._count, "all_ns": self._all_ns, "moves": self._moves, "waited_ns": self._waited_ns}


def use_of(kernels: List[Dict[str, Any]], names: List[str]) -> Optional[Dict[str, Any]]:
    """Of a run's kernels in their order. None where there is nothing to tell, or it is told in another way."""
    use = ThreadUse()
    try:
        for event, name in zip(kernels, names):
            use.add(name, event["dur"], event["args"].get("thread_scheduling_stats"))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return use.describe()


def loops_of(kernels: List[Dict[str, Any]]) -> int:
    """Count the loops that the threads shared in these kernels."""
    stats = [event["args"].get("thread_scheduling_stats") for event in kernels]
    numbers = [
        stats["main_thread"].get("block_size") for stats in stats if isinstance(stats, dict) and "main_thread" in stats
    ]
    return sum(number for number in numbers if isinstance(number, int))


def added(uses: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Of several runs: {"count", "all_ns", "wait_ns", "moves", "most", "most_ns"}."""
    waited_ns: Dict[str, int] = {}
    for use in uses:
        for name, ns in use["waited_ns"].items():
            waited_ns[name] = waited_ns.get(name, 0) + ns
    most = max(waited_ns, key=lambda name: waited_ns[name])
    return {
        "count": max(use["count"] for use in uses),
        "all_ns": sum(use["all_ns"] for use in uses),
        "wait_ns": sum(waited_ns.values()),
        "moves": sum(use["moves"] for use in uses),
        "most": most,
        "most_ns": waited_ns[most],
    }
