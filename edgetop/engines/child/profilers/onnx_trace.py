"""Read the traces of ONNX Runtime's profiler, which are Chrome traces with one event per line, and profile with them.

Source: onnxruntime/core/common/profiler.cc (EndProfiling) and sequential_executor.cc, which names a node's event
NODE_kernel_time. Names are those after optimisation: a fused operator has one event, and inserted reorders and copies
have their own.

How threads shared the work is in the `thread_scheduling_stats` of kernels (core/common/threadpool.cc,
ThreadPoolProfiler). For the thread that runs the model (`main_thread`) they have the microseconds in which it ran its
own part of loops (`Run`) and then waited for the other threads (`Wait`), and the CPU on which the last loop began. For
the other threads (`sub_threads`) they have the CPU, read when a task is taken but at most every 10 ms, and `num_run`,
the number of tasks taken since the session began. A task may be one block or all loops of an inference, so that number
does not show how the blocks were divided. `_shortened` replaces `block_size` by the number of loops. With one thread,
the statistics are an empty string.
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
from .interference import Interference, measured

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

ROUNDED_US = 20  # tolerance, since the times of each loop are rounded to whole microseconds

Event = Dict[str, Any]

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a private folder is made in it
ROOM_BYTES = 32 * 2**20  # a burst of twenty runs of a model with a thousand operators takes some 10 MiB
OLD_S = 60.0  # younger folders are kept: their process may run in another container that shares the memory


def best_home(shared: str = SHARED_MEMORY) -> str:
    """Return the folder for traces: one in memory if it has room, else that for temporary files.

    A trace for which there is no room is cut short and cannot be read.
    """
    with contextlib.suppress(OSError):
        disk = os.statvfs(shared)
        if os.access(shared, os.W_OK) and disk.f_bavail * disk.f_frsize >= ROOM_BYTES:
            return shared
    return tempfile.gettempdir()


def make_folder(home: Optional[str] = None) -> str:
    """Make a folder for the traces of a burst, which only this user can read.

    It is made in `home`, by default in `best_home()`. Folders of engines that were killed in a burst are removed.
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
    """Return the events of kernels and of whole runs in a file, in the order in which they began. Raises ValueError."""
    with open(path, encoding="utf-8", errors="backslashreplace") as lines:
        return read_events(lines)


def read_events(lines: Iterable[str]) -> List[Event]:
    """Return the events of a trace, in the order in which they began. Raises ValueError.

    It is parsed line by line, because half a megabyte of text, parsed as a whole, becomes ten megabytes of objects.
    """
    return in_order(_events(lines))


def in_order(events: Iterable[Event]) -> List[Event]:
    """Return the events of kernels and of whole runs, in the order in which they began.

    Kernels of the GPU have events of their own category, which are not returned: their microseconds are added up as
    `gpu_us` of the node that started them. These events stand behind the event of their node, whose name is their
    `parent_name` in newer versions (include/onnxruntime/core/common/gpu_profiler_common.h, MergeEvents). Their thread
    and their times do not show to which run they belong.
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
    """Return a line of a trace with the list of block sizes replaced by its length.

    It may have a hundred thousand items.
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
    """Add the last runs in `events` to the profile. `interference` has an item for each of these runs."""
    runs = [event for event in events if is_run(event)]
    for run, lost in zip(runs[-len(interference) :], interference):
        profile.begin_run(run["dur"] * 1000, lost)
        add_kernels(profile, kernels_of(run, events, overlapping(run, runs)))


def overlapping(run: Event, runs: Sequence[Event]) -> List[Event]:
    """Return the other runs that overlap in time with `run`. They ran on other threads."""
    end = run["ts"] + run["dur"]
    return [each for each in runs if each is not run and each["ts"] < end and run["ts"] < each["ts"] + each["dur"]]


def kernels_of(run: Event, events: Sequence[Event], others: Sequence[Event]) -> List[Event]:
    """Return the kernels of `run`, in the order in which they began.

    `events` are those that `in_order` returns, and `others` are runs at the same time. If there are others, only the
    kernels of the run's own thread are known to belong to it.
    """
    end = run["ts"] + run["dur"]
    inside = [event for event in events if run["ts"] <= event["ts"] <= end and not is_run(event)]
    return [event for event in inside if event.get("tid") == run.get("tid")] if others else inside


def add_kernels(profile: Profile, kernels: List[Event]) -> None:
    """Add kernels, in the order in which they began, to the profile's current run.

    The time of a node on the GPU is that of its kernels there, if the runtime recorded it. The event of the node itself
    only has the time to launch them.
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
    """Return the duration of each kernel in ns, without the nodes in its body and without the time to record them.

    Recording an event takes microseconds. Between the kernels of a graph, this time belongs to no kernel. But nodes in
    a body are recorded within the time of the node that has the body. For a Loop of small products, that was half of
    the time of the model. So the cost of an event is subtracted for each node in the body, and the cost of a shorter
    event for each time that the body ran. The rest may be negative in a single run, because times are whole
    microseconds.
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
    """Return the places of nodes in `kernels`, grouped by the place of the node in whose body they ran.

    The group of the main graph has the key -1.
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
    """Return how often a body ran. `places` are the places of its nodes in `kernels`."""
    counts: Dict[str, int] = {}
    for place in places:
        name = kernels[place]["name"]
        counts[name] = counts.get(name, 0) + 1
    return max(counts.values())


def _event_ns(kernels: List[Event], families: Dict[int, List[int]]) -> float:
    """Return the time in ns that the recording of one event takes, or 0 with fewer than LEAST_GAPS gaps to measure.

    It is the mean gap between two kernels that follow each other in one graph. Beside the recording, the runtime only
    looks up the next node in a gap: 0.1 us. Gaps in which the thread was held up do not count. A gap between two runs
    of a body does not count either, because it includes the work of the container. `families` is what `_families`
    returns.
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
    """Return the fields of `ThreadUse` for one run: how its threads shared the work.

    `names` has the name of each kernel. Return None if one thread ran all kernels, or if the statistics are unknown.
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
    """Return the number of loops that the threads shared in these kernels."""
    stats = [event["args"].get("thread_scheduling_stats") for event in kernels]
    numbers = [
        stats["main_thread"].get("block_size") for stats in stats if isinstance(stats, dict) and "main_thread" in stats
    ]
    return sum(number for number in numbers if isinstance(number, int))


WARMUP_RUNS = 2  # the first run of a session allocates memory, the second one uses it


class Service:
    """Profiles whole sessions in a helper process, which works with any version of ONNX Runtime.

    Profiling of a session cannot be turned off and on again. If it stays on, it ends at a million events
    (onnxruntime/core/common/profiler.h, max_num_events_) and holds them in memory. So each burst makes a session, runs
    it and drops it.
    """

    way = "a profiled session in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        adapter.import_runtime()  # not in the first burst, for which the engine has to wait
        self._spec = spec
        self._make = type(adapter)
        self._adapter: Any = None
        self._call: Callable[[], object]
        self._folder = ""

    def make_ready(self) -> None:
        """Open a session, in which every run is profiled, and warm it up."""
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
        """Run as often as allowed, and end the session."""
        profile = Profile()
        try:
            interference = []
            while allowance.takes_another():
                interference.append(measured(self._call)[2])
            add_runs(profile, read_trace(self._adapter.end_profiling()), interference)
        finally:
            self._adapter = None
            del self._call
            shutil.rmtree(self._folder, ignore_errors=True)
        return profile.describe()
