"""The table of thresholds in `edgetop help slowdowns` is that of the constants, and tests notice a move of each."""

from tests.mutations import TESTS
from tests.support import thresholds
from tests.support.moved_thresholds import ROOT
from tests.support.thresholds import SECTIONS, TOPIC, topic


def test_the_topic_has_the_thresholds_as_they_are() -> None:
    assert TOPIC.read_text(encoding="utf-8") == topic(), f"run python -m {thresholds.__name__}"


def test_each_module_has_tests_that_notice_a_move() -> None:
    assert TESTS.keys() == {module for modules in SECTIONS.values() for module in modules}
    assert [name for names in TESTS.values() for name in names if not (ROOT / "tests/analysis" / name).exists()] == []
