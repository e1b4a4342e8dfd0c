"""What limits operators, in words."""

from edgetop.analysis.operator_bounds import applicable
from edgetop.session.ceilings import DTYPE, Ceilings


def bound_unknown_words(ceilings: Ceilings | None, precision: str | None) -> str:
    """Return why it is unknown what limits operators, or "" if it can be known.

    `ceilings`: the measured ceilings of the board; None if they were not measured. `precision`: the data type with
    which the model computes; None if unknown.
    """
    if ceilings is None:
        return "the ceilings of this board with this runtime are not measured: edgetop doctor --roofline"
    if applicable(ceilings, precision) is None:
        return f"the ceilings are those of {DTYPE}, and the model computes on {precision}"
    return ""
