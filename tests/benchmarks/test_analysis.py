"""What a screen's analysis costs at each refresh, however long the session is."""

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from tests.benchmarks.ticks import RATE_HZ, SENSORS, Ticks, program_batches

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

WINDOW_NS = 10 * NS
YOUNG_S, OLD_S = 900, 24 * 3600
TICKS = 300
BUDGET_MS, BUDGET_MIB = 5.0, 20.0
STREAM_MS = 1.0  # of each further stream
LONGER = 1.2  # more than a tick of a young session takes: machines are not steadier


def tick_ms(*pasts_s: int) -> list[float]:
    """A refresh in sessions that have lasted so long, in turns: of the processor's time, what a quarter stay below."""
    sessions: list[tuple[Ticks, Analysis, list[int]]] = [(Ticks(), Analysis(), []) for _ in pasts_s]
    for past_s, (ticks, analysis, _) in zip(pasts_s, sessions, strict=True):
        for batch in ticks.batches(past_s, step_s=600):
            analysis.fold(batch)
    for _ in range(TICKS):
        for ticks, analysis, cost in sessions:
            (batch,) = ticks.batches(1)
            begun = time.thread_time_ns()
            analysis.fold(batch)
            analysis.view(WINDOW_NS).freeze()
            cost.append(time.thread_time_ns() - begun)
    return [float(np.quantile(cost, 0.25)) / 1e6 for _, _, cost in sessions]


def test_a_tick_after_a_day_takes_as_long_as_after_15_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    young, old = tick_ms(YOUNG_S, OLD_S)
    with capsys.disabled():
        print(f"\n{len(SENSORS)} sensors, {RATE_HZ} inferences a second; a tick at 1 Hz in ms of the processor:")
        print(f"{young:.2f} after a quarter of an hour, {old:.2f} after a day")
    assert max(young, old) < BUDGET_MS
    assert old < LONGER * young


def program_ticks_ms(*streams: int) -> list[float]:
    """A refresh in programs with so many models, in turns: of the processor's time, what half stay below."""
    sessions: list[tuple[Iterator[Batch], Analysis, list[int]]] = [
        (program_batches(count, YOUNG_S), Analysis(), []) for count in streams
    ]
    for second in range(YOUNG_S // 2):
        for batches, analysis, cost in sessions:
            batch = next(batches)
            begun = time.thread_time_ns()
            analysis.fold(batch)
            analysis.view(WINDOW_NS).freeze()
            if second >= TICKS // 2:
                cost.append(time.thread_time_ns() - begun)
    return [float(np.median(cost)) / 1e6 for _, _, cost in sessions]


def test_a_further_stream_costs_little(capsys: pytest.CaptureFixture[str]) -> None:
    one, five, many = program_ticks_ms(1, 5, 32)
    with capsys.disabled():
        print(f"\na tick at 1 Hz in ms of the processor: {one:.2f} of one stream, {five:.2f} of 5, {many:.2f} of 32")
    assert (five - one) / 4 < STREAM_MS
    assert (many - one) / 31 < STREAM_MS


def test_a_day_takes_little_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """Counted apart from time, which counting takes."""
    tracemalloc.start()
    ticks = Ticks()
    held = tracemalloc.get_traced_memory()[0]
    analysis = Analysis()
    for step_s, length_s in ((60, OLD_S - YOUNG_S), (1, 180)):
        for batch in ticks.batches(length_s, step_s):
            analysis.fold(batch)
        analysis.view(WINDOW_NS).freeze()
    del batch
    mib = (tracemalloc.get_traced_memory()[0] - held) / 2**20
    tracemalloc.stop()
    with capsys.disabled():
        print(f"\nthe analysis of a day: {mib:.1f} MiB")
    assert mib < BUDGET_MIB
