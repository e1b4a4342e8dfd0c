"""`edgetop help keys` has the id of every command that a user can give another key, and no other id."""

import re
from importlib import resources

from edgetop.ui.commands import COMMANDS

TOPIC = resources.files("edgetop").joinpath("docs/keys.md").read_text(encoding="utf-8")


def test_the_ids_of_the_topic_are_those_of_the_commands() -> None:
    ids = re.findall(r"`([a-z0-9-]+)`", TOPIC.split("\nIds: ")[1].split("\n\n")[0])
    assert sorted(ids) == sorted({command.id for command in COMMANDS if not command.is_fixed})
