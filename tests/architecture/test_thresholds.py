"""No number that decides a judgement escapes the table of thresholds, and so the tests that hold it.

A module-level number of analysis/ or comparison/, or of another module in the table, is either a threshold, whose
comment has the form that `tests/support/thresholds.py` describes, or it stands in `NO_THRESHOLDS` with the reason.
"""

from itertools import chain

import pytest

from tests.support.moved_thresholds import threshold_names
from tests.support.thresholds import NO_THRESHOLDS, SECTIONS, all_thresholds, excused, judging_modules, thresholds_of


def numbers_of(module: str) -> set[str]:
    """Return the labels of the module's numeric constants, such as `verdict.SHARE`."""
    names = {name.partition("[")[0] for name in threshold_names(module)}
    return {f"{module.rpartition('.')[2]}.{name}" for name in names}


@pytest.mark.parametrize("module", judging_modules())
def test_each_number_is_a_threshold_of_the_table_or_has_a_reason_not_to_be_one(module: str) -> None:
    is_in_table = module in chain.from_iterable(SECTIONS.values())
    thresholds = {one.label for one in thresholds_of(module)} if is_in_table else set()
    assert numbers_of(module) - thresholds - excused() == set()


def test_each_excused_number_is_there_once_and_is_no_threshold() -> None:
    there = set().union(*map(numbers_of, judging_modules()))
    assert excused() - there == set()
    assert excused() & {one.label for one in all_thresholds()} == set()
    listed = [label for labels in NO_THRESHOLDS.values() for label in labels.split()]
    assert len(listed) == len(excused())
