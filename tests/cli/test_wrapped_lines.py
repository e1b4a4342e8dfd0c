"""Lines of text on terminals of any width."""

import pytest

from edgetop.cli.output import wrapped


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        ("80", ["  net: rx-bytes tx-bytes"]),
        ("16", ["  net: rx-bytes", "      tx-bytes"]),
        ("9", ["  net:", "      rx-bytes", "      tx-bytes"]),
        ("0", ["  net: rx-bytes tx-bytes"]),  # no terminal
    ],
)
def test_a_line_is_broken_at_spaces_to_fit_the_terminal(columns, lines, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.__stdout__", None)
    assert wrapped("  net: rx-bytes tx-bytes") == lines
