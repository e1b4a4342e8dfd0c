"""What ONNX Runtime's profiler writes, and where: a Chrome trace, an event a line.

Source: onnxruntime/core/common/profiler.cc (EndProfiling) and sequential_executor.cc, which
names a node's event NODE_kernel_time. Names are those after optimisation: fused operators
show as one, and inserted reorders and copies as what they are.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import tempfile
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from . import Profile
from .interference import Interference
from .onnx_threads import use_of

_KERNEL = "_kernel_time"
_BLOCKS = '"block_size": ['
_PROVIDER = "ExecutionProvider"

# Their time includes that of the nodes in their bodies, which have events of their own.
_CONTAINERS = frozenset(("If", "Loop", "Scan", "SequenceMap"))

Event = Dict[str, Any]

SHARED_MEMORY = "/dev/shm"  # noqa: S108  a private folder is made in it
OLD_S = 60.0  # a process whose number is not known here may run in another container that shares the memory


def make_folder(home: Optional[str] = None) -> str:
    """A folder for the traces of a burst, which nobody else can read: in memory, where there is such a place.

    `home`: below which; None: the best there is. What engines that were killed in a burst left there is removed.
    """
    if home is None:
        home = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else tempfile.gettempdir()
    _sweep(home)
    return tempfile.mkdtemp(prefix="edgetop-%d-" % os.getpid(), dir=home)


@functools.lru_cache(maxsize=None)
def _sweep(home: str) -> None:
    for name in os.listdir(home):
        made_by = re.match(r"edgetop-(\d+)-", name)
        if made_by and not os.path.exists("/proc/" + made_by.group(1)) and _is_old(os.path.join(home, name)):
            shutil.rmtree(os.path.join(home, name), ignore_errors=True)


def _is_old(path: str) -> bool:
    try:
        return time.time() - os.lstat(path).st_mtime > OLD_S
    except OSError:
        return False


def read_events(lines: Iterable[str]) -> List[Event]:
    """The events of kernels and of whole runs, in the order in which they began.

    Line by line, so that half a megabyte of text does not become ten of objects at once.
    Raises ValueError where it is no such trace.
    """
    return in_order(_events(lines))


def in_order(events: Iterable[Event]) -> List[Event]:
    """Those of kernels and of whole runs, in the order in which they began."""
    wanted = [event for event in events if is_run(event) or event["name"].endswith(_KERNEL)]
    return sorted(wanted, key=lambda event: (event["ts"], -event["dur"]))


def _events(lines: Iterable[str]) -> Iterator[Event]:
    for line in lines:
        text = line.strip().rstrip(",")
        if text not in ("[", "]", ""):
            # Not strict: a model's names are written as they are, control characters too.
            yield json.loads(_shortened(text), strict=False)


def _shortened(text: str) -> str:
    """With the number of blocks in the place of their sizes, which may be a hundred thousand."""
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
    """Put kernels, in the order in which they began, into the run in hand."""
    own_ns = _own_times(kernels)
    names = [event["name"][: -len(_KERNEL)] for event in kernels]
    profile.add_threads(use_of(kernels, names))
    for event, name, ns in zip(kernels, names, own_ns):
        args = event["args"]
        provider = args["provider"]
        if provider.endswith(_PROVIDER):
            provider = provider[: -len(_PROVIDER)]
        profile.add(name, args["op_name"], provider, ns)


def _own_times(kernels: List[Event]) -> List[int]:
    """The duration of each in ns; of one that has a body, less what is told of the body's nodes."""
    own = [event["dur"] * 1000 for event in kernels]
    inside: List[Tuple[int, int]] = []  # (place, end) of the containers around the event in hand
    for place, event in enumerate(kernels):
        while inside and event["ts"] >= inside[-1][1]:
            inside.pop()
        if inside:
            own[inside[-1][0]] -= event["dur"] * 1000
        if event["args"].get("op_name") in _CONTAINERS:
            inside.append((place, event["ts"] + event["dur"]))
    return own
