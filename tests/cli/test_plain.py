"""`--live`: a session in words, a line a refresh, in which nothing is drawn."""

import re
from dataclasses import replace

from edgetop.cli.plain import PlainLines, plain_line
from edgetop.session.seconds import NS
from tests.support.screens import view_of
from tests.support.scripts import HOSTILE, Script, manifest, measured, measured_with_power


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
    lines, said = PlainLines(10 * NS), []
    script = measured(5).end()
    view = view_of(script)
    for second in (0, 3, 9, 10, 12, 20):
        going_on = view.replaced(progress=replace(view.progress, phase="measure", end_reason=None, now_ns=second * NS))
        if lines.line(going_on):
            said.append(second)
    assert said == [0, 10, 20]
    assert "Finished" in (lines.line(view) or "")
    assert lines.line(view) is None
