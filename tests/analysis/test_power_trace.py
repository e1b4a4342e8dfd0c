"""Fast power traces: aligned to the inferences and cut by them, against traces whose truth is known."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from edgetop.analysis.trace_alignment import Alignment, _is_foreign, align, compared, needs_closer_look, places
from edgetop.analysis.trace_cut import PHASES, TraceCut, TraceView
from edgetop.analysis.trace_overview import MOST_POINTS, TraceOverview, Window
from edgetop.analysis.trace_overview import PHASES as ALIGNED_PHASES
from edgetop.wording.trace_words import trace_document, trace_lines, trace_unknown_words
from tests.support.power_traces import Floats, Traced
from tests.support.thorough import mostly_thorough

BACK_TO_BACK = Traced(1)
PACED = Traced(2, period=0.02)
SESSIONS = {
    "back to back": BACK_TO_BACK,
    "paced": PACED,
    "with a drift": replace(BACK_TO_BACK, seed=3, count=6000, drift=60e-6, offset=-1.5),
    "at 1 kHz": replace(PACED, seed=4, rate=1000.0, latency=0.03, period=0.05, count=1500),
    "at 100 kHz": Traced(5, latency=0.002, count=2000, rate=100_000.0, noise=0.5),
    "of slow inferences": Traced(6, latency=0.3, count=300, rate=1000.0, jitter=0.05),
    "with long pauses": Traced(11, latency=0.003, period=0.05, count=300, rate=100_000.0),
    "once a second": Traced(12, latency=0.003, period=1.0, count=120, rate=20_000.0),
    "that began before the session": replace(BACK_TO_BACK, seed=7, offset=-4.25),
}


def aligned(session: Traced, samples: Iterable[tuple[Floats, Floats]] | None = None) -> Alignment:
    """Align a session in its own log, or in a log with these samples, as `edgetop trace` does."""
    pieces, seen = list(samples or session.pieces()), TraceOverview(session.starts, session.lengths)
    for t_s, watts in pieces:
        seen.add(t_s, watts)
    windows = seen.windows
    if needs_closer_look(seen.overview, session.starts, session.lengths):
        found = places(seen.overview, session.starts, session.lengths)[0]
        closer = TraceOverview(session.starts, session.lengths, found)
        for t_s, watts in pieces:
            closer.add(t_s, watts)
        windows = closer.windows
    return align(seen.overview, windows, session.starts, session.lengths)


@cache
def alignment_of(name: str) -> Alignment:
    """Of one of the sessions, made once: it takes longer than all that is asked of it."""
    return aligned(replace(SESSIONS[name]))


def cut(session: Traced, alignment: Alignment | None = None, shares: tuple[float, ...] = (0.2, 0.5, 0.3)) -> TraceView:
    found = TraceCut(alignment or Alignment(session.offset, session.drift), session.starts, session.lengths)
    for t_s, watts in session.pieces():
        found.add(t_s, watts)
    return found.view(shares)


@pytest.mark.parametrize("name", mostly_thorough(SESSIONS, next(iter(SESSIONS))))
def test_a_trace_is_aligned_by_the_pattern_of_inferences(name: str) -> None:
    session = replace(SESSIONS[name])
    found = alignment_of(name)
    middle_s = float(session.starts_s.mean())
    at_s = (middle_s - session.offset) / (1 + session.drift)
    assert found.confidence is not None
    assert found.confidence >= 0.9
    assert found.offset_s + (1 + found.drift) * at_s == pytest.approx(middle_s, abs=0.03 * session.latency)
    half_s = float(session.starts_s[-1] - session.starts_s[0]) / 2
    assert found.drift == pytest.approx(session.drift, abs=max(20e-6, 0.05 * session.latency / half_s))


def test_equal_inferences_without_pauses_are_not_aligned() -> None:
    session = replace(BACK_TO_BACK, jitter=0.0, rest=0.0, noise=0.0, latency=0.01 - 20e-6)
    found = aligned(session)
    assert (found.is_certain, found.windows) == (False, 0)


def test_long_pauses_do_not_make_windows_larger() -> None:
    session = SESSIONS["with long pauses"]
    seen = TraceOverview(session.starts, session.lengths)
    for t_s, watts in session.pieces():
        seen.add(t_s, watts)
    pieces = len(list(session.pieces()))  # a step may be divided between two pieces
    assert 0 < max(len(window.t_s) for window in seen.windows) <= MOST_POINTS + pieces


# Drift, and length of the session in minutes.
LONG = [(20e-6, 10), (0.0, 30), (-80e-6, 30), (20e-6, 60)]


@pytest.mark.parametrize("case", mostly_thorough(LONG, LONG[0]))
def test_short_inferences_at_even_intervals_are_aligned_however_long_the_session_is(case: tuple[float, int]) -> None:
    """The drift moves the session by several inferences, and a bin of the whole trace is longer than one."""
    drift, minutes = case
    session = Traced(31, latency=0.003, period=0.05, count=minutes * 60 * 20, rate=2_000.0, offset=1.75, drift=drift)
    found = aligned(session)
    assert (found.is_certain, found.is_unique) == (True, True)
    placed_s = found.session_ns((session.starts_s[[0, -1]] - session.offset) / (1 + drift)) / 1e9
    assert placed_s == pytest.approx(session.starts_s[[0, -1]], abs=0.2 * session.latency)


def test_noise_is_not_aligned() -> None:
    session, random = replace(BACK_TO_BACK), np.random.default_rng(8)
    seen = TraceOverview(session.starts, session.lengths)
    for t_s, _ in session.pieces():
        seen.add(t_s, random.normal(5, 1, len(t_s)))
    found = align(seen.overview, seen.windows, session.starts, session.lengths)
    assert not found.is_certain
    assert cut(session, found).unknown == "not-aligned"


@pytest.mark.parametrize("name", mostly_thorough(SESSIONS, "back to back", "with a drift"))
def test_the_energy_of_an_inference_and_of_its_operators_is_found(name: str) -> None:
    session = replace(SESSIONS[name])
    found = cut(session, alignment_of(name))
    assert found.unknown is None
    assert found.energy_j
    assert found.energy_j.value * 1e3 == pytest.approx(session.true_mj, rel=0.01)
    assert found.inferences >= session.count - 3
    length_mj = session.lengths_s.mean() * 1e3
    expected = [share * watts * length_mj for share, watts in zip(session.shares, session.watts, strict=True)]
    # Back to back, the pattern hardly changes if the trace is moved by a phase, which moves the operators' borders.
    phase_mj = max(np.abs(np.diff(session.watts))) * length_mj / ALIGNED_PHASES
    assert [one.energy_mj for one in found.operators] == pytest.approx(expected, rel=0.02, abs=1.5 * phase_mj)
    assert sum(one.energy_mj for one in found.operators) == pytest.approx(found.energy_j.value * 1e3, rel=0.005)


def test_slow_samples_give_an_inference_its_end_and_not_the_pause_before_it() -> None:
    """If an inference of ten samples began half a sample too early, its energy would be 8 % too low."""
    watts, shares = (3.0, 4.0, 12.0), (0.4, 0.3, 0.3)
    session = Traced(7, count=2000, period=0.0253137, rate=1_000.0, shares=shares, watts=watts)
    view = cut(replace(session))
    assert view.energy_j
    assert view.energy_j.value * 1e3 == pytest.approx(session.true_mj, rel=0.005)


def test_the_waveform_has_the_power_of_each_phase() -> None:
    waveform = np.array(cut(replace(PACED)).waveform_w)
    for begin, end, watts in ((0.02, 0.18, 4.0), (0.22, 0.68, 8.0), (0.72, 0.98, 5.0)):
        inside = waveform[int(begin * PHASES) : int(end * PHASES)]
        assert inside == pytest.approx(watts, abs=0.1)


def test_the_power_between_inferences_is_left_out() -> None:
    found = cut(replace(PACED))
    assert found.between_w == pytest.approx(PACED.idle, rel=0.02)
    assert found.mean_w == pytest.approx(np.dot(PACED.shares, PACED.watts), rel=0.01)


def test_the_peak_has_its_inference_and_its_operator() -> None:
    session = replace(BACK_TO_BACK, noise=0.0)
    at_s = float(session.starts_s[1234] + 0.9 * session.lengths_s[1234])
    found = TraceCut(Alignment(session.offset), session.starts, session.lengths)
    for t_s, watts in session.pieces():
        near = np.abs(session.offset + t_s - at_s) <= 0.6 / session.rate
        found.add(t_s, np.where(near, 30.0, watts))
    peak = found.view(session.shares).peak
    assert peak
    assert (peak.watts, peak.inference, peak.operator) == (30.0, 1234, 2)
    assert peak.phase == pytest.approx(0.9, abs=0.02)
    assert found.view(session.shares).usual_peak_w == 8.0


def test_the_interval_of_the_energy_contains_the_truth() -> None:
    sessions = [Traced(seed, count=600, noise=1.0) for seed in range(40, 60)]
    found = [(cut(one).energy_j, one.true_mj) for one in sessions]
    inside = [abs(mean.value * 1e3 - truth) <= mean.half_width * 1e3 for mean, truth in found if mean]
    assert len(inside) == len(sessions)
    assert np.mean(inside) >= 0.9


@pytest.mark.parametrize(
    ("session", "why"), [(Traced(9, count=99), "few-inferences"), (Traced(9, count=200, rate=500.0), "few-samples")]
)
def test_too_little_gives_a_reason_and_no_figure(session: Traced, why: str) -> None:
    found = cut(session)
    assert (found.unknown, found.energy_j) == (why, None)


def test_inferences_in_a_gap_of_the_trace_do_not_count() -> None:
    session = replace(BACK_TO_BACK)
    found = TraceCut(Alignment(session.offset), session.starts, session.lengths)
    for t_s, watts in session.pieces():
        kept = (t_s < 10) | (t_s > 15)
        found.add(t_s[kept], watts[kept])
    view = found.view()
    assert view.energy_j
    assert view.energy_j.value * 1e3 == pytest.approx(session.true_mj, rel=0.01)
    lost = np.count_nonzero((session.starts_s - session.offset > 10) & (session.starts_s - session.offset < 15))
    assert session.count - view.inferences == pytest.approx(lost, abs=2)


def test_the_result_does_not_depend_on_the_pieces() -> None:
    session = replace(PACED, noise=0.0)
    views = []
    for at_once in (1_000, 50_000):
        found = TraceCut(Alignment(session.offset), session.starts, session.lengths)
        for t_s, watts in session.pieces(at_once):
            found.add(t_s, watts)
        views.append(found.view(session.shares))
    assert views[0].inferences == views[1].inferences
    assert views[0].waveform_w == pytest.approx(views[1].waveform_w, rel=1e-6)
    assert views[0].energy_j
    assert views[1].energy_j
    assert views[0].energy_j.value == pytest.approx(views[1].energy_j.value, rel=1e-9)


@pytest.mark.parametrize(("confidence", "is_certain"), [(0.59, False), (0.61, True)])
def test_an_alignment_is_certain_if_three_fifths_of_the_windows_agree(confidence: float, is_certain: bool) -> None:
    assert Alignment(0.0, confidence=confidence).is_certain is is_certain


@pytest.mark.parametrize(("count", "windows"), [(19, 0), (21, 1)])
def test_an_offset_is_searched_from_twenty_inferences_on(count: int, windows: int) -> None:
    session = Traced(2, count=count, period=0.02)
    seen, ((t_s, watts),) = TraceOverview(session.starts, session.lengths), session.pieces()
    seen.add(t_s, watts)
    assert align(seen.overview, [Window(t_s, watts)], session.starts, session.lengths).windows == windows


def test_a_single_window_is_one_of_three_that_should_agree() -> None:
    session = Traced(2, count=40, period=0.02)
    seen = TraceOverview(session.starts, session.lengths)
    for t_s, watts in session.pieces():
        seen.add(t_s, watts)
    found = align(seen.overview, seen.windows, session.starts, session.lengths)
    assert (found.windows, found.confidence) == (1, pytest.approx(1 / 3))


def test_an_inference_counts_if_samples_cover_95_percent_of_it() -> None:
    session = Traced(2, count=120, rate=100_000.0, noise=0.0, period=0.02)
    for part, is_covered in ((0.04, True), (0.06, False)):
        assert covered(session, part) == 120 - (not is_covered), part


@pytest.mark.parametrize(("intervals", "is_filled"), [(19, True), (21, False)])
def test_twenty_intervals_without_a_sample_are_a_gap(intervals: int, is_filled: bool) -> None:
    session = Traced(2, count=120, rate=20_000.0, noise=0.0, period=0.02)
    assert covered(session, (intervals - 0.5) * 0.5 / session.rate / session.lengths_s[60] * 2) == 120 - (not is_filled)


def covered(session: Traced, part: float) -> int:
    """Return the number of inferences that the trace covers if it lacks this part of the 61st."""
    begin_s = session.starts_s[60] + 0.3 * session.lengths_s[60] - session.offset
    found = TraceCut(Alignment(session.offset), session.starts, session.lengths)
    for t_s, watts in session.pieces():
        kept = (t_s < begin_s) | (t_s > begin_s + part * session.lengths_s[60])
        found.add(t_s[kept], watts[kept])
    return found.view().inferences


@pytest.mark.parametrize(("samples", "unknown"), [(9.5, "few-samples"), (10.5, None)])
def test_a_waveform_needs_ten_samples_of_an_inference(samples: float, unknown: str | None) -> None:
    assert cut(Traced(2, count=200, latency=0.01, rate=100 * samples, period=0.02)).unknown == unknown


def test_inferences_at_even_intervals_are_told_by_where_the_load_begins() -> None:
    session = Traced(11, period=0.02, jitter=0.0, count=1500, noise=0.1)
    found = aligned(session)
    assert found.is_unique
    assert found.offset_s == pytest.approx(session.offset, abs=0.03 * session.latency)


def test_a_part_of_a_load_that_is_too_regular_fits_in_several_places() -> None:
    """The figures hold, because any other inference is like this one."""
    session = Traced(11, period=0.02, jitter=0.0, count=1500, noise=0.1)
    seen = TraceOverview(session.starts, session.lengths)
    found_parts = [(t_s[(t_s > 8) & (t_s < 22)], watts[(t_s > 8) & (t_s < 22)]) for t_s, watts in session.pieces()]
    for t_s, watts in found_parts:
        seen.add(t_s, watts)
    found = align(seen.overview, seen.windows, session.starts, session.lengths)
    assert not found.is_unique
    cutting = TraceCut(found, session.starts, session.lengths)
    for t_s, watts in found_parts:
        cutting.add(t_s, watts)
    view = cutting.view()
    assert view.energy_j
    assert view.energy_j.value * 1e3 == pytest.approx(session.true_mj, rel=0.01)
    assert "may be off by a whole number of them" in "\n".join(trace_lines(view, ()))
    assert trace_document(view, ())["alignment"]["unique"] is False


SHORT = {"count": 400, "rate": 5_000.0}
OTHER_MODEL = {"latency": 0.014, "watts": (9.0, 12.0, 6.0)}
# The session, and the other run in its log.
TWO_RUNS = {
    "of one model back to back": (Traced(61, **SHORT), Traced(62, **SHORT)),
    "of one model at even intervals": (Traced(63, period=0.02, **SHORT), Traced(64, period=0.02, **SHORT)),
    "of two models back to back": (Traced(65, **SHORT), Traced(66, **OTHER_MODEL, **SHORT)),
    "of two models at equal intervals": (
        Traced(67, period=0.02, **SHORT), Traced(68, period=0.02, **OTHER_MODEL, **SHORT),
    ),
    "a short one and a long one": (Traced(69, **SHORT), Traced(70, count=2000, rate=5_000.0)),
    "a long one and a short one": (Traced(71, count=2000, rate=5_000.0), Traced(72, **SHORT)),
    "with noise": (Traced(73, period=0.02, noise=2.0, **SHORT), Traced(74, period=0.02, noise=2.0, **SHORT)),
}  # fmt: skip


def in_a_log_of_two(session: Traced, other: Traced, *, is_first: bool) -> tuple[float, Alignment]:
    """The true offset of a session in a log that holds another run after or before it, and what is found."""
    session, other = replace(session), replace(other)
    offset_s, samples = (session.offset, session.beside(other)) if is_first else session.after(other)
    return offset_s, aligned(session, samples)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", mostly_thorough(TWO_RUNS, "of one model back to back"))
def test_of_two_runs_in_a_log_the_one_of_the_session_is_found(name: str, is_first: bool) -> None:
    session, other = TWO_RUNS[name]
    offset_s, found = in_a_log_of_two(session, other, is_first=is_first)
    assert (found.is_certain, found.rivals_s) == (True, ())
    # Not the offsets: they hold at the log's beginning, which the drift, fitted in the run itself, need not reach.
    placed_s = found.session_ns(session.starts_s - offset_s) / 1e9
    assert placed_s[len(placed_s) // 2] == pytest.approx(
        session.starts_s[len(placed_s) // 2], abs=0.05 * session.latency
    )
    assert placed_s == pytest.approx(session.starts_s, abs=0.1 * session.latency)


@pytest.mark.parametrize("is_first", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_two_runs_that_cannot_be_told_apart_give_no_figure(is_first: bool) -> None:
    exact = {"period": 0.02, "jitter": 0.0, **SHORT}
    session, other = Traced(75, **exact), Traced(76, **exact)
    offset_s, found = in_a_log_of_two(session, other, is_first=is_first)
    true_s = float(session.starts_s[0]) - offset_s
    assert len(found.rivals_s) == 2
    assert min(abs(one - true_s) for one in found.rivals_s) < 0.05
    assert not found.is_certain
    words = trace_unknown_words(cut(replace(session), found))
    assert words.startswith("the session fits several runs in the log, which begin at 00:00:02 and 00:00:")
    assert trace_document(cut(replace(session), found), ())["energy_mj"] is None


# Jitter, seed, and whether the session is the first run.
NEARLY_EQUAL = [(0.005, 203, True), (0.003, 201, False), (0.003, 203, False)]


@pytest.mark.parametrize("case", mostly_thorough(NEARLY_EQUAL, NEARLY_EQUAL[0]))
def test_of_nearly_equal_latencies_no_wrong_run_is_taken(case: tuple[float, int, bool]) -> None:
    """The other run fits well where its load begins and ends, better than the session's own, but nowhere else."""
    jitter, seed, is_first = case
    session, other = (Traced(of, jitter=jitter, **SHORT) for of in (seed, seed + 100))
    _, found = in_a_log_of_two(session, other, is_first=is_first)
    assert not found.is_certain
    assert len(found.rivals_s) == 2


def test_without_an_inference_no_log_is_read_once_more() -> None:
    session = Traced(12, count=300, period=0.02)
    seen = TraceOverview(session.starts, session.lengths)
    for t_s, watts in session.pieces():
        seen.add(t_s, watts)
    assert not needs_closer_look(seen.overview, session.starts[:0], session.lengths[:0])
    assert align(seen.overview, seen.windows, session.starts[:0], session.lengths[:0]).confidence == 0


def test_a_reversed_probe_gives_no_energy() -> None:
    session = Traced(12, count=300, period=0.02)
    found = TraceCut(Alignment(session.offset), session.starts, session.lengths)
    for t_s, watts in session.pieces():
        found.add(t_s, -watts)
    assert (found.view().unknown, found.view().energy_j) == ("negative", None)
    assert "the probe is reversed" in "\n".join(trace_lines(found.view(), ()))


def test_a_time_far_from_the_others_takes_no_longer() -> None:
    session = Traced(12, count=300, period=0.02)
    seen = TraceOverview(session.starts, session.lengths)
    for t_s, watts in session.pieces():
        seen.add(t_s, watts)
    seen.add(np.array([1e11, 1e11 + 1]), np.array([1.0, 1.0]))  # s, as in a row that is no time
    assert not align(seen.overview, seen.windows, session.starts, session.lengths).is_certain


CERTAIN = Alignment(5.0, confidence=1.0, windows=6)


@pytest.mark.parametrize(
    ("pattern", "contradicts"),
    [
        (CERTAIN, False),
        (replace(CERTAIN, offset_s=5.0009), False),
        (replace(CERTAIN, offset_s=5.0011), True),
        (replace(CERTAIN, drift=2e-5), True),
        (replace(CERTAIN, offset_s=6.0, confidence=0.5), False),
        (replace(CERTAIN, offset_s=6.0, is_unique=False), False),
        (replace(CERTAIN, offset_s=6.0, rivals_s=(1.0, 90.0)), False),
    ],
)
def test_an_offset_is_contradicted_by_a_certain_pattern_a_tenth_of_an_inference_away(
    pattern: Alignment, *, contradicts: bool
) -> None:
    """Inferences of 10 ms over 100 s; 20 ppm are 2 ms in that time."""
    starts = np.arange(0, 100 * 10**9, 10**8)
    lengths = np.full(len(starts), 10**7)
    found = compared(Alignment(5.0, how="marker"), pattern, starts, lengths)
    assert (found.offset_s, found.how) == (5.0, "marker")
    assert found.pattern == (pattern if contradicts else None)


@pytest.mark.parametrize(("jitter", "is_foreign"), [(0.03, True), (0.002, False)])
def test_the_log_of_another_run_at_the_same_rate_is_refused(jitter: float, *, is_foreign: bool) -> None:
    """If latencies hardly scatter, nothing tells the runs apart."""
    session = replace(PACED, seed=60, jitter=jitter, count=1000)
    other = aligned(session, replace(session, seed=61).pieces())
    assert (other.is_foreign, other.is_certain) == (is_foreign, not is_foreign)
    assert not aligned(session).is_foreign


@pytest.mark.parametrize(("samples", "seed"), [(1.5, 16), (2.0, 21), (2.0, 25)])
def test_a_log_of_few_samples_in_an_inference_is_not_taken_for_that_of_another_run(samples: float, seed: int) -> None:
    """Too few samples fall into a phase for the order of the latencies to show."""
    found = aligned(Traced(seed, latency=0.003, period=0.024, count=150, jitter=0.1, rate=samples / 0.003))
    assert (found.is_foreign, found.is_certain) == (False, True)


@pytest.mark.parametrize(
    ("order", "explained", "scatter", "is_foreign"),
    [
        (0.0045, 0.9, 0.028, True),
        (0.0055, 0.9, 0.028, False),
        (0.0, 0.9, 0.016, False),
        (0.0, 0.9, 0.018, True),
        (0.0031, 0.04, 0.9, True),
        (0.105, 1.0, 0.9, False),
    ],
)
def test_latencies_must_explain_the_power_best_in_their_own_order(
    order: float, explained: float, scatter: float, *, is_foreign: bool
) -> None:
    lengths = (1e7 * np.exp(scatter * np.sqrt(2) * np.linspace(-1.2, 1.2, 999))).astype(np.int64)
    spread = np.quantile(np.log(lengths), (0.16, 0.84))
    lengths = (1e7 * np.exp(np.log(lengths / 1e7) * 2 * scatter / (spread[1] - spread[0]))).astype(np.int64)
    assert _is_foreign(order, explained, lengths) == is_foreign
