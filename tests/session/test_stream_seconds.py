"""The statistics of single streams within each second: whose they are, and that joining and cutting keeps them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session.by_stream import ByStream
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Ab, EngineInfo, Model, Variant, Watched
from edgetop.session.partial_second import PartialSecond
from edgetop.session.records import FIRST, MEASURE, Inferences, SplitBy, latest
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import ABSENT, NO_SECONDS, NS, PERCENTILE_FIELDS, Seconds, concatenate, summed
from tests.support.sessions import MS, differences, make_inferences, make_manifest, seconds_of

DEADLINES = st.sampled_from([None, 900 * MS])
CUTS = st.lists(st.integers(0, 60), max_size=8)


@st.composite
def stream_runs(draw: st.DrawFn) -> Inferences:
    """Inferences of some streams in the order of their starts, over some seconds, of any phase, some failed."""
    count = draw(st.integers(0, 60))
    numbers = draw(st.sampled_from([(0, 1), (0, 1, 2), (0, 0, 0, 255), (1, 3), (0,)]))
    gaps = draw(st.lists(st.integers(0, 900 * MS), min_size=count, max_size=count))
    latencies = draw(st.lists(st.integers(1, 5 * NS), min_size=count, max_size=count))
    phases = sorted(draw(st.lists(st.integers(FIRST, MEASURE), min_size=count, max_size=count)))
    ok = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    streams = draw(st.lists(st.sampled_from(numbers), min_size=count, max_size=count))
    starts = np.cumsum(np.array(gaps, np.int64))
    return make_inferences(starts, latencies, phase=phases, ok=ok, wait_ns=gaps, stream=streams)


def split(inferences: Inferences, deadline_ns: int | None = None, *, is_paced: bool = True) -> Seconds:
    return seconds_of(inferences, deadline_ns, is_paced=is_paced, split_by="stream")


def in_pieces(inferences: Inferences, cuts: Sequence[int], deadline_ns: int | None) -> Seconds:
    aggregator = SecondAggregator(deadline_ns, is_paced=True, split_by="stream")
    pieces = np.split(inferences, sorted(cut % (len(inferences) + 1) for cut in cuts))
    return concatenate([*map(aggregator.add, pieces), aggregator.close()])


def without_jitter(seconds: Seconds) -> Seconds:
    rows = seconds.rows.copy()
    rows["jitter_sum_ns"] = rows["jitter_count"] = 0
    response = None if seconds.response is None else without_jitter(seconds.response)
    return replace(seconds, rows=rows, response=response)


@settings(deadline=None, max_examples=25)
@given(stream_runs(), CUTS, DEADLINES)
def test_streams_do_not_depend_on_how_inferences_came(
    inferences: Inferences, cuts: list[int], deadline_ns: int | None
) -> None:
    assert differences(in_pieces(inferences, cuts, deadline_ns), split(inferences, deadline_ns)) == []


@settings(deadline=None, max_examples=25)
@given(stream_runs(), DEADLINES, st.booleans())
def test_a_stream_has_the_seconds_of_a_session_that_it_has_alone(
    inferences: Inferences, deadline_ns: int | None, is_paced: bool
) -> None:
    seconds = split(inferences, deadline_ns, is_paced=is_paced)
    for number in {0, 7, *inferences["stream"].tolist()}:
        found = ByStream(seconds).of(number)
        assert found.streams is None
        assert found.rows["t_ns"].tolist() == seconds.rows["t_ns"].tolist()
        # The inferences of others remain as a warm-up, so that the alone session has the same seconds.
        alone = inferences.copy()
        alone["phase"][inferences["stream"] != number] = FIRST
        wanted = seconds_of(alone, deadline_ns, is_paced=is_paced)
        if number == 0:  # where it is alone, its jitter begins at the inference before, of any stream
            found, wanted = without_jitter(found), without_jitter(wanted)
        assert differences(found, wanted) == []


@settings(deadline=None, max_examples=25)
@given(stream_runs())
def test_a_second_has_rows_exactly_if_another_stream_than_0_is_in_it(inferences: Inferences) -> None:
    seconds = split(inferences)
    others = (inferences["stream"] != 0) & (inferences["phase"] == MEASURE)
    mixed = sorted(set((inferences["t_ns"][others] // NS * NS).tolist()))
    if seconds.streams is None:
        assert mixed == []
        return
    has_rows = np.diff(seconds.streams.offsets) > 0
    assert seconds.rows["t_ns"][has_rows].tolist() == mixed
    assert seconds.streams.seconds.rows["t_ns"].tolist() == seconds.rows["t_ns"][seconds.streams.owner].tolist()
    for begin, end in pairwise(seconds.streams.offsets.tolist()):
        assert (np.diff(seconds.streams.number[begin:end].astype(int)) > 0).all()


@settings(deadline=None, max_examples=25)
@given(stream_runs(), DEADLINES)
def test_the_streams_add_up_to_the_whole(inferences: Inferences, deadline_ns: int | None) -> None:
    seconds = split(inferences, deadline_ns)
    each = [ByStream(seconds).of(number) for number in ByStream(seconds).numbers]
    if not each:
        assert seconds.runs == 0
        return
    for name in ("count", "errors", "sum_ns", *(("deadline_misses",) if deadline_ns else ())):
        assert sum(one.rows[name].astype(np.int64) for one in each).tolist() == seconds.rows[name].tolist()
    assert np.array_equal(sum(one.histogram() for one in each), seconds.histogram())
    assert seconds.response is not None
    responses = [one.response.histogram() for one in each if one.response]
    assert np.array_equal(sum(responses), seconds.response.histogram())


def test_the_streams_with_inferences_are_named_in_order() -> None:
    inferences = make_inferences([0, NS, NS + 1, 3 * NS], MS, stream=[0, 9, 4, 4], ok=[True, True, True, False])
    seconds = split(inferences)
    assert ByStream(seconds).numbers == [0, 4, 9]
    assert ByStream(seconds.between(1, 4)).numbers == [4, 9]
    assert ByStream(seconds.between(2, 3)).numbers == []
    assert seconds.between(2, 3).streams is None
    assert ByStream(NO_SECONDS).numbers == []


def test_streams_of_one_model_are_not_told_apart() -> None:
    inferences = make_inferences([0, 1, 2], MS, stream=[0, 1, 2])
    assert seconds_of(inferences).streams is None


def test_the_variants_of_an_ab_session_are_streams() -> None:
    inferences = make_inferences([0, 1, 2], [5, 7, 9])
    inferences["variant"] = [0, 1, 0]
    seconds = seconds_of(inferences, split_by="variant")
    assert ByStream(seconds).of(1).rows["sum_ns"].tolist() == [7]
    assert ByStream(seconds).of(0).rows["sum_ns"].tolist() == [14]


def test_jitter_and_runs_of_misses_are_of_one_streams_successive_inferences() -> None:
    latency = [10, 1_000, 13, 1_005, 21, 1_002]
    starts = [0, 1, 2, 3, NS, NS + 1]
    seconds = seconds_of(make_inferences(starts, latency, stream=[0, 1] * 3), 500, split_by="stream")
    first, second = ByStream(seconds).of(0).rows, ByStream(seconds).of(1).rows
    assert first["jitter_sum_ns"].tolist() == [3, 8]
    assert second["jitter_sum_ns"].tolist() == [5, 3]
    assert second["jitter_count"].tolist() == [1, 1]
    assert first["miss_run_longest"].tolist() == [0, 0]
    assert second["miss_run_longest"].tolist() == [2, 1]
    assert seconds.rows["miss_run_longest"].tolist() == [1, 1]


def test_stream_0_alone_for_a_second_is_the_one_before_for_its_jitter() -> None:
    seconds = seconds_of(
        make_inferences([0, 1, NS, 2 * NS, 2 * NS + 1], [10, 999, 14, 20, 999], stream=[0, 1, 0, 0, 1]),
        split_by="stream",
    )
    assert ByStream(seconds).of(0).rows["jitter_sum_ns"].tolist()[2] == 6


def test_a_second_without_a_stream_is_as_one_without_inferences() -> None:
    seconds = seconds_of(make_inferences([0, NS], MS, stream=[0, 1]), 5, split_by="stream")
    row = ByStream(seconds).of(1).rows[0]
    assert (row["t_ns"], row["count"], row["deadline_misses"], row["miss_run_longest"]) == (0, 0, 0, 0)
    assert [row[name] for name in ("min_ns", *PERCENTILE_FIELDS)] == [ABSENT] * 6
    without = seconds_of(make_inferences([0, NS], MS, stream=[0, 1]), split_by="stream")
    assert ByStream(without).of(1).rows["deadline_misses"].tolist() == [ABSENT] * 2


@settings(deadline=None, max_examples=25)
@given(stream_runs(), CUTS)
def test_cut_and_joined_seconds_keep_their_streams(inferences: Inferences, cuts: list[int]) -> None:
    seconds = split(inferences)
    borders = [0, *sorted(cut % (len(seconds) + 1) for cut in cuts), len(seconds)]
    assert differences(concatenate([seconds.between(*pair) for pair in pairwise(borders)]), seconds) == []
    place = np.arange(len(seconds))
    parts = [seconds.where((place >= begin) & (place < end)) for begin, end in pairwise(borders)]
    assert differences(concatenate(parts), seconds) == []


@settings(deadline=None, max_examples=25)
@given(stream_runs(), st.integers(0, 99))
def test_seconds_taken_in_another_order_keep_their_streams(inferences: Inferences, seed: int) -> None:
    seconds = split(inferences)
    if not len(seconds):
        return
    order = np.random.default_rng(seed).permutation(len(seconds))
    moved = seconds.take(order)
    for number in (0, *ByStream(seconds).numbers):
        assert differences(ByStream(moved).of(number), ByStream(seconds).of(number).take(order)) == []


def test_where_one_part_has_no_response_the_streams_have_none_either() -> None:
    paced = split(make_inferences([0, 1], MS, stream=[0, 1]))
    plain = split(make_inferences([0, 1], MS), is_paced=False)
    joined = concatenate([plain, paced])
    assert joined.response is None
    assert joined.streams is not None
    assert joined.streams.seconds.response is None


@settings(deadline=None, max_examples=25)
@given(stream_runs(), st.sampled_from([1, 2, 4, 16]))
def test_summed_histograms_are_those_of_each_stream(inferences: Inferences, every_s: int) -> None:
    seconds = split(inferences)
    merged = summed(seconds, every_s)
    assert merged.rows.tolist() == seconds.rows.tolist()
    assert ByStream(merged).numbers == ByStream(seconds).numbers
    group = seconds.rows["t_ns"] // (every_s * NS)
    for number in ByStream(seconds).numbers:
        own, of_sums = ByStream(seconds).of(number), ByStream(merged).of(number)
        assert of_sums.rows.tolist() == own.rows.tolist()
        for each in set(group.tolist()):
            assert np.array_equal(of_sums.where(group == each).histogram(), own.where(group == each).histogram())
            held = np.diff(of_sums.offsets)[group == each]
            assert np.count_nonzero(held) <= 1  # in one row of the group


@settings(max_examples=25, deadline=None)
@given(stream_runs(), CUTS.map(sorted))
def test_a_partial_second_has_the_streams_of_a_session_that_ends_now(inferences: Inferences, cuts: list[int]) -> None:
    aggregator = SecondAggregator(900 * MS, is_paced=True, split_by="stream")
    begun = PartialSecond(900 * MS, is_paced=True, split_by="stream")
    done = []
    for piece in np.split(inferences, [cut for cut in cuts if cut < len(inferences)]):
        done.append(complete := aggregator.add(piece))
        begun.add(piece, complete)
    assert differences(concatenate([*done, begun.seconds()]), split(inferences, 900 * MS)) == []


@pytest.mark.parametrize(("split_by", "wanted"), [("stream", [1, 3]), (None, [3])])
def test_the_latest_are_the_last_that_counted_of_each_stream(split_by: SplitBy, wanted: list[int]) -> None:
    inferences = make_inferences([0, 1, 2, 3, 4], MS, stream=[0, 1, 0, 0, 1], ok=[True, True, True, True, False])
    assert latest(inferences, split_by)["t_ns"].tolist() == wanted


def test_the_models_of_a_session_are_told_apart_by_what_ran_them() -> None:
    variant = Variant(Model("a.onnx"), EngineInfo())
    assert make_manifest().split_by is None
    assert make_manifest(load=Load(streams=4)).split_by is None
    assert make_manifest(watched=Watched(("python3", "app.py"))).split_by == "stream"
    assert make_manifest(ab=Ab((variant, variant), 0.01)).split_by == "variant"
