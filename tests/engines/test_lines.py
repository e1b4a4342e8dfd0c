"""What comes out of a descriptor becomes lines, whole, bounded and without waiting."""

import contextlib
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.decode import MAX_LINE, MAX_LINES_A_POLL, LineReader


class Printer:
    """A pipe, and who reads it."""

    def __init__(self) -> None:
        read_fd, self.fd = os.pipe()
        self.fds = [read_fd, self.fd]
        self.reader = LineReader(read_fd, "engine stderr")

    def prints(self, data: bytes) -> list[str]:
        os.write(self.fd, data)
        return self.read()

    def read(self) -> list[str]:
        return [line.message for line in self.reader.read()]

    def ends(self) -> None:
        os.close(self.fd)
        self.fds.remove(self.fd)


@pytest.fixture
def printer() -> Iterator[Printer]:
    with opened() as made:
        yield made


@contextlib.contextmanager
def opened() -> Iterator[Printer]:
    made = Printer()
    try:
        yield made
    finally:
        for fd in made.fds:
            os.close(fd)


def test_lines_come_when_they_are_complete(printer: Printer) -> None:
    assert printer.read() == []
    assert printer.prints(b"one\ntwo\nthr") == ["one", "two"]
    assert printer.prints(b"ee\n") == ["three"]


def test_the_last_line_comes_at_the_end_without_a_line_break(printer: Printer) -> None:
    assert printer.prints(b"Segmentation fault") == []
    printer.ends()
    assert printer.read() == ["Segmentation fault"]
    assert printer.read() == []
    assert printer.reader.last_line == "Segmentation fault"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=30), max_size=12))
def test_lines_are_the_same_however_they_came(pieces: list[bytes]) -> None:
    with opened() as at_once, opened() as piecewise:
        came = [line for piece in pieces for line in piecewise.prints(piece)]
        assert at_once.prints(b"".join(pieces)) == came


def test_what_is_no_utf_8_is_shown_and_colours_are_dropped(printer: Printer) -> None:
    assert printer.prints(b"\x1b[0;93mcaf\xe9\x1b[m\r\n\n  \n") == ["caf\\xe9"]


def test_a_long_line_is_cut(printer: Printer) -> None:
    (line,) = printer.prints(b"x" * 5000 + b"\n")
    assert len(line) == MAX_LINE
    assert line.endswith("…")


def test_a_line_without_end_does_not_grow_for_ever(printer: Printer) -> None:
    lines = [line for _ in range(40) for line in printer.prints(b"x" * 10_000)]
    assert len(lines) > 3
    assert max(map(len, lines)) == MAX_LINE


def test_a_flood_is_cut_and_its_rest_is_counted(printer: Printer) -> None:
    lines = printer.prints(b"".join(b"line %d\n" % n for n in range(500)))
    assert lines[:-1] == [f"line {n}" for n in range(MAX_LINES_A_POLL)]
    assert lines[-1] == f"{500 - MAX_LINES_A_POLL} more lines in this moment, not kept"
    assert printer.reader.last_line == "line 499"


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("INFO: Created TensorFlow Lite XNNPACK delegate for CPU.", "info"),
        ("ERROR: Node number 3 (ADD) failed to invoke.", "warning"),
        ("W0000 00:00:1795260948.55 1 cpu.cc:7] no AVX", "warning"),
        (
            "2026-11-21 13:15:48.55 [E:onnxruntime:, executor.cc:677 ExecuteKernel] Non-zero status",
            "warning",
        ),
        ("2026-11-21 13:15:48.55 [W:onnxruntime:, graph.cc:109] unused initializer", "warning"),
        ("2026-11-21 13:15:48.55 [I:onnxruntime:, graph.cc:109] Done", "info"),
        ("/usr/lib/python3/site.py:1: DeprecationWarning: imp", "warning"),
        ("Fatal Python error: Segmentation fault", "warning"),
    ],
)
def test_a_line_of_trouble_is_a_warning(line: str, severity: str, printer: Printer) -> None:
    os.write(printer.fd, line.encode() + b"\n")
    (read,) = printer.reader.read()
    assert (read.severity, read.source, read.message) == (severity, "engine stderr", line)


def test_a_descriptor_that_was_closed_is_at_its_end(printer: Printer) -> None:
    os.close(printer.fds.pop(0))
    assert printer.reader.read() == []


def test_the_reason_for_an_abort_is_the_last_word_and_not_that_it_aborted(printer: Printer) -> None:
    printer.prints(b"ggml.c:12: GGML_ASSERT(n <= 512) failed\nFatal Python error: Aborted\n")
    assert printer.reader.last_line == "ggml.c:12: GGML_ASSERT(n <= 512) failed"
    printer.prints(b"Fatal Python error: Aborted\n")
    assert printer.reader.last_line == "ggml.c:12: GGML_ASSERT(n <= 512) failed"


def test_an_abort_without_a_reason_has_its_own_line(printer: Printer) -> None:
    printer.prints(b"Fatal Python error: Aborted\n")
    assert printer.reader.last_line == "Fatal Python error: Aborted"
