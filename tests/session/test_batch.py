"""One batch of many: it folds to what they fold to in turn."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.records import NO_INFERENCES, NO_READINGS
from edgetop.session.seconds import NO_SECONDS, NS
from tests.support.sessions import (
    MS,
    differences,
    folded,
    make_inferences,
    make_manifest,
    make_readings,
    make_sensor,
    make_session,
    seconds_of,
)

MARK = read_event(5, "mark", "info", "user", "here")


@pytest.mark.thorough
@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 1_000),
    st.lists(st.floats(0, 1), max_size=12),
    st.lists(st.integers(0, 12), max_size=5),
    st.one_of(st.none(), st.integers(0, 12)),
)
def test_a_merged_batch_folds_to_what_its_parts_fold_to(
    seed: int, cuts: list[float], joins: list[int], restart: int | None
) -> None:
    sensors = (make_sensor("temp/cpu"), make_sensor("mem/rss"))
    session = make_session(seed, count=60, latency_ns=200 * MS, failures=0.1, sensors=sensors)
    parts = list(session.batches([int(cut * session.end_ns) for cut in cuts]))
    if restart is not None:
        place = restart % len(parts)
        parts[place] = replace(parts[place], restart=True, manifest=make_manifest(*sensors))
    borders = [0, *sorted({1 + join % len(parts) for join in joins} - {len(parts)}), len(parts)]
    merged = [merge(parts[begin:end]) for begin, end in pairwise(borders)]
    for window_ns in (10 * NS, None):
        assert differences(folded(merged).view(window_ns), folded(parts).view(window_ns)) == []


def test_a_merge_keeps_every_row_in_order() -> None:
    inferences = make_inferences([0, NS, 2 * NS], [1, 2, 3])
    readings = make_readings((0, 0, 1.0), (5, 1, 2.0), (6, 0, 3.0))
    parts = [
        Batch(10, inferences[:1], NO_SECONDS, readings[:2], (MARK,)),
        Batch(20, NO_INFERENCES, seconds_of(inferences), NO_READINGS, ()),
        Batch(30, inferences[1:], NO_SECONDS, readings[2:], (MARK, MARK)),
    ]
    whole = merge(parts)
    assert np.array_equal(whole.inferences, inferences)
    assert np.array_equal(whole.readings, readings)
    assert differences(whole.seconds, seconds_of(inferences)) == []
    assert whole.events == (MARK, MARK, MARK)
    assert whole.until_ns == 30
    assert not whole.restart


def test_a_restart_makes_what_came_before_forgotten() -> None:
    before = Batch(10, make_inferences([0], 1), events=(MARK,), manifest=make_manifest(name="before"))
    again = Batch(3, make_inferences([1], 2), restart=True)
    after = Batch(4, make_inferences([2], 3))
    whole = merge([before, replace(before, restart=True), again, after])
    assert whole.restart
    assert whole.inferences["latency_ns"].tolist() == [2, 3]
    assert whole.events == ()
    assert whole.manifest is None
    assert whole.until_ns == 4


def test_the_last_manifest_holds() -> None:
    one, two = make_manifest(name="one"), make_manifest(name="two")
    assert merge([Batch(1, manifest=one), Batch(2, manifest=two), Batch(3)]).manifest is two


def test_one_batch_is_its_own_merge() -> None:
    batch = Batch(1, events=(MARK,))
    assert merge([batch]) is batch


def test_nothing_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="nothing"):
        merge([])


def test_a_batch_in_which_only_time_passed_is_empty() -> None:
    assert Batch(until_ns=5 * NS).is_empty


@pytest.mark.parametrize(
    "batch",
    [
        Batch(inferences=make_inferences([0], 1)),
        Batch(seconds=seconds_of(make_inferences([0], 1))),
        Batch(readings=make_readings((0, 0, 1.0))),
        Batch(events=(MARK,)),
        Batch(manifest=make_manifest()),
        Batch(restart=True),
    ],
    ids=["inferences", "seconds", "readings", "events", "manifest", "restart"],
)
def test_a_batch_with_anything_in_it_is_not_empty(batch: Batch) -> None:
    assert not batch.is_empty
