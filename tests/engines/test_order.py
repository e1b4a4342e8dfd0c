"""Records of several streams in the order of their starts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.decode import MAX_PENDING, PATIENCE_NS, InOrder
from edgetop.engines.engine_protocol import Ended, EngineUpdate, Message, Reached
from edgetop.session.records import INFERENCE, Inferences
from tests.support.scripted_engine import inferences, said

ENDED = Ended("runs", 0)


def settled(order: InOrder, starts_ns: list[int], *messages: Message) -> list[int]:
    return order.release(said(*messages, records=inferences(starts_ns))).records["t_ns"].tolist()


def test_what_an_earlier_one_may_still_come_before_is_held() -> None:
    order = InOrder(2)
    assert settled(order, [10, 20, 30], Reached(15)) == [10]
    assert settled(order, [15], Reached(40)) == [15, 20, 30]


def test_at_the_end_nothing_is_held() -> None:
    order = InOrder(2)
    assert settled(order, [10, 20]) == []
    assert settled(order, [5], ENDED) == [5, 10, 20]


def test_a_stream_that_hangs_holds_the_others_for_seconds_only() -> None:
    order = InOrder(2)
    assert settled(order, [0, PATIENCE_NS // 2]) == []
    assert settled(order, [PATIENCE_NS + 1]) == [0]


def test_what_is_held_is_bounded() -> None:
    order = InOrder(2)
    assert len(settled(order, list(range(MAX_PENDING + 5)))) == 5


def test_one_stream_needs_no_order_and_is_handed_on_as_it_is() -> None:
    update = EngineUpdate(inferences([3, 4]))
    assert InOrder(1).release(update) is update


def test_how_far_the_streams_are_is_the_engines_own_business() -> None:
    assert InOrder(2).release(said(Reached(5), ENDED)).messages == (ENDED,)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=60), st.data())
def test_however_it_comes_it_leaves_in_order_and_whole(runs: list[tuple[int, int]], data: st.DataObject) -> None:
    """Each stream's inferences come one after the other; a record comes when its inference is done."""
    ends = [0] * 4
    records: list[Inferences] = []
    for stream, takes in runs:
        row = np.zeros(1, INFERENCE)
        row["t_ns"], row["latency_ns"], row["stream"] = ends[stream], takes, stream
        ends[stream] += takes
        records.append(row)
    records.sort(key=lambda row: int(row["t_ns"][0] + row["latency_ns"][0]))
    order, left, done = InOrder(4), [], [0] * 4
    for row in records:
        done[int(row["stream"][0])] = int(row["t_ns"][0] + row["latency_ns"][0])
        told = (Reached(min(done)),) if data.draw(st.booleans()) else ()
        left += order.release(EngineUpdate(row, told)).records["t_ns"].tolist()
    left += order.release(said(ENDED)).records["t_ns"].tolist()
    assert left == sorted(int(row["t_ns"][0]) for row in records)
