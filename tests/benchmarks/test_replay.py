"""A session of a day at 1 kHz is opened and gone about in at once, in the memory of a small board."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import long_session
from tests.support.commands import environment

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]

HOURS = (24.0, 12.0, 23.0, 22.99, 24.0, 0.5, 18.1, 5.0)

GO = """
import json, resource, sys, time
from pathlib import Path

from edgetop.analysis.analysis import Analysis
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.reader import Recording
from edgetop.session.clock import SystemClock
import edgetop.ui.app  # whose memory counts too


def shown():
    analysis.fold(feed.read())
    return analysis.view(10_000_000_000).freeze()


analysis, begun = Analysis(), time.perf_counter()
feed = ReplayFeed(Recording(Path(sys.argv[1])), SystemClock(), speed=1000)
shown()
opened, seeks, ahead = time.perf_counter() - begun, [], []
scout = analysis.twin()
while True:  # as the screen does, with keys in between
    begun = time.perf_counter()
    batch = feed.ahead()
    if batch is None:
        break
    scout.fold(batch)
    if (at_ns := feed.checkpoint_ns()) is not None:
        analysis.save_checkpoint(at_ns, scout)
    ahead.append(time.perf_counter() - begun)
del scout
for hours in map(float, sys.argv[2:]):
    begun = time.perf_counter()
    feed.seek(int(hours * 3600e9))
    view = shown()
    seeks.append(time.perf_counter() - begun)
    count = view.latency.session.count
    assert abs(count - hours * 3_600_000) <= 2_000, count
begun = time.perf_counter()
feed.seek(3600 * 10**9)
feed.play(True)
shown()
for _ in range(10):
    shown()
played = (time.perf_counter() - begun) / 11
print(json.dumps([opened, ahead, seeks, played, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def test_a_day_opens_and_seeks_at_once(tmp_path, capsys):
    given = os.environ.get("EDGETOP_LONG_SESSION")  # making one takes minutes
    folder = Path(given) if given else long_session.write(tmp_path / "long.edgetop")
    done = subprocess.run(
        [sys.executable, "-c", GO, str(folder), *map(str, HOURS)],
        capture_output=True,
        check=True,
        env=environment(tmp_path),
    )
    opened, ahead, seeks, played, rss = json.loads(done.stdout)
    with capsys.disabled():
        print(f"\na day at 1 kHz: opened in {opened:.2f} s, {rss:.0f} MiB, a step of playing {played:.2f} s")
        print(f"looked ahead in {len(ahead)} steps of {max(ahead):.2f} s at most, {sum(ahead):.1f} in all; seeks in s:")
        print(*(f"{seconds:.2f}" for seconds in seeks))
    assert opened < 1
    assert max(ahead) < 0.2
    assert max(seeks) < 0.2
    assert rss < 300
    assert played < 0.2
