"""Sessions written in advance, batch by batch: the same ones in every run.

A `Script` writes a session as a conductor would hand it on; a `ListFeed` plays what was
written. What is random comes from a stream that numpy has frozen (RandomState).
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from edgetop.feeds.feed_protocol import Can
from edgetop.sensors.sensor_protocol import UNIT_OF_KIND
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Anchor
from edgetop.session.event_codec import read_event
from edgetop.session.events import Event, Order, Severity
from edgetop.session.load_settings import Load
from edgetop.session.manifest import (
    FORMAT_VERSION,
    Battery,
    Board,
    ClockInfo,
    EngineInfo,
    Manifest,
    Methodology,
    Model,
    SensorInfo,
    TensorInfo,
)
from edgetop.session.operators import Operator, burst_of
from edgetop.session.records import FIRST, INFERENCE, MEASURE, NO_INFERENCES, READING, WARMUP, Inferences
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from edgetop.session.typed_json import JsonValue

# Text that a terminal, Rich or Textual would act on, or that breaks a careless layout.
HOSTILE = (
    "[red]markup[/red] [link=http://x]y[/link] [@click=app.quit]z[/]",
    "\x1b[31mred\x1b[2J\x1b]0;owned\x07 \x9b1m \x08\r\n\t\x00",
    "[input]:0] ]] [[ [/",
    "中文模型名称 한국어 😀👩‍👩‍👧",
    "e\u0301\u0301\u0301 a\u0300\u0316 \u200b\u200d\ufe0f\u2060 \u202etfel\u202c \u2066x\u2069",
    "x" * 10_000,
    "中" * 1_000,
    "",
    " ",
)


def sensor(sensor_id: str, source: str = "", **more: object) -> SensorInfo:
    unit = UNIT_OF_KIND[sensor_id.partition("/")[0]]
    return SensorInfo(sensor_id, unit, source or f"/sys/{sensor_id}", **more)  # type: ignore[arg-type]


SENSORS = (
    sensor("temp/cpu-thermal", trips={"passive": 85.0, "critical": 110.0}),
    sensor("temp/gpu-thermal", trips={"passive": 88.0}),
    sensor("temp/soc-thermal"),
    sensor("freq/cpu0", max=1800.0),
    sensor("freqcap/cpu0", max=1800.0),
    sensor("freq/cpu4", max=2400.0),
    sensor("freqcap/cpu4", max=2400.0),
    sensor("load/cpu"),
    sensor("load/engine"),
    sensor("load/edgetop"),
    sensor("mem/rss"),
    sensor("mem/rss-peak"),
    sensor("mem/pss"),
    sensor("mem/uss"),
    sensor("mem/swap"),
    sensor("mem/system-available"),
    sensor("mem/edgetop"),
)

# A board whose monitor tells the total and two parts, of which one cannot be read; and a GPU that tells of itself.
POWER_SENSORS = (
    sensor(
        "power/VDD_IN", role="total", accuracy="on-board-monitor", averages=True,
        note="the module's input: the carrier board with its USB, NVMe and fan is left out",
    ),
    sensor("power/VDD_CPU_GPU_CV", role="part", accuracy="on-board-monitor", averages=True),
    sensor("power/VDD_SOC", role="part", accuracy="on-board-monitor", averages=True),
    sensor("power/gpu", role="part", accuracy="firmware-estimate", averages=True),
)  # fmt: skip


def manifest(**changes: object) -> Manifest:
    """A live session of an ONNX model on a board with SENSORS, with these fields changed."""
    whole = Manifest(
        format_version=FORMAT_VERSION,
        id="0b9c8f7e-1111-4222-8333-444455556666",
        name="mobilenet-20261121-101502",
        state="live",
        edgetop_version="0.1.0",
        created_utc="2026-11-21T10:15:02.123456Z",
        clock=ClockInfo(0, None, (Anchor(0, "2026-11-21T10:15:02.123456Z"),)),
        board=Board(
            model="Raspberry Pi 5 Model B Rev 1.0",
            kernel="6.6.31-v8+",
            os="Debian GNU/Linux 12",
            cpu="Cortex-A76",
            cores=4,
            memory_bytes=8 * 2**30,
            governor="ondemand",
        ),
        model=Model("/home/pi/models/mobilenet_v2.onnx", size_bytes=13_964_571, format="onnx"),
        engine=EngineInfo(),
        load=Load(),
        sensors=SENSORS,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def inferences(
    from_ns: int, to_ns: int, rate_hz: float, median_ms: float, seed: int = 1, phase: int = MEASURE
) -> Inferences:
    """Paced inferences; their latencies are lognormal, one in two hundred a spike of twice the median."""
    period_ns = int(NS / rate_hz)
    starts = np.arange(-(-from_ns // period_ns) * period_ns, to_ns, period_ns)
    random = np.random.RandomState((seed + from_ns) % 2**32)
    median_us = median_ms * 1e3
    microseconds = np.rint(median_us * np.exp(0.04 * random.standard_normal(len(starts))))
    microseconds[random.random_sample(len(starts)) < 0.005] = 2 * median_us
    rows = np.zeros(len(starts), INFERENCE)
    rows["t_ns"], rows["latency_ns"] = starts, microseconds.astype(np.int64) * 1000
    rows["phase"], rows["ok"] = phase, True
    return rows


Weather = Callable[[float], Mapping[str, float]]  # what each sensor reads so many seconds into the session


def cool(second: float) -> dict[str, float]:
    heat = 45 + 12 * (1 - math.exp(-second / 60)) + 0.5 * math.sin(second)
    rss = 96.5 + min(second, 30) * 0.4
    return {
        "temp/cpu-thermal": round(heat, 1),
        "temp/gpu-thermal": round(heat - 3.5, 1),
        "temp/soc-thermal": round(heat - 6, 1),
        "freq/cpu0": 1800 if second % 7 < 6 else 1500,
        "freqcap/cpu0": 1800,
        "freq/cpu4": 2400 if second % 5 < 4 else 2208,
        "freqcap/cpu4": 2400,
        "load/cpu": 26.4,
        "load/engine": 99.2,
        "load/edgetop": 1.3,
        "mem/rss": round(rss, 1),
        "mem/rss-peak": round(rss + 1.5, 1),
        "mem/pss": round(rss - 8, 1),
        "mem/uss": round(rss - 9, 1),
        "mem/swap": 0,
        "mem/system-available": 6_204.2,
        "mem/edgetop": 71.4,
    }


def hot(second: float) -> dict[str, float]:
    """As `cool`, until the CPU reaches its trip in the thirtieth second and its cap falls."""
    heat = min(86.0, 60 + second * 0.85) + 0.3 * math.sin(second)
    cap = 2400 if second < 30 else 1500
    fallen = {"freq/cpu4": cap, "freqcap/cpu4": cap, "freq/cpu0": min(cap, 1800), "freqcap/cpu0": min(cap, 1800)}
    zones = {"temp/cpu-thermal": heat, "temp/gpu-thermal": heat - 2, "temp/soc-thermal": heat - 9}
    return cool(second) | fallen | {name: round(value, 1) for name, value in zones.items()}


def powered(second: float) -> dict[str, float]:
    """As `cool`, with what POWER_SENSORS tell."""
    watts = 5.6 + 1.4 * math.sin(second / 9) + (0.8 if second % 11 < 3 else 0.0)
    shares = {"power/VDD_IN": 1.0, "power/VDD_CPU_GPU_CV": 0.42, "power/gpu": 0.2}
    return cool(second) | {name: round(watts * share, 3) for name, share in shares.items()}


def squeezenet(runs: int, run_ns: int) -> tuple[Operator, ...]:
    """Operators that take 97 % of an inference, a partition of three with another provider among them."""
    fires = [f"fire{i}/{part}" for i in range(2, 10) for part in ("squeeze", "expand")]
    named = [("conv1", "Conv", 8), *((name, "Conv", 2 + i % 2) for i, name in enumerate(fires))]
    named += [("conv10", "Conv", 24), ("pool10", "GlobalAveragePool", 1)]
    ns = 0.97 * runs * run_ns / sum(weight for *_, weight in named)
    return tuple(
        Operator(name, op_type, "CUDA" if 4 <= i < 7 else "CPU", runs, int(ns * weight))
        for i, (name, op_type, weight) in enumerate(named)
    )


class OrderLog:
    """A session that stores the orders that it gets."""

    def __init__(self) -> None:
        self.asked: list[Order] = []

    def order(self, order: Order) -> None:
        self.asked.append(order)


class Script:
    """Writes a session from its beginning; every method adds to it what its name says."""

    def __init__(self, whole: Manifest | None = None, weather: Weather = cool, step_s: float = 1.0) -> None:
        """`step_s`: how much of the session a batch holds."""
        self.manifest = whole or manifest()
        self.now_ns = 0
        self.batches: list[Batch] = []
        self._weather = weather
        self._step_ns = int(step_s * NS)
        load = self.manifest.load
        self._aggregator = SecondAggregator(load.deadline_ns, is_paced=load.is_paced)
        self._read_until_ns = 0
        self._lost: set[str] = set()
        self._bursts = 0
        self._add(manifest=self.manifest)

    def _add(self, *events: Event, records: Inferences = NO_INFERENCES, manifest: Manifest | None = None) -> None:
        seconds = self._aggregator.add(records)
        self.batches.append(Batch(self.now_ns, records, seconds, self._readings(), events, manifest))

    def _readings(self) -> np.ndarray:
        """Once a second, of every sensor that is not lost."""
        rows: list[tuple[int, int, float]] = []
        while self.manifest.sensors and self._read_until_ns < self.now_ns:
            values = self._weather(self._read_until_ns / NS)
            for i, info in enumerate(self.manifest.sensors):
                if info.id in values and info.id not in self._lost:
                    rows.append((self._read_until_ns, i, values[info.id]))
            self._read_until_ns += NS
        return np.array(rows, READING)

    def tell(
        self, kind: str, severity: Severity = "info", source: str = "engine", message: str = "", **data: JsonValue
    ) -> "Script":
        self._add(read_event(self.now_ns, kind, severity, source, message, data))
        return self

    def wait(self, seconds: float) -> "Script":
        """Time passes, and nothing but the sensors tells of it."""
        self.now_ns += int(seconds * NS)
        self._add()
        return self

    def load(self, *, first_ms: float = 21.3) -> "Script":
        """The model is loaded and runs for the first time."""
        self.tell("engine-started", message="Python 3.11.2", pid=4711)
        self.now_ns += NS // 2
        engine = replace(
            self.manifest.engine, runtime="onnxruntime", version="1.23.2", providers=("CPU",), init_ns=412_000_000,
            first_ns=int(first_ms * 1e6),
        )  # fmt: skip
        shaped = replace(self.manifest.model, inputs=(TensorInfo("input", (1, 3, 224, 224), "float32"),))
        self.manifest = replace(self.manifest, engine=engine, model=shaped)
        self._add(manifest=self.manifest)
        self.tell("engine-loaded", message="onnxruntime 1.23.2 on CPU (fits the format)")
        self.tell("phase", message="first inference begins", phase="first")
        records = inferences(self.now_ns, self.now_ns + 1, 1e9, first_ms, phase=FIRST)
        self.now_ns += int(first_ms * 1e6)
        self._add(records=records)
        return self

    def warm_up(self, runs: int = 50, *, of: int = 50, rate_hz: float = 100, median_ms: float = 6.0) -> "Script":
        self.tell("phase", message="warm-up begins", phase="warmup", runs=of)
        until_ns = self.now_ns + int(runs / rate_hz * NS)
        records = inferences(self.now_ns, until_ns, rate_hz, median_ms, phase=WARMUP)[:runs]
        self.now_ns = until_ns
        self._add(records=records)
        return self

    def begin(self, **data: JsonValue) -> "Script":
        """The measurement begins."""
        return self.tell("phase", message="measurement begins", phase="measure", **data)

    def measure(
        self, seconds: float, *, rate_hz: float = 100, median_ms: float = 5.0, wait_ms: float = 0.0
    ) -> "Script":
        end_ns = self.now_ns + int(seconds * NS)
        while self.now_ns < end_ns:
            from_ns, self.now_ns = self.now_ns, min(self.now_ns + self._step_ns, end_ns)
            records = inferences(from_ns, self.now_ns, rate_hz, median_ms)
            records["wait_ns"] = np.arange(len(records)) % 7 * int(wait_ms * 1e6)
            self._add(records=records)
        return self

    def profile(
        self, operators: Iterable[Operator] = (), *, runs: int = 8, slower: float = 1.08, **told: JsonValue
    ) -> "Script":
        """A burst, of inferences that are so much `slower` than the 5 ms of `measure`. `told`: more of its event."""
        if not self._bursts:
            way = "run-level profiling of the live session"
            self.tell("profiler", message=f"operators: {way}", way=way, reason="", every_ns=10 * NS)
        run_ns = int(5_000_000 * slower)
        data: dict[str, JsonValue] = {
            "burst": self._bursts,
            "duration_ns": runs * run_ns,
            "runs": runs,
            "run_ns": run_ns,
        }
        data |= {"plain_ns": 5_000_000, **told}
        self.tell("profile-burst", message=f"{runs} instrumented inferences", **data)
        burst = burst_of(self.now_ns, self._bursts, tuple(operators) or squeezenet(runs, run_ns))
        self.batches.append(Batch(self.now_ns, bursts=(burst,)))
        self._bursts += 1
        return self

    def lose(self, *sensors: str, reason: str = "no such device") -> "Script":
        for name in sensors:
            self._lost.add(name)
            self.tell("sensor-lost", "warning", f"sensor {name}", reason)
        return self

    def miss(self, what: str, why: str, fix: str = "") -> "Script":
        return self.tell("sensor-missing", "info", f"sensor {what}", why, fix=fix)

    def end(self, reason: str = "duration") -> "Script":
        self.manifest = replace(self.manifest, state="finished", end_reason=reason, duration_ns=self.now_ns)
        told = read_event(
            self.now_ns, "ended", "info", "edgetop", f"session over: {reason}",
            {"reason": reason, "last_end_ns": self.now_ns, "warmup_runs": 50, "warmup_ns": 300_000_000},
        )  # fmt: skip
        self.batches.append(
            Batch(self.now_ns, seconds=self._aggregator.close(), events=(told,), manifest=self.manifest)
        )
        return self

    def whole(self) -> Batch:
        """Everything written so far, in one batch."""
        return merge(self.batches)


def measured(seconds: float = 60, weather: Weather = cool, **pace: float) -> Script:
    """A session that has been measuring for so long."""
    return Script(weather=weather).load().warm_up().begin().measure(seconds, **pace)


def measured_with_power(seconds: float = 60) -> Script:
    """A session on a board that tells its power."""
    whole = manifest(sensors=(*SENSORS, *POWER_SENSORS))
    return Script(whole, powered).load().warm_up().begin().measure(seconds).lose("power/VDD_SOC", reason="No data")


def paced(seconds: float = 60, *, median_ms: float = 21.0, late_ms: float = 3.0, **gates: str) -> Script:
    """30 Hz of two streams with a deadline of 33 ms; from the middle on each inference waits for `late_ms` more."""
    load = Load(mode="fixed", rate_hz=15.0, streams=2, deadline_ns=33_000_000)
    script = Script(manifest(load=load)).load().warm_up()
    for expr in gates.values():
        script.tell("gate", "info", "user", f"fails if {expr}", expr=expr)
    script.begin().measure(seconds / 2, rate_hz=30, median_ms=median_ms)
    return script.measure(seconds / 2, rate_hz=30, median_ms=median_ms, wait_ms=late_ms)


SCARCE_MEMORY = {
    "mem/rss-anon": 84.2,
    "mem/rss-file": 24.3,
    "mem/rss-shmem": 0.0,
    "mem/accelerator": 740.4,
    "mem/cgroup": 498.2,
    "mem/cgroup-limit": 512.0,
    "mem/cgroup-left": 13.8,
    "rate/oom-kills": 0.0,
    "rate/swap-in": 812.0,
    "rate/swap-out": 0.0,
    "rate/major-faults": 41.0,
}
STAGES_MIB = {"interpreter": 26.4, "runtime": 45.7, "model": 88.2, "first": 96.1, "steady": 96.5}


def scarce(seconds: float = 20) -> Script:
    """A model on the GPU of a board that shares its memory, in a cgroup that is nearly full."""
    sensors = (*SENSORS, *map(sensor, SCARCE_MEMORY))
    script = Script(manifest(sensors=sensors), lambda second: cool(second) | SCARCE_MEMORY).load()
    for stage, rss_mib in STAGES_MIB.items():
        script.tell("engine-memory", message=f"{rss_mib} MiB resident", stage=stage, rss_mib=rss_mib)
    return script.warm_up().begin().measure(seconds)


def leaking() -> Script:
    """A board that tells its power, feeds on a battery, and whose engine keeps what it should not."""
    methodology = Methodology(idle_baseline_s=30.0, battery=Battery(3.7, 1000.0, 2.0, 0.15))
    whole = manifest(sensors=(*SENSORS, *POWER_SENSORS[:2]), methodology=methodology)
    script = Script(whole, lambda second: powered(second) | {"mem/rss": 100 + second / 9})
    script.load().tell("phase", phase="idle", duration_ns=30 * 10**9).wait(30)
    return script.warm_up().begin().measure(200, rate_hz=5)


def hostile(text: str) -> Script:
    """A session in which every foreign name, source, reason and message is `text`."""
    every = enumerate((*SENSORS, *POWER_SENSORS))
    sensors = tuple(replace(info, id=f"{info.kind}/{text}{i}", source=text, note=text) for i, info in every)
    own = (sensor("load/edgetop", text), *(sensor(f"mem/{name}", text) for name in ("rss", "pss", "system-available")))
    plain = manifest()
    named = replace(
        plain,
        name=text,
        board=replace(plain.board, model=text, cpu=text, os=text, kernel=text, governor=text),
        model=replace(plain.model, path=f"/models/{text}"),
        labels={text: text},
        methodology=replace(plain.methodology, notes=(text,)),
        sensors=(*sensors, *own),
    )
    script = Script(named, lambda second: {info.id: 50 + second % 10 for info in named.sensors}).load()
    script.manifest = replace(
        script.manifest,
        engine=replace(script.manifest.engine, runtime=text or "x", version=text, providers=(text,)),
        model=replace(script.manifest.model, inputs=(TensorInfo(text, (1, 2), text),)),
    )
    script._add(manifest=script.manifest)
    script.tell("engine-memory", source=text, message=text, stage=text, rss_mib=96.5)
    script.warm_up().begin().measure(20)
    for kind in ("log", "mark", "assumed-shape", "provider-dropped", "recording-failed"):
        script.tell(kind, "critical" if kind == "provider-dropped" else "warning", text, text)
    script.profile([Operator(text, text, text, 8, 5_000), Operator(f"{text}2", text, "CPU", 8, 0)]).tell(
        "profiler", way="", reason=text, every_ns=0
    )
    return script.miss(text, text, text).lose(sensors[0].id, "mem/rss", reason=text)


def throttled_by(text: str) -> Script:
    """A slowdown that a device and a process of that name explain; gates, rules and hooks of that text."""
    device, others = f"cooling/0-{text}", "load/others"
    sensors = (*SENSORS, sensor(device, text, throttles=True, max_state=10), sensor(others, text))

    def weather(second: float) -> dict[str, float]:
        is_slow = second > 30
        return cool(second) | {device: 5.0 * is_slow, others: 90.0 * is_slow}

    script = Script(manifest(sensors=sensors, name=text or "x"), weather).load().warm_up()
    for kind, data in (("gate", {"expr": text}), ("alert-rule", {"rule": text}), ("engine-log", {"line": text})):
        script.tell(kind, "info", text, text, **data)
    script.begin().measure(30)
    for _ in range(30):
        script.tell("competing", "info", text, text, name=text, cpu_pct=95.0, pid=1)
        script.measure(1, rate_hz=60, median_ms=8.0)
    script.tell("alert-began", "warning", text, text, name=text, rule=text)
    return script.tell("hook-failed", "warning", f"hook {text}", text)


class ListFeed(OrderLog):
    """Plays batches, one a read, and keeps what it was asked to do. Where `ends`, the last one is the end."""

    player = None
    trouble = ""

    def __init__(self, batches: Iterable[Batch] = (), *, ends: bool = False, more: Can = Can.NOTHING) -> None:
        """`more`: what it can do beside the orders that every live session takes."""
        super().__init__()
        self._more = more
        self._batches = list(batches)
        self._ends = ends

    def put(self, batch: Batch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        self._ends = True

    @property
    def can(self) -> Can:
        orders = Can.STOP | Can.MARK | Can.PAUSE_RECORDING | Can.PROFILE
        return Can.NOTHING if self.is_over else orders | self._more

    @property
    def is_over(self) -> bool:
        return self._ends and not self._batches

    @property
    def waiting(self) -> tuple[Batch, ...]:
        return tuple(self._batches[:1])

    def read(self) -> Batch | None:
        return self._batches.pop(0) if self._batches else None
