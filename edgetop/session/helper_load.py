"""The CPU time of edgetop's short-lived helper processes, which counts as edgetop's own load."""

_spent_s = 0.0


def add(cpu_s: float) -> None:
    """Add the CPU time, in s, of a helper process that has ended."""
    global _spent_s  # noqa: PLW0603  one process has one load
    _spent_s += cpu_s


def spent_s() -> float:
    """Return the CPU time, in s, of all helper processes that have ended."""
    return _spent_s
