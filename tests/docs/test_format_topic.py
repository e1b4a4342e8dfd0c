"""`edgetop help format` has every key of the manifest, and every way in which a session can end."""

import dataclasses
import re
import typing
from importlib import resources

import pytest

from edgetop.analysis.verdict import EXIT_STATUS, FINAL, GATE_ENDED
from edgetop.session.manifest import Manifest

TOPIC = resources.files("edgetop").joinpath("docs/format.md").read_text(encoding="utf-8")
NAMES = set(re.findall(r'[`".]([\w-]+)[`"]', TOPIC))


def keys_of(kind: object) -> set[str]:
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        written = {field.name for field in dataclasses.fields(kind) if field.metadata.get("exported", True)}
        return written.union(*map(keys_of, hints.values()))
    return set().union(*map(keys_of, typing.get_args(kind)))


def test_every_key_of_the_manifest_is_described() -> None:
    assert keys_of(Manifest) - NAMES == set()


@pytest.mark.parametrize("reason", [*FINAL, GATE_ENDED, "engine-died", "internal-error", f"{EXIT_STATUS}N"])
def test_every_way_in_which_a_session_ends_is_described(reason: str) -> None:
    assert reason in NAMES
