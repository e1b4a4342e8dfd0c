"""The lines with figures at every width from 60 to 250: no label is without its value, and nothing moves."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.vitals import vitals
from edgetop.session.load_settings import Load
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.header import identity_line, verdict_line, vitals_line
from edgetop.ui.panes.latency_pane import _spans
from edgetop.ui.text import width
from edgetop.wording.vital_words import vital_words
from tests.analysis.test_streams import analysed, calls
from tests.recording.test_token_recording import batches
from tests.support import scenes
from tests.support.screens import area, plain, view_of
from tests.support.scripts import Script, hot, leaking, manifest, measured, measured_with_power, paced, scarce
from tests.support.sessions import phase_event

WIDTHS = range(60, 251)
ELAPSED = r"(?:\d+s|\d+m\d\ds|\d+h\d\dm)"
FIGURES = re.compile(rf"p50 (-|[\d.]+)s?\?? +p99 (-|[\d.]+)\?? (?:ms|s) +(-|[\d.]+ ?[kMG]?)/s +({ELAPSED})\b")
LABELS = re.compile(r"\b(p50|p90|p95|p99|max|TTFT|ITL|prefill|decode|burst|sustained|n)(?= |$)(?! +(-|\d|p50))")
LINES = ("latency", "heat", "power", "memory", "hotspots")  # panes that a small screen draws as one line
NOW_S = 75


def of_tokens() -> MonitorView:
    analysis = Analysis()
    first, *others = batches()
    for batch in (replace(first, events=(phase_event(0, "measure", runs=None),)), *others):
        analysis.fold(batch)
    return analysis.view(10 * 10**9).freeze()


def of_streams() -> MonitorView:
    """A watched program with two models, one of which becomes slower."""
    parts = calls(0, 0, 120, 20, 3), calls(1, 0, 60, 100, 25), calls(1, 60, 120, 100, 37.5)
    return analysed(*parts, deadline_ns=30_000_000, is_over=False).view(10 * 10**9).freeze()


def hurried() -> Script:
    """A paced run of a requested duration on a board that throttles."""
    load = Load(mode="fixed", rate_hz=100.0, deadline_ns=6_000_000)
    return Script(manifest(load=load), hot).load().warm_up().begin(duration_ns=3600 * 10**9).measure(75, median_ms=7.2)


STATES: dict[str, Callable[[], Script]] = {
    "unpaced": lambda: measured_with_power(NOW_S),
    "paced": lambda: paced(NOW_S),
    "throttled": scenes.throttled,
    "hurried": hurried,
    "simulated": scenes.simulated,
    "overloaded": scenes.overloaded,
    "stalled": scenes.stalled,
    "leaking": leaking,
    "scarce": scarce,
    "fast": lambda: measured(3, rate_hz=20_000, median_ms=0.02),
    "slow": lambda: measured(20, rate_hz=0.3, median_ms=2_900),
    "over": lambda: measured(20).end(),
    "died": scenes.died,
}


@cache
def view(state: str) -> MonitorView:
    return OTHERS[state]() if state in OTHERS else view_of(STATES[state]())


OTHERS: dict[str, Callable[[], MonitorView]] = {"tokens": of_tokens, "streams": of_streams}
every_state = pytest.mark.parametrize("state", [*STATES, *OTHERS])


@every_state
def test_p50_p99_rate_and_elapsed_time_stand_at_the_same_places(state: str) -> None:
    for cells in WIDTHS:
        text = plain(verdict_line(view(state), area(cells, 1), None))
        assert len(text) == cells
        found = FIGURES.search(text)
        assert found, (cells, text)
        if view(state).progress.duration_ns is None or cells < 100:
            ordinary = FIGURES.search(plain(verdict_line(view("unpaced"), area(cells, 1), None)))
            assert ordinary
            assert found.start() == ordinary.start(), (cells, text)


@every_state
def test_a_frozen_screen_keeps_p50_p99_and_elapsed_time(state: str) -> None:
    for cells in WIDTHS:
        text = plain(verdict_line(view(state), area(cells, 1), 75 * 10**9))
        assert text.startswith(" FROZEN ")
        assert re.search(rf"p50 (-|[\d.]+)s?\?? +p99 (-|[\d.]+)\?? (?:ms|s) .*{ELAPSED}\b", text), (cells, text)


@every_state
def test_no_vital_sign_is_cut_and_all_stay_where_they_are(state: str) -> None:
    one = view(state)
    for cells in WIDTHS:
        text = plain(vitals_line(one, area(cells, 1)))
        assert len(text) <= cells
        shown = [vital for vital in vitals(one) if f"{vital.name} {vital_words(vital.figure)}" in text]
        starts = [text.index(f"{vital.name} {vital_words(vital.figure)}") for vital in shown]
        assert starts == sorted(starts), text
        names = re.findall(r"(?:^ |  )([a-zA-Z]\w*) ", text.partition("last values")[2] or text)
        assert set(names) <= {vital.name for vital in shown} | {"of"}, (cells, text)


def test_a_vital_sign_keeps_its_place_while_the_values_change() -> None:
    scripts = hurried(), hurried().measure(40, median_ms=12.5), hurried().measure(10, rate_hz=2, median_ms=4.0)
    one, two, three = (view_of(script) for script in scripts)
    assert len({tuple(vital_words(vital.figure) for vital in vitals(of)) for of in (one, two, three)}) == 3
    for cells in WIDTHS:
        lines = [plain(vitals_line(of, area(cells, 1))) for of in (one, two, three)]
        for name in ("p99", "heat", "memory", "done"):
            assert len({text.find(f"{name} ") for text in lines}) == 1, (cells, lines)


@every_state
def test_no_line_of_a_pane_has_a_label_without_its_value(state: str) -> None:
    one = view(state)
    for cells in range(20, 251):
        drawn = [*DRAWINGS["latency"].body(one, area(cells, 2)), _spans(one, area(cells, 1))]
        drawn += [DRAWINGS[name].line(one, area(cells, 1)) for name in LINES]
        for line in drawn:
            assert width(line) <= cells
            assert not LABELS.search(plain(line).rstrip()), (cells, plain(line))


@every_state
def test_the_second_line_keeps_what_marks_a_session_at_every_width(state: str) -> None:
    for cells in WIDTHS:
        text = plain(identity_line(view(state), area(cells, 1), "REC"))
        assert text.rstrip().endswith("REC")
        assert ("SIMULATED" in text) == (state == "simulated")
