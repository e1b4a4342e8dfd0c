"""Whether edgetop's software counters of an engine are those of `perf stat` for the same threads and the same time.

The page faults are made: the model's file is paged out again and again. Needs `perf` (of the package `linux-perf`, or
`linux-tools-generic`).
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgetop.recording.reader import Recording
from edgetop.session.seconds import NS
from tests.benchmarks.test_tail import RUN_S, dropping, running
from tests.support import tflite_models

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

BEGIN_S, LENGTH_S, DROPS = 15, 30, 12
EVENTS = {  # of perf: the sensor, the unit of perf's figure in that of the sensor, and the difference that is allowed
    "task-clock": ("rate/task-clock", 1.0, 0.03),
    "page-faults": ("rate/page-faults", 1.0, 0.03),
    "context-switches": ("rate/context-switches", 1.0, 0.05),
    "cpu-migrations": ("rate/migrations", 1.0, 0.1),
}
FEW = 10  # events by which short spans and the ends of the span may differ


def counted_by_perf(pid: int, between: Callable[[], None]) -> tuple[dict[str, float], int, int]:
    """Return what `perf stat` counts of all threads of a process while `between` runs, and its begin and end in ns."""
    perf = shutil.which("perf")
    assert perf, "perf is not installed: apt install linux-perf (Debian) or linux-tools-generic (Ubuntu)"
    command = [perf, "stat", "-x", ",", "-e", ",".join(EVENTS), "-p", str(pid)]
    stat = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(1)  # until it counts; then nothing is paged out
    begin_ns = time.monotonic_ns()
    between()
    end_ns = time.monotonic_ns()
    stat.send_signal(2)
    _, text = stat.communicate(timeout=30)
    rows = [line.split(",") for line in text.splitlines() if line.count(",") > 3]
    return {row[2].removesuffix(":u"): float(row[0]) for row in rows}, begin_ns - NS, end_ns


def test_software_counters_are_those_of_perf_stat(disk_path: Path, say: Callable[[str], None]) -> None:
    model = disk_path / "model.tflite"
    model.write_bytes(tflite_models.tflite_ladder())
    options = ("--rate", "40", "--threads", "2", "--no-xnnpack", "--profile-every", "0")
    with running(disk_path, model, *options) as (engine, whole):
        time.sleep(BEGIN_S)

        def drop() -> None:
            for _ in range(DROPS):
                time.sleep(LENGTH_S / DROPS / 2)
                dropping(engine, None)  # type: ignore[arg-type]  # nothing is drawn
                time.sleep(LENGTH_S / DROPS / 2)

        perf, begin_ns, end_ns = counted_by_perf(engine.pid, drop)
        whole.wait(RUN_S)
    ours = counted_by_edgetop(disk_path / "s.edgetop", begin_ns, end_ns)
    for event, (sensor, factor, allowed) in EVENTS.items():
        ratio = ours[sensor] / (perf[event] * factor) if perf[event] else float("nan")
        say(f"{event}: perf stat {perf[event]:.1f}, edgetop {ours[sensor]:.1f}, ratio {ratio:.4f}")
        assert ours[sensor] == pytest.approx(perf[event] * factor, rel=allowed, abs=FEW), event
    assert perf["page-faults"] >= 20 * DROPS


def counted_by_edgetop(session: Path, begin_ns: int, end_ns: int) -> dict[str, float]:
    """Return the sum of each counter's rate over a span of the monotonic clock."""
    sums: dict[str, float] = {}
    with Recording(session) as recording:
        origin_ns = recording.manifest.clock.origin_monotonic_ns
        ids = [info.id for info in recording.manifest.sensors]
        before_ns: dict[str, int] = {}
        for batch in recording.play():
            for reading in batch.readings:
                name, t_ns = ids[int(reading["sensor"])], int(reading["t_ns"]) + origin_ns
                since_ns = before_ns.get(name, t_ns)
                before_ns[name] = t_ns
                overlap_ns = max(0, min(t_ns, end_ns) - max(since_ns, begin_ns))
                if overlap_ns and name in {sensor for sensor, _, _ in EVENTS.values()}:
                    sums[name] = sums.get(name, 0.0) + float(reading["value"]) * overlap_ns / NS
    return sums
