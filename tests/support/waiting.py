"""Waiting for what another process or thread does: on the condition itself, with a deadline."""

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# How much slower than the machines that the time-outs were chosen for this one is: 20 under emulation (.ci/arm64).
TIME_FACTOR = float(os.environ.get("TESTS_TIME_FACTOR", "1"))


def scaled(seconds: float) -> float:
    """A time-out of the tests, in seconds, on this machine."""
    return seconds * TIME_FACTOR


# The time-out of everything that must come: a start of edgetop takes ten seconds on a busy machine, and more on a slow
# one. A shorter time-out belongs only where what must not come is waited for.
PATIENCE_S = scaled(60.0)


def wait_until(condition: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """Return what `condition` returns once that is true. Raises TimeoutError after `timeout_s` seconds.

    The longer it takes, the less often it looks, so that what is waited for has the CPU.
    """
    began = time.monotonic()
    while not (result := condition()):
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise TimeoutError(f"not within {timeout_s:g} s: {getattr(condition, '__name__', condition)}")
        time.sleep(min(max(waited_s / 20, 0.002), 0.05))
    return result
