"""The manifest: what ran, where and how. The keys of the file `session.json` are a contract.

Every class here is one object of that file, field by field. An unknown value is None. There is no field for a board's
serial number, host name or user name.

A manifest may come from a stranger: in a folder, over a link, in a row of a lake. So every manifest is read with
`manifest_codec.from_json`, which checks types, sizes, the id (a UUID) and dates.
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.caches import Cache
from edgetop.session.clock import Anchor, WallTime, wall_time_at
from edgetop.session.generation_settings import Generation
from edgetop.session.load_settings import Load
from edgetop.session.meter import Meter
from edgetop.session.records import SplitBy
from edgetop.session.typed_json import NOT_EXPORTED, Form, require

FORMAT_VERSION = 1
IMPORTED = "imported"  # label with the name of the other tool that measured the session

State = Literal["live", "finished", "recovered"]
SessionKind = Literal["run", "ab", "watch", "import"]


@frozen
class ClockInfo:
    origin_monotonic_ns: int
    boot_id: str | None
    anchors: tuple[Anchor, ...] = ()


@frozen
class HistogramInfo:
    unit_ns: int = histogram.UNIT_NS
    sub_bucket_bits: int = histogram.SUB_BUCKET_BITS


@frozen
class Board:
    model: str | None = None
    soc: str | None = None
    kernel: str | None = None
    os: str | None = None
    cpu: str | None = None
    cores: int | None = None
    memory_bytes: int | None = None
    power_mode: str | None = None
    governor: str | None = None
    simulated: bool = False
    caches: tuple[Cache, ...] = ()  # of the CPU, lowest level first; empty if unknown


@frozen
class TensorInfo:
    name: str
    shape: tuple[int, ...]
    dtype: str  # numpy's name


@frozen
class Model:
    path: str
    sha256: str | None = None
    size_bytes: int | None = None  # of the file at `path`
    format: str | None = None  # "onnx" or "tflite"
    inputs: tuple[TensorInfo, ...] = ()  # with the shapes in which they ran
    precision: str | None = None
    signature: str | None = None  # key of the signature of a TFLite model that ran; None if it has none
    beside_bytes: int | None = None  # size of the model's other files, such as the .bin of an IR; None without any

    @property
    def whole_bytes(self) -> int | None:
        """Return the size of all files of the model, or None if unknown."""
        return None if self.size_bytes is None else self.size_bytes + (self.beside_bytes or 0)


@frozen
class EngineInfo:
    runtime: str | None = None
    version: str | None = None
    providers: tuple[str, ...] = ()
    threads: int = 0  # 0 means the runtime's default
    isolation: str = "process"
    init_ns: int | None = None  # time to load the model, the import of the runtime included
    first_ns: int | None = None  # latency of the first inference
    partitions: int | None = None
    asked: tuple[str, ...] = ()  # requested providers, accelerators or paths of delegates, first choice first
    xnnpack: bool | None = None  # whether XNNPACK was requested or switched off; None if neither
    settings: Mapping[str, str] = field(default_factory=dict)  # what else changes speed or results: precision ...
    compile_ns: int | None = None  # time to compile the model, a part of `init_ns`; None if unknown

    @property
    def preferred(self) -> tuple[str, ...]:
        """The requested providers, followed by the providers that the engine has, each list in order of preference."""
        return (*self.asked, *self.providers)


@frozen
class BackgroundProcess:
    name: str
    cpu_pct: float


@frozen
class Battery:
    """The battery for which a session's energy use is converted to run time."""

    volts: float
    capacity_mah: float
    rate_hz: float | None = None  # inferences per second; None means as many as ran
    extra_w: float = 0.0  # power that the battery gives to other consumers


@frozen
class Methodology:
    warmup_runs: int | None = None  # number that ran, not number requested
    measure_runs: int | None = None
    cooldown_s: float | None = None  # None if no cool-down was requested
    idle_baseline_s: float | None = None
    ambient_c: float | None = None
    enclosure: str | None = None
    start_temperatures: Mapping[str, float] = field(default_factory=dict)
    background: tuple[BackgroundProcess, ...] = ()
    scheduler: str | None = None
    notes: tuple[str, ...] = ()
    battery: Battery | None = None
    stream_runs: tuple[int, ...] = ()  # measured inferences of each stream that did not fail; empty for one stream
    cooldown_to_c: float | None = None  # temperature to which the board had to cool down
    cooldown_c: float | None = None  # hottest zone after the cool-down; None if no temperature could be read
    # Why not all processes could be seen: "hidepid" (those of other users) or "container" (those outside); None if all
    # could, and in older sessions.
    background_unseen: str | None = None
    ambient_sensor: str | None = None  # id of the sensor that measured `ambient_c`; None if it was declared


@frozen
class WatchedStream:
    """One model that a watched program runs, with figures of its inferences that are updated every ten seconds."""

    name: str  # path of the model, or the program's name for it; "" if unknown
    runs: int = 0  # measured inferences that did not fail
    p50_ns: int | None = None
    p99_ns: int | None = None
    threads: int | None = None  # threads of the runtime session; 0 means the runtime's default; None if unknown
    inputs: str | None = None  # inputs of the first call, with their shapes


@frozen
class InContainer:
    """The container in which a watched program ran."""

    runtime: str  # "docker" or "podman"
    image: str  # as it was given, or as the runtime names it
    image_id: str = ""  # "" for a container that ran already


@frozen
class Watched:
    """A program that ran the inferences itself, while edgetop watched."""

    command: tuple[str, ...]
    sources: tuple[str, ...] = ()  # how its calls were seen: "hook", "preload", "probe"
    cost_ns: int | None = None  # time that watching adds to each call, measured in the program
    streams: tuple[WatchedStream, ...] = ()  # the index is the `stream` of an inference
    deadline_ns: int | None = None  # deadline of a frame that the program declares
    at_once_mean: float | None = None  # mean number of inferences in progress while there were any
    at_once_max: int | None = None
    outside_share: float | None = None  # share of the time between first and last inference without one in progress
    container: InContainer | None = None  # None for a program outside of a container

    @property
    def name(self) -> str:
        """The name of the watched script or program, without its folder.

        >>> Watched(("/usr/bin/python3", "src/train.py", "--epochs", "3")).name, Watched(("sh", "-c", "a | b/c")).name
        ('train.py', 'sh')
        """
        script = next((word for word in self.command[1:] if word.endswith(".py")), (*self.command, "")[0])
        return script.rpartition("/")[2] or script


@frozen
class Constraints:
    cpus: float | None = None
    memory_bytes: int | None = None
    quota_pct: float | None = None  # CPU time; 100 is one CPU
    quota_period_ms: float | None = None  # length of the periods in which the quota is given
    swap_bytes: int | None = None  # swap in addition to the memory; None: none if the memory is limited
    io_bytes_per_s: int | None = None  # of each disk: bytes that may be read, and as many that may be written

    @property
    def words(self) -> str:
        """The limits of memory, swap, CPU time and disk in words; "" if there are none. The number of CPUs is left out.

        >>> Constraints(2.0, 2**29, 150.0, 10.0).words
        'memory 512 MiB, quota 150 % of a CPU in each 10 ms'
        """
        memory = "" if self.memory_bytes is None else f"memory {self.memory_bytes / 2**20:g} MiB"
        swap = "" if self.swap_bytes is None else f"swap {self.swap_bytes / 2**20:g} MiB"
        period = f" in each {self.quota_period_ms:g} ms" if self.quota_period_ms else ""
        quota = "" if self.quota_pct is None else f"quota {self.quota_pct:g} % of a CPU{period}"
        io = "" if self.io_bytes_per_s is None else f"disk I/O {self.io_bytes_per_s / 2**20:g} MiB/s"
        return ", ".join(filter(None, (memory, swap, quota, io)))


@frozen
class SensorInfo:
    """One sensor. A reading refers to a sensor by the sensor's index in `Manifest.sensors`."""

    id: str  # "kind/label"; the kind fixes the unit
    unit: str
    source: str  # path, bus address or command
    role: str | None = None  # "total": the whole board's input power; "part": a rail below it
    accuracy: Literal["external-shunt", "on-board-monitor", "firmware-estimate"] | None = None  # for power
    simulated: bool = False
    trips: Mapping[str, float] | None = None  # for temperatures, in °C; has "passive" only if that trip throttles
    throttles: bool | None = None  # for cooling devices: whether it slows the board down
    max_state: int | None = None  # for cooling devices
    max: float | None = None  # for clocks, in MHz; for power, the limit that was in force at the start, in W
    note: str | None = None  # what the value includes or leaves out, if that is not obvious
    averages: bool | None = None  # for power: whether a reading is the mean since the previous one; None if unknown
    meter: Meter | None = None  # for power: the instrument; None if unknown

    @property
    def kind(self) -> str:
        return self.id.partition("/")[0]

    @property
    def label(self) -> str:
        return self.id.partition("/")[2]


@frozen
class Variant:
    """One variant, A or B, of an A/B session."""

    model: Model
    engine: EngineInfo
    options: str = ""  # options in which it differs from the other variant, as the user wrote them

    @property
    def name(self) -> str:
        """The name of the model's file, followed by the variant's options.

        >>> Variant(Model("models/net.onnx"), EngineInfo(), "--threads 2").name
        'net.onnx --threads 2'
        """
        return f"{self.model.path.rpartition('/')[2]} {self.options}".strip()


@frozen
class Ab:
    """The setup of an A/B session: two variants that run in turns."""

    variants: tuple[Variant, ...]  # A and B
    # The session ends once half the width of the interval of p50's ratio is below this share.
    until: float
    seed: int = 0  # for the random order of turns


@frozen
class Lost:
    """What is missing in a recording, except data that the user excluded (`--no-raw`, `--max-size`)."""

    seconds: float | None  # session time in which something is missing; None if unknown
    inferences: int | None  # number of inferences that ran and are missing; None if unknown
    why: str

    @property
    def words(self) -> str:
        """The lost time and inferences in words.

        >>> Lost(36.0, 1_234, "").words, Lost(None, None, "").words
        ('36 s and 1234 inferences', 'a time that is not known, and inferences that nobody counted')
        """
        time = "a time that is not known" if self.seconds is None else f"{self.seconds:.4g} s"
        if self.inferences is None:
            return f"{time}, and inferences that nobody counted"
        return f"{time} and {self.inferences} inference{'' if self.inferences == 1 else 's'}"


def lost_in_all(*each: Lost | None) -> Lost | None:
    """Return the sum of several losses of data, or None if all are None.

    If an amount is unknown in one loss, it is unknown in the sum. The text `why` then names the known amounts.

    >>> lost_in_all(Lost(0.5, 25, "damaged bytes"), Lost(None, None, "power was lost"))
    Lost(seconds=None, inferences=None, why='damaged bytes (0.5 s and 25 inferences); power was lost')
    """
    parts = [lost for lost in each if lost is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    seconds = [lost.seconds for lost in parts if lost.seconds is not None]
    inferences = [lost.inferences for lost in parts if lost.inferences is not None]
    is_known = len(inferences) == len(parts)
    whys = [lost.why if is_known or not lost.inferences else f"{lost.why} ({lost.words})" for lost in parts]
    return Lost(
        round(sum(seconds), 6) if len(seconds) == len(parts) else None,
        sum(inferences) if is_known else None,
        "; ".join(dict.fromkeys(why for text in whys for why in text.split("; "))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of a session: what ran, where and how. The fields have the order of the file `session.json`."""

    format_version: int
    id: str  # uuid4
    name: str
    state: State
    end_reason: str | None = None
    edgetop_version: str
    created_utc: str
    duration_ns: int | None = None  # None while the session is live
    clock: ClockInfo
    histogram: HistogramInfo = field(default_factory=HistogramInfo)
    board: Board
    model: Model
    engine: EngineInfo
    load: Load
    methodology: Methodology = field(default_factory=Methodology)
    constraints: Constraints = field(default_factory=Constraints)
    labels: Mapping[str, str] = field(default_factory=dict)
    sensors: tuple[SensorInfo, ...] = ()
    # Ids of sensors of limits that were not set, such as `pressure/cpu-quota`; only in the file if there are any.
    unset_limits: tuple[str, ...] = ()
    ab: Ab | None = None  # only in the file of an A/B session; `model` and `engine` are then those of A
    generation: Generation | None = None  # only in the file of a session of a language model
    lost: Lost | None = None  # only in the file if something is lost
    watched: Watched | None = None  # only in the file if a program was watched
    followed_by: str | None = None  # id of the session in which the engine went on; only in the file if there is one
    command: tuple[str, ...] = ()  # command line that made the session, without hooks; empty if unknown
    unread: tuple[str, ...] = field(default=(), metadata=NOT_EXPORTED)  # keys whose values were damaged, so are unknown

    @property
    def was_imported(self) -> bool:
        """Whether the session was measured by another tool."""
        return IMPORTED in self.labels and self.clock.boot_id is None

    @property
    def model_name(self) -> str:
        """The name of the model's file, or of the watched program if it has not used a model yet."""
        if self.watched and self.watched.command and not self.watched.streams:
            return self.watched.name
        return self.model.path.rpartition("/")[2]

    @property
    def kind(self) -> SessionKind:
        """What ran the inferences: "run" or "ab" (edgetop), "watch" (a watched program) or "import" (another tool)."""
        if self.was_imported:
            return "import"
        if self.watched is not None:
            return "watch"
        return "run" if self.ab is None else "ab"

    @property
    def split_by(self) -> SplitBy:
        """The field of an inference that tells which model ran; None if the session has one model.

        The field is "variant" in an A/B session and "stream" for a watched program.
        """
        if self.ab is not None:
            return "variant"
        return None if self.watched is None else "stream"

    def wall_time(self) -> WallTime | None:
        """The conversion from session time to wall time, or None if the manifest's times are invalid."""
        return wall_time_at((self.clock.anchors or (Anchor(0, self.created_utc),))[-1])

    @property
    def began_utc(self) -> str:
        """The wall time at which the session began, in ISO 8601.

        If the wall clock was set during the session, the time is corrected.
        """
        wall, said = self.wall_time(), wall_time_at(Anchor(0, self.created_utc))
        is_same = wall and said and abs(wall.origin_us - said.origin_us) < _SET_LATER_US
        if wall is None or is_same or len(self.clock.anchors) < 2:
            return self.created_utc
        with suppress(OverflowError, ValueError):
            if is_date(began := wall.utc(0)):
                return began
        return self.created_utc


_SET_LATER_US = 60_000_000  # a smaller step of the clock is a correction
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")


def is_id(text: str) -> bool:
    """Whether the text has the form of a session's id: a UUID in lower case, with dashes."""
    return _ID.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Whether the text is a valid time in UTC such as `2026-11-21T10:15:02Z`. Fractions of a second are allowed."""
    try:
        return _DATE.fullmatch(text) is not None and datetime.fromisoformat(text[:19]).year > 0
    except ValueError:
        return False


MAX_COMMAND_CHARS = 16_384


def shortened(command: Sequence[str]) -> tuple[str, ...]:
    """Return the first words of a command line, with about MAX_COMMAND_CHARS characters in all.

    If the command line is longer, the last word is cut and ends with "…".
    """
    kept: list[str] = []
    room = MAX_COMMAND_CHARS
    for word in command:
        if len(word) > room:
            return (*kept, f"{word[:room]}…")
        kept.append(word)
        room -= len(word) + 1
    return tuple(kept)


_TOO_LARGE = 2**63  # integers must be smaller, since calculations and tables use 64 bits
MAX_TEXT_CHARS = 131_072  # longest possible word of a command line (MAX_ARG_STRLEN, execve(2))
MAX_ITEMS = 65_536  # most items of a list, or keys of an object


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        require(abs(value) <= sys.float_info.max, where)
        return float(value)
    require(isinstance(value, hint) and (hint is bool or not isinstance(value, bool)), where)
    if isinstance(value, float):
        require(math.isfinite(value) or where.endswith(": trips"), where)
    elif isinstance(value, int):
        require(abs(value) < _TOO_LARGE, where)
    elif isinstance(value, str):
        require(len(value) <= MAX_TEXT_CHARS, where)
    return value


FORM = Form(_scalar, most_items=MAX_ITEMS)
built = FORM.read  # parses any other object that has a key for each field of a class
