"""The tokens of a watched program are judged at equal position in the context, and its prompts at equal length."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.session.batch import Batch
from edgetop.session.generation_settings import Generation
from edgetop.session.manifest import Watched, WatchedStream
from edgetop.session.records import INFERENCE, MEASURE, REQUEST, TOKEN, WARMUP
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from edgetop.session.sized_calls import PREFILL_OF_PROGRAM, SizedCalls, sensors_of
from edgetop.session.token_aggregator import TokenAggregator
from tests.analysis.test_equal_position import (
    GROWING,
    MODELS,
    Model,
    assert_throttle_is_told,
    slowdowns_of,
    throttled,
    tokens_of,
)
from tests.analysis.test_prefill_slowdowns import LENGTHS, prompts
from tests.support.sessions import folded, make_manifest, phase_event
from tests.support.slow_sessions import readings_of, sensor
from tests.support.thorough import mostly_thorough

BATCH_SHARE = 0.95  # of the time between two tokens; the rest is the choice of the token


def sampled(t_ns, latency_ns, sizes, stream, most=10**9):
    """Readings of the sizes and times of calls, and their mean size, by sensor."""
    samples = SizedCalls().sample(stream, np.array(t_ns, np.int64), np.array(latency_ns, float), sizes, most)
    return {name: np.array(pairs, [("t_ns", "<i8"), ("value", "<f8")]) for name, pairs in samples.items()}


def session(model, seconds, slow=lambda t_s: 1.0, sensors=None, seed=0, made=None, tokens=None):
    """Return a session of a program whose batches have one token each, or the 20 tokens of a prompt.

    `made` has the times of further prompts, as `prompts` of the tests of the prefill returns them.
    """
    tokens, requests = tokens_of(model, seconds, slow, seed) if tokens is None else tokens
    rows, calls, sizes = np.zeros(len(tokens), TOKEN), np.zeros(len(tokens), INFERENCE), []
    for place, (t_ns, gap_ns, position, is_later, phase) in enumerate(tokens):
        rows[place] = (t_ns, gap_ns, position, is_later, phase, 1, False)
        took_ns = gap_ns * BATCH_SHARE if is_later else gap_ns
        calls[place] = (t_ns - took_ns, took_ns, 0, 0, MEASURE, True, 0)
        sizes.append(1.0 if is_later else float(model.prompt))
    ended = np.zeros(len(requests), REQUEST)
    for place, (start, first, end, position) in enumerate(requests):
        ended[place]["t_ns"], ended[place]["latency_ns"], ended[place]["ttft_ns"] = start, end - start, first - start
        ended[place]["position"], ended[place]["phase"] = position, MEASURE
    sensors, sizes = sensors or {}, np.array(sizes)
    # As often as a live session samples them: 16 in half a second.
    kept = np.arange(0, len(calls), max(1, len(calls) // (32 * seconds)))
    extra = sampled(calls["t_ns"][kept], calls["latency_ns"][kept], sizes[kept], 0)
    extra["input/0-mean"] = extra[sensors_of(0)[0]]
    if made is not None:
        extra |= sampled(made[0], made[2] * 1e6, made[1], PREFILL_OF_PROGRAM)
    ids, readings = [*sensors, *extra], readings_of(sensors)
    for place, values in enumerate(extra.values(), len(sensors)):
        more = np.zeros(len(values), readings.dtype)
        more["t_ns"], more["sensor"], more["value"] = values["t_ns"], place, values["value"]
        readings = np.concatenate([readings, more])
    manifest = make_manifest(*map(sensor, ids), generation=Generation(context=None, max_tokens=None))
    return Batch(
        seconds * NS,
        seconds=TokenAggregator(SecondAggregator()).add(calls, rows, ended),
        readings=readings[np.argsort(readings["t_ns"], kind="stable")],
        events=(phase_event(0, "measure"),),
        manifest=replace(manifest, watched=Watched((WatchedStream("/m.gguf"),))),
        restart=True,
    )


@pytest.mark.parametrize("seed", mostly_thorough(range(3), 0))
@pytest.mark.parametrize("model", MODELS)
def test_a_context_that_grows_is_no_slowdown(model, seed):
    analysis = folded([session(model, 150, seed=seed)])
    assert analysis.slowdowns_view().slowdowns == ()
    assert "SLOWED" not in str(analysis.verdict().state)


@pytest.mark.parametrize("model", [Model(most=900, base=8, growth=20.0), Model(most=2500, base=20, growth=40.0)])
def test_answers_that_grow_longer_and_longer_are_no_slowdown(model):
    assert slowdowns_of(session(model, 200)) == ()


@pytest.mark.parametrize("model", GROWING)
def test_a_throttle_while_the_context_grows_is_told_within_ten_seconds_with_its_cause(model):
    assert_throttle_is_told(session, model)


def test_at_positions_that_were_reached_before_an_unknown_slowdown_is_told_too():
    model = Model(most=900, base=20, growth=10.0)
    (slowdown,) = slowdowns_of(session(model, 160, lambda t_s: 1.25 if t_s >= 110 else 1.0))
    assert slowdown.cause == "unknown"
    assert abs(slowdown.start_ns / NS - 110) <= 3
    analysis = folded([session(model, 160, lambda t_s: 1.25 if t_s >= 110 else 1.0)])
    assert "SLOWED" in str(analysis.verdict().state)


@pytest.mark.parametrize("length", LENGTHS)
def test_prompts_of_any_lengths_are_no_slowdown(length):
    assert slowdowns_of(session(Model(most=40), 160, made=prompts(160, LENGTHS[length]))) == ()


def test_a_throttle_of_the_prefill_alone_is_told():
    made = prompts(160, LENGTHS["any"], lambda t_s: 1.35 if t_s >= 110 else 1.0)
    (slowdown,) = slowdowns_of(session(Model(most=40), 160, made=made))
    assert slowdown.streams == ("prefill",)
    assert abs(slowdown.start_ns / NS - 110) <= 4
    assert slowdown.latency_ratio == pytest.approx(1.35, abs=0.08)


def embedded(seconds, slow=lambda t_s: 1.0):
    """A program that generates nothing: its batches are prompts of 20 tokens, one each 50 ms. No token counts."""
    random, times = np.random.default_rng(0), np.arange(0.2, seconds, 0.05)
    return [(t_s * NS, 20e6 * slow(t_s) * random.lognormal(0, 0.02), 20, False, WARMUP) for t_s in times], []


def test_batches_of_a_program_that_generates_nothing_are_judged():
    for slow, found in ((lambda t_s: 1.3 if t_s >= 80 else 1.0, 1), (lambda _: 1.0, 0)):
        assert len(slowdowns_of(session(Model(), 130, tokens=embedded(130, slow)))) == found


def test_a_program_that_begins_with_long_prompts_is_compared_with_its_own_tokens():
    """Prompts of a minute must not be what tokens are compared with."""
    tokens, requests = tokens_of(Model(most=900, base=20, growth=10.0), 160, lambda t_s: 1.25 if t_s >= 110 else 1.0)
    first = [(t_s * NS, 1.9e9, 0, False, WARMUP) for t_s in range(2, 60, 2)]
    moved = [(t_ns + 60 * NS, *rest) for t_ns, *rest in tokens]
    later = [(*(t_ns + 60 * NS for t_ns in times), position) for *times, position in requests]
    batch = session(Model(), 220, tokens=(first + moved, later))
    (slowdown,) = slowdowns_of(batch)
    assert abs(slowdown.start_ns / NS - 170) <= 3
    assert slowdown.latency_ratio == pytest.approx(1.25, abs=0.04)


def test_pieces_of_any_size_are_judged_alike():
    batch = session(Model(), 90, lambda t_s: 1.2 if t_s >= 60 else 1.0, throttled(90, 60))
    analysis, whole = Analysis(), folded([batch])
    for begin in range(0, len(batch.seconds), 7):
        end = min(begin + 7, len(batch.seconds))
        readings = batch.readings[(batch.readings["t_ns"] >= begin * NS) & (batch.readings["t_ns"] < end * NS)]
        part = replace(batch, until_ns=end * NS, seconds=batch.seconds.between(begin, end), readings=readings)
        analysis.fold(part if begin == 0 else replace(part, events=(), manifest=None, restart=False))
    assert analysis.slowdowns_view().slowdowns == whole.slowdowns_view().slowdowns
