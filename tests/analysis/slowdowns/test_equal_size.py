"""Latency at equal size: a change of the sizes of inputs is no slowdown and no drift, and a real slowdown is found."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.analysis.slowdowns.slowdowns import judged
from edgetop.analysis.verdict_reasons import State
from edgetop.cli.printing.report_text import summary
from edgetop.session.batch import Batch
from edgetop.session.records import NO_INFERENCES, NO_READINGS, Readings
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NO_SECONDS, NS, concatenate
from edgetop.session.sized_calls import MOST_CALLS, SizedCalls, sensors_of
from edgetop.wording.report_document import report_document
from tests.support.sessions import MS, ended_event, make_inferences, make_manifest, make_sensor, phase_event
from tests.support.thorough import mostly_thorough

Floats = NDArray[np.float64]
Sizes = Callable[[np.random.Generator, Floats], Floats]
END_S, CHANGE_S = 150, 80


def session(
    sizes: Sizes, slower: float = 1.0, power: float = 1.0, *, every_s: float = 0.02, is_over: bool = True,
    scatter: float = 0.03,
) -> list[Batch]:  # fmt: skip
    """Return a session whose inferences take a time that grows with the size of their inputs.

    `sizes`: of the inputs of inferences at these times in s. `slower`: ratio from CHANGE_S on. `power`: of the size
    with which the time grows. `every_s`: time between inferences.
    """
    random = np.random.default_rng(5)
    start_s = np.arange(0, END_S, every_s)
    elements = np.rint(sizes(random, start_s))
    took_ms = (0.5 + (elements / 10_000) ** power) * random.lognormal(0, scatter, len(start_s))
    took_ms *= np.where(start_s < CHANGE_S, 1, slower)
    runs = make_inferences((start_s * NS).astype(np.int64), (took_ms * MS).astype(np.int64))
    manifest = make_manifest(*map(make_sensor, sensors_of(0)))
    sampled, batches, aggregator = SizedCalls(), [], SecondAggregator()
    for second in range(END_S):
        now = runs[runs["t_ns"] // NS == second]
        of_now = elements[runs["t_ns"] // NS == second]
        samples = sampled.sample(0, now["t_ns"], now["latency_ns"], of_now)
        values = [(place, *pair) for place, sensor in enumerate(sensors_of(0)) for pair in samples.get(sensor, ())]
        readings = np.array([(t_ns, place, value) for place, t_ns, value in values], NO_READINGS.dtype)
        is_last = second == END_S - 1
        seconds = aggregator.add(now)
        ends = (ended_event(END_S * NS, "duration"),) if is_last and is_over else ()
        batches.append(
            Batch(
                (second + 1) * NS, NO_INFERENCES,
                concatenate([seconds, aggregator.close()]) if is_last else seconds, readings=ordered(readings),
                events=(phase_event(0, "measure", runs=None),) if not second else ends,
                manifest=None if second else manifest, restart=not second,
            )
        )  # fmt: skip
    return batches


def ordered(readings: Readings) -> Readings:
    return readings[np.argsort(readings["t_ns"], kind="stable")]


def mixture(before: float, after: float) -> Sizes:
    """Return sizes of which a share is large: `before` and `after` CHANGE_S."""

    def draw(random: np.random.Generator, start_s: Floats) -> Floats:
        share = np.where(start_s < CHANGE_S, before, after)
        return np.where(random.random(len(start_s)) < share, 90_000.0, 10_000.0)

    return draw


def growing(random: np.random.Generator, start_s: Floats) -> Floats:
    """Sizes that never repeat, four times as large from CHANGE_S on."""
    spread = random.uniform(0, 1.4, len(start_s))
    return 10_000 * np.exp(spread) * np.where(start_s < CHANGE_S, 1, 4)


def anything(random: np.random.Generator, start_s: Floats) -> Floats:
    """Sizes that never repeat, over three octaves, in another order each time."""
    return 10_000 * np.exp(random.uniform(0, 2.1, len(start_s)))


SHAPES = {
    "a mixture that turns round": mixture(0.2, 0.8),
    "a mixture that turns back": mixture(0.7, 0.3),
    "the other size alone": mixture(0.0, 1.0),
    "sizes that never repeat": anything,
    "sizes that grow": growing,
}


def prompts_and_tokens(random: np.random.Generator, start_s: Floats) -> Floats:
    """One long input, then 99 short ones, over and over."""
    return np.where(np.arange(len(start_s)) % 100 == 0, 160_000.0, 10_000.0)


def test_the_burst_is_that_of_the_usual_size_and_not_of_the_first_call() -> None:
    document = report_document(Analysis.of(session(prompts_and_tokens)))
    assert document["burst"]["p50_ms"] == pytest.approx(1.5, rel=0.05)
    assert document["latency"]["p50_ms"] == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize("every_s", [0.02, 0.7], ids=["fast", "slow"])
@pytest.mark.parametrize("power", mostly_thorough([1.0, 2.0], 2.0))
@pytest.mark.parametrize("name", mostly_thorough(SHAPES, "a mixture that turns round"))
def test_other_sizes_are_no_slowdown_and_no_drift(name: str, power: float, every_s: float) -> None:
    analysis = Analysis.of(session(SHAPES[name], power=power, every_s=every_s, is_over=False))
    assert analysis.slowdowns_view().slowdowns == ()
    assert analysis.verdict().state is State.STEADY
    document = report_document(analysis)
    assert document["drift_ratio"] == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("every_s", [0.02, 0.7], ids=["fast", "slow"])
@pytest.mark.parametrize(
    "name",
    mostly_thorough(
        ["a mixture that turns round", "a mixture that turns back", "sizes that never repeat"],
        "sizes that never repeat",
    ),
)
def test_a_slowdown_beneath_other_sizes_is_found(name: str, every_s: float) -> None:
    analysis = Analysis.of(session(SHAPES[name], 1.4, every_s=every_s))
    (slowdown,) = analysis.slowdowns_view().slowdowns
    assert slowdown.start_ns / NS == pytest.approx(CHANGE_S, abs=4)
    assert slowdown.latency_ratio == pytest.approx(1.4, abs=0.06)
    assert report_document(analysis)["drift_ratio"] == pytest.approx(1.4, abs=0.06)


def test_batches_of_any_length_are_judged_alike() -> None:
    batches = session(mixture(0.2, 0.8), 1.3)
    one_by_one = Analysis()
    for batch in batches:
        one_by_one.fold(batch)
        one_by_one.slowdowns_view()  # as a screen does
    first, last = batches[0], batches[-1]
    whole = Batch(
        last.until_ns, NO_INFERENCES, concatenate([one.seconds for one in batches]),
        readings=np.concatenate([one.readings for one in batches]), events=(*first.events, *last.events),
        manifest=first.manifest, restart=True,
    )  # fmt: skip
    assert Analysis.of([whole]).slowdowns_view().slowdowns == one_by_one.slowdowns_view().slowdowns
    assert report_document(Analysis.of([whole]))["drift_ratio"] == report_document(one_by_one)["drift_ratio"]


def test_a_viewer_elsewhere_continues_with_the_sizes_that_were_learned() -> None:
    batches = session(mixture(0.2, 0.8), 1.3)
    state = judged(batches, 60)
    cut = int(state["state"][1])  # the second up to which it is judged
    (batch,) = [Batch(cut * NS, NO_INFERENCES, NO_SECONDS, manifest=batches[0].manifest, restart=True, judged=state)]
    viewer = Analysis.of([batch, *batches[cut:]])
    (found,) = viewer.slowdowns_view().slowdowns
    (true,) = Analysis.of(batches).slowdowns_view().slowdowns
    assert (found.start_ns, found.latency_ratio) == (true.start_ns, true.latency_ratio)


def test_the_sample_is_small_and_does_not_follow_a_cycle() -> None:
    t_ns = np.arange(4_000, dtype=np.int64)
    elements = (t_ns % 250 * 10.0) + 1  # 16 calls at even distances would all have one size
    samples = SizedCalls().sample(3, t_ns, t_ns * 10, elements)
    sizes, took = (samples[sensor] for sensor in sensors_of(3))
    assert len(sizes) == MOST_CALLS
    assert len({size for _, size in sizes}) > MOST_CALLS // 2
    assert [t_ns for t_ns, _ in sizes] == [t_ns for t_ns, _ in took]
    assert all(elements[t_ns] == size for t_ns, size in sizes)


def test_the_text_report_has_the_latency_of_each_size() -> None:
    words = summary(report(Analysis.of(session(mixture(0.2, 0.8)))))
    assert "sizes      latency by the size of the inputs, of sampled calls" in words
    lines = words[words.index("sizes  ") :].splitlines()[2:4]
    assert [line.split()[0] for line in lines] == ["10,000", "90,000"]
    assert [float(line.split()[2]) for line in lines] == pytest.approx([1.5, 9.5], rel=0.02)
    assert "sizes  " not in summary(report(Analysis.of(session(mixture(0, 0)))))
