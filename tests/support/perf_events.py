"""Whether the kernel of this machine counts events, as asked by the code that reads counters."""

import os

from edgetop.sensors.perf_counting import KernelCalls, ThreadCounters
from edgetop.sensors.root import Root


def are_allowed() -> bool:
    try:
        ThreadCounters(os.getpid(), (), Root(), KernelCalls()).close()
    except OSError:
        return False
    return True
