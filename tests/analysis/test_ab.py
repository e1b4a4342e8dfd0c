"""An A/B session: its turns as quads, their ratios, and what is said of them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from edgetop.analysis.ab_figures import AbFold, AbView, Ratio, TooFew
from edgetop.analysis.ab_quads import QuadEvents, settling_ns
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.cli.printing.report_text import summary
from edgetop.session.batch import Batch
from edgetop.session.engine_events import LoadBegan, QuadDone, TurnsSettled
from edgetop.session.event_codec import data_of, decoded, read_event
from edgetop.session.event_kinds import SessionOver
from edgetop.session.events import Event
from edgetop.session.manifest import Ab, EngineInfo, Manifest, Model, SensorInfo, Variant
from edgetop.session.records import INFERENCE, MEASURE, READING, Inferences, Readings
from edgetop.session.turns import NS, Plan, Planner, plan
from edgetop.wording.ab_words import ab_document, ab_lines, change_words, reading_words
from edgetop.wording.report_document import report_document
from tests.support.sessions import ended_event, make_manifest, phase_event

MS = 1_000_000
POWER = SensorInfo("power/in", "W", "test", role="total", averages=False)


def ab_manifest(until: float = 0.01) -> Manifest:
    variants = tuple(Variant(Model(f"/m/{name}.onnx"), EngineInfo()) for name in ("one", "other"))
    return replace(make_manifest(POWER), ab=Ab(variants, until))


@cache
def run_of(turns: Plan, ratio: float, *, seed: int = 0, after_switch: float = 1.0, drift: float = 0.0) -> Inferences:
    """Inferences of a millisecond, of B times `ratio`; slower by `after_switch` in the first 38 ms of a span."""
    random, rows = np.random.default_rng(seed), []
    for side in (0, 1):
        for begin, end in turns.spans(side):
            t = begin
            while t < end:
                slow = after_switch if t - begin < 38 * MS and begin > turns.begin_ns else 1.0
                shift = 1 + drift * (t - turns.begin_ns) / (turns.end_ns - turns.begin_ns)
                latency = int(MS * random.lognormal(0, 0.05) * (ratio if side else 1) * slow * shift)
                rows.append((t, latency, 0, 0, MEASURE, True, side))
                t += latency + 10_000
    made = np.array(rows, INFERENCE)
    ordered: Inferences = made[np.argsort(made["t_ns"], kind="stable")]
    return ordered


def watts(turns: Plan, of_b: float) -> Readings:
    """Ten readings a second: 4 W, and in turns of B `of_b` W."""
    spans = turns.spans(1)
    t_ns = np.arange(turns.begin_ns, turns.end_ns, NS // 10)
    is_b = [any(begin <= t < end for begin, end in spans) for t in t_ns]
    return np.array([(t, 0, of_b if b else 4.0) for t, b in zip(t_ns, is_b, strict=True)], READING)


def batches_of(
    turns: Plan, inferences: Inferences, readings: Readings | None = None, *, pieces: int = 7
) -> list[Batch]:
    begin = read_event(turns.begin_ns, "ab-turns", "info", "engine", "turns begin", turns.to_json())
    batches = [Batch(manifest=ab_manifest(), events=(phase_event(0, "measure"), begin))]
    ends = np.linspace(0, turns.end_ns + NS, pieces + 1)[1:].astype(int).tolist()
    start = 0
    for end in ends:
        found = inferences[(inferences["t_ns"] >= start) & (inferences["t_ns"] < end)]
        read = np.empty(0, READING) if readings is None else readings
        batches.append(Batch(end, found, readings=read[(read["t_ns"] >= start) & (read["t_ns"] < end)]))
        start = end
    return batches


def events_of(batches: Sequence[Batch]) -> list[Event]:
    quads = QuadEvents()
    return [event for batch in batches for event in quads.fold(batch)]


def over_loads(events: Sequence[Event], *, spread: float = 0.0, seed: int = 0) -> list[Event]:
    """The same quads, three of each load. Loads differ by `spread`: B's ratio to A has that standard deviation."""
    offs = np.exp(np.random.default_rng(seed).normal(0, spread, 99))
    made = []
    for event in events:
        if isinstance(event.body, QuadDone) and not event.body.alone:
            load = event.body.quad // 3
            body = replace(event.body, load=load, p50_ratio=float((event.body.p50_ratio or 1) * offs[load]))
            event = replace(event, body=body)  # noqa: PLW2901
        made.append(event)
    return made


def view_of(events: Sequence[Event], turns: Plan, until: float = 0.01) -> AbView:
    fold = AbFold()
    fold.on_event(read_event(0, "ab-turns", "info", "engine", "", turns.to_json()))
    for event in events:
        fold.on_event(event)
    view = fold.view(ab_manifest(until))
    assert view is not None
    return view


TURNS = plan(1 * NS, MS, duration_ns=16 * NS, seed=4)


@pytest.mark.parametrize(("ratio", "verdict"), [(1.05, "slower"), (0.95, "faster"), (1.0, "same"), (1.004, "same")])
def test_the_ratio_of_b_to_a_is_found(ratio: float, verdict: str) -> None:
    view = view_of(over_loads(events_of(batches_of(TURNS, run_of(TURNS, ratio)))), TURNS)
    p50, throughput = view.ratios["p50"], view.ratios["throughput"]
    assert p50
    assert throughput
    assert p50.value == pytest.approx(ratio, abs=0.004)
    assert p50.ci95[0] <= ratio + 0.001
    assert p50.ci95[1] >= ratio - 0.001
    assert (p50.verdict, throughput.verdict) == (verdict, verdict)
    assert throughput.value == pytest.approx(1 / ratio, abs=0.01)
    assert view.is_resolved
    assert view.ratios["energy"] is None


def test_a_drift_falls_on_both_alike() -> None:
    view = view_of(events_of(batches_of(TURNS, run_of(TURNS, 1.0, drift=0.5))), TURNS)
    assert view.ratios["p50"]
    assert view.ratios["p50"].value == pytest.approx(1, abs=0.005)


def test_what_follows_a_switch_is_left_out_and_counted() -> None:
    events = events_of(batches_of(TURNS, run_of(TURNS, 1.05, after_switch=3.0)))
    (settled,) = [event for event in events if isinstance(event.body, TurnsSettled)]
    assert settled.body.left_out_ns == 40 * MS
    view = view_of(events, TURNS)
    assert view.ratios["p99"]
    assert view.ratios["p99"].value == pytest.approx(1.05, abs=0.02)
    assert all(variant.left_out > 0 for variant in view.variants)
    undisturbed = events_of(batches_of(TURNS, run_of(TURNS, 1.05)))
    assert [e.body.left_out_ns for e in undisturbed if isinstance(e.body, TurnsSettled)] == [10 * MS]


def test_energy_is_compared_by_what_was_read_in_the_turns() -> None:
    """B draws a quarter more, and is as fast."""
    view = view_of(events_of(batches_of(TURNS, run_of(TURNS, 1.0), watts(TURNS, 5.0))), TURNS)
    energy = view.ratios["energy"]
    assert energy
    assert energy.value == pytest.approx(1.25, abs=0.02)
    assert energy.verdict == "higher"
    assert view.variants[0].energy_mj == pytest.approx(4.0, rel=0.05)  # 4 W, a thousand a second


def test_the_quads_are_the_same_however_the_batches_are_cut() -> None:
    inferences = run_of(TURNS, 1.02)
    few, many = (events_of(batches_of(TURNS, inferences, watts(TURNS, 4.0), pieces=n)) for n in (1, 113))
    assert few == many
    assert (
        len([event for event in few if isinstance(event.body, QuadDone)]) == 6 + len(TURNS.order) // 4 - 1
    )  # the last is not known to be over


def test_when_the_time_is_over_the_last_quad_counts() -> None:
    batches = batches_of(TURNS, run_of(TURNS, 1.0))
    ends = {reason: [*batches, Batch(events=(ended_event(TURNS.end_ns, reason),))] for reason in ("duration", "user")}
    whole, stopped = (len([e for e in events_of(each) if isinstance(e.body, QuadDone)]) for each in ends.values())
    assert (whole, stopped) == (6 + len(TURNS.order) // 4, 6 + len(TURNS.order) // 4 - 1)


@pytest.mark.parametrize(("value", "words"), [(1.05, "+5.0 % (3.0 to 7.0)"), (0.012, "x 0.012 (0.0118 to 0.0122)")])
def test_a_change_is_told_in_percent_or_as_a_factor(value: float, words: str) -> None:
    ends = (1.03, 1.07) if value > 1 else (0.0118, 0.0122)
    assert change_words(Ratio(value, ends, "slower", None)) == words


def test_a_turn_in_which_nothing_ran_is_no_quad() -> None:
    inferences = run_of(TURNS, 1.0)
    begin, end = TURNS.quads_ns, TURNS.quads_ns + TURNS.turn_ns
    halted = inferences[(inferences["t_ns"] < begin) | (inferences["t_ns"] >= end)]
    whole, less = (len(events_of(batches_of(TURNS, rows))) for rows in (inferences, halted))
    assert whole - less == 1


def test_before_enough_quads_nothing_is_claimed_and_it_is_told_why() -> None:
    events = events_of(batches_of(TURNS, run_of(TURNS, 1.05)))
    view = view_of(events[:9], TURNS)
    assert view.ratios["p50"] is None
    assert not view.is_resolved
    assert view.smallest["p50"] == pytest.approx(0.003, abs=0.003)
    assert view.too_few == TooFew(quads=2, empty=0, least=3, needs_s=4 * TURNS.turn_ns / NS)
    assert ab_document(view)["too_few"] == {"quads": 2, "empty": 0, "least": 3, "needs_s": 4 * TURNS.turn_ns / NS}
    assert reading_words(view) == "2 of the 3 quads of an interval: 0.5s more would tell (longer --max-duration)"


def test_of_three_quads_there_is_a_wide_interval() -> None:
    events = events_of(batches_of(TURNS, run_of(TURNS, 1.05)))
    wide, narrow = (view_of(events[: 7 + quads], TURNS) for quads in (3, 6))
    assert (wide.quads, wide.too_few) == (3, None)
    assert (p50 := wide.ratios["p50"])
    assert (later := narrow.ratios["p50"])
    assert p50.verdict == "unknown"
    assert p50.ci95[0] < later.ci95[0] < 1.05 < later.ci95[1] < p50.ci95[1]
    twice = view_of(events_of(batches_of(TURNS, run_of(TURNS, 2.0)))[:10], TURNS).ratios["p50"]
    assert twice is not None
    assert twice.verdict == "slower"


@pytest.mark.parametrize("quads", [0, 1, 3])
def test_a_session_that_is_stopped_early_keeps_its_first_quads(quads: int) -> None:
    """Later, four quads show for how long the latency is disturbed after a switch."""
    rows = run_of(TURNS, 1.05)
    stopped_ns = TURNS.quads_ns + 4 * quads * TURNS.turn_ns + TURNS.turn_ns // 2
    until = rows[rows["t_ns"] < stopped_ns]
    batches = batches_of(TURNS, until)
    ended = replace(ended_event(stopped_ns, "user"), body=SessionOver("ended", "user", last_end_ns=stopped_ns))
    batches.append(Batch(stopped_ns, events=(ended,)))
    view = view_of([*events_of(batches), ended], TURNS)
    assert view.quads == quads
    assert (view.left_out_ns is None) == (quads == 0)
    assert (view.too_few is None) == (quads == 3)
    assert view.too_few is None or view.too_few.empty == 0


def test_empty_quads_are_counted_up_to_the_end() -> None:
    rows = run_of(TURNS, 1.0)
    from_ns = TURNS.quads_ns - TURNS.turn_ns  # A still runs alone
    ends = ended_event(TURNS.end_ns, "duration")
    only_a = [*events_of(batches_of(TURNS, rows[rows["variant"] == 0])), ends]
    view = view_of(only_a, TURNS)
    assert view.too_few == TooFew(quads=0, empty=TURNS.quads, least=3, needs_s=None)
    assert "longer turns would tell (--turn)" in reading_words(view)
    assert list(ab_lines(view))[1].strip() == reading_words(view)
    ended = replace(ended_event(from_ns, "user"), body=SessionOver("ended", "user", last_end_ns=from_ns))
    early = [*events_of(batches_of(TURNS, rows[rows["t_ns"] < from_ns])), ended]
    begun = view_of(early, TURNS).too_few
    assert begun == TooFew(quads=0, empty=0, least=3, needs_s=13 * TURNS.turn_ns / NS)
    halved = rows[(rows["variant"] == 0) | (rows["t_ns"] < TURNS.quads_ns + 8 * TURNS.turn_ns)]
    some = view_of([*events_of(batches_of(TURNS, halved)), ends], TURNS).too_few
    assert some is not None
    assert (some.quads, some.empty) == (2, TURNS.quads - 2)
    assert some.needs_s == pytest.approx(4 * TURNS.turn_ns / NS * TURNS.quads / 2)


def test_a_figure_less_precise_than_asked_says_how_long_it_needs() -> None:
    view = view_of(events_of(batches_of(TURNS, run_of(TURNS, 1.0))), TURNS, until=0.0005)
    p99 = view.ratios["p99"]
    assert p99
    assert p99.needs_s
    assert p99.needs_s > 13
    assert not view.is_resolved


def test_a_wide_interval_says_nothing() -> None:
    events = events_of(batches_of(TURNS, run_of(TURNS, 1.0)))
    random = np.random.default_rng(0)
    for number, event in enumerate(events):
        if isinstance(event.body, QuadDone):
            body = replace(event.body, p50_ratio=float(random.lognormal(0, 0.4)))
            events[number] = replace(event, body=body)
    p50 = view_of(events, TURNS).ratios["p50"]
    assert p50
    assert p50.verdict == "unknown"


def test_neighbours_delaying_half_of_the_inferences_hide_nothing() -> None:
    """A median of such a quad lies at a millisecond or at twenty, by chance."""
    rows = run_of(TURNS, 1.05).copy()
    random = np.random.default_rng(1)
    rows["latency_ns"] += (random.random(len(rows)) < 0.5) * (random.gamma(2, 10 * MS, len(rows))).astype(int)
    kept = rows[random.random(len(rows)) < 0.1]  # as few as get a turn
    events = over_loads(events_of(batches_of(TURNS, kept)))
    p50 = view_of(events, TURNS).ratios["p50"]
    assert p50
    assert p50.verdict == "slower"
    quads = [event for event in events if isinstance(event.body, QuadDone)]
    before = [replace(event, body=replace(event.body, p50_ratio=None)) for event in quads]  # as once recorded
    assert (old := view_of(before, TURNS).ratios["p50"])
    assert old.verdict == "unknown"


def test_what_loads_differ_by_is_in_the_interval() -> None:
    """Each quad is precise, and one load of B is a few percent faster or slower than another."""
    events, same = events_of(batches_of(TURNS, run_of(TURNS, 1.0))), 0
    for seed in range(20):
        view = view_of(over_loads(events, spread=0.02, seed=seed), TURNS)
        assert view.loads == 9
        p50 = view.ratios["p50"]
        assert p50
        assert 0.01 < p50.ci95[1] - p50.ci95[0] < 0.08
        assert not view.is_resolved
        same += p50.verdict in ("same", "unknown")
    assert same >= 19


@pytest.mark.parametrize(("loads", "seen"), [(1, "unknown"), (5, "unknown"), (6, "slower")])
def test_few_loads_tell_no_small_difference(loads: int, seen: str) -> None:
    verdicts = []
    for ratio in (1.06, 1.3):
        events = over_loads(events_of(batches_of(TURNS, run_of(TURNS, ratio))))
        kept = [e for e in events if not isinstance(e.body, QuadDone) or (e.body.load or 0) < loads]
        if loads == 1:  # as in recordings in which each was loaded once
            kept = [replace(e, body=replace(e.body, load=None)) if isinstance(e.body, QuadDone) else e for e in events]
        view = view_of(kept, TURNS)
        assert view.loads == loads
        p50 = view.ratios["p50"]
        verdicts.append(p50 and p50.verdict)
    assert verdicts == [seen, "slower"]


def test_a_hundredth_is_found_over_loads() -> None:
    """A session of 8 loads or more whose loads differ by 0.3 %, as of models above a millisecond."""
    events = events_of(batches_of(TURNS, run_of(TURNS, 1.01)))
    verdicts = []
    for seed in range(20):
        p50 = view_of(over_loads(events, spread=0.003, seed=seed), TURNS, until=0.003).ratios["p50"]
        verdicts.append(p50.verdict if p50 else None)
    assert verdicts.count("slower") >= 15
    assert "faster" not in verdicts


def test_quads_of_each_load_are_those_of_its_turns() -> None:
    planner = Planner(16 * NS, 4)
    first = planner.first(NS, MS, NS // 2)
    second = planner.after(first, 1, first.end_ns + NS, NS // 2)
    assert second
    rows = np.concatenate([run_of(first, 1.02), run_of(second, 1.1)])
    begin = Event(second.begin_ns, LoadBegan(1, second), "info", "engine", "")
    batches = batches_of(first, run_of(first, 1.02))
    late = rows[rows["t_ns"] >= second.begin_ns]
    batches += [Batch(second.begin_ns, events=(begin,)), Batch(second.end_ns, late)]
    batches.append(Batch(events=(ended_event(second.end_ns, "duration"),)))
    quads = [event.body for event in events_of(batches) if isinstance(event.body, QuadDone)]
    assert [quad.quad for quad in quads] == [*range(-6, first.quads + second.quads)]
    assert [quad.load for quad in quads] == [0] * (6 + first.quads) + [1] * second.quads
    ratios = [np.mean([quad.p50_ratio for quad in quads if quad.load == load and not quad.alone]) for load in (0, 1)]
    assert ratios == pytest.approx([1.02, 1.1], abs=0.01)


def test_hostile_quads_are_passed_over() -> None:
    sound = next(
        event for event in events_of(batches_of(TURNS, run_of(TURNS, 1.0))) if isinstance(event.body, QuadDone)
    )
    changes = ({"a_p50_ns": -1}, {"b_hz": "x"}, {"a_quantiles_ns": "1,2"}, {"b_quantiles_ns": None}, {"a_count": None})
    events = [replace(sound, body=decoded("ab-quad", {**data_of(sound.body), **change})) for change in changes]
    assert view_of(events, TURNS).quads == 0


def test_settling_is_not_seen_in_noise() -> None:
    random = np.random.default_rng(0)
    t_ns = np.arange(0, 250 * MS, MS)
    turns = [(t_ns, random.lognormal(0, 0.3, len(t_ns))) for _ in range(8)]
    assert settling_ns(turns, 250 * MS) == 10 * MS


def analysed(readings: Readings | None = None) -> Analysis:
    analysis = Analysis()
    batches = batches_of(TURNS, run_of(TURNS, 1.05), readings)
    quads = QuadEvents()
    for batch in batches:
        analysis.fold(replace(batch, events=(*batch.events, *over_loads(quads.fold(batch)))))
    analysis.fold(Batch(TURNS.end_ns + NS, events=(ended_event(TURNS.end_ns + NS, "duration"),)))
    return analysis


def test_the_text_has_the_energy_of_each_and_none_of_both_together() -> None:
    lines = summary(report(analysed(watts(TURNS, 5.0)))).splitlines()
    (energy,) = (line for line in lines if line.startswith("energy"))
    assert energy.endswith("higher")


def test_the_report_has_it_and_its_verdict_begins_with_it() -> None:
    document = report_document(analysed())
    assert document["ab"]["ratios"]["p50"]["verdict"] == "slower"
    assert [variant["name"] for variant in document["ab"]["variants"]] == ["one.onnx", "other.onnx"]
    assert document["verdict"]["words"].startswith("FINISHED: B is slower at p50: +4.8 %")
    assert document["ab"]["loads"] == 9
    assert document["slowdowns"] in (None, [])
    assert set(document["ab"]["ratios"]) == {"p50", "p90", "p99", "throughput", "energy"}


def test_no_other_session_has_that_part() -> None:
    analysis = Analysis()
    analysis.fold(Batch(manifest=make_manifest()))
    assert "ab" not in report_document(analysis)


# Each threshold of a comparison in turns, on both of its sides.


@cache
def sound() -> Event:
    events = events_of(batches_of(TURNS, run_of(TURNS, 1.0)))
    return next(event for event in events if isinstance(event.body, QuadDone) and not event.body.alone)


def judged(ratios: Sequence[float], *, per_load: int = 3, until: float = 0.01) -> AbView:
    """Of quads with these ratios of p50, so many of each load."""
    assert isinstance(sound().body, QuadDone)
    bodies = [
        replace(sound().body, quad=number, load=number // per_load, p50_ratio=float(ratio))  # type: ignore[type-var]
        for number, ratio in enumerate(ratios)
    ]
    return view_of([replace(sound(), body=body) for body in bodies], TURNS, until)


def verdict(ratios: Sequence[float], **more: float) -> str | None:
    p50 = judged(ratios, **more).ratios["p50"]  # type: ignore[arg-type]
    return p50 and p50.verdict


def nearly(ratio: float, count: int) -> list[float]:
    return [ratio * (1 + 0.001 * (-1) ** number) for number in range(count)]


@pytest.mark.parametrize(
    ("quads", "per_load", "is_resolved"), [(19, 2, False), (20, 2, True), (21, 3, False), (24, 3, True)]
)
def test_twenty_quads_of_eight_loads_resolve_a_session(quads: int, per_load: int, is_resolved: bool) -> None:
    assert judged(nearly(1.0, quads), per_load=per_load).is_resolved is is_resolved


@pytest.mark.parametrize(("ratio", "expected"), [(1.12, "unknown"), (1.14, "slower")])
def test_one_load_may_differ_by_twelve_percent_from_the_next(ratio: float, expected: str) -> None:
    assert verdict(nearly(ratio, 24), per_load=24) == expected


@pytest.mark.parametrize(("ratio", "expected"), [(1.0029, "same"), (1.0031, "slower")])
def test_three_thousandths_are_the_least_difference(ratio: float, expected: str) -> None:
    assert verdict([ratio] * 27, until=0.0005) == expected


@pytest.mark.parametrize(("spread", "expected"), [(0.16, "same"), (0.2, "unknown")])
def test_an_interval_within_five_percent_is_the_same(spread: float, expected: str) -> None:
    assert verdict(np.linspace(1 - spread, 1 + spread, 27).tolist(), per_load=1) == expected


def settled_ms(*early: float) -> float:
    """Of turns of 250 ms that were so much slower from 20 to 40 ms after the switch."""
    t_ns = np.arange(0, 250 * MS, MS)
    is_early = (t_ns >= 20 * MS) & (t_ns < 40 * MS)
    return settling_ns([(t_ns, np.where(is_early, 1 + each, 1.0)) for each in early], 250 * MS) / MS


@pytest.mark.parametrize(("share", "expected"), [(0.019, 10), (0.021, 40)])
def test_a_latency_is_off_after_a_switch_by_two_percent(share: float, expected: float) -> None:
    assert settled_ms(*[share] * 8) == expected


@pytest.mark.parametrize(("scatter", "expected"), [(0.03, 40), (0.033, 10)])
def test_a_latency_is_off_by_three_standard_errors(scatter: float, expected: float) -> None:
    assert settled_ms(*[0.05 + scatter * (-1) ** turn for turn in range(8)]) == expected
