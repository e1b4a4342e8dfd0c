"""Bursts into Arrow columns and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.recording.columns import OPERATORS, bursts_from_arrow, completed, to_arrow
from edgetop.session.operators import Burst, Operator, OperatorInfo, burst_of

LONG, INT, TEXT = st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1), st.text(max_size=12)
INFO = st.builds(OperatorInfo, TEXT, TEXT, TEXT, st.none() | LONG, st.none() | LONG, st.none() | TEXT)
ROWS = st.lists(st.tuples(INFO, INT, LONG), min_size=1, max_size=4)


def made(lists: list[list[tuple[OperatorInfo, int, int]]]) -> tuple[Burst, ...]:
    bursts = []
    for number, rows in enumerate(lists):
        infos, calls, total_ns = zip(*rows, strict=True)
        bursts.append(Burst(1_000 * number, number, infos, np.array(calls, np.int64), np.array(total_ns, np.int64)))
    return tuple(bursts)


BURSTS = st.lists(ROWS, max_size=4).map(made)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(BURSTS)
def test_bursts_come_back(bursts: tuple[Burst, ...]) -> None:
    arrow = to_arrow("operators", bursts)
    assert arrow.schema.equals(OPERATORS, check_metadata=True)
    assert bursts_from_arrow([arrow]) == bursts


@settings(max_examples=30, deadline=None)
@given(BURSTS, st.integers(0, 16))
def test_a_burst_that_is_cut_is_joined_again(bursts: tuple[Burst, ...], cut: int) -> None:
    table = to_arrow("operators", bursts)
    assert bursts_from_arrow([table.slice(0, cut), table.slice(cut)]) == bursts


def test_what_is_not_known_is_null_and_positions_are_run_order() -> None:
    operators = (Operator("a", "Conv", "CPU", 2, 5), Operator("b", "Add", "CPU", 2, 5))
    rows = to_arrow("operators", [burst_of(7, 3, operators)]).to_pylist()
    assert [(row["t_ns"], row["burst"], row["position"], row["name"]) for row in rows] == [
        (7, 3, 0, "a"),
        (7, 3, 1, "b"),
    ]
    assert [(row["flops"], row["bytes"]) for row in rows] == [(None, None)] * 2


def test_names_that_are_not_utf8_can_be_kept() -> None:
    (row,) = to_arrow("operators", [burst_of(0, 0, (Operator("a\udcff", "X", "CPU", 1, 1),))]).to_pylist()
    assert row["name"] == "a\\udcff"


def test_what_is_the_same_in_every_burst_is_held_once() -> None:
    operators = (Operator("a", "Conv", "CPU", 2, 5), Operator("b", "Add", "CPU", 2, 5))
    bursts = [burst_of(i, i, operators) for i in range(4)]
    pieces = [to_arrow("operators", bursts[i : i + 2]) for i in (0, 2)]
    assert len({id(burst.infos) for burst in bursts_from_arrow(pieces)}) == 1


def test_columns_that_may_be_absent_are_unknown() -> None:
    table = to_arrow("operators", [burst_of(7, 3, (Operator("a", "Conv", "CPU", 2, 5),))])
    (burst,) = bursts_from_arrow([completed(table.drop_columns(["flops", "bytes", "origin"]), OPERATORS)])
    assert (burst.infos[0].flops, burst.infos[0].bytes, burst.infos[0].origin) == (None, None, None)
