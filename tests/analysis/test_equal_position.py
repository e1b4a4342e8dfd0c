"""A growing context is no slowdown, and a throttle in a growing context is one."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from edgetop.analysis import faults
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.folds import FOLDS
from edgetop.analysis.progress import is_stalled
from edgetop.analysis.report_parts import span as part_of
from edgetop.analysis.slowdowns.equal_position import EqualPosition
from edgetop.session.batch import Batch
from edgetop.session.generation_settings import Generation
from edgetop.session.records import INFERENCE, MEASURE, REQUEST, TOKEN
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, TOKEN_SECOND, TokenSeconds
from edgetop.session.token_aggregator import TokenAggregator
from tests.support.sessions import folded, make_inferences, make_manifest, phase_event, seconds_of
from tests.support.slow_sessions import readings_of, sensor
from tests.support.thorough import mostly_thorough


@dataclass(frozen=True)
class Model:
    """Time per token in ms: `base` + `growth` x position / 1000, in steps of `step` positions, curved by `curve`."""

    base: float = 20.0
    growth: float = 5.0
    step: int = 1
    curve: float = 0.0
    noise: float = 0.02
    prompt: int = 20
    most: int = 4000

    def ms(self, position):
        stepped = position // self.step * self.step
        return self.base + self.growth * stepped / 1000 + self.curve * (stepped / 1000) ** 2


def tokens_of(model, seconds, slow=lambda t_s: 1.0, seed=0):
    random, now, tokens, requests = np.random.default_rng(seed), 0.2e9, [], []
    while now < seconds * NS:
        start, position = now, model.prompt
        now += 5e6 * model.prompt / 20
        first = now
        tokens.append((now, now - start, position, False, MEASURE))
        while position - model.prompt < model.most and now < seconds * NS:
            gap = model.ms(position) * 1e6 * slow(now / NS) * random.lognormal(0, model.noise)
            now += gap
            position += 1
            tokens.append((now, gap, position, True, MEASURE))
        requests.append((start, first, now, position))
    return tokens, requests


def session(model, seconds, slow=lambda t_s: 1.0, sensors=None, seed=0):
    tokens, requests = tokens_of(model, seconds, slow, seed)
    rows = np.zeros(len(tokens), TOKEN)
    for name, column in zip(
        ("t_ns", "gap_ns", "position", "is_later", "phase"), zip(*tokens, strict=True), strict=True
    ):
        rows[name] = column
    runs, ended = np.zeros(len(requests), INFERENCE), np.zeros(len(requests), REQUEST)
    for place, (start, first, end, position) in enumerate(requests):
        runs[place] = (start, end - start, 0, 0, MEASURE, True, 0)
        ended[place]["t_ns"], ended[place]["latency_ns"], ended[place]["ttft_ns"] = start, end - start, first - start
        ended[place]["position"], ended[place]["phase"] = position, MEASURE
    aggregator = TokenAggregator(SecondAggregator())
    made = aggregator.add(runs, rows, ended)
    sensors = sensors or {}
    manifest = make_manifest(*map(sensor, sensors), generation=Generation(context=4096, max_tokens=model.most))
    return Batch(
        seconds * NS,
        seconds=made,
        readings=readings_of(sensors),
        events=(phase_event(0, "measure"),),
        manifest=manifest,
        restart=True,
    )


def slowdowns_of(batch: Batch):
    return folded([batch]).slowdowns_view().slowdowns


MODELS = [
    Model(base=base, growth=growth, step=step, noise=noise)
    for base, growth in ((20.0, 5.0), (8.0, 6.0), (60.0, 4.0), (100.0, 60.0))
    for step, noise in ((1, 0.02), (256, 0.05))
]


@pytest.mark.parametrize("seed", mostly_thorough(range(3), 0))
@pytest.mark.parametrize("model", MODELS)
def test_a_context_that_grows_is_no_slowdown(model, seed):
    assert slowdowns_of(session(model, 150, seed=seed)) == ()


@pytest.mark.parametrize("model", [Model(curve=3.0), Model(base=8, growth=0, curve=2.5), Model(most=300, growth=40.0)])
def test_growth_that_is_no_line_is_no_slowdown_either(model):
    analysis = folded([session(model, 240)])
    assert analysis.slowdowns_view().slowdowns == ()
    assert "STEADY" in str(analysis.verdict().state) or "UNKNOWN" not in str(analysis.verdict().state)


def throttled(seconds, begin_s):
    flag = [0.0] * begin_s + [1.0] * (seconds - begin_s)
    temp = [70.0 + 15.0 * min(1.0, second / begin_s) for second in range(seconds)]
    clock = [1800.0] * begin_s + [1500.0] * (seconds - begin_s)
    return {"throttle/thermal": flag, "temp/cpu-thermal": temp, "freq/cpu0": clock}


GROWING = (Model(), Model(base=8, growth=6), Model(step=256, noise=0.04), Model(base=60, growth=4))


def assert_throttle_is_told(session_of, model):
    """Assert that a throttle by a fifth after a minute is found within ten seconds, with its cause and its extent.

    `session_of` makes the batch of a session as `session` does.
    """
    seconds, begin_s = 70, 60
    batch = session_of(model, seconds, lambda t_s: 1.2 if t_s >= begin_s else 1.0, throttled(seconds, begin_s))
    (slowdown,) = slowdowns_of(batch)
    assert slowdown.cause == "thermal"
    assert abs(slowdown.start_ns / NS - begin_s) <= 2
    assert slowdown.latency_ratio == pytest.approx(1.2, abs=0.04)


@pytest.mark.parametrize("model", GROWING)
def test_a_throttle_while_the_context_grows_is_told_within_ten_seconds_with_its_cause(model):
    assert_throttle_is_told(session, model)


def test_at_positions_that_were_reached_before_an_unknown_slowdown_is_told_too():
    model = Model(most=900, base=20, growth=10.0)  # a request takes some 25 s
    slow = session(model, 160, lambda t_s: 1.25 if t_s >= 110 else 1.0)
    (slowdown,) = slowdowns_of(slow)
    assert slowdown.cause == "unknown"
    assert abs(slowdown.start_ns / NS - 110) <= 3
    assert slowdowns_of(session(model, 160)) == ()


def test_at_positions_that_are_new_only_a_cause_makes_a_slowdown():
    assert slowdowns_of(session(Model(), 90, lambda t_s: 1.2 if t_s >= 60 else 1.0)) == ()


def test_short_requests_are_judged_by_their_tokens():
    model = Model(most=40, base=10, growth=1.0)
    (slowdown,) = slowdowns_of(session(model, 90, lambda t_s: 1.3 if t_s >= 50 else 1.0))
    assert slowdown.latency_ratio == pytest.approx(1.3, abs=0.04)
    analysis = folded([session(model, 90)])
    assert analysis.slowdowns_view().slowdowns == ()
    burst, sustained = analysis.spans()
    assert burst is not None
    assert sustained is not None
    assert burst.p50_ns == pytest.approx(10e6, rel=0.03)
    assert sustained.p50_ns == pytest.approx(burst.p50_ns, rel=0.02)


def test_pieces_of_any_size_are_judged_alike():
    batch = session(Model(), 90, lambda t_s: 1.2 if t_s >= 60 else 1.0, throttled(90, 60))
    analysis, whole = Analysis(), folded([batch])
    size = 7
    for begin in range(0, len(batch.seconds), size):
        end = min(begin + size, len(batch.seconds))
        readings = batch.readings[(batch.readings["t_ns"] >= begin * NS) & (batch.readings["t_ns"] < end * NS)]
        part = replace(batch, until_ns=end * NS, seconds=batch.seconds.between(begin, end), readings=readings)
        analysis.fold(part if begin == 0 else replace(part, events=(), manifest=None, restart=False))
    assert analysis.slowdowns_view().slowdowns == whole.slowdowns_view().slowdowns


def test_seconds_without_tokens_are_not_judged():
    batch = session(Model(), 20)
    judged = EqualPosition().judged(replace(batch.seconds, tokens=None))
    assert len(judged) == len(batch.seconds)
    assert judged.rows["count"].sum() == 0


def test_a_step_of_the_cache_that_looks_like_a_slowdown_does_not_hide_a_later_throttle():
    model = Model(base=33, growth=16, step=256, curve=1.0, noise=0.04, prompt=5, most=2000)  # 12 % at position 256
    assert slowdowns_of(session(model, 120)) == ()
    slow = session(model, 84, lambda t_s: 1.2 if t_s >= 74 else 1.0, throttled(84, 74), seed=1)
    (slowdown,) = slowdowns_of(slow)
    assert slowdown.cause == "thermal"
    assert slowdown.latency_ratio == pytest.approx(1.2, abs=0.05)


def test_a_request_that_takes_minutes_is_no_stall_while_its_tokens_come():
    batch = session(Model(base=30, most=4000), 60)
    analysis = folded([batch])
    assert not is_stalled(analysis.progress.view(), None, batch.manifest)
    assert not analysis.alerts.stalls.spans
    held = batch.seconds.rows["t_ns"] < 20 * NS
    stopped = folded([replace(batch, seconds=batch.seconds.where(held))])
    assert is_stalled(stopped.progress.view(), None, batch.manifest)


def converted_ms(*told):
    """Return the medians of seconds in ms, converted to the first position. `told`: position and median in ms."""
    positions, medians_ms = np.array(told, float).T
    times = seconds_of(make_inferences(np.arange(len(told)) * NS, 1_000))
    times.rows["p50_ns"] = (medians_ms * 1e6).astype(np.int64)
    rows = np.zeros(len(told), TOKEN_SECOND)
    rows["position_mean"] = positions
    found = EqualPosition().judged(replace(times, tokens=TokenSeconds(rows, times, times)))
    return (found.rows["p50_ns"] / 1e6).tolist()


def test_seconds_whose_tokens_arrived_at_once_are_not_judged():
    """A client that is slower than its server reads many events together, with no time between them."""
    batch = session(Model(most=900), 60)
    itl = batch.seconds.tokens.itl
    rows = itl.rows.copy()
    rows["p50_ns"][::3] = 0
    rows["p50_ns"][:5] = 0
    batch = replace(
        batch,
        seconds=replace(batch.seconds, tokens=replace(batch.seconds.tokens, itl=replace(itl, rows=rows))),
    )
    judged = EqualPosition().judged(batch.seconds).rows
    assert (judged["count"][rows["p50_ns"] == 0] == 0).all()
    assert (judged["count"] > 0).sum() > 30
    assert slowdowns_of(batch) == ()


def test_an_error_in_the_comparison_costs_slowdowns_and_not_the_session(monkeypatch):
    class Broken(EqualPosition):
        def judged(self, seconds):
            raise ZeroDivisionError("on purpose")

    monkeypatch.setitem(FOLDS, "positions", Broken)
    batch = session(Model(), 30)
    analysis = folded([batch, replace(batch, restart=False, manifest=None, events=())])
    assert [fault.name for fault in analysis.faults.distinct] == ["positions"]
    assert analysis.generation.view().tokens_out > 0
    assert analysis.slowdowns_view().slowdowns == ()
    faults.occurred.clear()


SHORT = Model(most=40, base=10, growth=1.0)
DISTURBED = [(3.0, 1), (3.0, 5), (1.5, 1), (6.0, 1), (1.5, 3)]  # how many times as long, until which second


@pytest.mark.parametrize("model", mostly_thorough([Model(), SHORT, Model(step=256)], Model(), SHORT))
@pytest.mark.parametrize("disturbed", mostly_thorough(DISTURBED, *DISTURBED[:2]))
def test_seconds_that_others_disturbed_at_the_start_are_not_usual(model, disturbed):
    factor, until_s = disturbed
    analysis = folded([session(model, 90, lambda t_s: factor if t_s < until_s else 1.0)])
    assert analysis.slowdowns_view().slowdowns == ()
    for span in analysis.spans():
        assert span is not None
        assert span.p50_ns == pytest.approx(model.ms(model.prompt) * 1e6, rel=0.08)


def test_a_span_of_tokens_is_settled_by_its_tokens_and_not_by_the_requests():
    analysis = folded([session(Model(most=300, base=10, growth=1.0), 100)])
    stream = analysis.only_stream
    assert stream.statistics.count < 100
    for part in analysis.spans():
        assert part.count > 2_000
        assert part_of(part, analysis, stream).settled == {"p50": True, "p99": True}


@pytest.mark.parametrize("noise", mostly_thorough([0.03, 0.05], 0.05))
def test_noise_does_not_make_the_usual_time_shorter(noise):
    """Of many ranges, some are faster by chance. That must not look as if the first one had been disturbed."""
    ratios = []
    for seed in range(8):
        random, positions = np.random.default_rng(seed), EqualPosition()
        passes = [position for _ in range(2) for position in range(20, 1500, 10)]
        times = [20e6 * math.exp(noise * random.standard_normal()) for _ in passes]
        told = [
            ns * positions._factor(1, position, ns, second)
            for second, (position, ns) in enumerate(zip(passes, times, strict=True))
        ]
        ratios.append(np.median(told[-100:]) / np.median(told[5:35]))
    assert np.median(ratios) == pytest.approx(1, abs=0.02)
    assert min(ratios) > 0.95


FLAT = [(32 * place + 16, 20.0) for place in range(4)]  # a second in each of four ranges, whose line is flat


@pytest.mark.parametrize(("position", "median_ms"), [(31, 40.0), (33, 20.0)])
def test_32_successive_positions_count_as_equal(position, median_ms):
    """Beyond them, before a line is known, a longer time is growth."""
    assert converted_ms(*[(10, 20.0)] * 5, (position, 40.0))[-1] == median_ms


@pytest.mark.parametrize(("ranges", "median_ms"), [(3, 20.0), (4, 40.0)])
def test_the_growth_is_known_from_four_ranges_on(ranges, median_ms):
    assert converted_ms(*FLAT[:ranges], (200, 40.0))[-1] == pytest.approx(median_ms, rel=1e-3)


def test_five_seconds_of_a_range_count_more_than_the_line():
    flat = [told for told in FLAT for _ in range(12)]
    *_, fifth, sixth = converted_ms(*flat, *[(144, 21.0)] * 6)
    assert fifth > 20.3
    assert sixth == pytest.approx(20.0, rel=1e-3)


def test_the_usual_time_of_a_range_is_that_of_its_first_twelve_seconds():
    told = converted_ms(*[(10, 20.0)] * 6, *[(10, 21.0)] * 30)
    assert told[-1] == pytest.approx(21 * 20 / 20.5, rel=1e-3)  # the median of six times 20 ms and six times 21 ms


@pytest.mark.parametrize(("again_ms", "is_usual"), [(24 * 1.045, True), (24 * 1.055, False)])
def test_a_range_that_was_slow_is_usual_if_the_next_request_takes_as_long_to_a_twentieth(again_ms, is_usual):
    told = converted_ms(*FLAT, (144, 24.0), *FLAT, (144, again_ms), (144, again_ms))
    assert (told[-1] < 0.99 * again_ms) is is_usual


def with_requests_at_once(batch, active, slow):
    """Give each second a number of requests at the same time, and times per token that grow with it."""
    tokens = batch.seconds.tokens
    rows, itl = tokens.rows.copy(), tokens.itl.rows.copy()
    for place in range(len(rows)):
        number = active(place)
        median = itl["p50_ns"][place] * (1 + 0.6 * (number - 1)) * slow(place)
        rows["active"][place], rows["active_count"][place] = number, itl["count"][place]
        rows["active_p50_ns"][place], rows["active_position"][place] = median, rows["position_mean"][place]
    return replace(batch, seconds=replace(batch.seconds, tokens=replace(tokens, rows=rows)))


def test_more_requests_at_the_same_time_are_no_slowdown():
    model = Model(most=200)
    for active in (lambda s: 1 if s < 60 else 4, lambda s: 1 + s % 3, lambda s: 1 + s // 20 % 4):
        assert slowdowns_of(with_requests_at_once(session(model, 160), active, lambda _: 1.0)) == ()


@pytest.mark.parametrize("active", [lambda s: 3, lambda s: 1 + s % 3, lambda s: 1 + s // 7 % 2])
def test_a_throttle_of_parallel_requests_is_told(active):
    slow = with_requests_at_once(session(Model(most=200), 160), active, lambda s: 1.25 if s >= 110 else 1.0)
    (slowdown,) = slowdowns_of(slow)
    assert abs(slowdown.start_ns / NS - 110) <= 3
    assert slowdown.latency_ratio == pytest.approx(1.25, abs=0.04)


def test_a_throttle_with_which_the_number_of_requests_rises_is_told():
    slow = with_requests_at_once(
        session(Model(most=200), 160), lambda s: 1 + s % 2 + (s >= 115), lambda s: 1.25 if s >= 110 else 1.0
    )
    (slowdown,) = slowdowns_of(slow)
    assert abs(slowdown.start_ns / NS - 110) <= 3
    assert slowdown.end_ns is None
