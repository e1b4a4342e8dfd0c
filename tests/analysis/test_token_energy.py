"""The energy of prompts and of generated tokens, from readings that are slower than either."""

from dataclasses import replace

import numpy as np
import pytest

from edgetop.analysis.token_energy import TokenEnergy
from edgetop.session.batch import Batch
from edgetop.session.generation_settings import Generation
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import INFERENCE, MEASURE, READING, REQUEST, TOKEN
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from edgetop.session.token_aggregator import TokenAggregator
from tests.support.sessions import make_manifest

PREFILL_W, DECODE_W, REST_W = 9.0, 6.0, 3.0
PROMPT, OUT = 200, 40


def session(prefill_s, token_s, pause_s, *, seconds=120, noise=0.05, seed=0, averages=False):
    """A batch of requests one after the other, with a reading of the board's power in each second."""
    random, now, tokens, requests, spans = np.random.default_rng(seed), 0.1, [], [], []
    while now < seconds:
        start, took = now, prefill_s * random.uniform(0.8, 1.2)
        spans += [(start, start + took, PREFILL_W), (start + took, start + took + (OUT - 1) * token_s, DECODE_W)]
        now += took
        tokens.append((now, took, PROMPT, False))
        for number in range(1, OUT):
            now += token_s
            tokens.append((now, token_s, PROMPT + number, True))
        requests.append((start, took, now))
        now += pause_s * random.uniform(0.5, 1.5)
    rows, runs, ended = (
        np.zeros(len(tokens), TOKEN),
        np.zeros(len(requests), INFERENCE),
        np.zeros(len(requests), REQUEST),
    )
    for place, (t_s, gap_s, position, is_later) in enumerate(tokens):
        rows[place] = (round(t_s * NS), round(gap_s * NS), position, is_later, MEASURE, 1, False)
    for place, (start, took, end) in enumerate(requests):
        runs[place] = (round(start * NS), round((end - start) * NS), 0, 0, MEASURE, True, 0)
        one = ended[place : place + 1]
        one["t_ns"], one["latency_ns"], one["prefill_ns"] = start * NS, (end - start) * NS, took * NS
        one["ttft_ns"], one["tokens_in"], one["phase"] = took * NS, PROMPT, MEASURE
    instants = np.arange(0, seconds, 0.01)
    watts = np.full(len(instants), REST_W)
    for begin, end, power in spans:
        watts[(instants >= begin) & (instants < end)] = power
    whole = int(seconds)
    readings = np.zeros(whole - 1, READING)
    for second in range(1, whole):
        at = second if averages else second - 1 + random.uniform(0, 1)
        now_w = watts[(second - 1) * 100 : second * 100].mean() if averages else watts[int(at * 100)]
        readings[second - 1] = (round(at * NS), 0, now_w * random.normal(1, noise))
    manifest = make_manifest(
        SensorInfo("power/in", "W", "", role="total", averages=averages), generation=Generation(1024, OUT)
    )
    made = TokenAggregator(SecondAggregator()).add(runs, rows, ended)
    return Batch(seconds * NS, seconds=made, readings=readings, manifest=manifest)


def view_of(batch):
    fold = TokenEnergy()
    fold.fold(batch)
    return fold.view()


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize(("prefill_s", "token_s", "pause_s"), [(0.15, 0.03, 0.7), (3.0, 0.05, 0.0), (0.5, 0.1, 0.2)])
def test_the_phases_are_told_apart(prefill_s, token_s, pause_s, averages):
    view = view_of(session(prefill_s, token_s, pause_s, seconds=400, averages=averages))
    for phase, expected in ((view.prefill, PREFILL_W * prefill_s / PROMPT), (view.decode, DECODE_W * token_s)):
        assert phase is not None
        assert phase.j_per_token == pytest.approx(expected, rel=max(0.06, 1.5 * phase.error))


def test_the_stated_error_holds():
    hits = {"prefill": 0, "decode": 0}
    for seed in range(15):
        prefill_s = 0.15 + 3.85 * seed / 14
        view = view_of(session(prefill_s, 0.04, 0.3, seconds=300, seed=seed))
        for name, expected in (("prefill", PREFILL_W * prefill_s / PROMPT), ("decode", DECODE_W * 0.04)):
            phase = getattr(view, name)
            assert phase is None or phase.error <= 0.3
            hits[name] += phase is not None and abs(phase.j_per_token / expected - 1) <= phase.error + 0.01
    assert min(hits.values()) >= 12


def test_without_a_total_or_with_few_seconds_there_is_no_figure():
    batch = session(0.5, 0.05, 0.1, seconds=15)
    assert view_of(batch).decode is None
    batch = session(0.5, 0.05, 0.1)
    part = SensorInfo("power/in", "W", "", role="part")
    assert view_of(replace(batch, manifest=make_manifest(part, generation=Generation(1024, OUT)))).decode is None


def test_pieces_give_what_the_whole_gives():
    batch = session(0.5, 0.05, 0.3)
    fold, size = TokenEnergy(), 10
    for begin in range(0, len(batch.seconds), size):
        end = min(len(batch.seconds), begin + size)
        times = batch.readings["t_ns"] // NS
        readings = batch.readings[(times >= begin) & (times < end)]
        until = batch.until_ns if end == len(batch.seconds) else end * NS
        part = replace(batch, until_ns=until, seconds=batch.seconds.between(begin, end), readings=readings)
        fold.fold(part if begin == 0 else replace(part, manifest=None))
    whole, pieces = view_of(batch).decode, fold.view().decode
    assert whole is not None
    assert pieces is not None
    assert pieces.j_per_token == pytest.approx(whole.j_per_token, rel=0.02)


@pytest.mark.parametrize(("seconds", "is_known"), [(23, False), (25, True)])
def test_tokens_have_an_energy_from_twenty_seconds_on(seconds, is_known):
    """The last four seconds wait for their readings."""
    assert (view_of(session(0.5, 0.05, 0.1, seconds=seconds, noise=0.0)).decode is not None) is is_known


@pytest.mark.parametrize(("prefill_s", "is_known"), [(0.043, False), (0.048, True)])
def test_prompts_have_an_energy_if_they_took_two_seconds_in_total(prefill_s, is_known):
    """The 43 prompts take 1.8 s, or 2.1 s."""
    batch = session(prefill_s, 0.05, 0.1, seconds=100, noise=0.0, averages=True)
    assert (view_of(batch).prefill is not None) is is_known
