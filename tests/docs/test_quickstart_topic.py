"""The topic `quickstart` names every key that shows a pane alone."""

from importlib import resources

from edgetop.ui.layout import PANES

TOPIC = resources.files("edgetop").joinpath("docs/quickstart.md").read_text(encoding="utf-8")


def test_each_pane_has_a_number() -> None:
    assert f"`1` to `{len(PANES)}` show one pane alone" in TOPIC
