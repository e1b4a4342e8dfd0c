"""The phase of a session and what is measured, from its events."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetop.session.event_kinds import PhaseBegan, Remark, SessionOver
from edgetop.session.events import Body, Event
from edgetop.session.phases import Phases

RUN = (
    PhaseBegan("first"),
    PhaseBegan("idle", duration_ns=300),
    PhaseBegan("warmup", 50),
    Remark("mark"),
    PhaseBegan("measure", 1_000, 7_000),
    SessionOver("ended", "runs", last_end_ns=480),
)


def phases_of(bodies: Sequence[Body]) -> Phases:
    phases = Phases()
    phases.fold(tuple(Event(100 * number, body, "info", "engine", "") for number, body in enumerate(bodies)))
    return phases


PHASES = ("loading", "first", "idle", "warmup", "warmup", "measure", "over")  # after so many events of RUN


@pytest.mark.parametrize("count", range(len(PHASES)))
def test_the_phase_is_that_which_began_last(count: int) -> None:
    assert phases_of(RUN[:count]).phase == PHASES[count]


def test_it_says_what_was_asked_and_when_it_was_measured() -> None:
    found = phases_of(RUN)
    assert (found.idle_from_ns, found.idle_until_ns, found.idle_ns) == (100, 200, 300)
    assert (found.warmup_runs, found.runs, found.duration_ns) == (50, 1_000, 7_000)
    assert (found.measured_from_ns, found.measured_until_ns, found.over_ns) == (400, 480, 500)


def test_until_the_end_nothing_is_over() -> None:
    found = phases_of(RUN[:5])
    assert (found.over, found.over_ns, found.measured_until_ns) == (None, None, None)


def test_an_end_that_does_not_know_the_last_inference_is_the_end_itself() -> None:
    assert phases_of([PhaseBegan("measure"), SessionOver("recovered")]).measured_until_ns == 100


def test_what_recovery_says_of_the_end_counts() -> None:
    found = phases_of([PhaseBegan("measure"), SessionOver("ended", "runs"), SessionOver("recovered", "writer-killed")])
    assert found.over
    assert (found.over.reason, found.over_ns) == ("writer-killed", 200)


@given(st.lists(st.sampled_from(RUN), max_size=12), st.integers(0, 12))
def test_folding_again_and_in_pieces_changes_nothing(bodies: list[Body], cut: int) -> None:
    events = tuple(Event(100 * number, body, "info", "engine", "") for number, body in enumerate(bodies))
    whole, pieces = Phases(), Phases()
    whole.fold(events)
    for part in (events[:cut], events[:cut], events[cut:], events[cut:]):
        pieces.fold(part)
    assert vars(whole) == vars(pieces)
