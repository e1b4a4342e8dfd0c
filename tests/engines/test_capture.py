"""Native output is caught while a capture is open; Python's own goes where it went before."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from edgetop.engines.thread import OutputCapture
from tests.support.descriptors import open_files


@pytest.fixture(autouse=True)
def _streams_are_what_they_were() -> Iterator[None]:
    before = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    yield
    assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == before


def test_what_native_code_writes_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    with OutputCapture() as capture:
        os.write(1, b"to stdout")
        os.write(2, b"to stderr")
        subprocess.run(["/bin/echo", "from a child"], check=True)
        caught = os.read(capture.stdout_fd, 1000), os.read(capture.stderr_fd, 1000)
    assert caught == (b"to stdoutfrom a child\n", b"to stderr")
    assert capfd.readouterr() == ("", "")


def test_pythons_own_streams_go_where_they_went(capfd: pytest.CaptureFixture[str]) -> None:
    with OutputCapture():
        print("a line")
        print("a complaint", file=sys.stderr)
        assert sys.__stdout__
        assert sys.__stderr__
        sys.__stdout__.write("a screen é")
        sys.__stderr__.write("\udcff")
    assert capfd.readouterr() == ("a line\na screen é", "a complaint\n\\udcff")


def test_output_before_and_after_is_not_touched(capfd: pytest.CaptureFixture[str]) -> None:
    print("before", end=" ")
    with OutputCapture():
        print("within", end=" ")
    os.write(1, b"after")
    assert capfd.readouterr().out == "before within after"


@pytest.mark.timeout(20)
def test_who_prints_more_than_is_read_does_not_wait() -> None:
    with OutputCapture() as capture:
        with contextlib.suppress(BlockingIOError):
            for _ in range(10_000):
                os.write(1, b"x" * 4096)
        assert os.read(capture.stdout_fd, 4096)


def test_all_is_as_before_when_an_error_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), OutputCapture():
        raise KeyError
    os.write(1, b"out")
    os.write(2, b"err")
    assert capfd.readouterr() == ("out", "err")


def test_no_descriptor_is_left_open(capfd: pytest.CaptureFixture[str]) -> None:
    before = open_files()
    with OutputCapture():
        print("something")
    assert open_files() == before
