"""What is little passes whole; of much, what a screen shows of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.relay.encoding import (
    EVENTS_AT_ONCE,
    LOG_HZ,
    MAX_SINGLE,
    READINGS_AT_ONCE,
    READINGS_HZ,
    SECONDS_AT_ONCE,
    SINGLE_HZ,
    in_pieces,
    thinned,
)
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.records import AGGREGATE, READING
from edgetop.session.seconds import NS
from tests.support.recordings import back_to_back, first_manifest
from tests.support.scripts import measured
from tests.support.sessions import differences, seconds_of


def log(count: int) -> tuple[Event, ...]:
    return tuple(read_event(i, "log", "warning", "engine", f"line {i}") for i in range(count))


def test_a_quiet_second_passes_whole():
    batch = measured(1).whole()
    assert differences(thinned(batch, 2), batch) == []


@pytest.mark.parametrize(("count", "span_s", "kept"), [(120, 1, 120), (121, 1, 1), (121, 2, 121), (5_000, 600, 1)])
def test_of_many_inferences_the_last_passes_as_a_sign_of_life(count, span_s, kept):
    assert SINGLE_HZ == 120
    assert MAX_SINGLE < 5_000
    inferences = back_to_back(count, 1e6)
    got = thinned(Batch(1, inferences), span_s).inferences
    assert got.tolist() == inferences[-kept:].tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_of_many_readings_extremes_first_and_last_pass(seed):
    random = np.random.default_rng(seed)
    readings = np.zeros(READINGS_HZ * 4, READING)
    readings["t_ns"] = np.sort(random.integers(0, 2 * NS, len(readings)))
    readings["sensor"] = random.integers(0, 3, len(readings))
    readings["value"] = random.normal(50, 10, len(readings)).round()
    got = thinned(Batch(2 * NS, readings=readings), 2).readings
    assert len(got) <= 2 * 3 * 4
    for second in range(2):
        for sensor in range(3):
            every, kept = (
                rows["value"][(rows["sensor"] == sensor) & (rows["t_ns"] // NS == second)] for rows in (readings, got)
            )
            assert (kept.min(), kept.max(), kept[0], kept[-1]) == (every.min(), every.max(), every[0], every[-1])


def test_a_chatty_engine_is_quieted_and_how_is_told():
    events = (*log(50), read_event(50, "mark", "info", "user", "here"))
    got = thinned(Batch(1, events=events), 1).events
    assert got[-1].kind == "mark"
    assert got[0].message == "... log lines left out: too many to send"
    assert [event.message for event in got[1:-1]] == [f"line {i}" for i in range(50 - LOG_HZ, 50)]


def test_what_is_no_log_line_passes_however_much_it_is():
    events = tuple(read_event(i, "sensor-lost", "warning", "x", "y") for i in range(500))
    assert thinned(Batch(1, events=events), 1).events == events


def test_pieces_are_bounded_and_together_the_whole():
    readings = np.zeros(3 * READINGS_AT_ONCE, READING)
    batch = Batch(
        7 * NS,
        back_to_back(500, 1e6),
        seconds_of(back_to_back(30_000, 1e7)),
        readings,
        log(2 * EVENTS_AT_ONCE),
        first_manifest(),
        restart=True,
        aggregates=np.zeros(9_000, AGGREGATE),
    )
    pieces = list(in_pieces(batch))
    assert max(len(piece.seconds) for piece in pieces) == SECONDS_AT_ONCE
    assert max(len(piece.events) for piece in pieces) == EVENTS_AT_ONCE
    assert differences(merge(pieces), batch) == []


def test_of_nothing_there_is_one_piece_that_says_how_late_it_is():
    (piece,) = in_pieces(Batch(5))
    assert (piece.until_ns, piece.is_empty) == (5, True)
