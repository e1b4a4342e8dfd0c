"""The resident memory of this process, read at the steps of a run, never within the timed loop.

Which step a growth belongs to (the runtime, the model, its first inference) cannot be seen
from outside: the steps are shorter than any sampling. proc(5), /proc/self/status.
"""

from __future__ import annotations

import time
from typing import Any, Dict

from . import message_frames

STATUS = "/proc/self/status"

# The steps, in their order. Each is read at the end of the step.
INTERPRETER, RUNTIME, MODEL, FIRST, STEADY = "interpreter", "runtime", "model", "first", "steady"

_FIELDS = {"VmRSS": "rss_kib", "RssAnon": "anon_kib", "RssFile": "file_kib", "RssShmem": "shmem_kib"}


def report(outlet: Any, stage: str) -> None:
    """Send the resident memory of now, where the kernel gives it."""
    sizes = resident()
    if sizes:
        outlet.send(message_frames.MEMORY, dict(sizes, stage=stage, t_ns=time.monotonic_ns()))


def resident(status: str = STATUS) -> Dict[str, int]:
    """Resident memory and its parts in KiB; empty where the file cannot be read."""
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
    """Have the kernel's OOM killer take this process before others: -1000 to 1000 (proc(5), oom_score_adj)."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(score)
    except OSError:
        pass  # not Linux, or forbidden: the kernel's own choice stands
