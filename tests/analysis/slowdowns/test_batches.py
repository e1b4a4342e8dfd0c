"""What is found depends on what came, never on how it was batched: live, replayed and reported sessions agree."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.steady import sustained
from edgetop.session.batch import Batch
from edgetop.session.records import NO_READINGS
from edgetop.session.seconds import NS
from tests.support.generator.plans import Generated, generate
from tests.support.generator.widened import SOON_AFTER
from tests.support.sessions import differences
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow

# Of each kind of session one, on boards that differ; 229 is of a model that takes a second.
KINDS = {4: "mixture", 11: "several", 23: "from-start", 34: "on-top", 36: SOON_AFTER, 229: None}


@cache
def made(seed: int) -> Generated:
    return generate(seed, KINDS[seed])


def state_of(session: Generated, cuts_s: tuple[float, ...]) -> object:
    fold, latency = Slowdowns(), RollingLatency()
    for batch in session.batches(cuts_s):
        fold.fold(batch)
        latency.fold(batch)
        fold.view()  # a look must change nothing
    view = fold.view()
    return view, sustained(latency.latest_rows(), view.burst)


@cache
def whole(seed: int) -> Any:
    return state_of(made(seed), ())


@pytest.mark.parametrize("seed", mostly_thorough(KINDS, 4))
@given(cuts_s=st.lists(st.floats(0, 330), max_size=40))
@settings(max_examples=6, deadline=None)
def test_cut_anywhere_the_same_is_found(seed: int, cuts_s: list[float]) -> None:
    session = made(seed)
    cuts = tuple(cut for cut in cuts_s if cut < session.end_s)
    assert differences(state_of(session, cuts), whole(seed)) == []


@pytest.mark.parametrize("seed", mostly_thorough([4, 34, 229], 229))
def test_second_by_second_the_same_is_found(seed: int) -> None:
    session = made(seed)
    assert differences(state_of(session, tuple(range(1, int(session.end_s)))), whole(seed)) == []


@pytest.mark.parametrize("seed", mostly_thorough(KINDS, 34))
@pytest.mark.parametrize("late_s", mostly_thorough([0.0, 2.5], 2.5))
def test_a_look_each_second_sees_what_a_first_look_sees(seed: int, late_s: float) -> None:
    session = made(seed)
    cuts = tuple(float(second) for second in range(1, int(session.end_s)))
    looked, unlooked = Slowdowns(), Slowdowns()
    for second, batch in enumerate(_delayed(session.batches(cuts), late_s)):
        for fold in (looked, unlooked):
            fold.fold(batch)
        seen = looked.view()
        if second % 7 == 0:
            assert differences(seen, deepcopy(unlooked).view()) == []


def _delayed(batches: Iterator[Batch], late_s: float) -> Iterator[Batch]:
    """The batches, each with the readings that were made so long before its end."""
    waiting = NO_READINGS
    for batch in batches:
        waiting = np.concatenate([waiting, batch.readings])
        has_come = waiting["t_ns"] <= batch.until_ns - int(late_s * NS)
        yield replace(batch, readings=waiting[has_come])
        waiting = waiting[~has_come]


def test_these_sessions_hold_what_they_are_meant_to() -> None:
    assert all(made(seed).truth for seed in KINDS if seed != 229)
    assert whole(23)[0].slowdowns[0].from_start
    assert [s.then for s in whole(34)[0].slowdowns] == ["slower", "faster", ""]
