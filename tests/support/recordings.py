"""Sessions as batches, made from a seed: what a conductor would have handed on."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import JOURNAL, Retention
from edgetop.recording.table_writer import TableWriter
from edgetop.sensors.sensor_protocol import sensor
from edgetop.session.batch import Batch, merge
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.operators import Burst, Operator, burst_of
from edgetop.session.records import FIRST, INFERENCE, MEASURE, READING, WARMUP, Inferences, Readings
from edgetop.session.second_aggregator import SecondAggregator
from tests.support.clocks import NS, ManualClock
from tests.support.sessions import begun

SENSORS = (
    sensor("temp", "cpu-thermal", "/sys/a"),
    sensor("mem", "rss", "/proc/b"),
    sensor("load", "edgetop", "/proc/c"),
)
TICK_NS = NS // 4


def back_to_back(count: int, latency_ns: float, seed: int = 0, start_ns: int = NS) -> Inferences:
    """Inferences with the spread that a quiet machine shows: a gamma tail, and now and then a spike."""
    random = np.random.default_rng(seed)
    inferences = np.zeros(count, INFERENCE)
    spikes = (random.random(count) < 0.002) * random.exponential(latency_ns / 2, count)
    inferences["latency_ns"] = latency_ns + random.gamma(2.0, latency_ns * 0.008, count) + spikes
    pauses = 600 + random.gamma(2.0, 60 + latency_ns * 0.00006, count)
    ends = start_ns + np.cumsum(inferences["latency_ns"] + pauses.astype(np.int64))
    inferences["t_ns"] = np.concatenate([[start_ns], ends[:-1]])
    inferences["phase"], inferences["ok"] = MEASURE, True
    return inferences


def first_manifest(name: str = "test") -> Manifest:
    return begun(ManualClock(), name=name, sensors=SENSORS)


def session(inferences: Inferences, seed: int = 0, *, rate_hz: float | None = None) -> Iterator[Batch]:
    """The batches of a session of these inferences: four a second, with readings, events and an end."""
    random = np.random.default_rng(seed)
    manifest = first_manifest()
    if rate_hz is not None:
        manifest = replace(manifest, load=replace(manifest.load, mode="fixed", rate_hz=rate_hz))
    aggregator = SecondAggregator(is_paced=rate_hz is not None)
    end_ns = int(inferences["t_ns"][-1] + inferences["latency_ns"][-1]) if len(inferences) else NS
    yield Batch(0, manifest=manifest, events=_opening(inferences))
    cuts = np.searchsorted(inferences["t_ns"], np.arange(TICK_NS, end_ns, TICK_NS))
    for tick, piece in enumerate(np.split(inferences, cuts), 1):
        now = min(tick * TICK_NS, end_ns)
        events, bursts = _profiled(random, now, tick)
        happened = (*_happened(random, now), *events)
        yield Batch(now, piece, aggregator.add(piece), _readings(random, now), happened, bursts=bursts)
    yield _ending(manifest, inferences, aggregator, end_ns)


def late(inferences: Inferences, seed: int = 0) -> Inferences:
    """The same, each having waited for up to 5 ms."""
    inferences["wait_ns"] = np.random.default_rng(seed).integers(0, 5_000_000, len(inferences))
    return inferences


def with_phases(inferences: Inferences) -> Inferences:
    """The same, the first tenth of them being the first inference and the warm-up."""
    inferences["phase"][: max(1, len(inferences) // 10)] = WARMUP
    inferences["phase"][:1] = FIRST
    return inferences


def _opening(inferences: Inferences) -> tuple[Event, ...]:
    names = {FIRST: "first", WARMUP: "warmup", MEASURE: "measure"}
    begun = [(phase, inferences["t_ns"][inferences["phase"] == phase]) for phase in names]
    return tuple(
        read_event(int(starts[0]), "phase", "info", "engine", f"{names[phase]} begins", {"phase": names[phase]})
        for phase, starts in begun
        if len(starts)
    )


def _readings(random: np.random.Generator, now_ns: int) -> Readings:
    readings = np.zeros(int(random.integers(0, 4)), READING)
    readings["t_ns"] = now_ns - random.integers(0, TICK_NS, len(readings))
    readings["sensor"] = random.integers(0, len(SENSORS), len(readings))
    readings["value"] = random.normal(50, 10, len(readings))
    return readings


def _happened(random: np.random.Generator, now_ns: int) -> Sequence[Event]:
    kinds = ("sensor-lost", "sensor-back", "log", "records-lost", "mark")
    happens = random.integers(0, 20)
    if happens >= len(kinds):
        return ()
    source = f"sensor {SENSORS[int(random.integers(0, len(SENSORS)))].id}"
    return (read_event(now_ns, kinds[happens], "warning", source, f"at {now_ns}", {"count": int(happens)}),)


def _profiled(random: np.random.Generator, now_ns: int, tick: int) -> tuple[tuple[Event, ...], tuple[Burst, ...]]:
    """A burst every two seconds."""
    number, off = divmod(tick, 2 * NS // TICK_NS)
    if off:
        return (), ()
    data = {"burst": number, "duration_ns": 20_000_000, "runs": 3, "run_ns": int(random.integers(10**6, 10**7))}
    event = read_event(now_ns, "profile-burst", "info", "engine", "a burst", data)
    operators = tuple(
        Operator(f"op{i}", "Conv", "CPU", 3, int(ns)) for i, ns in enumerate(random.integers(0, 10**6, 30))
    )
    return (event,), (burst_of(now_ns, number, operators),)


def _ending(manifest: Manifest, inferences: Inferences, aggregator: SecondAggregator, end_ns: int) -> Batch:
    warmup = inferences[inferences["phase"] == WARMUP]
    data = {"reason": "runs", "last_end_ns": end_ns, "warmup_runs": len(warmup)}
    data["warmup_ns"] = int(warmup["latency_ns"].sum())
    ended = read_event(end_ns, "ended", "info", "edgetop", "session over: runs", data)
    last = replace(manifest, state="finished", end_reason="runs", duration_ns=end_ns)
    return Batch(end_ns, seconds=aggregator.close(), events=(ended,), manifest=last)


def record(
    folder: Path, batches: Sequence[Batch], keep: Retention | None = None, tables: TableWriter | None = None
) -> Path:
    """Write a whole session down; the last batch that has a manifest has its last one."""
    manifests = [batch.manifest for batch in batches if batch.manifest]
    recorder = Recorder(folder, manifests[0], keep, tables)
    for batch in batches:
        recorder.write(batch)
    recorder.finish(manifests[-1])
    return folder


def kill(recorder: Recorder) -> None:
    """Close what the kernel closes when a writer is killed. Nothing more is written."""
    recorder._journal_file.close()
    recorder._lock.release()


def left_by_a_dead_writer(
    folder: Path, batches: Sequence[Batch], segment_bytes: int | None = None, keep: Retention | None = None
) -> Path:
    """What lies there when a writer is killed after it was given these batches.

    With `segment_bytes`: several segments, the first of which are table rows already.
    """
    manifests = [batch.manifest for batch in batches if batch.manifest]
    recorder = Recorder(folder, manifests[0], keep)
    if segment_bytes is not None:
        recorder._journal_file.segment_bytes = segment_bytes
    for place, batch in enumerate(batches):
        recorder.write(batch)
        if segment_bytes is not None and place > len(batches) / 2:
            recorder._tables_after_ns = 2**62
    kill(recorder)
    last_changed_at(folder, manifests[0], batches[-1].until_ns)
    return folder


def last_changed_at(folder: Path, manifest: Manifest, t_ns: int) -> None:
    """The files of its journal have the times that a writer would leave who died then."""
    wall = manifest.wall_time()
    assert wall
    at_ns = wall.origin_us * 1_000 + t_ns
    for path in journal_of(folder):
        os.utime(path, ns=(at_ns, at_ns))


def rewritten(path: Path, data: bytes) -> None:
    """With the time at which it was changed before: a medium that rots does not change it."""
    at_ns = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(at_ns, at_ns))


def journal_of(folder: Path) -> list[Path]:
    return sorted((folder / JOURNAL).glob("*.journal"))


def content(folder: Path) -> dict[str, bytes]:
    """Every file below it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def until(batches: Sequence[Batch], seconds: float) -> list[Batch]:
    """Those that were made by then."""
    return [batch for batch in batches if batch.until_ns <= seconds * NS]


def played(folder: Path) -> Batch:
    """All of a recording, of which nothing may be wrong."""
    recording = Recording(folder)
    batch = merge(list(recording.play(inferences=True)))
    assert recording.problems == []
    return batch
