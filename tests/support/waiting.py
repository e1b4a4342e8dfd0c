"""Waiting for what another process or thread does: on the condition itself, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 30.0) -> T:
    """What `condition` gives once it is true. Raises TimeoutError when the time is up."""
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {getattr(condition, '__name__', condition)}")
        time.sleep(0.002)
    return result
