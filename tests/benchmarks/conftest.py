"""What benchmarks share: they say what they measured, whether they pass or fail."""

from collections.abc import Callable

import pytest


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    def print_through(text: str) -> None:
        with capsys.disabled():
            print(f"\n{text}")

    return print_through
