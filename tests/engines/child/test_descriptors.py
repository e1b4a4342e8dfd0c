"""Waiting for a descriptor works for any number, and ends when there is nothing to wait for any more."""

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgetop
from edgetop.engines.child.descriptors import until_readable, until_writable

HIGH = 1500  # select(2) knows descriptors up to 1023

# These wait for descriptors of a program's own start, or for none.
SELECTING = {"ui/driver.py", "standard_streams.py", "simulation/competitor.py", "engines/child/pace.py"}


@pytest.fixture
def high_pipe() -> Iterator[tuple[int, int]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 2), hard))
    low = os.pipe()
    ends = [os.dup2(end, HIGH + place) for place, end in enumerate(low)]
    for end in low:
        os.close(end)
    yield ends[0], ends[1]
    for end in ends:
        os.close(end)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_descriptor_may_have_any_number(high_pipe: tuple[int, int]) -> None:
    reader, writer = high_pipe
    assert not until_readable(reader, 0)
    assert until_writable(writer, None)
    os.write(writer, b"x")
    assert until_readable(reader, None)


def test_the_end_is_something_to_read_and_a_reader_that_left_ends_the_wait() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    assert until_readable(reader, None)
    os.close(reader)
    reader, writer = os.pipe()
    os.close(reader)
    assert until_writable(writer, None)
    os.close(writer)


def test_nothing_else_selects() -> None:
    package = Path(edgetop.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"\bselect\.select\(", path.read_text("utf-8"))
    }
    assert found == SELECTING
