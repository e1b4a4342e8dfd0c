"""Read the resident memory of this process at the stages of a run, but never within the timed loop.

The stages are the import of the runtime, the load of the model, and the first inference. They are so short that a
sampler in another process could not tell in which stage memory grew. Source: /proc/self/status, proc(5).
"""

from __future__ import annotations

import time
from typing import Any, Dict, Optional, Tuple

from . import message_frames

STATUS = "/proc/self/status"

# The stages in order. The memory is read at the end of each.
INTERPRETER, RUNTIME, MODEL, FIRST, STEADY = "interpreter", "runtime", "model", "first", "steady"

_FIELDS = {"VmRSS": "rss_kib", "RssAnon": "anon_kib", "RssFile": "file_kib", "RssShmem": "shmem_kib"}


def report(outlet: Any, stage: str, arena: Optional[Tuple[int, str]] = None) -> None:
    """Send the present resident memory to edgetop's main process by `outlet`, as the memory at the end of `stage`.

    `stage` is a constant of this module, such as MODEL. `arena` is the memory of the runtime's tensors, as the pair
    (bytes, "tensors" or "growth") that `tensor_arena` describes; None if unknown. Nothing is sent if the memory cannot
    be read.
    """
    sizes: Dict[str, Any] = dict(resident())
    if sizes:
        if arena:
            sizes.update(arena_bytes=arena[0], arena_from=arena[1])
        outlet.send(message_frames.MEMORY, dict(sizes, stage=stage, t_ns=time.monotonic_ns()))


def resident(status: str = STATUS) -> Dict[str, int]:
    """Return the resident memory and what it consists of, in KiB, such as {"rss_kib": 5120, "anon_kib": 3000}.

    Returns {} if the kernel's file at the path `status` cannot be read.
    """
    sizes = {}
    try:
        with open(status, encoding="ascii", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                number, _, unit = value.strip().partition(" ")
                if name in _FIELDS and unit == "kB" and number.isdigit():
                    sizes[_FIELDS[name]] = int(number)
    except OSError:
        return {}
    return sizes if "rss_kib" in sizes else {}


def yield_to_the_oom_killer(score: str) -> None:
    """Make the kernel kill this process before others when memory runs out.

    `score` is from "-1000" to "1000". The kernel kills the process with the highest score first (proc(5),
    oom_score_adj).
    """
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(score)
    except OSError:
        pass  # not Linux, or forbidden: the kernel then chooses by itself
