"""Sessions made to order: manifests, inferences, readings and events, and the batches they come in."""

import dataclasses
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgetop.analysis.analysis import PARTS, Analysis, MonitorView
from edgetop.sensors.sensor_protocol import UNIT_OF_KIND
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock, anchor, format_utc
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Board, ClockInfo, EngineInfo, Manifest, Model, SensorInfo
from edgetop.session.records import INFERENCE, MEASURE, READING, Inferences, Readings, SplitBy
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, Seconds, concatenate

MS = 1_000_000


def session_id(begin: str) -> str:
    """The id of a session that begins with these digits, or one made from another word."""
    if re.fullmatch("[0-9a-f]{1,8}", begin):
        return f"{begin:0<8}-0000-4000-8000-000000000000"
    return str(uuid.uuid5(uuid.NAMESPACE_OID, begin))


def make_manifest(*sensors: SensorInfo, **changes: object) -> Manifest:
    known = {
        "format_version": 1,
        "id": "5f0c9c1e-6b0a-4c49-8f0e-6f6b5d1f3a52",
        "name": "a-session",
        "state": "live",
        "edgetop_version": "0.0",
        "created_utc": "2026-11-21T10:15:02.123456Z",
        "clock": ClockInfo(1_000, None),
        "board": Board(memory_bytes=4 * 2**30),
        "model": Model("model.onnx"),
        "engine": EngineInfo(),
        "load": Load(),
        "sensors": sensors,
    }
    return Manifest(**{**known, **changes})


def begun(
    clock: Clock, *, load: Load | None = None, sensors: tuple[SensorInfo, ...] = (), name: str = "test"
) -> Manifest:
    """The manifest of a session that has just begun."""
    origin = clock.monotonic_ns()
    return make_manifest(
        *sensors,
        name=name,
        created_utc=format_utc(clock.utc()),
        clock=ClockInfo(origin, "boot", (anchor(clock, origin),)),
        board=Board(),
        load=load or Load(),
    )


def make_sensor(sensor_id: str, **more: object) -> SensorInfo:
    return SensorInfo(sensor_id, UNIT_OF_KIND[sensor_id.partition("/")[0]], "a file", **more)


def make_inferences(
    t_ns: object,
    latency_ns: object,
    *,
    phase: object = MEASURE,
    ok: object = True,
    wait_ns: object = 0,
    stream: object = 0,
) -> Inferences:
    """One row for each start; the rest is spread over them."""
    inferences = np.zeros(len(np.atleast_1d(t_ns)), INFERENCE)
    inferences["t_ns"], inferences["latency_ns"], inferences["wait_ns"] = t_ns, latency_ns, wait_ns
    inferences["phase"], inferences["ok"], inferences["stream"] = phase, ok, stream
    return inferences


def back_to_back(start_ns: int, latency_ns: Sequence[int] | NDArray[np.int64], **more: object) -> Inferences:
    latency = np.asarray(latency_ns, np.int64)
    return make_inferences(start_ns + np.cumsum(latency) - latency, latency, **more)


def make_readings(*rows: tuple[int, int, float]) -> Readings:
    """Each is (t_ns, place of the sensor in the manifest, value)."""
    return np.array(list(rows), READING)


def phase_event(t_ns: int, phase: str, **data: int | None) -> Event:
    return read_event(t_ns, "phase", "info", "engine", f"{phase} begins", {"phase": phase, **data})


def ended_event(t_ns: int, reason: str = "user", **data: int) -> Event:
    return read_event(t_ns, "ended", "info", "edgetop", f"session over: {reason}", {"reason": reason, **data})


def seconds_of(
    inferences: Inferences, deadline_ns: int | None = None, *, is_paced: bool = False, split_by: SplitBy = None
) -> Seconds:
    """Every second of a whole session, from 0."""
    aggregator = SecondAggregator(deadline_ns, is_paced=is_paced, split_by=split_by)
    return concatenate([aggregator.add(inferences), aggregator.close()])


def histogram_of(seconds: Seconds, row: int) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """The buckets of one second, and how many inferences each holds."""
    span = slice(seconds.offsets[row], seconds.offsets[row + 1])
    return seconds.bucket[span], seconds.bucket_count[span]


@dataclass(frozen=True)
class MadeSession:
    """All that happens in one session, each kind in the order of its time."""

    manifests: tuple[tuple[int, Manifest], ...]  # from when on; the first from 0
    inferences: Inferences
    readings: Readings
    events: tuple[Event, ...]
    end_ns: int

    def batches(self, cuts_ns: Sequence[int] = (), *, single: bool = True) -> Iterator[Batch]:
        """As a conductor hands them on, cut at these times; `single` False: without each inference."""
        manifest = self.manifests[0][1]
        load = manifest.load
        aggregator = SecondAggregator(load.deadline_ns, is_paced=load.is_paced, split_by=manifest.split_by)
        begin = -1
        for end in [*sorted({cut for cut in cuts_ns if 0 <= cut < self.end_ns}), self.end_ns]:
            inferences = self.inferences[_between(self.inferences["t_ns"], begin, end)]
            seconds = aggregator.add(inferences)
            if end == self.end_ns:
                seconds = concatenate([seconds, aggregator.close()])
            manifests = [manifest for t_ns, manifest in self.manifests if begin < t_ns <= end]
            yield Batch(
                until_ns=end,
                inferences=inferences if single else inferences[:0],
                seconds=seconds,
                readings=self.readings[_between(self.readings["t_ns"], begin, end)],
                events=tuple(event for event in self.events if begin < event.t_ns <= end),
                manifest=manifests[-1] if manifests else None,
                restart=begin < 0,
            )
            begin = end


def _between(t_ns: NDArray[np.int64], begin: int, end: int) -> NDArray[np.bool_]:
    return (t_ns > begin) & (t_ns <= end)


def make_session(
    seed: int,
    *,
    count: int = 300,
    latency_ns: float = 20 * MS,
    spread: float = 0.4,
    failures: float = 0.0,
    sensors: Sequence[SensorInfo] = (),
    events: Sequence[Event] = (),
    reason: str = "duration",
) -> MadeSession:
    """A first inference, a tenth of warm-up, then measured ones back to back; readings at each second."""
    random = np.random.default_rng(seed)
    latency = (random.lognormal(0, spread, count) * latency_ns).astype(np.int64) + 1_000
    warmup = 1 + count // 10
    phase = np.repeat([0, 1, 2], [1, warmup - 1, count - warmup])
    ok = (random.random(count) >= failures) | (phase == 0)
    inferences = back_to_back(int(random.integers(1, 2 * NS)), latency, phase=phase, ok=ok)
    t_ns = inferences["t_ns"]
    end_ns = int(t_ns[-1] + latency[-1])
    first = make_manifest(*sensors)
    began = replace(first, engine=replace(first.engine, first_ns=int(latency[0]), init_ns=5 * MS))
    last = replace(began, state="finished", end_reason=reason, duration_ns=end_ns + MS)
    told = [
        phase_event(int(t_ns[0]), "first"),
        phase_event(int(t_ns[1]), "warmup", runs=warmup - 1),
        phase_event(int(t_ns[warmup]), "measure", runs=None, duration_ns=60 * NS),
        *events,
    ]
    warm = inferences[phase == 1]
    ended = ended_event(
        end_ns + MS, reason, last_end_ns=end_ns, warmup_runs=len(warm), warmup_ns=int(warm["latency_ns"].sum())
    )
    return MadeSession(
        manifests=((0, first), (int(t_ns[0] + latency[0]), began), (end_ns + MS, last)),
        inferences=inferences,
        readings=_readings(random, len(sensors), end_ns),
        events=(*sorted(told, key=lambda event: event.t_ns), ended),
        end_ns=end_ns + MS,
    )


def _readings(random: np.random.Generator, sensors: int, end_ns: int) -> Readings:
    each = end_ns // NS + 1
    readings = np.zeros(each * sensors, READING)
    readings["t_ns"] = np.repeat(np.arange(each) * NS, sensors)
    readings["sensor"] = np.tile(np.arange(sensors), each)
    readings["value"] = random.normal(50, 10, len(readings))
    return readings[random.random(len(readings)) > 0.1]


def folded(batches: Sequence[Batch] | Iterator[Batch]) -> Analysis:
    analysis = Analysis()
    for batch in batches:
        analysis.fold(batch)
    return analysis


_VIEW = ("manifest", "progress", *PARTS)


def differences(a: object, b: object, path: str = "") -> list[str]:
    """Where two values differ, to the last bit; frozen data, tuples, mappings and arrays are looked into."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same = a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        return [] if same else [f"{path}: {a} != {b}"]
    if type(a) is not type(b):
        return [f"{path}: {a!r} != {b!r}"]
    if isinstance(a, MonitorView) or dataclasses.is_dataclass(a):
        names = (
            _VIEW if isinstance(a, MonitorView) else [field.name for field in dataclasses.fields(a) if field.compare]
        )
        return _each(((name, getattr(a, name), getattr(b, name)) for name in names), path)
    if isinstance(a, dict) and a.keys() == b.keys():
        return _each(((str(key), a[key], b[key]) for key in a), path)
    if isinstance(a, (tuple, list)) and len(a) == len(b):
        return _each(((str(i), x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))), path)
    return [] if a == b else [f"{path}: {a!r} != {b!r}"]


def _each(parts: Iterator[tuple[str, object, object]], path: str) -> list[str]:
    return [found for name, a, b in parts for found in differences(a, b, f"{path}.{name}")]
