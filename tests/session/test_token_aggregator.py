"""Tokens and requests in seconds: however they come in pieces, the same seconds come out."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.session import histogram
from edgetop.session.records import INFERENCE, MEASURE, NO_INFERENCES, NO_REQUESTS, NO_TOKENS, REQUEST, TOKEN, WARMUP
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, Seconds, concatenate, summed
from edgetop.session.token_aggregator import CANCELLED, TokenAggregator
from tests.support.thorough import mostly_thorough

MS = 1_000_000


def generated(requests=12, tokens=30, gap_ns=70 * MS, seed=0):
    """Requests one after the other: (inferences, tokens, requests)."""
    random, now = np.random.default_rng(seed), 300 * MS
    rows = np.zeros(requests, REQUEST)
    runs = np.zeros(requests, INFERENCE)
    made = []
    for place in range(requests):
        start, ttft = now, int(random.integers(20, 60)) * MS
        gaps = (gap_ns * random.lognormal(0, 0.1, tokens - 1)).astype(np.int64)
        times = start + ttft + np.concatenate([[0], np.cumsum(gaps)])
        own = np.zeros(tokens, TOKEN)
        own["t_ns"], own["gap_ns"] = times, np.concatenate([[ttft], gaps])
        own["position"], own["is_later"], own["phase"] = 40 + np.arange(tokens), np.arange(tokens) > 0, MEASURE
        made.append(own)
        now = int(times[-1]) + 5 * MS
        rows[place]["t_ns"], rows[place]["latency_ns"] = start, times[-1] - start
        for name, value in (("tokens_in", 40), ("tokens_out", tokens), ("prefill_ns", ttft), ("phase", MEASURE)):
            rows[place][name] = value
        rows[place]["position"] = 40 + tokens - 1
        runs[place] = (start, times[-1] - start, 0, 0, MEASURE, True, 0)
    return runs, np.concatenate(made), rows


def aggregated(runs, tokens, requests, cuts_ns=()):
    """As the engine sends them: a request comes when it has ended, a token when it is there."""
    aggregator, made, before = TokenAggregator(SecondAggregator()), [], 0
    ends, asked = (rows["t_ns"] + rows["latency_ns"] for rows in (runs, requests))
    for cut in [*sorted(cuts_ns), 2**62]:
        own = (tokens["t_ns"] >= before) & (tokens["t_ns"] < cut)
        ran, over = ((times >= before) & (times < cut) for times in (ends, asked))
        made.append(aggregator.add(runs[ran], tokens[own], requests[over]))
        before = cut
    return concatenate([*made, aggregator.close()])


def same(one: Seconds, other: Seconds) -> None:
    assert one.rows.tolist() == other.rows.tolist()
    assert one.tokens is not None
    assert other.tokens is not None
    assert one.tokens.rows.tolist() == other.tokens.rows.tolist()
    for name in ("itl", "ttft"):
        left, right = getattr(one.tokens, name), getattr(other.tokens, name)
        assert left.rows.tolist() == right.rows.tolist()
        assert (left.bucket.tolist(), left.bucket_count.tolist()) == (
            right.bucket.tolist(),
            right.bucket_count.tolist(),
        )


def test_each_token_and_request_is_in_its_second():
    runs, tokens, requests = generated()
    seconds = aggregated(runs, tokens, requests)
    assert seconds.tokens is not None
    assert np.diff(seconds.rows["t_ns"]).tolist() == [NS] * (len(seconds) - 1)
    ends = requests["t_ns"] + requests["latency_ns"]
    for row, counted in zip(seconds.rows, seconds.tokens.rows, strict=True):
        inside = (tokens["t_ns"] >= row["t_ns"]) & (tokens["t_ns"] < row["t_ns"] + NS)
        ended = (ends >= row["t_ns"]) & (ends < row["t_ns"] + NS)
        assert counted["tokens_out"] == np.count_nonzero(inside)
        assert counted["requests"] == row["count"] == np.count_nonzero(ended)
        later = tokens[inside & tokens["is_later"]]
        assert counted["position_mean"] == (later["position"].mean() if len(later) else 0)
    gaps = tokens["gap_ns"][tokens["is_later"]]
    assert seconds.tokens.itl.histogram().tolist() == histogram.count_buckets(gaps).tolist()
    assert seconds.tokens.ttft.rows["count"].sum() == len(runs)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40 * NS), max_size=12))
def test_pieces_of_any_size_give_the_same_seconds(cuts):
    data = generated()
    same(aggregated(*data, cuts), aggregated(*data))


def parallel():
    """Four requests at a time, each in a slot of its own: as `generated`, slot after slot."""
    slots = [generated(requests=5, gap_ns=(40 + 30 * seed) * MS, seed=seed) for seed in range(4)]
    return tuple(np.concatenate(column) for column in zip(*slots, strict=True))


@pytest.mark.parametrize("seed", mostly_thorough(range(5), 0))
def test_tokens_and_requests_in_any_order_give_the_same_seconds(seed):
    """A server is read slot by slot, and a first token is known with the one after it."""
    random = Random(seed)
    cuts = [random.randrange(20 * NS) for _ in range(3)]
    runs, tokens, requests = parallel()
    by_time = runs[np.argsort(runs["t_ns"])], tokens[np.argsort(tokens["t_ns"])], requests[np.argsort(requests["t_ns"])]
    shuffled = [rows[random.sample(range(len(rows)), len(rows))] for rows in (tokens, requests)]
    expected = aggregated(*by_time)
    same(aggregated(by_time[0], tokens, requests, cuts), expected)
    same(aggregated(by_time[0], *shuffled, cuts), expected)


@pytest.mark.parametrize("seed", mostly_thorough(range(5), 0))
def test_tokens_that_come_seconds_late_keep_their_times(seed):
    random = Random(seed)
    runs, tokens, requests = parallel()
    places = sorted(range(len(tokens)), key=lambda place: int(tokens["t_ns"][place]) + random.randrange(6 * NS))
    aggregator, parts = TokenAggregator(SecondAggregator()), np.array_split(np.array(places), 20)
    made = [aggregator.add(NO_INFERENCES, tokens[part], NO_REQUESTS) for part in parts]
    made += [aggregator.add(runs[np.argsort(runs["t_ns"])], NO_TOKENS, requests), aggregator.close()]
    late, expected = concatenate(made).tokens, aggregated(runs[np.argsort(runs["t_ns"])], tokens, requests).tokens
    for name in ("itl", "ttft"):
        one, other = getattr(late, name), getattr(expected, name)
        assert one.histogram().tolist() == other.histogram().tolist()
        assert one.rows["sum_ns"][one.rows["count"] > 0].sum() == other.rows["sum_ns"][other.rows["count"] > 0].sum()
        assert one.rows["max_ns"].max() == other.rows["max_ns"].max()
    for name in ("requests", "tokens_in", "tokens_out", "prefill_ns"):
        assert late.rows[name].sum() == expected.rows[name].sum()


def test_seconds_come_while_a_request_is_still_running():
    _, tokens, _ = generated(requests=1, tokens=200)
    aggregator = TokenAggregator(SecondAggregator())
    early = aggregator.add(NO_INFERENCES, tokens[tokens["t_ns"] < 5 * NS + 500 * MS], NO_REQUESTS)
    assert early.rows["t_ns"].tolist() == [second * NS for second in range(5)]
    assert early.tokens is not None
    assert early.tokens.rows["tokens_out"][1:].min() > 10
    assert early.rows["count"].sum() == 0


def test_warm_up_and_cancelled_requests_do_not_count():
    runs, tokens, requests = generated(requests=4)
    tokens["phase"][:30], requests["phase"][0], runs["phase"][0] = WARMUP, WARMUP, WARMUP
    requests["finish"][3] = CANCELLED
    seconds = aggregated(runs[:3], tokens, requests[:3])
    cut = TokenAggregator(SecondAggregator())
    with_cut = concatenate([cut.add(runs[:3], tokens, requests), cut.close()])
    assert seconds.tokens is not None
    assert with_cut.tokens is not None
    assert seconds.tokens.rows["requests"].sum() == with_cut.tokens.rows["requests"].sum() == 2
    assert seconds.tokens.rows["tokens_out"].sum() == 90


def test_nothing_gives_nothing():
    aggregator = TokenAggregator(SecondAggregator())
    assert len(aggregator.add(NO_INFERENCES, NO_TOKENS, NO_REQUESTS)) == len(aggregator.close()) == 0


def test_parts_without_tokens_join_with_those_that_have_them():
    seconds = aggregated(*generated())
    bare = Seconds(seconds.rows, seconds.offsets, seconds.bucket, seconds.bucket_count)
    both = concatenate([seconds, bare])
    assert both.tokens is not None
    assert len(both.tokens) == len(both) == 2 * len(seconds)
    assert both.tokens.rows["tokens_out"].sum() == 12 * 30


@pytest.mark.parametrize("every", [1, 4, 16])
def test_sums_of_seconds_keep_every_token(every):
    seconds = aggregated(*generated())
    merged = summed(seconds, every)
    assert merged.tokens is not None
    assert seconds.tokens is not None
    assert merged.tokens.itl.histogram().tolist() == seconds.tokens.itl.histogram().tolist()
    assert merged.between(2, 5).take(np.array([0, 2])).tokens is not None


def test_what_is_learned_late_counts_in_the_next_second():
    """A watched program shows a first token with the one after it, and a request with the next one."""
    runs, tokens, requests = generated()
    late = requests["t_ns"].searchsorted(3 * NS)
    aggregator = TokenAggregator(SecondAggregator())
    shown = ~((tokens["t_ns"] < 3 * NS) & ~tokens["is_later"])
    made = [aggregator.add(runs[:late], tokens[shown & (tokens["t_ns"] < 5 * NS)], requests[:0])]
    assert len(made[0])
    made.append(
        aggregator.add(runs[late:], np.concatenate([tokens[~shown], tokens[tokens["t_ns"] >= 5 * NS]]), requests)
    )
    seconds = concatenate([*made, aggregator.close()])
    assert int(seconds.tokens.rows["requests"].sum()) == len(requests)
    assert int(seconds.tokens.rows["tokens_out"].sum()) == len(tokens)
    assert int(seconds.tokens.ttft.rows["count"].sum()) == len(requests)
