"""Lakes made from a seed: boards of three enclosures, two versions of a model, of which the second is slower."""

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.lake.lake_tables import SCHEMA, label_text
from edgetop.recording.columns import SECONDS
from edgetop.session import histogram

FIRST_DAY = date(2026, 11, 20)
ENCLOSURES = ("open", "box", 'it\'s a "box"')
SLOWER = 1.08  # the second version
COLUMNS = pa.schema([SECONDS.field(name) for name in ("t_ns", "count", "max_ns", "bucket", "bucket_count")])


@dataclass(frozen=True)
class Made:
    """What lies in a lake."""

    root: Path
    latency_ns: dict[tuple[str, str], npt.NDArray[np.int64]]  # by board and version
    sessions: dict[str, str]  # days, by session


def make_lake(root: Path, boards: int, seconds: int, *, hz: int = 30, days: int = 3) -> Made:
    """Each board runs a session of each version, a day apart; in all `2 * boards * seconds` seconds."""
    random = np.random.default_rng(17)
    latencies, sessions = defaultdict(list), {}
    for number in range(boards):
        board, base = f"pi-{number:04}", 12e6 * np.exp(random.normal(0, 0.3))
        for place, version in enumerate(("v1", "v2")):
            day = FIRST_DAY + timedelta(days=(number + place) % days)
            heat = 1 + 0.3 * (number % 7 == 0) * np.linspace(0, 1, seconds)[:, None]
            scatter = np.exp(np.abs(random.normal(0, 0.05, (seconds, hz))))
            latency = (base * SLOWER**place * random.normal(1, 0.004) * heat * scatter).astype(np.int64)
            session = f"{number:08x}-0000-4000-8000-{place:012x}"
            where = f"date={day}/board={board}/{session}.parquet"
            _write(root / "seconds" / where, _seconds(latency))
            throttled_s = seconds / 4 if number % 7 == 0 else 0.0
            _write(root / "sessions" / where, _row(number, version, day, latency, throttled_s))
            latencies[board, version].append(latency.ravel())
            sessions[session] = str(day)
    return Made(root, {key: np.concatenate(each) for key, each in latencies.items()}, sessions)


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")


def _seconds(latency: npt.NDArray[np.int64]) -> pa.Table:
    """Shape (seconds, inferences a second)."""
    rows, hz = latency.shape
    bucket = np.sort(histogram.bucket_of(latency), axis=1)
    is_new = np.ones_like(bucket, bool)
    is_new[:, 1:] = bucket[:, 1:] != bucket[:, :-1]
    offsets = pa.array(np.concatenate([[0], np.cumsum(is_new.sum(axis=1))]), pa.int32())
    count = np.diff(np.append(np.flatnonzero(is_new.ravel()), rows * hz))
    columns = [
        pa.array(np.arange(rows) * 10**9),
        pa.array(np.full(rows, hz), pa.int32()),
        pa.array(latency.max(axis=1)),
        pa.ListArray.from_arrays(offsets, pa.array(bucket[is_new], pa.int16())),
        pa.ListArray.from_arrays(offsets, pa.array(count, pa.int32())),
    ]
    return pa.table(columns, schema=COLUMNS)


def _row(number: int, version: str, day: date, latency: npt.NDArray[np.int64], throttled_s: float) -> pa.Table:
    seconds, p99_ms = len(latency), float(np.percentile(latency, 99)) / 1e6
    steady_c = 45.0 + 10 * (number % 3) + number % 10  # by enclosure and ambient temperature
    known = {
        "name": f"soak-{number}-{version}", "created_utc": f"{day}T10:00:00.000000Z", "state": "finished",
        "model": "a'b\\c.onnx" if number % 5 == 4 else "net.onnx", "version": version, "software": "onnxruntime 1.20",
        "board_model": "Raspberry Pi 5", "enclosure": ENCLOSURES[number % 3], "ambient_c": 20.0 + number % 10,
        "labels": " ".join([label_text("fleet", "red" if number % 2 else "blue"), label_text("q", "it's")]),
        "measured_s": float(seconds), "inferences": latency.size, "throughput_hz": 1e9 / float(latency.mean()),
        "max_ms": float(latency.max()) / 1e6, "p99_ms": p99_ms, "deadline_ms": 20.0,
        "misses": int((latency > 20e6).sum()),
        "throttled": throttled_s > 0, "throttled_s": throttled_s, "throttle_count": int(throttled_s > 0),
        "throttle_cause": "thermal" if throttled_s else "none", "temp_max_c": 55.0 + 10 * (number % 3) + number % 10,
        "temp_end_c": 55.0, "mean_w": 5.0, "joules": 5.0 * seconds, "gross_mj": 5e3 * seconds / latency.size,
        "trip_c": 75.0, "steady_c": steady_c, "steady_low_c": steady_c - 4,
        "steady_high_c": steady_c + 4, "simulated": number == 0, "drift_ratio": 1.01,
        "tail": json.dumps({"thermal": 3, "unknown": number % 4}),
    }  # fmt: skip
    return pa.table([[known.get(name)] for name in SCHEMA.names], SCHEMA)
