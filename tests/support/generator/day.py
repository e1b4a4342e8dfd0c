"""A day of seconds and readings, cheap to make: for what is measured, not judged."""

from collections.abc import Iterator

import numpy as np

from edgetop.session.batch import Batch
from edgetop.session.records import READING
from edgetop.session.seconds import NS, PERCENTILE_FIELDS, SECOND, Seconds
from tests.support.sessions import MS, make_manifest, make_sensor

DAY_S = 86_400
SENSORS = (
    *(make_sensor(f"{kind}/cpu{cpu}", max=1800.0) for kind in ("freq", "freqcap") for cpu in range(8)),
    *(make_sensor(f"temp/zone{zone}", trips={"passive": 85.0}) for zone in range(6)),
    *map(make_sensor, (
        "throttle/thermal", "throttle/under-voltage", "throttle/power-limit", "load/cpu", "load/steal", "load/engine",
        "load/edgetop", "pressure/cpu-some", "pressure/memory-some", "pressure/memory-full", "rate/run-queue-wait",
        "rate/involuntary-switches", "rate/major-faults", "rate/swap-in", "mem/rss", "mem/system-available",
        "power/package-0", "mem/cgroup-left",
    )),
)  # fmt: skip


def day(slow: str, length_s: int, step_s: int = 1) -> Iterator[Batch]:
    """Slow "never", "now and then" (30 s of each 200) or "always" (from the tenth minute on)."""
    random = np.random.default_rng(3)
    manifest = make_manifest(*SENSORS)
    yield Batch(0, manifest=manifest, restart=True)
    for begin in range(0, length_s, step_s):
        second = np.arange(begin, min(begin + step_s, length_s))
        is_slow = {"never": second < 0, "now and then": second % 200 > 169, "always": second > 600}[slow]
        rows = np.zeros(len(second), SECOND)
        rows["t_ns"], rows["count"] = second * NS, 100
        latency = (10 * MS * np.exp(random.normal(0, 0.01, len(second))) * np.where(is_slow, 1.4, 1)).astype(np.int64)
        for name in ("min_ns", *PERCENTILE_FIELDS, "max_ns"):
            rows[name] = latency
        rows["sum_ns"] = 100 * latency
        readings = np.zeros(len(second) * len(SENSORS), READING)
        readings["t_ns"] = np.repeat(second * NS + NS // 2, len(SENSORS))
        readings["sensor"] = np.tile(np.arange(len(SENSORS)), len(second))
        usual = np.array([1800.0 if sensor.kind in ("freq", "freqcap") else 0.3 for sensor in SENSORS])
        values = usual + random.random((len(second), len(SENSORS))) * 0.1
        values[:, :8] *= np.where(is_slow, 0.7, 1)[:, None]
        readings["value"] = values.ravel()
        empty = np.empty(0, np.int16), np.empty(0, np.int32)
        seconds = Seconds(rows, np.zeros(len(rows) + 1, np.int32), *empty)
        yield Batch(int(second[-1] + 1) * NS, seconds=seconds, readings=readings)
