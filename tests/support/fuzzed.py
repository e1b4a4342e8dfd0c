"""Sessions of every odd shape, by seed: written by the recorder, perhaps changed afterwards, looked at everywhere."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.analysis.ab_quads import QuadEvents
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.slowdowns.throttles import ThrottleEvents
from edgetop.errors import EdgetopError
from edgetop.feeds.replay_feed import ReplayFeed
from edgetop.recording.reader import Recording
from edgetop.session import event_kinds
from edgetop.session.batch import Batch
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Ab, Constraints, EngineInfo, Manifest, Model, SensorInfo, Variant, Watched
from edgetop.session.operators import Operator, burst_of
from edgetop.session.records import INFERENCE, MEASURE, NO_INFERENCES, READING, Inferences, Readings
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from edgetop.session.turns import plan
from edgetop.session.typed_json import JsonValue
from edgetop.wording.event_words import worded
from tests.support.clocks import ManualClock
from tests.support.damage import run_here
from tests.support.generator.plans import generate
from tests.support.generator.widened import WIDENED
from tests.support.recordings import left_by_a_dead_writer, record
from tests.support.screens import opened
from tests.support.scripts import POWER_SENSORS, SENSORS, Script, manifest, sensor

MORE_SENSORS = tuple(
    map(sensor, (
        "throttle/thermal", "throttle/under-voltage", "load/cpu", "load/engine", "load/others", "load/steal",
        "load/edgetop", "rate/run-queue-wait", "rate/major-faults", "pressure/cpu-some", "pressure/memory-some",
        "mem/rss", "mem/rss-peak", "mem/system-available", "mem/cgroup-left", "fan/cpu", "cooling/0-fan",
        "volt/EXT5V", "net/rx", "disk/read", "rate/involuntary-switches", "rate/call-run-queue-wait", "freq/arm",
        "stage/decode", "frame/total",
    ))
)  # fmt: skip
# Any kind may come with any data.
KINDS = (*sorted(event_kinds.KINDS), "unheard-of")
KEYS = (
    "phase", "runs", "duration_ns", "last_end_ns", "warmup_runs", "warmup_ns", "reason", "name", "cpu_pct", "t_ns",
    "expr", "rule", "latency_ns", "wait_ns", "stage", "rss_mib", "anon_mib", "file_mib", "sensor", "tool", "count",
    "p50_ms", "throughput_hz", "thread_count", "thread_all_ns", "thread_wait_ns", "thread_moves", "flops_per_s",
    "bytes_per_s", "dtype", "why", "run_ns", "burst", "disturbed_runs", "left_out_runs", "cause", "begin_ns",
    "quads_ns", "end_ns", "seed", "span_ns",
)  # fmt: skip
ODD: tuple[JsonValue, ...] = (
    None, True, False, 0, 1, -1, 7, 2**61, -(2**61), 0.0, -0.5, 1e300, 1e-300, "", "measure", "warmup", "thermal",
    "p99>1ms", "temp>80C for=3s", "steady", "duration", "x" * 3_000, "\x1b[2J", "mem/rss", "python3", "float32",
)  # fmt: skip
TURNS = plan(NS, 1_000_000, duration_ns=16 * NS, seed=4)
JUMPS = (-3_600 * NS, -NS, -1, 1, NS, 10**6 * NS)
WHOLES = (-1, 0, 1, 2**40, -(2**40), 2**62)
REALS = (-1.0, 0.0, 1e-300, 1e18, -1e29, 1e300, float("nan"), float("inf"))
FORMS = ("csv", "json", "parquet", "perfetto", "session")


@dataclass
class Fuzz:
    """One session, drawn from its seed."""

    seed: int

    def __post_init__(self) -> None:
        self.numbers, self.rng = np.random.default_rng(self.seed), random.Random(self.seed)

    def one_in(self, times: int) -> bool:
        return self.rng.randrange(times) == 0

    def manifest(self) -> Manifest:
        rng = self.rng
        sensors: tuple[SensorInfo, ...] = (*SENSORS, *POWER_SENSORS, *MORE_SENSORS)
        few = rng.choice((0, 0, 1, 4, 12, len(sensors)))
        chosen = {one.id: one for one in rng.sample(sensors, few)}
        mode = rng.choice(("closed", "closed", "fixed", "poisson"))
        rate = None if mode == "closed" else rng.choice((0.1, 1.0, 30.0, 1e5))
        deadline = rng.choice((None, None, 1, 5_000_000, 2**40))
        load = Load(mode=mode, rate_hz=rate, deadline_ns=deadline, streams=rng.choice((1, 1, 2, 8)))
        changes: dict[str, Any] = {"sensors": tuple(chosen.values()), "load": load, "name": f"fuzz-{self.seed}"}
        if self.one_in(6):
            changes["watched"] = Watched(("app",))
        if self.one_in(6):
            changes["constraints"] = Constraints(cpus=0.5, memory_bytes=1)
        if self.one_in(5):
            variants = tuple(Variant(Model(f"/m/{name}.onnx"), EngineInfo()) for name in ("one", "other"))
            changes["ab"] = Ab(variants, 0.01)
        return manifest(**changes)

    def inferences(self, lasts_s: float) -> Inferences:
        """Starts with gaps, bursts, repeats; latencies of many sizes, with steps, spikes and a few that are absurd."""
        rng, numbers = self.rng, self.numbers
        count = rng.choice((0, 1, 2, 5, 40, 400, 4_000))
        rows = np.zeros(count, INFERENCE)
        if not count:
            return rows
        start_s = np.sort(numbers.uniform(0, lasts_s, count))
        if self.one_in(3):  # some seconds alone
            start_s = np.floor(start_s / 7) * 7 + start_s % 1
        if self.one_in(6):
            start_s[count // 2 :] += rng.choice((20.0, 1e4, 1e6))
        if self.one_in(8):
            start_s[:] = start_s[0]
        median_ns = float(10 ** rng.uniform(3, 9.5))
        latency = median_ns * np.exp(numbers.normal(0, rng.choice((0.0, 0.01, 0.2, 2.0)), count))
        for _ in range(rng.randrange(4)):
            begin = rng.randrange(count)
            latency[begin : begin + rng.randrange(1, count + 1)] *= rng.choice((0.5, 1.1, 1.4, 3.0, 100.0))
        rows["latency_ns"] = np.clip(latency, 0, 2.0**55)
        if self.one_in(6):
            rows["latency_ns"][numbers.integers(0, count, 3)] = rng.choice((0, 1, 2**50))
        rows["t_ns"] = np.sort(start_s) * NS
        rows["wait_ns"] = numbers.integers(0, rng.choice((1, 10**6, 10**12)), count)
        rows["stream"] = numbers.integers(0, rng.choice((1, 1, 3, 8)), count)
        rows["ok"] = numbers.random(count) >= rng.choice((0.0, 0.0, 0.1, 1.0))
        first = rng.choice((0, 0, 1, count // 10, count))
        rows["phase"] = MEASURE
        rows["phase"][:first] = 1
        rows["phase"][: min(first, 1)] = 0
        rows["variant"] = numbers.integers(0, 2, count) if self.one_in(3) else 0
        return rows

    def readings(self, sensors: int, lasts_s: float) -> Readings:
        """Every sensor at its own pace; some stop, some begin late, some jump."""
        parts = [np.zeros(0, READING)]
        for place in range(sensors):
            every_s = self.rng.choice((0.2, 1.0, 1.0, 5.0, 100.0))
            begin, end = sorted(self.rng.choice((0.0, 0.0, 1.0, self.rng.random())) * lasts_s for _ in range(2))
            t_s = np.arange(begin, max(end, begin + 1.0) if self.one_in(2) else lasts_s, every_s)[:2_000]
            rows = np.zeros(len(t_s), READING)
            rows["t_ns"], rows["sensor"] = t_s * NS, place
            usual = self.rng.choice((0.0, 1.0, 50.0, 85.0, 1800.0, -40.0, 1e18, -1e18))
            rows["value"] = usual * (1 + 0.1 * self.numbers.normal(size=len(t_s)))
            if len(rows) and self.one_in(3):
                rows["value"][self.rng.randrange(len(rows)) :] *= self.rng.choice((0.0, 0.5, 2.0, -1.0))
            parts.append(rows)
        joined = np.concatenate(parts)
        return joined[np.argsort(joined["t_ns"], kind="stable")]

    def event(self, t_ns: int) -> Event:
        rng = self.rng
        data = {key: rng.choice(ODD) for key in rng.sample(KEYS, rng.randrange(6))}
        source = rng.choice(("engine", "edgetop", "user", "sensor temp/cpu-thermal", "sensors", ""))
        severity: Any = rng.choice(("info", "warning", "critical"))
        return read_event(t_ns, rng.choice(KINDS), severity, source, rng.choice(("words", "", "\x1b[31m[red]")), data)

    def events(self, whole: Manifest, inferences: Inferences, end_ns: int) -> list[Event]:
        found = []
        names = {0: "first", 1: "warmup", 2: "measure"}
        for phase in names if not self.one_in(8) else ():
            began = inferences["t_ns"][inferences["phase"] == phase]
            if len(began):
                text = f"{names[phase]} begins"
                found.append(read_event(int(began[0]), "phase", "info", "engine", text, {"phase": names[phase]}))
        if whole.ab and not self.one_in(4):
            found.append(read_event(NS, "ab-turns", "info", "engine", "turns begin", TURNS.to_json()))
            in_turn = [(inferences["t_ns"] >= begin) & (inferences["t_ns"] < end) for begin, end in TURNS.spans(1)]
            inferences["variant"] = np.logical_or.reduce(in_turn)
        found += [self.event(self.rng.randrange(max(end_ns, 1))) for _ in range(self.rng.choice((0, 3, 30)))]
        return sorted(found, key=lambda event: event.t_ns)

    def batches(self) -> list[Batch]:
        """As a conductor hands them on, but with what no conductor would think of; one in five is a slow session."""
        if self.one_in(5):
            slow = generate(self.seed, self.rng.choice((None, *WIDENED)))
            cuts = tuple(sorted(self.rng.uniform(0, slow.end_s) for _ in range(self.rng.choice((1, 4, 12)))))
            return list(slow.batches(cuts, single=self.one_in(3)))
        whole, lasts_s = self.manifest(), self.rng.choice((0.0, 0.5, 3.0, 15.0, 60.0, 200.0, 1_000.0))
        rows = self.inferences(lasts_s)
        readings = self.readings(len(whole.sensors), lasts_s)
        end_ns = max(int(lasts_s * NS), int(rows["t_ns"][-1]) + 1 if len(rows) else 0)
        events = self.events(whole, rows, end_ns)
        keeps = not self.one_in(5)
        aggregator = SecondAggregator(whole.load.deadline_ns, is_paced=whole.load.is_paced)
        found, begin, derived = [Batch(0, manifest=whole)], -1, (QuadEvents(), ThrottleEvents())
        for fold in derived:
            fold.fold(found[0])
        for end in np.linspace(0, end_ns, self.rng.choice((2, 5, 20)), dtype=np.int64)[1:].tolist():
            mine = rows[(rows["t_ns"] > begin) & (rows["t_ns"] <= end)]
            read = readings[(readings["t_ns"] > begin) & (readings["t_ns"] <= end)]
            said = tuple(event for event in events if begin < event.t_ns <= end)
            bursts = (self.burst(end),) if self.one_in(4) else ()
            kept = mine if keeps else NO_INFERENCES
            batch = Batch(end, mine, aggregator.add(mine), read, said, bursts=bursts)
            said += tuple(worded(event) for fold in derived for event in fold.fold(batch))
            found.append(replace(batch, inferences=kept, events=said))
            begin = end
        reason = self.rng.choice(("duration", "runs", "user", "engine-died", "internal-error", "exit-status-3", "odd"))
        ended = read_event(end_ns, "ended", "info", "edgetop", "over", {"reason": reason, "last_end_ns": end_ns})
        last = replace(whole, state="finished", end_reason=reason, duration_ns=end_ns)
        found.append(Batch(end_ns, seconds=aggregator.close(), events=(ended,) if keeps else (), manifest=last))
        return found

    def burst(self, t_ns: int) -> Any:
        times = self.numbers.integers(0, self.rng.choice((1, 10**6, 10**15)), self.rng.choice((1, 3, 40)))
        operators = [
            Operator(f"op{place}", "Conv", self.rng.choice(("CPU", "CUDA")), self.rng.choice((1, 8)), int(ns))
            for place, ns in enumerate(times)
        ]  # fmt: skip
        return burst_of(t_ns, self.rng.randrange(3), tuple(operators))

    def written(self, folder: Path, batches: Sequence[Batch]) -> Path:
        """Record the batches, and perhaps change the tables as another program might."""
        if self.one_in(6):
            return left_by_a_dead_writer(folder, batches[:-1])
        record(folder, list(batches))
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.change(folder)
        return folder

    def change(self, folder: Path) -> None:
        """Rows twice, reordered, missing; times that jump; values that are absurd."""
        path = folder / f"{self.rng.choice(('inferences', 'readings', 'seconds', 'events', 'operators'))}.parquet"
        if not path.exists():
            return
        if self.one_in(10):
            path.unlink()
            return
        table, kind = (
            pq.read_table(path),
            self.rng.choice(("twice", "shuffled", "none", "some", "one", "jump", "value")),
        )
        places = self.numbers.permutation(len(table)) if kind == "shuffled" else np.arange(len(table))
        if kind == "twice":
            places = np.repeat(places, 2)
        elif kind in ("none", "one", "some"):
            places = np.sort(self.numbers.permutation(places)[: {"none": 0, "one": 1, "some": len(places) // 2}[kind]])
        table = table.take(pa.array(places, pa.int64()))
        numeric = [name for name in table.column_names if pa.types.is_primitive(table.schema.field(name).type)]
        if kind in ("jump", "value") and len(table):
            name = "t_ns" if kind == "jump" else self.rng.choice(numeric)
            table = self.changed(table, name)
        pq.write_table(table, path)

    def changed(self, table: pa.Table, name: str) -> pa.Table:
        """A table in which values of a column are others, from some row on."""
        place = table.column_names.index(name)
        column = table.column(place)
        if pa.types.is_boolean(column.type):
            return table
        values = column.to_pylist()
        by: Any = self.rng.choice(JUMPS if name == "t_ns" else REALS if pa.types.is_floating(column.type) else WHOLES)
        for row in range(self.rng.randrange(len(values)), len(values)):
            values[row] = None if values[row] is None else values[row] + by if name == "t_ns" else by
        try:
            return table.set_column(place, table.schema.field(place), pa.array(values, column.type))
        except (pa.ArrowException, OverflowError):
            return table


def looked_at(folder: Path, beside: Path, out: Path, fuzz: Fuzz, *, looks: int = 9, pages: bool = False) -> None:
    """Report a session, and look at it in so many other ways. Raises what is no message for a user."""
    gates = (words for gate in ("p99>33ms", "throttled", "leak>1MiB/h") for words in ("--fail-if", gate))
    text, _ = run_here("report", str(folder), "--json", *gates)
    if text:
        json.loads(text, parse_constant=_refuse)
    ways: list[tuple[str, ...]] = [
        ("report", str(folder)),
        ("compare", str(beside), str(folder)),
        ("gap", str(folder), str(beside)),
        ("forecast", str(folder), "--ambient", "45C"),
        *(("export", str(folder), "--to", form, "-o", str(out / form), "--force") for form in FORMS[:-1]),
        ("export", str(folder), "--to", "session", "-o", str(out / str(fuzz.seed)), "--no-raw"),
    ]
    if pages:
        run_here("report", str(folder), "--html", str(out / "page.html"), "--force")
        run_here("compare", str(folder), str(beside), "--html", str(out / "compared.html"), "--force")
    for way in fuzz.rng.sample(ways, looks):
        run_here(*way)
    replayed(folder)


def _refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def replayed(folder: Path) -> None:
    """Played to the end in some steps, with a view of each."""
    try:
        clock, analysis = ManualClock(), Analysis()
        feed = ReplayFeed(Recording(folder), clock, speed=1000.0)
    except EdgetopError:
        return
    for _ in range(6):
        clock.advance(max(0.5, feed.transport.end_ns / NS / 4_000))
        analysis.catch_up(feed)
        analysis.view(None).freeze()
    feed.seek(feed.transport.end_ns)
    analysis.catch_up(feed)
    analysis.view(10 * NS).freeze()


async def shown(batches: Sequence[Batch], fuzz: Fuzz) -> None:
    """The live screen while the session goes on, with some keys."""
    script = Script(batches[0].manifest)
    script.batches[:] = batches[:1]
    async with opened(script, fuzz.rng.choice(((80, 24), (160, 50), (40, 10)))) as screen:
        for batch in batches[1:]:
            screen.feed.put(batch)
            await screen.tick()
        for key in (*fuzz.rng.sample("12345678", 3), "escape", "w", "space", "space"):
            await screen.press(key)
        await screen.tick()
        assert screen.app.failure is None
