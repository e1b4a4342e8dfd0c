"""Waiting for what another process or thread does: on the condition itself, with a deadline."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# How much slower than the machines that the time-outs were chosen for this one is: 20 under emulation (.ci/arm64).
TIME_FACTOR = float(os.environ.get("TESTS_TIME_FACTOR", "1"))

PATIENCE_S = 60.0  # of a busy machine, on which a start of edgetop takes ten seconds


def scaled(seconds: float) -> float:
    """A time-out of the tests, in seconds, on this machine."""
    return seconds * TIME_FACTOR


def wait_until(condition: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """What `condition` gives once it is true. Raises TimeoutError when the time is up.

    The longer it takes, the less often it looks, so that what is waited for has the CPU.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited_s = time.monotonic() - began
        if waited_s > scaled(timeout_s):
            raise TimeoutError(f"not within {scaled(timeout_s):g} s: {getattr(condition, '__name__', condition)}")
        time.sleep(min(max(waited_s / 20, 0.002), 0.05))
    return result
