"""The table of thresholds in `edgetop help slowdowns` is that of the constants, and no number is left out of it."""

import pytest

from tests.mutations import TESTS
from tests.support import thresholds
from tests.support.moved_thresholds import ROOT, threshold_names
from tests.support.thresholds import NO_THRESHOLDS, SECTIONS, TOPIC, thresholds_of, topic


def test_the_topic_has_the_thresholds_as_they_are() -> None:
    assert TOPIC.read_text(encoding="utf-8") == topic(), f"run python -m {thresholds.__name__}"


@pytest.mark.parametrize("module", [module for modules in SECTIONS.values() for module in modules])
def test_each_number_of_a_judgement_has_a_reason(module: str) -> None:
    """In a comment of the form that `tests/support/thresholds.py` describes, or as a name in `NO_THRESHOLDS`."""
    known = {one.constant for one in thresholds_of(module)} | NO_THRESHOLDS.get(module.rpartition(".")[2], set())
    assert {name.partition("[")[0] for name in threshold_names(module)} - known == set()


def test_each_module_has_tests_that_notice_a_move() -> None:
    assert TESTS.keys() == {module for modules in SECTIONS.values() for module in modules}
    assert [name for names in TESTS.values() for name in names if not (ROOT / "tests/analysis" / name).exists()] == []
