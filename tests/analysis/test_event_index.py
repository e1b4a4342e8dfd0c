"""Who was at work at a time, and what was not known of it then."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.event_index import KNOWN_WITHIN_S, EventIndex
from edgetop.session.engine_events import ProfileBurst, SlowInference
from edgetop.session.event_kinds import Competing, GpuCompeting, MemoryTaken, SensorSlow
from edgetop.session.events import Body, Event
from edgetop.session.seconds import NS

MS = 1_000_000
TIMES_NS = st.integers(0, 40 * NS)


def event(t_ns: int, body: Body) -> Event:
    return Event(t_ns, body, "info", "x", "y")


def burst(t_ns: int, duration_ns: int) -> Event:
    return event(t_ns, ProfileBurst(duration_ns=duration_ns))


def witnesses_of(*events: Event) -> EventIndex:
    event_index = EventIndex()
    event_index.on_event(events)
    return event_index


def test_a_burst_overlaps_what_ran_within_it_or_just_after_it() -> None:
    event_index = witnesses_of(burst(10 * NS, NS))
    assert event_index.overlaps(ProfileBurst, 10 * NS + 1, 10 * NS + 2)
    assert event_index.overlaps(ProfileBurst, 11 * NS - 1, 12 * NS)
    assert not event_index.overlaps(ProfileBurst, 11 * NS, 12 * NS)
    assert event_index.overlaps(ProfileBurst, 11 * NS, 12 * NS, after_ns=100 * MS)
    assert not event_index.overlaps(ProfileBurst, 9 * NS, 10 * NS)
    assert not event_index.overlaps(SensorSlow, 10 * NS, 11 * NS)


def test_what_is_told_long_after_was_not_known_live() -> None:
    event_index = witnesses_of(event(10 * NS, SensorSlow(5 * NS, 9 * NS)))
    assert not event_index.overlaps(SensorSlow, 10 * NS, 11 * NS)
    assert event_index.overlaps(SensorSlow, 10 * NS, (14 - KNOWN_WITHIN_S) * NS + 1)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(TIMES_NS, st.integers(0, 20 * NS), st.integers(0, 3)), max_size=20),
    st.lists(st.tuples(TIMES_NS, st.integers(1, 3 * NS), st.integers(0, NS)), max_size=5),
)
def test_every_event_is_looked_at_in_whatever_order_they_came(
    lasted: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    event_index = EventIndex()
    for t_ns, duration_ns, _ in lasted:
        event_index.on_event([burst(t_ns, duration_ns)])
        event_index.overlaps(ProfileBurst, 0, 1)  # asked in between, it learns of the next all the same
    for begin_ns, length_ns, after_ns in asked:
        end_ns = begin_ns + length_ns
        expected = any(
            t_ns < end_ns and begin_ns - after_ns < t_ns + duration_ns < end_ns + KNOWN_WITHIN_S * NS
            for t_ns, duration_ns, _ in lasted
        )
        assert event_index.overlaps(ProfileBurst, begin_ns, end_ns, after_ns) == expected


def test_the_nearest_competitor_is_named() -> None:
    event_index = witnesses_of(
        event(2 * NS, Competing("far", 50)),
        event(30 * NS, Competing("near", 50)),
        event(36 * NS, Competing("later", 50)),
    )
    assert event_index.competitor_at(32) == ("near", False)
    assert event_index.competitor_at(35) == ("later", False)
    assert event_index.competitor_at(99) == ("", False)
    assert event_index.in_second(Competing, 30) == [(30 * NS, Competing("near", 50))]
    assert event_index.in_second(SlowInference, 30) == ()


@pytest.mark.parametrize(("told_s", "name"), [(64, ""), (66, "stress"), (103, "stress"), (104, "")])
def test_a_process_is_named_for_35_s_and_if_it_is_reported_3_s_late(told_s: int, name: str) -> None:
    event_index = witnesses_of(event(told_s * NS, Competing("stress", 90.0)))
    assert event_index.competitor_at(100) == (name, False)


@pytest.mark.parametrize(("told_s", "is_named"), [(64, False), (66, True)])
def test_the_process_of_now_was_reported_in_the_last_35_s(told_s: int, is_named: bool) -> None:
    event_index = witnesses_of(event(told_s * NS, Competing("stress", 90.0)))
    assert event_index.competitor_now(100) == (("stress", 90.0) if is_named else ("", 0.0))


def test_processes_on_the_gpu_are_named_apart_from_those_on_the_cpu() -> None:
    event_index = witnesses_of(
        event(30 * NS, Competing("make", 150.0)),
        event(30 * NS, GpuCompeting("blender", 60.0)),
        event(40 * NS, GpuCompeting("ffmpeg", 85.5)),
        event(60 * NS, GpuCompeting("later", 99.0)),
    )
    assert event_index.competitor_at(31) == ("make", False)
    assert event_index.competitor_at(31, GpuCompeting) == ("blender", False)
    assert event_index.gpu_competitor(29, 45) == ("ffmpeg", 85.5)
    assert event_index.gpu_competitor(10, 20) is None
    assert event_index.competitors(29, 45) == ("make", 150.0)


def test_the_program_that_took_most_memory_near_a_slowdown_is_found() -> None:
    event_index = witnesses_of(
        event(10 * NS, MemoryTaken("long ago", 4000.0, 3900.0)),
        event(900 * NS, MemoryTaken("chromium", 900.0, 700.0)),
        event(990 * NS, MemoryTaken("cc1", 600.0, 590.0)),
        event(1200 * NS, MemoryTaken("later", 5000.0, 4000.0)),
    )
    found = event_index.memory_taker(1000, 1100)
    assert found is not None
    assert (found.name, found.grew_mib) == ("chromium", 700.0)
    assert event_index.memory_taker(10 + 300, 320) is not None
    assert event_index.memory_taker(10 + 301, 320) is None
