"""Internal errors of edgetop in words."""

from edgetop.analysis.faults import Fault


def fault_words(fault: Fault) -> str:
    """Return why a figure is unavailable.

    >>> fault_words(Fault("slowdowns", "sensors", "ValueError: empty", ""))
    'not available: internal error in sensors: ValueError: empty'
    """
    return f"not available: internal error in {fault.where}: {fault.error}"
