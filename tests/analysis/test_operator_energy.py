"""The energy of operators from slow readings of the total power, against sessions whose truth is known."""

import re
from dataclasses import replace

import numpy as np
import pytest

from edgetop import formatting
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.operator_energy import LEAST_READINGS, TOLD_APART, OperatorEnergies
from edgetop.analysis.session_report import report
from edgetop.cli.printing.report_page import charts
from edgetop.cli.printing.report_text import summary
from edgetop.session.batch import Batch
from edgetop.session.engine_events import ProfileBurst
from edgetop.session.events import Event
from edgetop.session.manifest import Watched
from edgetop.session.operators import Operator, burst_of
from edgetop.ui.panes.operators_pane import OPERATORS
from edgetop.wording.operator_words import energy_cells, energy_unknown_words, operator_energy_words
from edgetop.wording.report_document import report_document
from tests.support.metered_operators import MS, Metered, metered
from tests.support.screens import area
from tests.support.sessions import phase_event

SHARES = [12, 3, 20, 5, 8, 25, 4, 3, 10, 10]
WATTS = [6, 3, 9, 4, 5, 8, 3, 2.5, 7, 5]
SLOW = Metered(1, latency=200, every=100, minutes=6, shares=SHARES, watts=WATTS)


def missed(session: Metered, found: OperatorEnergies) -> list[str]:
    """Return the groups whose interval does not contain the truth."""
    truth = [float(session.true_mj[group.first : group.last + 1].sum()) for group in found.groups]
    pairs = zip(found.groups, truth, strict=True)
    return [f"{group} is {mj}" for group, mj in pairs if not group.ci95_mj[0] <= mj <= group.ci95_mj[1]]


@pytest.mark.parametrize(
    "session",
    [
        SLOW,
        replace(SLOW, lag=0.3),
        replace(SLOW, period=300.0, drift=0.3),
        Metered(2, latency=30, every=10, minutes=1.5, shares=SHARES, watts=WATTS, period=50),
    ],
    ids=["back to back", "late readings", "paced, with a drift", "a fast meter"],
)
def test_the_intervals_contain_the_energy_of_each_operator(session: Metered) -> None:
    found = session.result()
    assert found.unknown is None
    assert len(missed(session, found)) <= 1, missed(session, found)
    assert len(found.groups) >= 5
    assert [group.first for group in found.groups[1:]] == [group.last + 1 for group in found.groups[:-1]]
    assert (found.groups[0].first, found.groups[-1].last) == (0, len(SHARES) - 1)
    for group in found.groups:
        assert (group.ci95_mj[1] - group.ci95_mj[0]) / 2 <= TOLD_APART * group.energy_mj


def test_large_operators_are_known_to_a_few_percent() -> None:
    found, truth = SLOW.result(), SLOW.true_mj
    largest = next(group for group in found.groups if group.first <= 5 <= group.last)
    assert largest.energy_mj == pytest.approx(truth[largest.first : largest.last + 1].sum(), rel=0.04)


def test_operators_that_are_too_short_to_be_told_apart_are_one_group() -> None:
    short = Metered(3, latency=200, every=100, minutes=6, shares=[30, *[0.5] * 10, 30], watts=[8, *[4] * 10, 3])
    groups = short.result().groups
    assert any(group.last - group.first >= 4 for group in groups)
    assert missed(short, short.result()) == []


@pytest.mark.parametrize(
    ("session", "why"),
    [
        (Metered(1, latency=4, every=100, minutes=3, shares=SHARES, watts=WATTS), "slow-readings"),
        (Metered(1, latency=30, every=200, minutes=5, shares=SHARES, watts=WATTS, noise=1.0), "slow-readings"),
        (replace(SLOW, minutes=1), "few-readings"),
    ],
    ids=["25 inferences in a reading", "noise", "too short"],
)
def test_what_cannot_be_told_is_refused(session: Metered, why: str) -> None:
    found = session.result()
    assert (found.groups, found.unknown and found.unknown.why) == ((), why)


def test_a_figure_begins_with_enough_readings() -> None:
    few = replace(SLOW, minutes=1.75).result().unknown
    assert few is not None
    assert 900 < few.readings < LEAST_READINGS
    assert replace(SLOW, minutes=2.0).result().groups


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (metered(averages=None), "no-meter"),
        (metered(averages=False), "no-meter"),
        (metered(streams=2), "several-at-once"),
        (replace(metered(), watched=Watched(("./program",))), "several-at-once"),
    ],
)
def test_sessions_without_such_a_meter_or_with_several_inferences_at_once_have_none(manifest: object, why: str) -> None:
    unknown = replace(SLOW, minutes=0.5).result(manifest=manifest).unknown  # type: ignore[arg-type]
    assert unknown is not None
    assert unknown.why == why


def test_an_operator_that_runs_twice_has_no_place_of_its_own() -> None:
    session = replace(SLOW, minutes=2.5)
    session.operators[5] = replace(session.operators[5], calls=2.0)
    assert session.result().unknown is not None
    session.operators[5] = replace(session.operators[5], calls=1.0)
    assert session.result().groups


def test_the_report_has_the_energy_of_each_operator() -> None:
    session = replace(SLOW, minutes=4, watts=[6, 3, 9, 4, 5, 16, 3, 2.5, 7, 5])
    analysis = Analysis()
    for batch in session.batches(metered(), [phase_event(0, "measure")]):
        analysis.fold(batch)
    shares = [Operator(f"op{n}", "Conv", "CPU", 1, round(1e6 * share)) for n, share in enumerate(session.true_shares)]
    for number in range(4):
        told = burst_event(239_000.0 + number, 239_001.0, number)
        burst = burst_of(told.t_ns, number, tuple(shares))
        analysis.fold(Batch(240 * 10**9, events=(told,), bursts=(burst,)))
    document = report_document(analysis)
    (fifth,) = [one for one in document["operators"] if one["name"] == "op5"]
    low, high = fifth["energy_ci95_mj"]
    assert low < fifth["energy_mj"] < high
    assert fifth["energy_mj"] == pytest.approx(session.true_mj[5], rel=0.05)
    assert [one["energy_group"] for one in document["operators"]] == sorted(
        one["energy_group"] for one in document["operators"]
    )
    assert document["profile"]["energy_unknown"] is None
    titles = [chart.title.text for chart in charts(analysis, report(analysis))]
    assert titles[-2:] == ["operators, % of the time", "operators, mJ in an inference"]
    text = summary(report(analysis))
    assert re.search(r"op5 takes 25% of the time and 4[5-8]% of the energy", text), text


def test_the_details_of_an_operator_in_the_pane_have_its_energy() -> None:
    session = replace(SLOW, minutes=4)
    analysis = Analysis()
    for batch in session.batches(metered(), [phase_event(0, "measure")]):
        analysis.fold(batch)
    shares = tuple(
        Operator(f"op{n}", "Conv", "CPU", 1, round(1e6 * share)) for n, share in enumerate(session.true_shares)
    )
    told = burst_event(239_000.0, 239_001.0, 0)
    analysis.fold(Batch(240 * 10**9, events=(told,), bursts=(burst_of(told.t_ns, 0, shares),)))
    view = analysis.view(None).freeze()
    group = next(one for one in view.operator_energies.groups if one.first <= 5 <= one.last)
    words = operator_energy_words(view.operator_energies, 5)
    assert words.startswith(f"{formatting.millijoules(group.energy_mj)} mJ an inference, 95 % ")
    assert operator_energy_words(view.operator_energies, 99) == ""
    items = OPERATORS.items(view, area(100, 30))
    (of_fifth,) = [item for item in items if item.lines and "op5" in "".join(span.text for span in item.lines[0])]
    assert any(words in line for line in of_fifth.detail())


def test_the_report_says_why_it_has_none() -> None:
    assert energy_cells([]) == []
    unknown = Metered(1, latency=4, every=100, minutes=3, shares=SHARES, watts=WATTS).result().unknown
    assert unknown is not None
    assert energy_unknown_words(unknown).startswith("a reading each ")


def burst_event(begin: float, end: float, number: int) -> Event:
    body = ProfileBurst(burst=number, duration_ns=int((end - begin) * MS), runs=1, run_ns=1)
    return Event(int(begin * MS), body, "info", "engine", "a round")


def test_readings_of_profiling_rounds_are_left_out() -> None:
    """In a round the board draws other power, and no inference is reported."""
    session = replace(SLOW, minutes=4)
    rounds = [(at, at + 2_000.0) for at in np.arange(20_000.0, 230_000.0, 20_000.0)]
    for begin, end in rounds:
        inside = (session.at[1:] > begin) & (session.at[1:] < end)
        session.values[inside] = 50.0
        running = (session.starts > begin - session.latency) & (session.starts < end)
        session.starts, session.lengths = session.starts[~running], session.lengths[~running]
    events = [burst_event(begin, end, number) for number, (begin, end) in enumerate(rounds)]
    found = session.result(events)
    assert len(missed(session, found)) <= 1, missed(session, found)
    assert len(session.result().groups) < len(found.groups)


@pytest.mark.parametrize(("inferences", "why"), [(19, "few-readings"), (21, "slow-readings")])
def test_readings_of_more_than_twenty_inferences_are_too_slow(inferences: int, why: str) -> None:
    session = Metered(1, latency=100 / inferences, every=100, minutes=0.5, shares=SHARES, watts=WATTS)
    unknown = session.result().unknown
    assert unknown is not None
    assert unknown.why == why


@pytest.mark.parametrize(("calls", "is_repeated"), [(1.009, False), (1.011, True)])
def test_an_operator_that_runs_once_more_in_a_hundred_inferences_is_repeated(calls: float, is_repeated: bool) -> None:
    session = replace(SLOW, minutes=0.5)
    session.operators[5] = replace(session.operators[5], calls=calls)
    unknown = session.result().unknown
    assert unknown is not None
    assert (unknown.why == "repeated") is is_repeated


@pytest.mark.parametrize(("noise", "groups"), [(0.16, 7), (0.17, 6)])
def test_operators_are_told_apart_if_their_energy_is_known_to_a_quarter(noise: float, groups: int) -> None:
    """The roughest of seven groups would be known to 24.9 %, or to 25.6 %, so it is joined with its neighbour."""
    assert len(replace(SLOW, minutes=2.0, noise=noise).result().groups) == groups
