"""Deadlines: misses, their longest run whatever the seconds, what is left, the highest rate."""

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.deadline import DeadlineView, view_deadline
from edgetop.analysis.statistics import Totals
from edgetop.engines.child import message_frames
from edgetop.session.batch import Batch
from edgetop.session.load_settings import Load
from edgetop.session.records import Inferences
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.engines.child.test_loop import Bench, at_rate
from tests.support.sessions import MS, back_to_back, folded, make_inferences, make_manifest, phase_event, seconds_of

LOAD = Load(deadline_ns=33 * MS)


def document_of(inferences: Inferences, load: Load) -> dict:
    begun = Batch(manifest=make_manifest(load=load), events=(phase_event(0, "measure"),), restart=True)
    seconds = seconds_of(inferences, load.deadline_ns, is_paced=load.is_paced)
    return report_document(folded([begun, Batch(int(inferences["t_ns"][-1]) + NS, inferences, seconds)]))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1500)), min_size=1, max_size=60), st.data())
def test_the_longest_run_is_exact_across_seconds_and_batches(each: list[tuple[bool, int]], data: st.DataObject) -> None:
    starts = np.cumsum([gap * MS for _, gap in each])
    inferences = make_inferences(starts, [50 * MS if missed else MS for missed, _ in each])
    seconds = seconds_of(inferences, LOAD.deadline_ns)
    totals, place = Totals(), np.arange(len(seconds))
    cut = data.draw(st.integers(0, len(seconds)))
    for part in (place < cut, place >= cut):
        totals.add(seconds.where(part))
    runs = [len(list(run)) for missed, run in groupby(missed for missed, _ in each) if missed]
    assert totals.longest_miss_run == max(runs, default=0)


def test_what_the_report_says_of_a_deadline() -> None:
    latency = [10 * MS] * 1_000
    for late in (100, 101, 102, 500):
        latency[late] = 40 * MS
    deadline = document_of(back_to_back(0, latency), LOAD)["latency"]["deadline"]
    assert (deadline["ms"], deadline["misses"], deadline["miss_rate"], deadline["longest_run"]) == (33, 4, 0.004, 3)
    assert deadline["headroom_ms"] == pytest.approx(23, rel=0.01)
    assert deadline["max_rate_hz"] == pytest.approx(100, rel=0.01)


def test_the_share_of_misses_is_told_with_nine_digits() -> None:
    latency = [10 * MS] * 300
    latency[7] = 40 * MS
    assert document_of(back_to_back(0, latency), LOAD)["latency"]["deadline"]["miss_rate"] == 0.003333333


def test_without_a_deadline_nothing_is_missed() -> None:
    assert document_of(back_to_back(0, [MS] * 10), Load())["latency"]["deadline"] is None
    assert view_deadline(LOAD, None, None) is None


@pytest.mark.parametrize(("misses", "count", "is_missed"), [(20, 200_000, True), (20, 200_001, False), (0, 1, False)])
def test_one_miss_in_ten_thousand_is_worth_reporting(misses: int, count: int, is_missed: bool) -> None:
    assert DeadlineView(33 * MS, misses, count, 1, 0.0, None).is_missed is is_missed


def test_just_at_the_deadline_is_in_time() -> None:
    assert document_of(back_to_back(0, [33 * MS] * 5), LOAD)["latency"]["deadline"]["misses"] == 0


def test_a_stall_of_the_engine_is_in_response_time_alone() -> None:
    """The engine's own loop at 100 Hz, whose tenth inference takes half a second more."""
    bench = Bench(takes_ns=4 * MS, pace=at_rate(100))
    bench.model = lambda number: bench.clock.take(500 * MS) if number == 10 else None
    begin = bench.clock.now
    bench.loop.repeat(message_frames.PHASE_MEASURE, runs=300, paced=True)
    inferences = bench.collect()
    inferences["t_ns"] -= begin
    latency = document_of(inferences, Load(mode="fixed", rate_hz=100.0, deadline_ns=33 * MS))["latency"]
    assert latency["p99_ms"] == pytest.approx(4, rel=0.02)
    assert latency["max_ms"] == 504
    assert latency["response"]["p50_ms"] == pytest.approx(4, rel=0.02)
    assert latency["response"]["p90_ms"] == pytest.approx(320, rel=0.05)
    assert latency["response"]["p99_ms"] > 450
    assert latency["deadline"]["misses"] == latency["deadline"]["longest_run"] > 70
    assert latency["deadline"]["headroom_ms"] < -400
    assert latency["deadline"]["max_rate_hz"] == pytest.approx(250, rel=0.02)


def test_the_risk_of_a_miss_is_that_of_the_time_that_the_deadline_limits() -> None:
    """Each inference waits 5 ms: of the response times one in 10,000 is late, of the service times none."""
    random = np.random.default_rng(6)
    latency = 10 * MS + (random.exponential(size=12_000) * MS).astype(np.int64)
    late_ms = 10 - np.log(1e-4)
    of_service, of_response = (
        document_of(
            back_to_back(0, latency.tolist(), wait_ns=wait_ns),
            Load(mode="fixed", rate_hz=50.0, deadline_ns=int((late_ms + 5) * MS)),
        )["latency"]["deadline"]["risk"]
        for wait_ns in (0, 5 * MS)
    )
    assert of_response["per_inference"] == pytest.approx(1e-4, rel=1)
    assert of_response["ci95"][0] < 1e-4 < of_response["ci95"][1]
    assert of_response["refused"] is None
    assert of_service["per_inference"] < 1e-5
