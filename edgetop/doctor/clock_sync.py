"""Whether somebody keeps the wall clock right. Durations do not depend on it; the UTC of a recording does.

Asked of the kernel, without privilege and in containers too: adjtimex(2) with no mode set
reads only, and STA_UNSYNC (include/uapi/linux/timex.h) stands until a daemon clears it.
"""

import ctypes
import os

from edgetop.doctor.check import Check, ok, unknown, warning
from edgetop.doctor.facts import BOOTED, Facts

NAME = "clock-sync"
STA_UNSYNC = 0x0040


class _Timex(ctypes.Structure):
    """`struct timex` up to `status`; the kernel writes the rest into `tail`."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),  # µs
        ("esterror", ctypes.c_long),  # µs
        ("status", ctypes.c_int),
        ("tail", ctypes.c_byte * 256),
    )


def check(facts: Facts) -> list[Check]:
    try:
        return [judge(*read_status(), has_systemd=facts.root.exists(BOOTED))]
    except OSError as error:
        return [unknown(NAME, f"the kernel does not tell: {error.strerror}")]


def read_status() -> tuple[int, float]:
    """The status bits, and the largest error in seconds. Raises OSError."""
    timex = _Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return timex.status, timex.maxerror / 1e6


def judge(status: int, error_s: float, *, has_systemd: bool) -> Check:
    if status & STA_UNSYNC:
        advice = "durations are right all the same; the times of day of a recording may be wrong, and may jump"
        fix = "sudo timedatectl set-ntp true" if has_systemd else "sudo chronyd  (or another NTP daemon)"
        return warning(NAME, "not synchronised: no daemon keeps the clock, says the kernel", advice, fix)
    return ok(NAME, f"synchronised, {error_s * 1e3:.0f} ms off at most")
