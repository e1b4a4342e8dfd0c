"""The tenth hour costs what the first minutes did: time and memory of the screen, live and replayed."""

import sys
import time

import numpy as np
import psutil
import pytest

from edgetop.analysis.analysis import Analysis
from edgetop.ui.app import EdgetopApp, monitor
from edgetop.ui.screen_settings import ScreenSettings
from tests.benchmarks import long_session
from tests.benchmarks.ticks import Ticks
from tests.support.screens import NEVER_S, Opened
from tests.support.scripts import ListFeed, Script
from tests.support.terminal import Terminal
from tests.support.watched import MIB, cpu_s, end, program_of

pytestmark = pytest.mark.benchmark

SIZE = (160, 50)
HOURS = 10
WATCHED = 600  # ticks of one second, at the beginning and at the end; ten seconds a tick between them
TICK_P99_MS, DEARER, GROWN_MIB = 50.0, 1.25, 3.0
SPEED = 60


@pytest.mark.timeout(1200)
async def test_a_live_screen(table, monkeypatch):
    """As fast as its session can be made: no clock is waited for."""
    monkeypatch.setattr(EdgetopApp, "is_headless", False)  # drawn as on a terminal, not as tests see it
    ticks, feed = Ticks(), ListFeed([])
    never = ScreenSettings(refresh_s=NEVER_S, first_line_s=NEVER_S)
    app = EdgetopApp(monitor(feed, Analysis(), never), never)
    cost_ms, rss_mib = [], []
    async with app.run_test(size=SIZE) as pilot:
        screen = Opened(app, pilot, feed, Script())
        hour, rest = (3600 - WATCHED) // 10, ((HOURS - 1) * 3600 - 2 * WATCHED) // 10
        spans = (WATCHED, 1), (hour, 10), (WATCHED, 1), (rest, 10), (WATCHED, 1)
        for count, step_s in spans:
            for batch in ticks.batches(count * step_s, step_s=step_s):
                feed.put(batch)
                begun_ns = time.thread_time_ns()
                await screen.tick()
                cost_ms.append((time.thread_time_ns() - begun_ns) / 1e6)
            rss_mib.append(psutil.Process().memory_info().rss / MIB)
    young, old = cost_ms[60:WATCHED], cost_ms[-WATCHED:]
    # An hour is kept by seconds, and of the last minutes single inferences.
    _judge(table, f"{HOURS} hours live", young, old, rss_mib[2], rss_mib[-1])


@pytest.mark.timeout(1200)
def test_a_replayed_screen(table, tmp_path):
    folder = long_session.write(tmp_path / "long.edgetop", HOURS, 30)
    command = [sys.executable, "-m", "edgetop", "replay", str(folder), "--speed", str(SPEED)]
    terminal = Terminal(command, *SIZE, {})
    try:
        terminal.read_for(10)
        processes, spent_s, rss_mib = program_of(terminal), [], []
        for _ in range(HOURS * 3600 // SPEED - 20):
            spent_s.append(sum(map(cpu_s, processes)))
            rss_mib.append(sum(process.memory_info().rss for process in processes) / MIB)
            terminal.read_for(1.0)
    finally:
        end(terminal)
    cost_ms, half = np.diff(spent_s) * 1e3, len(rss_mib) // 2  # until then what was read is kept, as far as it may be
    _judge(table, f"{HOURS} hours replayed", cost_ms[:60], cost_ms[-60:], rss_mib[half], rss_mib[-1])


def _judge(table, what, young_ms, old_ms, young_mib, old_mib):
    young, old, p99 = np.median(young_ms), np.median(old_ms), np.percentile(old_ms, 99)
    grown = old_mib - young_mib
    is_flat = old < DEARER * young and p99 < TICK_P99_MS and grown < GROWN_MIB
    measured = f"{young:.1f} ms, then {old:.1f} (p99 {p99:.1f}); memory {grown:+.1f} MiB"
    table.row(f"{what}: a refresh at first, and in the end", measured, "flat, p99 50 ms", is_met=is_flat)
    assert p99 < TICK_P99_MS
    assert old < DEARER * young
    assert grown < GROWN_MIB
