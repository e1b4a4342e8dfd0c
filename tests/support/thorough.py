"""Chooses which cases of a test the README's test command runs."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_thorough(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Return the cases for `parametrize`. All except `kept` are marked `thorough`."""
    return [case if case in kept else pytest.param(case, marks=pytest.mark.thorough) for case in cases]
