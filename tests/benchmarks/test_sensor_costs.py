"""What sensing costs: CPU of the sampler with 30 sensors, processes started, and the price of one that hangs."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from edgetop.sensors import thermal_zones
from edgetop.sensors.discovery import discover_engine, discover_system
from edgetop.sensors.root import Root
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Source
from edgetop.session.clock import SystemClock
from tests.support import onnx_models
from tests.support.hung_sources import hanging, run_beside, steady
from tests.support.trees import plant

pytestmark = pytest.mark.benchmark

SECONDS = 30.0
SENSORS = 30
WITHIN_PCT = 0.5
FILES = {"type": "a zone\n", "mode": "enabled\n", "temp": "51400\n"}


@contextmanager
def forks() -> Iterator[list[str]]:
    """Processes that this one starts meanwhile."""
    seen: list[str] = []
    is_counting = [True]

    def hear(event: str, _: object) -> None:
        if is_counting and event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"):
            seen.append(event)

    sys.addaudithook(hear)
    yield seen
    is_counting.clear()


def sources(tmp_path: Path, pid: int) -> list[Source]:
    """Those of this machine's engine and system, and as many thermal zones as there are still to be."""
    host = Root()
    found = [*discover_engine(pid, shares_process=False).sources, *discover_system(host).sources]
    zones = [f"sys/class/thermal/thermal_zone{n}" for n in range(SENSORS - sum(len(s.sensors) for s in found))]
    root = plant(tmp_path, {f"{zone}/{name}": text for zone in zones for name, text in FILES.items()})
    return [*found, *thermal_zones.discover(root).sources]


def sensor_threads_s() -> float:
    own = {thread.native_id for thread in threading.enumerate() if thread.name == "sensors"}
    return sum(t.user_time + t.system_time for t in psutil.Process().threads() if t.id in own)


@pytest.mark.timeout(120)
def test_thirty_sensors_cost_little_and_start_no_process(tmp_path, capsys):
    holding = [sys.executable, "-c", "held = bytearray(b'x') * (200 << 20); input()"]
    with subprocess.Popen(holding, stdin=subprocess.PIPE) as engine:
        found = sources(tmp_path, engine.pid)
        clock = SystemClock()
        with forks() as started:
            sampler = Sampler(found, clock, clock.monotonic_ns())
            sampler.start()
            time.sleep(2.0)  # past the first reads
            begin_s, begin = sensor_threads_s(), time.monotonic()
            while time.monotonic() < begin + SECONDS:
                time.sleep(0.25)
                sampler.drain()
            pct = 100 * (sensor_threads_s() - begin_s) / (time.monotonic() - begin)
        sampler.stop()
        costs = sorted(((e.read_ns / e.reads / 1e3, e.source.name) for e in sampler._schedule.entries), reverse=True)
        engine.kill()
    with capsys.disabled():
        print(f"\n{sum(len(s.sensors) for s in found)} sensors of {len(found)} sources: {pct:.2f} % of a core")
        print("  dearest, us a read: " + ", ".join(f"{name} {us:.0f}" for us, name in costs[:6]))
    assert started == []
    assert pct <= WITHIN_PCT


@pytest.mark.timeout(120)
def test_hanging_sensors_delay_neither_others_nor_the_inference(tmp_path, capsys):
    model = tmp_path / "half.onnx"
    model.write_bytes(onnx_models.onnx_half_ms())
    without = run_beside(model, 20.0, steady(20))
    with hanging(tmp_path) as stuck:
        beside = run_beside(model, 20.0, [*stuck, *steady(20)])
    with capsys.disabled():
        for name, figures in (("none hangs", without), ("three hang", beside)):
            late, latency = (np.percentile(values, (50, 99, 100)) for values in (figures.late_ms, figures.latency_ms))
            print(f"\n{name}: others late by p50 {late[0]:.2f}, p99 {late[1]:.2f}, max {late[2]:.0f} ms;", end="")
            print(f" inference p50 {latency[0]:.3f}, p99 {latency[1]:.3f} ms", end="")
        print()
    assert np.percentile(beside.late_ms, 99) < 100
    assert np.percentile(beside.latency_ms, 99) < 1.5 * np.percentile(without.latency_ms, 99)
