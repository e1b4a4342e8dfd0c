"""Streams: the models of a program are judged each by itself, and the verdict names the one in trouble."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.findings import NotSettled
from edgetop.analysis.notices import notices
from edgetop.analysis.session_gates import NoSuchStream, judge_gate, matching, parse_gate
from edgetop.analysis.session_report import judged_gates, report
from edgetop.analysis.slowdowns.slowdowns import judged
from edgetop.analysis.stream_names import distinct_names
from edgetop.analysis.stream_verdicts import Judged, join_verdicts
from edgetop.analysis.verdict_reasons import OfStreams, State, WasSlowed
from edgetop.cli.printing.comparison_words import comparison_text
from edgetop.cli.printing.report_text import summary
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group, sample
from edgetop.session.batch import Batch
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Watched, WatchedStream
from edgetop.session.records import Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, concatenate
from edgetop.ui.panes.latency_pane import LATENCY
from edgetop.wording import verdict_words
from edgetop.wording.gate_words import gate_words
from edgetop.wording.notice_words import notice_words
from edgetop.wording.report_document import report_document
from tests.support.generator.program_score import score_programs
from tests.support.generator.programs import generate_cold_program, generate_program
from tests.support.screens import area, plain
from tests.support.sessions import (
    MS,
    ended_event,
    make_inferences,
    make_manifest,
    make_readings,
    make_sensor,
    phase_event,
)

DET, CLS = "det.onnx", "cls.onnx"


def calls(
    stream: int, from_s: float, to_s: float, every_ms: float, latency_ms: float, scatter: float = 0.01
) -> Inferences:
    """Return evenly spaced calls of one stream."""
    start = np.arange(from_s * NS, to_s * NS, every_ms * MS).astype(np.int64)
    noise = np.exp(np.random.default_rng(int(from_s) + stream).normal(0, 0.01, len(start)))
    made = make_inferences(start, (latency_ms * MS * noise).astype(np.int64))
    made["stream"] = stream
    return made


def analysed(*parts: Inferences, end_s: float = 120, deadline_ns: int | None = None, is_over: bool = True) -> Analysis:
    """Return the analysis of a program with two models that made these calls."""
    runs = np.concatenate(parts)
    runs = runs[np.argsort(runs["t_ns"], kind="stable")]
    aggregator = SecondAggregator(deadline_ns, split_by="stream")
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    watched = Watched(("./program",), streams=(WatchedStream(f"/m/{DET}"), WatchedStream(f"/m/{CLS}")))
    manifest = make_manifest(load=Load(deadline_ns=deadline_ns), watched=watched)
    ends = (ended_event(int(end_s * NS), "exit"),) if is_over else ()
    whole = Batch(
        int(end_s * NS), runs, seconds, events=(phase_event(0, "measure", runs=None), *ends), manifest=manifest
    )
    return Analysis.of([whole])


@pytest.fixture(scope="module")
def mixed() -> Analysis:
    """A fast model and one that takes fifty times as long: their mix goes from 18 to 1 to 1 to 3, and none slows."""
    return analysed(
        calls(0, 0, 60, 10, 0.5), calls(1, 0, 60, 180, 25),
        calls(0, 60, 120, 240, 0.5), calls(1, 60, 120, 80, 25),
    )  # fmt: skip


@pytest.fixture(scope="module")
def one_slow() -> Analysis:
    """The classifier takes 1.5 times as long from the 60th second on; the detector does not."""
    return analysed(calls(0, 0, 120, 20, 3), calls(1, 0, 60, 100, 25), calls(1, 60, 120, 100, 37.5))


def test_a_mix_that_changes_is_no_slowdown(mixed: Analysis) -> None:
    assert mixed.slowdowns_view().slowdowns == ()
    verdict = mixed.verdict()
    assert verdict.at_end is State.STEADY
    assert verdict.level == "good"


def test_a_model_that_is_slower_behind_others_is_slowed_by_the_mix() -> None:
    parts = calls(0, 0, 60, 10, 0.05), calls(1, 0, 60, 180, 25), calls(0, 60, 120, 240, 0.2), calls(1, 60, 120, 80, 25)
    (slowdown,) = analysed(*parts).slowdowns_view().slowdowns
    assert (slowdown.cause, slowdown.streams) == ("mix", (DET,))
    assert slowdown.start_ns / NS == pytest.approx(60, abs=2)
    assert slowdown.evidence[0].name == CLS
    assert slowdown.evidence[0].usual == pytest.approx(1 / 18, rel=0.05)
    assert slowdown.evidence[0].value == pytest.approx(3, rel=0.05)
    (past,) = analysed(*parts).verdict().past
    assert isinstance(past, OfStreams)
    assert past.names == (DET,)


@pytest.mark.parametrize(("every_ms", "cause", "confidence"), [(22, "unknown", 0.36), (21, "mix", 0.6)])
def test_the_share_of_other_calls_rises_by_fifteen_percent(every_ms: float, cause: str, confidence: float) -> None:
    """From 16.7 % to 31.3 %, which is too little, or to 32.3 %. That it rose is no better proof than 0.6."""
    parts = calls(0, 0, 60, 10, 0.05), calls(1, 0, 60, 50, 25), calls(0, 60, 120, 10, 0.2)
    (slowdown,) = analysed(*parts, calls(1, 60, 120, every_ms, 25)).slowdowns_view().slowdowns
    assert (slowdown.cause, slowdown.confidence) == (cause, pytest.approx(confidence, abs=0.02))


@pytest.mark.parametrize(("lasts_s", "is_reported"), [(8, False), (13, True)])
def test_a_mix_that_changes_for_seconds_slows_nothing(lasts_s: int, is_reported: bool) -> None:
    end_s = 60 + lasts_s
    own = calls(0, 0, 60, 10, 0.05), calls(0, 60, end_s, 24, 0.2), calls(0, end_s, 120, 10, 0.05)
    others = calls(1, 0, 60, 180, 20), calls(1, 60, end_s, 24, 20), calls(1, end_s, 120, 180, 20)
    found = analysed(*own, *others).slowdowns_view().slowdowns
    assert [one.cause for one in found] == ["mix"] * is_reported


@pytest.mark.parametrize(
    ("changes_s", "other_ms", "why"), [(80, 25, "began later"), (60, 0.002, "too short to take the caches")]
)
def test_a_mix_that_cannot_be_the_cause_is_none(changes_s: float, other_ms: float, why: str) -> None:
    few, many = calls(1, 0, changes_s, 180, other_ms), calls(1, changes_s, 120, 10, other_ms)
    (slowdown,) = analysed(calls(0, 0, 60, 20, 3), calls(0, 60, 120, 20, 5), few, many).slowdowns_view().slowdowns
    assert slowdown.cause == "unknown", why


def test_a_model_that_the_mix_does_not_concern_refutes_it() -> None:
    """The calls of the second come more often, and both are slower: something else is."""
    parts = calls(0, 0, 60, 20, 3), calls(0, 60, 120, 20, 5), calls(1, 0, 60, 200, 25), calls(1, 60, 120, 50, 40)
    (slowdown,) = analysed(*parts).slowdowns_view().slowdowns
    assert slowdown.cause == "unknown"
    assert set(slowdown.streams) == {DET, CLS}


def test_a_clock_that_falls_with_it_comes_before_the_mix() -> None:
    session = generate_cold_program(4).session
    start_s, clock = session.truth[0].start_s, make_sensor("freq/cpu0", max=1_800e6)
    readings = make_readings(*((t * NS, 0, 1_800e6 if t < start_s else 900e6) for t in range(int(session.end_s))))
    manifest = replace(session.manifest, sensors=(clock,))
    batches = replace(session, manifest=manifest, readings=readings).batches()
    found = Analysis.of(batches).slowdowns_view().slowdowns
    assert [one.cause for one in found] == ["clock-change"]


@pytest.mark.parametrize("seed", [1, 2, 3, 7])
def test_generated_programs_with_cold_caches_are_judged_as_they_are(seed: int) -> None:
    scored = score_programs([("", generate_cold_program(seed))])
    assert (scored.true, scored.right, scored.false) == (1, 1, 0), scored.faults


def sized(
    latency_ms: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]], larger: float,
    more: dict[str, Callable[[float], float]] | None = None, *, is_over: bool = True,
) -> Analysis:  # fmt: skip
    """Return a program whose calls have 90 to 110 elements, each another number, and `larger` times as many from 60 s.

    `latency_ms`: of the times in s and the elements. `more`: other sensors, by time.
    """
    random = np.random.default_rng(7)
    start_s = np.arange(0, 120, 0.05)
    elements = random.uniform(90, 110, len(start_s)) * np.where(start_s < 60, 1, larger)
    took_ms = latency_ms(start_s, elements) * random.lognormal(0, 0.02, len(start_s))
    runs = make_inferences((start_s * NS).astype(np.int64), (took_ms * MS).astype(np.int64))
    sensors = {"input/0-mean": lambda t: float(elements[int(t * 20) : int(t * 20) + 20].mean()), **(more or {})}
    readings = make_readings(
        *((t * NS + NS // 2, place, read(t)) for t in range(120) for place, read in enumerate(sensors.values()))
    )
    manifest = make_manifest(
        *(make_sensor(name, max=1_800e6 if name.startswith("freq") else None) for name in sensors),
        load=Load(), watched=Watched(("./program",), streams=(WatchedStream(f"/m/{DET}"),)),
    )  # fmt: skip
    ends = (ended_event(120 * NS, "exit"),) if is_over else ()
    events = (phase_event(0, "measure", runs=None), *ends)
    aggregator = SecondAggregator(split_by="stream")
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    return Analysis.of([Batch(120 * NS, runs, seconds, readings=readings, events=events, manifest=manifest)])


def test_the_report_has_the_latency_by_the_size_of_inputs() -> None:
    manifest = make_manifest(
        *map(make_sensor, ("input/0-elements", "call/0-reshaped")),
        watched=Watched(("./program",), streams=(WatchedStream(f"/m/{DET}"),)),
    )
    sizes = [100.0, 400.0, 410.0] * 20
    pairs = [(1 + n, size, size / 10) for n, size in enumerate(sizes)]
    readings = make_readings(*(row for n, size, ms in pairs for row in ((n * NS, 0, size), (n * NS, 1, ms))))
    first = make_readings((0, 0, 5_000.0))  # the first call has no change
    runs = calls(0, 0, 70, 100, 5)
    aggregator = SecondAggregator()
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    batch = Batch(70 * NS, runs, seconds, readings=np.concatenate([first, readings]), manifest=manifest,
                  events=(phase_event(0, "measure", runs=None),))  # fmt: skip
    (stream,) = report_document(Analysis.of([batch]))["streams"]
    assert [(one["elements"], one["count"]) for one in stream["shapes"]] == [([100, 100], 20), ([400, 410], 40)]
    assert [one["p50_ms"] for one in stream["shapes"]] == pytest.approx([10, 40], rel=0.03)


def of_two_sizes(early_s: int) -> Analysis:
    """Return a program whose second model gets inputs of two sizes in turns.

    Its readings of the first `early_s` seconds come in a batch before the first inferences of both models.
    """
    runs = [calls(0, 0, 90, 300, 20), calls(1, 0.1, 90, 300, 40)]
    elements = np.where(np.arange(len(runs[1])) % 2, 100.0, 1_000.0)
    runs[1]["latency_ns"][elements > 100] *= 5
    rows = zip(runs[1]["t_ns"].tolist(), elements.tolist(), (runs[1]["latency_ns"] / 1e6).tolist(), strict=True)
    readings = make_readings(*(row for t_ns, size, ms in rows for row in ((t_ns, 0, size), (t_ns, 1, ms))))
    manifest = make_manifest(
        *map(make_sensor, ("input/1-size", "call/1-sized")), load=Load(),
        watched=Watched(("./program",), streams=(WatchedStream(f"/m/{DET}"), WatchedStream(f"/m/{CLS}"))),
    )  # fmt: skip
    together = np.sort(np.concatenate(runs), order="t_ns")
    aggregator = SecondAggregator(split_by="stream")
    seconds = concatenate([aggregator.add(together), aggregator.close()])
    is_early, begun = readings["t_ns"] < early_s * NS, (phase_event(0, "measure", runs=None),)
    return Analysis.of([
        Batch(early_s * NS, readings=readings[is_early], events=begun, manifest=manifest, restart=True),
        Batch(90 * NS, together, seconds, readings=readings[~is_early]),
    ])  # fmt: skip


def test_sizes_of_calls_may_come_before_the_first_inferences_of_their_stream() -> None:
    """A tap holds back the first inferences of a program, and gives the readings of its calls at once."""
    early, usual = (report_document(of_two_sizes(early_s))["streams"] for early_s in (10, 0))
    assert early == usual
    assert usual[0]["name"] == CLS
    assert usual[0]["burst"]["from_s"] < 10


def test_larger_inputs_are_no_slowdown() -> None:
    analysis = sized(lambda _, elements: 2 + 0.1 * elements, 2.0, is_over=False)
    assert analysis.slowdowns_view().slowdowns == ()
    assert analysis.verdict().state is State.STEADY
    assert sized(lambda _, elements: 2 + 0.1 * elements, 1.0).slowdowns_view().slowdowns == ()


def test_smaller_inputs_that_are_faster_are_steady() -> None:
    analysis = sized(lambda _, elements: 2 + 0.1 * elements, 0.5, is_over=False)
    assert (analysis.verdict().state, analysis.verdict().p50_change) == (State.STEADY, None)
    unexplained = sized(lambda t, _: np.where(t < 60, 12.0, 7.0), 1.0, is_over=False)
    assert unexplained.verdict().state is State.UNSETTLED


@pytest.mark.parametrize("larger", [2.0, 0.5])
def test_there_is_no_drift_between_inputs_of_different_sizes(larger: float) -> None:
    analysis = sized(lambda _, elements: 2 + 0.1 * elements, larger)
    document = report_document(analysis)
    for part in (document, document["streams"][0]):
        assert part["drift_ratio"] is None
        assert part["input_sizes"]["burst"] == pytest.approx(100, rel=0.02)
        assert part["input_sizes"]["later"] == pytest.approx(100 * larger, rel=0.02)
    assert "not-sustained" not in [warning["code"] for warning in document["warnings"]]
    assert "cannot be compared with the burst: inputs had 100 elements on average then" in " ".join(
        summary(report(analysis)).split()
    )
    gate = judge_gate(parse_gate("drift>10%"), report(analysis))
    assert (gate.value, gate.ok) == (None, False)
    assert f"inputs had 100 elements on average then, and {100 * larger:.0f} later" in gate_words(gate)


def test_inputs_of_equal_size_have_a_drift() -> None:
    document = report_document(sized(lambda t, _: np.where(t < 60, 10.0, 12.0), 1.0))
    assert document["drift_ratio"] == pytest.approx(1.2, rel=0.02)
    assert document["input_sizes"]["later"] == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize(
    ("ratio", "larger", "why"),
    [(1.5, 1.0, "the inputs did not grow"), (2.2, 1.1, "not even the square of the inputs grew so much")],
)
def test_a_slowdown_that_inputs_do_not_explain_is_one(ratio: float, larger: float, why: str) -> None:
    analysis = sized(lambda t, elements: (2 + 0.1 * elements) * np.where(t < 60, 1, ratio), larger)
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.cause == "unknown", why
    assert slowdown.start_ns / NS == pytest.approx(60, abs=2)


@pytest.mark.parametrize("larger", [1.0, 1.5])
def test_a_clock_that_falls_at_changing_shapes_is_found(larger: float) -> None:
    """Each call has another shape; in the second session the inputs grow as well."""
    clock = {"freq/cpu0": lambda t: 1_800e6 if t < 60 else 1_200e6}
    analysis = sized(lambda t, elements: (2 + 0.1 * elements) * np.where(t < 60, 1, 1.5), larger, clock)
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.cause == "clock-change"


def test_a_throttle_while_inputs_are_larger_is_found() -> None:
    clock = {"freq/cpu0": lambda t: 1_800e6 if t < 85 else 1_200e6}
    analysis = sized(lambda t, elements: (2 + 0.1 * elements) * np.where(t < 85, 1, 1.5), 1.5, clock)
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert (slowdown.cause, slowdown.start_ns / NS) == ("clock-change", pytest.approx(85, abs=3))


def test_no_percentile_of_a_mixture_is_given(mixed: Analysis) -> None:
    document = report_document(mixed)
    latency, streams = document["latency"], {one["name"]: one for one in document["streams"]}
    assert {key: latency[key] for key in latency if key.endswith("_ms")} == dict.fromkeys(
        [key for key in latency if key.endswith("_ms")]
    )
    assert latency["count"] == sum(one["latency"]["count"] for one in streams.values()) == 6000 + 333 + 1 + 250 + 750
    assert streams[DET]["latency"]["p50_ms"] == pytest.approx(0.5, rel=0.02)
    assert streams[CLS]["latency"]["p50_ms"] == pytest.approx(25, rel=0.02)
    assert document["burst"] is document["sustained"] is document["drift_ratio"] is None
    assert streams[DET]["drift_ratio"] == pytest.approx(1, abs=0.02)


def test_the_stream_that_slowed_is_named(one_slow: Analysis) -> None:
    (slowdown,) = one_slow.slowdowns_view().slowdowns
    assert slowdown.streams == (CLS,)
    assert slowdown.start_ns / NS == pytest.approx(60, abs=3)
    assert slowdown.latency_ratio == pytest.approx(1.5, rel=0.03)
    (past,) = one_slow.verdict().past
    assert isinstance(past, OfStreams)
    assert past.names == (CLS,)
    assert isinstance(past.trouble, WasSlowed)


def test_the_present_state_names_its_stream() -> None:
    parts = calls(0, 0, 100, 20, 3), calls(1, 0, 60, 100, 25), calls(1, 60, 100, 100, 37.5)
    verdict = analysed(*parts, end_s=100, is_over=False).verdict()
    assert (verdict.state, verdict.streams) == (State.SLOWED, (CLS,))
    assert verdict_words.first(verdict).startswith(f"SLOWED {CLS}: ")


def test_a_slowdown_of_all_streams_is_one() -> None:
    analysis = analysed(
        calls(0, 0, 60, 20, 3), calls(0, 60, 120, 20, 4.2), calls(1, 0, 60, 100, 25), calls(1, 60, 120, 100, 35)
    )
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert set(slowdown.streams) == {DET, CLS}


@pytest.mark.parametrize(("later_s", "events"), [(9, 1), (11, 2)])
def test_slowdowns_that_begin_within_ten_seconds_are_one(later_s: int, events: int) -> None:
    at_s = 60 + later_s
    first = calls(0, 0, 60, 20, 3), calls(0, 60, 120, 20, 4.2)
    second = calls(1, 0, at_s, 100, 25), calls(1, at_s, 120, 100, 35)
    assert len(analysed(*first, *second).slowdowns_view().slowdowns) == events


@pytest.mark.parametrize(("share", "state"), [(0.048, State.STEADY), (0.052, State.UNSETTLED)])
def test_a_stream_with_a_twentieth_of_the_time_unsettles_a_session(mixed: Analysis, share: float, state: State) -> None:
    steady = mixed.verdict()
    unsettled = replace(steady, at_end=State.UNSETTLED, past=())
    assert join_verdicts([Judged(DET, 1 - share, steady), Judged(CLS, share, unsettled)]).at_end is state


def test_thirty_two_streams_are_judged_each_by_itself() -> None:
    runs = np.concatenate([calls(number, 0, 12, 1_000, 1) for number in range(40)])
    runs = runs[np.argsort(runs["t_ns"], kind="stable")]
    aggregator = SecondAggregator(split_by="stream")
    watched = Watched(("./program",), streams=tuple(WatchedStream(f"/m/{number}.onnx") for number in range(40)))
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    began = phase_event(0, "measure", runs=None)
    analysis = Analysis.of([Batch(12 * NS, runs, seconds, events=(began,), manifest=make_manifest(watched=watched))])
    assert len(analysis.stream_views()) == 32
    # 12 of 40 streams with 12 inferences each are shown. The others are one line, judged or not.
    lines = [line.strip() for line in summary(report(analysis)).splitlines()]
    assert [line for line in lines if line.startswith("and ")] == ["and 28 more", "and 28 more, with 336 inferences"]
    assert any(line.startswith("latency    of 40 models") for line in lines)
    rows = [plain(row) for row in LATENCY.body(analysis.view(None).freeze(), area(100, 18))]
    assert [row for row in rows if row.startswith("and ")] == ["and 36 more, n 432"]


def test_models_of_one_file_name_are_told_apart_in_little_room() -> None:
    folders = ("first", "second")
    streams = tuple(WatchedStream(f"/models/{folder}/a_detector_with_a_long_name.onnx") for folder in folders)
    runs = np.sort(np.concatenate([calls(number, 0, 60, 100, 5) for number in (0, 1)]), order="t_ns")
    aggregator = SecondAggregator(split_by="stream")
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    manifest = make_manifest(load=Load(), watched=Watched(("./program",), streams=streams))
    began = phase_event(0, "measure", runs=None)
    analysis = Analysis.of([Batch(60 * NS, runs, seconds, events=(began,), manifest=manifest)])
    text = summary(report(analysis))
    rows = "\n".join(plain(row) for row in LATENCY.body(analysis.view(None).freeze(), area(100, 18)))
    one = sample(analysis)
    compared = comparison_text(compare((Group("a", (one,)), Group("b", (one,)))))
    for shown in (text, rows, compared):
        assert all(re.search(rf"{folder[:5]}.*_name\.onnx", shown) for folder in folders)


@pytest.mark.parametrize(("ms", "slowed"), [(5.0, []), (8.0, ["thermal"])])
def test_a_flag_at_the_start_of_a_stream_slows_it_only_if_it_is_faster_afterwards(ms: float, slowed: list[str]) -> None:
    """The second model is first called after half a minute, while the flag is set."""
    later = [calls(1, 30, 60, 100, ms), calls(1, 60, 120, 100, 5.0)]
    runs = np.sort(np.concatenate([calls(0, 0, 120, 50, 20), *later]), order="t_ns")
    flag = [(t * NS, 0, float(25 <= t < 60)) for t in range(120)]
    streams = (WatchedStream(f"/m/{DET}"), WatchedStream(f"/m/{CLS}"))
    manifest = make_manifest(
        make_sensor("throttle/thermal"), load=Load(), watched=Watched(("./program",), streams=streams)
    )
    aggregator = SecondAggregator(split_by="stream")
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    batch = Batch(120 * NS, runs, seconds, readings=make_readings(*flag), manifest=manifest,
                  events=(phase_event(0, "measure", runs=None), ended_event(120 * NS, "exit")))  # fmt: skip
    analysis = Analysis.of([batch])
    assert [one.cause for one in analysis.slowdowns_view().slowdowns] == slowed
    assert len(analysis.throttles.view().spans) == 1


def test_misses_are_told_by_stream() -> None:
    analysis = analysed(calls(0, 0, 120, 20, 3), calls(1, 0, 120, 100, 40), deadline_ns=33 * MS)
    deadline = analysis.deadline()
    assert deadline
    assert (deadline.misses, deadline.count) == (1200, 7200)
    assert deadline.cause
    assert deadline.cause.stream == CLS
    by_name = {view.name: view.deadline for view in analysis.stream_views()}
    assert (by_name[DET].misses, by_name[CLS].misses) == (0, 1200)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("gate", "ok", "about"),
    [
        ("p99[cls]>20ms", False, CLS),
        ("p99[det]>20ms", True, DET),
        ("p99>20ms", False, CLS),
        ("p99>60ms", True, CLS),
        ("p50<2ms", True, DET),
        ("p50<4ms", False, DET),
        ("drift[cls.onnx]>10%", False, CLS),
    ],
)
def test_a_gate_limits_one_stream_or_each(one_slow: Analysis, gate: str, ok: bool, about: str) -> None:
    (result,) = judged_gates(one_slow, [parse_gate(gate)])
    assert result.ok is ok
    assert result.stream == about


def test_a_gate_on_a_stream_that_is_not_there_is_unknown(one_slow: Analysis) -> None:
    (result,) = judged_gates(one_slow, [parse_gate("p99[vad]>1ms")])
    assert (result.ok, result.value) == (False, None)
    assert isinstance(result.unknown, NoSuchStream)
    assert set(result.unknown.names) == {DET, CLS}


def test_a_name_means_the_file_before_a_part_of_it() -> None:
    names = ["/a/det.onnx", "det_large.onnx", "rec.onnx"]
    assert matching("det", names) == ["/a/det.onnx"]
    assert matching("LARGE", names) == ["det_large.onnx"]
    assert matching("e", names) == names


def test_names_differ() -> None:
    assert distinct_names(["/a/x/m.onnx", "/b/x/m.onnx", "m.onnx", "m.onnx"]) == [
        "a/x/m.onnx", "b/x/m.onnx", "m.onnx", "m.onnx #2"
    ]  # fmt: skip


def test_the_result_does_not_depend_on_the_batches() -> None:
    session = generate_program(5).session
    whole = report_document(Analysis.of(session.batches()))
    cut = report_document(Analysis.of(session.batches(tuple(np.arange(3.7, session.end_s, 7.3)))))
    assert whole == cut


@pytest.mark.parametrize("seed", [3, 12, 17, 20, 34, 60])
def test_generated_programs_are_judged_as_they_are(seed: int) -> None:
    program = generate_program(seed)
    found = Analysis.of(program.session.batches()).slowdowns_view().slowdowns
    truth = program.session.truth if program.slowed else ()
    assert [of.cause for of in found] == [of.cause for of in truth]
    for slowdown, true in zip(found, truth, strict=True):
        assert slowdown.start_ns / NS == pytest.approx(true.start_s, abs=5)
        assert set(slowdown.streams) <= set(program.slowed)


def test_a_viewer_continues_from_the_judgement_of_every_stream(one_slow: Analysis) -> None:
    """What it gets of the time before 80 s is no second at all."""
    runs = np.concatenate([calls(0, 0, 120, 20, 3), calls(1, 0, 60, 100, 25), calls(1, 60, 120, 100, 37.5)])
    runs = runs[np.argsort(runs["t_ns"], kind="stable")]
    aggregator = SecondAggregator(split_by="stream")
    seconds = concatenate([aggregator.add(runs), aggregator.close()])
    manifest, events = one_slow.manifest, (phase_event(0, "measure", runs=None),)
    begun = Batch(80 * NS, seconds=seconds.between(0, 80), events=events, manifest=manifest)
    later = [Batch((end + 1) * NS, seconds=seconds.between(end, end + 1)) for end in range(80, 120)]
    state = judged([begun, *later], 75)
    assert set(state["streams"]) == {"1"}
    viewer = Analysis()
    viewer.fold(Batch(80 * NS, events=events, manifest=manifest, restart=True))
    viewer.fold(Batch(120 * NS, seconds=seconds.between(70, 120), judged=json.loads(json.dumps(state))))
    board = Analysis.of([begun, *later])
    for here, there in zip(viewer.stream_views(), board.stream_views(), strict=True):
        assert here.slowdowns.slowdowns == there.slowdowns.slowdowns
        assert here.slowdowns.burst == there.slowdowns.burst
    assert viewer.slowdowns_view().slowdowns


def test_percentiles_that_are_not_settled_are_told_for_the_streams_that_matter() -> None:
    analysis = analysed(calls(0, 0, 120, 20, 3), calls(1, 0, 120, 4_000, 300), calls(1, 1, 2, 500, 25))
    (found,) = [one for one in notices(analysis) if isinstance(one, NotSettled)]
    assert (found.streams, found.count) == ((CLS,), 32)
    assert notice_words(found) == "cls.onnx: p99 not settled: only 32 inferences"


def test_a_stream_that_hardly_runs_leaves_the_session_steady() -> None:
    analysis = analysed(calls(0, 0, 120, 20, 3), calls(1, 50, 52, 500, 25))
    assert analysis.verdict().at_end is State.STEADY
    assert replace(analysis.verdict(), past=()).level == "good"
