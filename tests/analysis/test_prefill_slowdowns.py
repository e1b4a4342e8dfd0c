"""Prompts of many lengths are no slowdown of the prefill, and a throttle of the prefill is one."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.session.batch import Batch
from edgetop.session.sized_calls import PREFILL, sensors_of
from tests.analysis.test_equal_position import Model, session
from tests.support.sessions import folded, make_manifest
from tests.support.slow_sessions import readings_of, sensor
from tests.support.thorough import mostly_thorough

NS = 1_000_000_000


def prompts(seconds, length, slow=lambda t_s: 1.0, each_s=0.5, seed=0):
    """Readings of the length and the time of a prompt each half second: 3 ms + 0.4 ms a token."""
    random, times = np.random.default_rng(seed), np.arange(0.3, seconds, each_s)
    lengths = np.array([length(t_s, random) for t_s in times], np.float64)
    took_ms = (3 + 0.4 * lengths + 2e-5 * lengths**2) * random.lognormal(0, 0.02, len(times))
    took_ms *= [slow(t_s) for t_s in times]
    return (times * NS).astype(np.int64), lengths, took_ms


def with_prompts(batch: Batch, made, sensors=None) -> Batch:
    size, took = sensors_of(PREFILL)
    sensors = sensors or {}
    ids = [*sensors, size, took]
    readings = readings_of(sensors)
    times, *columns = made
    for place, values in enumerate(columns, len(sensors)):
        rows = np.zeros(len(times), readings.dtype)
        rows["t_ns"], rows["sensor"], rows["value"] = times, place, values
        readings = np.concatenate([readings, rows])
    readings = readings[np.argsort(readings["t_ns"], kind="stable")]
    manifest = make_manifest(*map(sensor, ids), generation=batch.manifest.generation)
    return replace(batch, readings=readings, manifest=manifest)


LENGTHS = {
    "one": lambda t_s, random: 200,
    "two in turn": lambda t_s, random: 64 if int(2 * t_s) % 2 else 512,
    "short, then long": lambda t_s, random: 64 if t_s < 80 else 700,
    "long, then short": lambda t_s, random: 700 if t_s < 80 else 64,
    "any": lambda t_s, random: random.integers(20, 900),
    "growing": lambda t_s, random: 20 + 5 * t_s,
}


@pytest.mark.parametrize("seed", mostly_thorough(range(4), 0))
@pytest.mark.parametrize("length", LENGTHS)
def test_a_mix_of_lengths_is_no_slowdown(length, seed):
    batch = with_prompts(session(Model(most=40), 160, seed=seed), prompts(160, LENGTHS[length], seed=seed))
    assert folded([batch]).slowdowns_view().slowdowns == ()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("length", ["one", "two in turn", "any"])
def test_a_throttle_of_the_prefill_alone_is_told(length, seed):
    made = prompts(160, LENGTHS[length], lambda t_s: 1.35 if t_s >= 110 else 1.0, seed=seed)
    analysis = folded([with_prompts(session(Model(most=40), 160, seed=seed), made)])
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.streams == ("prefill",)
    assert abs(slowdown.start_ns / NS - 110) <= 4
    assert slowdown.latency_ratio == pytest.approx(1.35, abs=0.08)


def test_a_throttle_of_both_is_one_slowdown_with_its_cause():
    seconds, begin_s = 130, 110
    limits = {
        "throttle/thermal": [0.0] * begin_s + [1.0] * (seconds - begin_s),
        "freq/cpu0": [1800.0] * begin_s + [1400.0] * (seconds - begin_s),
    }

    def slow(t_s):
        return 1.3 if t_s >= begin_s else 1.0

    batch = with_prompts(session(Model(most=40), seconds, slow), prompts(seconds, LENGTHS["any"], slow), limits)
    (slowdown,) = folded([batch]).slowdowns_view().slowdowns
    assert (slowdown.cause, slowdown.streams) == ("thermal", ())


def without_later_tokens(batch: Batch) -> Batch:
    tokens = batch.seconds.tokens
    bare = replace(tokens.itl, rows=tokens.itl.rows.copy())
    bare.rows["count"] = 0
    return replace(batch, seconds=replace(batch.seconds, tokens=replace(tokens, itl=bare)))


def test_a_load_that_only_reads_prompts_is_judged_by_them():
    made = prompts(160, LENGTHS["any"], lambda t_s: 1.3 if t_s >= 110 else 1.0)
    batch = without_later_tokens(with_prompts(session(Model(most=40), 160), made))
    analysis = folded([batch])
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert abs(slowdown.start_ns / NS - 110) <= 4
    assert "SLOWED" in str(analysis.verdict().state)
    steady = folded([without_later_tokens(with_prompts(session(Model(most=40), 160), prompts(160, LENGTHS["any"])))])
    assert "STEADY" in str(steady.verdict().state)


def test_pieces_of_any_size_are_judged_alike():
    made = prompts(120, LENGTHS["any"], lambda t_s: 1.4 if t_s >= 80 else 1.0)
    whole = with_prompts(session(Model(most=40), 120), made)
    expected = folded([whole]).slowdowns_view().slowdowns
    pieces = []
    for begin in range(0, 120, 7):
        end = min(begin + 7, 120)
        inside = (whole.readings["t_ns"] >= begin * NS) & (whole.readings["t_ns"] < end * NS)
        rows = whole.seconds.rows["t_ns"] // NS
        first, last = np.searchsorted(rows, [begin, end])
        pieces.append(
            Batch(
                end * NS, seconds=whole.seconds.between(int(first), int(last)), readings=whole.readings[inside],
                events=whole.events if not begin else (), manifest=whole.manifest if not begin else None,
                restart=not begin,
            )
        )  # fmt: skip
    assert len(expected) == 1
    assert folded(pieces).slowdowns_view().slowdowns == expected
