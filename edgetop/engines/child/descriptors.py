"""Wait until a file descriptor can be read or written.

poll(2) waits, because select(2) refuses descriptors above 1023. A process that follows many boards or programs has such
descriptors.
"""

from __future__ import annotations

import select
from typing import Optional


def until_readable(descriptor: int, timeout_s: Optional[float]) -> bool:
    """Wait until `descriptor` can be read, and return whether it can.

    A descriptor that is at the end of its data, or has an error, counts as readable. `timeout_s` is the longest time to
    wait in s, in whole milliseconds; None means without a limit.
    """
    return _until(descriptor, select.POLLIN, timeout_s)


def until_writable(descriptor: int, timeout_s: Optional[float]) -> bool:
    """Wait until `descriptor` can be written, and return whether it can.

    A descriptor whose reader is gone counts as writable. `timeout_s` is the longest time to wait in s, in whole
    milliseconds; None means without a limit.
    """
    return _until(descriptor, select.POLLOUT, timeout_s)


def _until(descriptor: int, event: int, timeout_s: Optional[float]) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(None if timeout_s is None else int(timeout_s * 1000)))
