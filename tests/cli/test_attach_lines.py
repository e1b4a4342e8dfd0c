"""`attach --headless`: another's session as lines, to its end."""

import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.cli.attach_lines import follow
from edgetop.session.seconds import NS
from tests.support.scripts import ListFeed, measured


def test_it_follows_to_the_end_in_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    script = measured(5).end()
    follow(ListFeed(script.batches, ends=True), [], Analysis(), live_ns=2 * NS, is_told=False)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert "Measuring" in lines[0] or "Loading" in lines[0]
    assert "Finished" in lines[-1]
    assert all(line.isprintable() for line in lines)


def test_a_signal_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    follow(ListFeed(measured(5).batches), [15], Analysis(), live_ns=None, is_told=False)
    assert capsys.readouterr().err == ""
