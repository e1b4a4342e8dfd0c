"""Read the traces of ONNX Runtime's profiler, which are Chrome traces with one event per line, and profile with them.

Source: onnxruntime/core/common/profiler.cc (EndProfiling) and sequential_executor.cc, which names a node's event
NODE_kernel_time. Names are those after optimisation: a fused operator has one event, and inserted reorders and copies
have events too.

The field `thread_scheduling_stats` of a kernel's event says how threads shared the work (core/common/threadpool.cc,
ThreadPoolProfiler). A kernel has loops, and each loop is divided into blocks of iterations. `main_thread` is the thread
that runs the model. Its `Run` is the time in us in which it ran blocks itself. Its `Wait` is the time in us in which it
waited for the other threads. Its `core` is the CPU on which the last loop began. `sub_threads` are the other threads.
The `core` of each is its CPU, which is read when it takes a task, but at most every 10 ms. Its `num_run` is the number
of tasks that it has taken since the session began. A task may be one block or all loops of an inference, so `num_run`
does not show how the blocks were divided. `_shortened` replaces the list `block_size` by the number of loops. With one
thread, the statistics are an empty string.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import tempfile
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ..inputs import bound
from . import Allowance, Profile
from .interference import Interference

_KERNEL = "_kernel_time"
_BLOCKS = '"block_size": ['
_PROVIDER = "ExecutionProvider"

# Operators whose time includes that of the nodes in their bodies, which have their own events.
_CONTAINERS = frozenset(("If", "Loop", "Scan", "SequenceMap"))

LEAST_GAPS = 3  # gaps between kernels from which the cost of an event is told
# Cost of the event of a body that ran once (SequentialExecutor::Execute), which does not describe a node, as a share of
# that of a kernel's event. In ONNX Runtime 1.32 the kernels in a Loop's body were 2.7 to 3.8 us apart, and those of two
# runs of the body 1.2 to 2 us more, of which the Loop itself took up to 0.9 us by the time without profiling.
BODY_EVENT = 0.5

# Providers that launch kernels on a GPU and do not wait for them, by short name, with the environment variable that
# makes them wait ("" if there is none): CUDA C++ Programming Guide, "CUDA Environment Variables"; HIP documentation,
# "Environment variables".
WAITING = {
    "CUDA": "CUDA_LAUNCH_BLOCKING",
    "Tensorrt": "CUDA_LAUNCH_BLOCKING",
    "NvTensorRTRTX": "CUDA_LAUNCH_BLOCKING",
    "ROCM": "HIP_LAUNCH_BLOCKING",
    "MIGraphX": "HIP_LAUNCH_BLOCKING",
    "Dml": "",
    "WebGpu": "",
}

ROUNDED_US = 20  # tolerance, since the times of each loop are rounded to whole microseconds

Event = Dict[str, Any]

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a private folder is made in it
ROOM_BYTES = 32 * 2**20  # a burst of twenty runs of a model with a thousand operators takes some 10 MiB
OLD_S = 60.0  # younger folders are kept: their process may run in another container that shares the memory


def best_home(shared: str = SHARED_MEMORY) -> str:
    """Return the folder for traces: the one in memory, `shared`, if it has room, else the folder for temporary files.

    A trace that runs out of room is cut short and cannot be read.
    """
    with contextlib.suppress(OSError):
        disk = os.statvfs(shared)
        if os.access(shared, os.W_OK) and disk.f_bavail * disk.f_frsize >= ROOM_BYTES:
            return shared
    return tempfile.gettempdir()


def make_folder(home: Optional[str] = None) -> str:
    """Make a new folder for traces, which only this user can read, and return its path.

    It is made in the folder `home`, by default in `best_home()`. Old folders of engines that were killed are removed.
    """
    home = home or best_home()
    _sweep(home)
    return tempfile.mkdtemp(prefix="edgetop-%d-" % os.getpid(), dir=home)


@functools.lru_cache(maxsize=None)
def _sweep(home: str) -> None:
    for name in os.listdir(home):
        made_by, path = re.match(r"edgetop-(\d+)-", name), os.path.join(home, name)
        if made_by and not os.path.exists("/proc/" + made_by.group(1)):
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > OLD_S:
                    shutil.rmtree(path, ignore_errors=True)


def read_trace(path: str) -> List[Event]:
    """Return the kernels and runs in a trace file, in order, as `in_order` does. Raises ValueError for a malformed
    file.
    """
    with open(path, encoding="utf-8", errors="backslashreplace") as lines:
        return read_events(lines)


def read_events(lines: Iterable[str]) -> List[Event]:
    """Return the kernels and runs in the lines of a trace, in order, as `in_order` does.

    Raises ValueError if a line is malformed. Each line is parsed by itself: half a megabyte of text, parsed as a whole,
    becomes ten megabytes of objects.
    """
    return in_order(_events(lines))


def in_order(events: Iterable[Event]) -> List[Event]:
    """Return the events of kernels (single operators) and of whole runs, in the order in which they began.

    Kernels on the GPU have separate events, which are not returned. Their microseconds are added up as `gpu_us` in the
    event of the node that started them. A GPU event comes after its node's event. Newer versions give the node's name
    as its `parent_name` (include/onnxruntime/core/common/gpu_profiler_common.h, MergeEvents).
    """
    wanted: List[Event] = []
    nodes: Dict[Any, Event] = {}  # the latest event of each node
    latest: Optional[Event] = None
    for event in events:
        if is_gpu(event):
            parent = nodes.get(event["args"].get("parent_name"), latest)
            if parent is not None:
                parent["gpu_us"] = parent.get("gpu_us", 0) + event["dur"]
        elif is_run(event):
            wanted.append(event)
        elif event["name"].endswith(_KERNEL):
            wanted.append(event)
            nodes[event["name"]] = latest = event
    return sorted(wanted, key=lambda event: (event["ts"], -event["dur"]))


def _events(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        text = line.strip().rstrip(",")
        if text not in ("[", "]", ""):
            # Not strict, since names in a model may have control characters, which are written as they are.
            yield json.loads(_shortened(text), strict=False)


def _shortened(text: str) -> str:
    """Return a line of a trace in which the list of block sizes is replaced by its length.

    The list may have a hundred thousand items.
    """
    begin = text.find(_BLOCKS)
    end = text.find("]", begin)
    if begin < 0 or end < 0 or '"thread_pool_name"' not in text[:begin]:
        return text
    sizes = text[begin + len(_BLOCKS) : end]
    number = sizes.count(",") + 1 if sizes.strip() else 0
    return "%s%d%s" % (text[: begin + len(_BLOCKS) - 1], number, text[end + 1 :])


def is_run(event: Event) -> bool:
    return bool(event["cat"] == "Session" and event["name"] == "model_run")


def is_gpu(event: Event) -> bool:
    return bool(event["cat"] == "Kernel")


def add_runs(profile: Profile, events: List[Event], interference: Sequence[Optional[Interference]]) -> None:
    """Add the last runs in `events` to the profile, one for each item of `interference`.

    An item says how much other processes disturbed the run; None if that is unknown.
    """
    runs = [event for event in events if is_run(event)]
    for run, lost in zip(runs[-len(interference) :], interference):
        profile.begin_run(run["dur"] * 1000, lost)
        profile.run.zero_ns = run["ts"] * 1000
        add_kernels(profile, kernels_of(run, events, overlapping(run, runs)))


def overlapping(run: Event, runs: Sequence[Event]) -> List[Event]:
    """Return those of `runs` that overlap in time with `run`, without `run` itself.

    These runs were on other threads.
    """
    end = run["ts"] + run["dur"]
    return [each for each in runs if each is not run and each["ts"] < end and run["ts"] < each["ts"] + each["dur"]]


def kernels_of(run: Event, events: Sequence[Event], others: Sequence[Event]) -> List[Event]:
    """Return the kernels (single operators) of `run`, in the order in which they began.

    `events` are the events that `in_order` returns. `others` are runs at the same time. If there are any, only kernels
    on the thread of `run` are returned.
    """
    end = run["ts"] + run["dur"]
    inside = [event for event in events if run["ts"] <= event["ts"] <= end and not is_run(event)]
    return [event for event in inside if event.get("tid") == run.get("tid")] if others else inside


def add_kernels(profile: Profile, kernels: List[Event]) -> None:
    """Add kernels (single operators) to the profile's last run. `kernels` are in the order in which they began.

    The time of an operator on the GPU is the time of its kernels there, if the runtime recorded it. The operator's own
    event only has the time to launch them.
    """
    own_ns = _own_times(kernels)
    names = [event["name"][: -len(_KERNEL)] for event in kernels]
    profile.run.threads = thread_use(kernels, names)
    for event, name, ns in zip(kernels, names, own_ns):
        args = event["args"]
        provider = args["provider"]
        if provider.endswith(_PROVIDER):
            provider = provider[: -len(_PROVIDER)]
        took_ns = event["gpu_us"] * 1000 if "gpu_us" in event else ns
        profile.add(name, args["op_name"], provider, took_ns, event["ts"] * 1000, event.get("tid", 0))


def _own_times(kernels: List[Event]) -> List[int]:
    """Return the own duration of each kernel in ns, without the operators in its body and the time to record them.

    Only operators such as Loop and If have a body of other operators. The profiler takes microseconds to record an
    event. For a Loop of small products, this was half of the model's time. So the cost of one event is subtracted for
    each operator in the body, and a share of this cost for each time that the body ran. A result may be negative,
    because times are whole microseconds.
    """
    families = _families(kernels)
    own = [event["dur"] * 1000 for event in kernels]
    cost_ns = _event_ns(kernels, families)
    for parent, places in families.items():
        if parent >= 0:
            own[parent] -= sum(kernels[place]["dur"] * 1000 for place in places)
            own[parent] -= int(cost_ns * (len(places) + BODY_EVENT * _repeats(kernels, places)))
    return own


def _families(kernels: List[Event]) -> Dict[int, List[int]]:
    """Return the indices in `kernels` of the operators in each body.

    Only operators such as Loop and If have a body, which is a list of other operators. The key of the dict is the index
    of the operator that has the body, or -1 for the operators outside of any body.
    """
    families: Dict[int, List[int]] = {}
    inside: List[Tuple[int, int]] = []  # (place, end) of the containers around the current event
    for place, event in enumerate(kernels):
        while inside and event["ts"] >= inside[-1][1]:
            inside.pop()
        families.setdefault(inside[-1][0] if inside else -1, []).append(place)
        if event["args"].get("op_name") in _CONTAINERS:
            inside.append((place, event["ts"] + event["dur"]))
    return families


def _repeats(kernels: List[Event], places: List[int]) -> int:
    """Return how often the body of an operator such as Loop ran.

    `places` are the indices in `kernels` of the operators in that body.
    """
    counts: Dict[str, int] = {}
    for place in places:
        name = kernels[place]["name"]
        counts[name] = counts.get(name, 0) + 1
    return max(counts.values())


def _event_ns(kernels: List[Event], families: Dict[int, List[int]]) -> float:
    """Return the time in ns that the recording of one event takes, or 0 with fewer than LEAST_GAPS gaps to measure.

    This time is the mean gap between two successive kernels of one graph. Apart from the recording, the runtime only
    looks up the next operator in a gap, in 0.1 us. Long gaps, in which the thread was held up, do not count. Gaps
    between two repetitions of a body do not count either, because the operator that has the body also works in them.
    `families` is the result of `_families`.
    """
    gaps: List[int] = []
    for places in families.values():
        seen = set()
        for before, after in zip(places, places[1:]):
            seen.add(kernels[before]["name"])
            if kernels[after]["name"] in seen:
                seen.clear()
            else:
                gaps.append(kernels[after]["ts"] - kernels[before]["ts"] - kernels[before]["dur"])
    if len(gaps) < LEAST_GAPS:
        return 0.0
    limit = 3 * sorted(gaps)[len(gaps) // 2] + 1
    usual = [gap for gap in gaps if gap <= limit]
    return max(0.0, float(sum(usual)) / len(usual) * 1000)


def thread_use(kernels: List[Event], names: List[str]) -> Optional[Dict[str, Any]]:
    """Return how the threads shared the work in one run, as the fields of `ThreadUse`.

    `kernels` are the run's events of operators, and `names` has the name of each. Returns None if one thread ran all
    kernels, or if the statistics are unknown.
    """
    count = all_ns = moves = 0
    waited_ns: Dict[str, int] = {}
    cpus: Dict[str, int] = {}
    try:
        for event, name in zip(kernels, names):
            stats = event["args"].get("thread_scheduling_stats")
            if not stats:
                continue
            main, others = stats["main_thread"], stats["sub_threads"]
            if int(main["Run"]) + int(main["Wait"]) > event["dur"] + ROUNDED_US:
                continue  # the statistics include loops of earlier inferences
            count = max(count, 1 + len(others))
            all_ns += event["dur"] * 1000
            waited_ns[name] = waited_ns.get(name, 0) + int(main["Wait"]) * 1000
            threads = [(main["thread_id"], main["core"]), *((key, other["core"]) for key, other in others.items())]
            for thread, cpu in threads:
                if cpu >= 0:  # negative if the thread has not run yet
                    moves += cpus.get(thread, cpu) != cpu
                    cpus[thread] = cpu
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return {"count": count, "all_ns": all_ns, "moves": moves, "waited_ns": waited_ns} if count else None


def loops_of(kernels: List[Event]) -> int:
    """Return the total number of loops whose work several threads shared in these kernels."""
    stats = [event["args"].get("thread_scheduling_stats") for event in kernels]
    numbers = [
        stats["main_thread"].get("block_size") for stats in stats if isinstance(stats, dict) and "main_thread" in stats
    ]
    return sum(number for number in numbers if isinstance(number, int))


WARMUP_RUNS = 2  # the first run of a session allocates memory, the second one uses it


class Service:
    """Profiles whole sessions in a helper process. This works with any version of ONNX Runtime.

    Profiling of a session cannot be turned off and on again. If it stays on, it ends at a million events
    (onnxruntime/core/common/profiler.h, max_num_events_) and holds them in memory. So each time, a session is made, run
    and dropped.
    """

    way = "a profiled session in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        if any(os.environ.get(switch) == "1" for switch in set(WAITING.values()) - {""}):
            self.way += ", which waits for each kernel on the GPU"
        adapter.import_runtime()  # not in the first burst, for which the engine has to wait
        self._spec = spec
        self._make = type(adapter)
        self._adapter: Any = None
        self._call: Callable[[], object]
        self._folder = ""

    def make_ready(self) -> None:
        """Open a session that profiles every run, and warm it up."""
        self._folder = make_folder()
        try:
            self._adapter = self._make()
            self._call = bound(self._adapter, dict(self._spec, profile_prefix=os.path.join(self._folder, "session")))
            for _ in range(WARMUP_RUNS):
                self._call()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        """Run the model as often as `allowance` allows, then close the session.

        Return the result of `Profile.describe`.
        """
        profile = Profile(allowance.samples)
        try:
            timed = []
            while allowance.takes_another():
                timed.append(profile.measured(self._call))
            events = read_trace(self._adapter.end_profiling())
            add_runs(profile, events, [one[1] for one in timed])
            for run, (_, _, noted) in zip(profile.runs, timed[-len(profile.runs) :]):
                run.noted = noted
        finally:
            self._adapter = None
            del self._call
            shutil.rmtree(self._folder, ignore_errors=True)
        return profile.describe()
