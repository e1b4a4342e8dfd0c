"""How soon an engine's buffer is half full."""

import math

import pytest

from edgetop.engines.engine_protocol import LEAST_POLL_S, EngineUpdate, FillRate, LogLine, join_updates
from tests.support.scripted_engine import inferences

LINE = LogLine("info", "engine", "hello")


def filled(*polls: tuple[float, float]) -> list[float]:
    """The answers to (time of a poll, share that was full then)."""
    now = [0.0]
    rate, answers = FillRate(lambda: now[0]), []
    for at, held in polls:
        now[0] = at
        answers.append(rate.half_full_in_s(held))
    return answers


def test_it_follows_the_rate_since_the_last_poll() -> None:
    assert filled((0.5, 0.25), (1.5, 0.5), (2.0, 0.125)) == pytest.approx([1.0, 1.0, 2.0])


def test_a_full_buffer_halves_the_time_until_the_rate_is_known() -> None:
    assert filled((0.5, 1.0), (0.75, 1.0), (0.875, 0.5)) == pytest.approx([0.25, 0.125, 0.125])


def test_an_empty_buffer_need_not_be_polled() -> None:
    assert filled((0.5, 0.0)) == [math.inf]


def test_no_rate_makes_polling_a_load() -> None:
    assert filled((0.001, 1.0)) == [LEAST_POLL_S]


def test_joined_updates_hold_all_in_order_and_the_last_state() -> None:
    first = EngineUpdate(inferences([1, 2]), (LINE,), 0.5, is_behind=True)
    last = EngineUpdate(inferences([3]), (LINE, LINE), 0.25)
    joined = join_updates([first, last])
    assert joined.records["t_ns"].tolist() == [1, 2, 3]
    assert (len(joined.messages), joined.poll_within_s, joined.is_behind) == (3, 0.25, False)
