"""A session as lines, to its end."""

import fcntl
import os
import re
import struct
import sys
import termios
from dataclasses import replace

import pytest

from edgetop import formatting
from edgetop.analysis.analysis import Analysis
from edgetop.cli.running.headless import Lines, PlainLines, follow, plain_line
from edgetop.session.seconds import NS
from tests.support.screens import view_of
from tests.support.scripts import HOSTILE, ListFeed, Script, manifest, measured, measured_with_power, throttled_by


def test_it_follows_to_the_end_in_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    script = measured(5).end()
    follow(ListFeed(script.batches, ends=True), Analysis(), live_ns=2 * NS)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert "Measuring" in lines[0] or "Loading" in lines[0]
    assert "Finished" in lines[-1]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("live_ns", [None, 2 * NS])
def test_the_last_line_has_the_figures_of_the_whole_session(
    live_ns: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """For ten seconds it was fast, and then slow: the last ten seconds alone have another median."""
    script = measured(15, median_ms=2.0).measure(11, median_ms=3.0).end()
    analysis = Analysis()
    follow(ListFeed(script.batches, ends=True), analysis, live_ns=live_ns)
    statistics = analysis.statistics()
    assert statistics is not None
    median = formatting.milliseconds(statistics.percentile_ns(0.50))
    assert median.startswith("2.")
    assert median in capsys.readouterr().err.splitlines()[-1]


def test_a_signal_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    follow(ListFeed(measured(5).batches), Analysis(), lambda: True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("live_ns", [None, 2 * NS])
def test_ascii_holds_for_lines_as_well(live_ns: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    dropped = measured(5).tell("provider-dropped", "critical", message="caf\u00e9 85 \u00b0C")
    feed = ListFeed([dropped.whole()], ends=True)
    follow(feed, Analysis(), live_ns=live_ns, ascii_only=True)
    err = capsys.readouterr().err
    assert err.isascii()
    assert "caf? 85 C" in err


def test_the_bar_never_wraps_for_then_it_could_not_be_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with open(theirs, "w") as terminal:  # noqa: PTH123  of a descriptor
        monkeypatch.setattr(sys, "stderr", terminal)
        follow(ListFeed([throttled_by("x" * 200).whole()], ends=True), Analysis())
        terminal.flush()
        drawn = os.read(ours, 65536).decode().split("\r")
    os.close(ours)
    lines = [line.removesuffix("\x1b[K") for line in drawn if line.strip()]
    assert max(map(len, lines)) == 39
    assert lines[0].endswith(">")


def test_a_line_says_in_words_how_it_goes() -> None:
    line = plain_line(view_of(measured_with_power()))
    number = r"[0-9.]+"
    sentences = (
        f"Median latency {number} milliseconds, 99th percentile {number} milliseconds",
        f"{number} inferences a second",
        f"Hottest zone {number} degrees Celsius",
        f"Board power {number} watts",
        f"Engine memory {number} mebibytes",
    )
    assert re.fullmatch(r"\. ".join(["1 minute 1 second", "Steady", *sentences]) + r"\.", line)


@pytest.mark.parametrize("lines", [Lines(), PlainLines(10 * NS)])
def test_an_input_that_is_refused_late_has_no_line_beside_the_error(lines: Lines | PlainLines) -> None:
    view = view_of(Script().end("input-error"))
    assert lines.text(view.replaced(progress=replace(view.progress, now_ns=5 * NS))) == ""


def test_what_is_not_known_is_left_out() -> None:
    assert plain_line(view_of(None)) == "0 seconds. Loading."


def test_a_simulated_board_is_named() -> None:
    whole = replace(manifest(), board=replace(manifest().board, simulated=True))
    assert plain_line(view_of(Script(whole).load())).split(". ")[1] == "Simulated board"


def test_nothing_in_it_acts_on_a_terminal() -> None:
    for name in HOSTILE:
        whole = replace(manifest(), model=replace(manifest().model, path=name))
        assert plain_line(view_of(Script(whole))).isprintable()


def test_a_line_comes_at_each_refresh_and_one_at_the_end() -> None:
    said = []
    lines = PlainLines(10 * NS)
    script = measured(5).end()
    view = view_of(script)
    for second in (0, 3, 9, 10, 12, 20):
        going_on = view.replaced(progress=replace(view.progress, phase="measure", end_reason=None, now_ns=second * NS))
        if lines.text(going_on):
            said.append(second)
    assert said == [0, 10, 20]
    assert "Finished" in lines.text(view)
    assert not lines.text(view)


def test_figures_of_the_last_seconds_are_made_for_a_line_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the most expensive part of a look at a session; every two seconds one is taken."""
    made = []
    whole = Analysis.latency_view
    monkeypatch.setattr(Analysis, "latency_view", lambda *given: made.append(1) or whole(*given))
    lines, analysis = Lines(), Analysis()
    texts = []
    for batch in measured(30).batches:
        analysis.fold(batch)
        texts.append(lines.text(analysis.view(10 * NS)))
    printed = len([text for text in texts if text])
    assert 3 <= printed < 10
    assert len(made) <= printed + 2  # no figures yet: the word that changed is looked at again
