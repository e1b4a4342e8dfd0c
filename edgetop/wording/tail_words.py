"""The slowest inferences by their causes, in words."""

from collections.abc import Sequence

from edgetop.analysis.slowdowns.tail import TailPart

NAMED = 3  # of those who took the CPU

# In words, and in brief.
TAIL_CAUSES = {
    "contention": ("while another process took the CPU", "{who} took the CPU"),
    "cpu-quota": ("while its CPU quota was used up", "CPU quota used up"),
    "page-faults": ("with page faults", "page faults"),
    "burst": ("just after instrumented inferences", "operators profiled"),
    "sensor-read": ("during a slow read of a sensor", "slow sensor reads"),
    "slowdown": ("within a slowdown", "in a slowdown"),
    "memory-pressure": ("while memory was short", "memory was short"),
    "limit": ("while the board was limited", "the board was limited"),
    "clock": ("while the clock was low", "the clock was low"),
    "unexplained": ("unexplained", ""),
}


def part_words(part: TailPart) -> str:
    """
    >>> part_words(TailPart("contention", 22, (("stress-ng", 20),)))
    '22 while another process took the CPU (stress-ng)'
    """
    who = ", ".join(name for name, _ in part.who[:NAMED])
    return f"{part.count} {TAIL_CAUSES[part.cause][0]}{f' ({who})' if who else ''}"


def tail_words(parts: Sequence[TailPart]) -> str:
    """Join all parts; "" where there is no tail."""
    return ", ".join(map(part_words, parts))
