"""What ONNX Runtime's profiler writes, and the folder for it: a Chrome trace with one event per line.

Source: onnxruntime/core/common/profiler.cc (EndProfiling) and sequential_executor.cc, which
names a node's event NODE_kernel_time. Names are those after optimisation: fused operators
show as one, and inserted reorders and copies as what they are.

How well threads shared the work is in the `thread_scheduling_stats` of kernels (core/common/threadpool.cc,
ThreadPoolProfiler). Of the thread that runs the model (`main_thread`) it has the microseconds in which it ran its own
part of loops (`Run`) and then waited for the others to end theirs (`Wait`), and the CPU where the last loop began; of
the others (`sub_threads`) the CPU, looked up when a task is taken and at most every 10 ms, and `num_run`, tasks taken
since the session began. A task may be a block or all loops of an inference, so it does not show how the blocks were
shared out. `block_size` is the number of loops here (`_shortened`). With one thread there is an empty string.
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

# Their time includes that of the nodes in their bodies, which have events of their own.
_CONTAINERS = frozenset(("If", "Loop", "Scan", "SequenceMap"))

ROUNDED_US = 20  # each loop's times are in whole microseconds

Event = Dict[str, Any]

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a private folder is made in it
ROOM_BYTES = 32 * 2**20  # a burst of twenty runs of a model with a thousand operators has some 10 MiB
OLD_S = 60.0  # a process that does not exist here may run in another container that shares the memory


def best_home(shared: str = SHARED_MEMORY) -> str:
    """Memory, where it has room: a trace that does not fit in is cut short, and cannot be read."""
    with contextlib.suppress(OSError):
        disk = os.statvfs(shared)
        if os.access(shared, os.W_OK) and disk.f_bavail * disk.f_frsize >= ROOM_BYTES:
            return shared
    return tempfile.gettempdir()


def make_folder(home: Optional[str] = None) -> str:
    """A folder for the traces of a burst, which nobody else can read: in memory, where there is such a place.

    `home`: below which; None: the best there is. What engines that were killed in a burst left there is removed.
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
    """The events of kernels and of whole runs in the file, in the order in which they began. Raises ValueError."""
    with open(path, encoding="utf-8", errors="backslashreplace") as lines:
        return read_events(lines)


def read_events(lines: Iterable[str]) -> List[Event]:
    """Parse line by line, so that half a megabyte of text does not become ten of objects at once. Raises ValueError."""
    return in_order(_events(lines))


def in_order(events: Iterable[Event]) -> List[Event]:
    """The events of kernels and of whole runs, in the order in which they began."""
    wanted = [event for event in events if is_run(event) or event["name"].endswith(_KERNEL)]
    return sorted(wanted, key=lambda event: (event["ts"], -event["dur"]))


def _events(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        text = line.strip().rstrip(",")
        if text not in ("[", "]", ""):
            # Not strict: a model's names are written as they are, control characters too.
            yield json.loads(_shortened(text), strict=False)


def _shortened(text: str) -> str:
    """Replace the sizes of blocks, which may be a hundred thousand, with their number."""
    begin = text.find(_BLOCKS)
    end = text.find("]", begin)
    if begin < 0 or end < 0 or '"thread_pool_name"' not in text[:begin]:
        return text
    sizes = text[begin + len(_BLOCKS) : end]
    number = sizes.count(",") + 1 if sizes.strip() else 0
    return "%s%d%s" % (text[: begin + len(_BLOCKS) - 1], number, text[end + 1 :])


def is_run(event: Event) -> bool:
    return bool(event["cat"] == "Session" and event["name"] == "model_run")


def add_runs(profile: Profile, events: List[Event], interference: Sequence[Optional[Interference]]) -> None:
    """Put the last runs into the profile, as many as `interference` is given for: what others took from each."""
    for run, lost in zip([event for event in events if is_run(event)][-len(interference) :], interference):
        end = run["ts"] + run["dur"]
        profile.begin_run(run["dur"] * 1000, lost)
        add_kernels(profile, [e for e in events if run["ts"] <= e["ts"] <= end and not is_run(e)])


def add_kernels(profile: Profile, kernels: List[Event]) -> None:
    """Put kernels, in the order in which they began, into the current run."""
    own_ns = _own_times(kernels)
    names = [event["name"][: -len(_KERNEL)] for event in kernels]
    profile.run.threads = thread_use(kernels, names)
    for event, name, ns in zip(kernels, names, own_ns):
        args = event["args"]
        provider = args["provider"]
        if provider.endswith(_PROVIDER):
            provider = provider[: -len(_PROVIDER)]
        profile.add(name, args["op_name"], provider, ns)


def _own_times(kernels: List[Event]) -> List[int]:
    """The duration of each in ns; of one that has a body, without the nodes of the body."""
    own = [event["dur"] * 1000 for event in kernels]
    inside: List[Tuple[int, int]] = []  # (place, end) of the containers around the current event
    for place, event in enumerate(kernels):
        while inside and event["ts"] >= inside[-1][1]:
            inside.pop()
        if inside:
            own[inside[-1][0]] -= event["dur"] * 1000
        if event["args"].get("op_name") in _CONTAINERS:
            inside.append((place, event["ts"] + event["dur"]))
    return own


def thread_use(kernels: List[Event], names: List[str]) -> Optional[Dict[str, Any]]:
    """Return how threads shared the work of a run. None: one thread ran it, or the statistics have another form."""
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
                continue  # these include loops of earlier inferences
            count = max(count, 1 + len(others))
            all_ns += event["dur"] * 1000
            waited_ns[name] = waited_ns.get(name, 0) + int(main["Wait"]) * 1000
            threads = [(main["thread_id"], main["core"]), *((key, other["core"]) for key, other in others.items())]
            for thread, cpu in threads:
                if cpu >= 0:  # otherwise it has not run yet
                    moves += cpus.get(thread, cpu) != cpu
                    cpus[thread] = cpu
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return {"count": count, "all_ns": all_ns, "moves": moves, "waited_ns": waited_ns} if count else None


def loops_of(kernels: List[Event]) -> int:
    """Count the loops that the threads shared in these kernels."""
    stats = [event["args"].get("thread_scheduling_stats") for event in kernels]
    numbers = [
        stats["main_thread"].get("block_size") for stats in stats if isinstance(stats, dict) and "main_thread" in stats
    ]
    return sum(number for number in numbers if isinstance(number, int))


WARMUP_RUNS = 2  # of a session: the first allocates, the second runs in what the first has allocated


class Service:
    """Any version of ONNX Runtime: a session that is profiled from its start, in a helper process.

    Session-level profiling cannot be turned off and on again, and one that is left on ends at a
    million events (onnxruntime/core/common/profiler.h, max_num_events_) and holds them in memory.
    So each burst makes a session, runs it and drops it.
    """

    way = "a profiled session in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        adapter.import_runtime()  # now, and not in the first burst, for which the engine waits
        self._spec = spec
        self._make = type(adapter)
        self._adapter: Any = None
        self._call: Callable[[], object]
        self._folder = ""

    def make_ready(self) -> None:
        """Open a session of which every run is profiled, the warm-up too."""
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
        """Run what is allowed, and end the session."""
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
