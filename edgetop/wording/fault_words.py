"""Internal errors of edgetop (defects) in words for the user."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # A run loads this module before its engine has started, and the analysis only after that.
    from edgetop.analysis.faults import Fault


def fault_words(fault: "Fault") -> str:
    """Return a sentence that says which internal error makes a figure unavailable.

    >>> from edgetop.analysis.faults import Fault
    >>> fault_words(Fault("slowdowns", "sensors", "ValueError: empty", ""))
    'not available: internal error in sensors: ValueError: empty'
    """
    return f"not available: internal error in {fault.where}: {fault.error}"
