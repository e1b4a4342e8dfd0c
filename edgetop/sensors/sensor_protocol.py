"""The interface of sensors: sources of readings, and the results of discovery.

Nearly every source is a `Reader`: sensors, and the function that reads them. A family of sensors is one file with a
`discover` that gives its readers; `discovery.py` lists the families.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, runtime_checkable

from edgetop.sensors.root import Root
from edgetop.session.events import Body, Severity
from edgetop.session.manifest import SensorInfo

UNIT_OF_KIND = {
    "temp": "°C",
    "freq": "MHz",
    "freqcap": "MHz",
    "cooling": "state",
    "throttle": "0/1",
    "power": "W",
    "volt": "V",
    "current": "A",
    "mem": "MiB",
    "load": "%",
    "pressure": "%",
    "rate": "1/s",
    "fan": "rpm",
    "net": "B/s",
    "disk": "B/s",
    "stage": "ms",
    "frame": "ms",
    "drop": "frames",
    "call": "ms",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """A value that is not there, and why."""

    reason: str


def gap_of(error: OSError | ValueError) -> Gap:
    """Turn a failed read into a gap, with the error's text as its reason."""
    return Gap((error.strerror if isinstance(error, OSError) else None) or str(error))


T = TypeVar("T")
Values = Sequence[float | Gap]


def attempt(read: Callable[[], T]) -> T | Gap:
    """Read one of several values; its failure does not affect the others."""
    try:
        return read()
    except (OSError, ValueError) as error:
        return gap_of(error)


def attempt_all(reads: Iterable[Callable[[], T]]) -> "list[T | Gap]":
    return [attempt(read) for read in reads]


def begin_call(call: Callable[[], T], name: str) -> "queue.SimpleQueue[T]":
    """Call on a separate thread, since a driver may hang for ever; return the queue of its result."""
    result: queue.SimpleQueue[T] = queue.SimpleQueue()
    threading.Thread(target=lambda: result.put(call()), name=name, daemon=True).start()
    return result


@dataclass(frozen=True, slots=True)
class Backlog(Gap):
    """No value of this moment, but some of earlier ones: what a log holds."""

    samples: tuple[tuple[int, float], ...] = ()  # (t_ns of the session, value), in the order of their time


@dataclass(frozen=True, slots=True)
class SensorEvent:
    """Something that a source reports besides numbers; it becomes an event."""

    body: Body
    message: str
    severity: Severity = "info"


class Source(Protocol):
    """A file, a chip or a command that is read in one go, with one or more sensors."""

    @property
    def name(self) -> str: ...

    @property
    def sensors(self) -> tuple[SensorInfo, ...]: ...

    @property
    def cadence_s(self) -> float: ...

    def read(self) -> Values:
        """A value for each of `sensors`, in their order. An OSError or ValueError is a gap in all."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Sensors that one function reads in one go, with a value for each; most sensors are read so."""

    sensors: tuple[SensorInfo, ...]
    read: Callable[[], Values]
    cadence_s: float = 1.0
    name: str = ""  # of its first sensor, where none is given
    fastest_s: float = 0.0  # a read that comes sooner finds nothing new; 0: the cadence
    interval_s: tuple[float, float] | None = None  # to the next read, drawn at random; None: the cadence
    events: list[SensorEvent] = field(default_factory=list)  # to which `read` appends what it reports besides values

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.sensors[0].id)

    def take_events(self) -> Sequence[SensorEvent]:
        taken = tuple(self.events)
        self.events.clear()
        return taken


def file_reader(
    root: Root, relative: str, info: SensorInfo, convert: Callable[[str], float | Gap], cadence_s: float = 1.0
) -> Reader:
    """Return a reader of one sensor in one file. `convert` turns the text into its value, or raises ValueError."""
    file = root.file(relative)
    return Reader((info,), lambda: [convert(file.read_text())], cadence_s)


@runtime_checkable
class Notifying(Protocol):
    """A source that also reports events."""

    def take_events(self) -> Sequence[SensorEvent]:
        """The events of its last read. Called after each read that came back."""


@runtime_checkable
class SurveysProcesses(Protocol):
    """A source that measures which other processes run."""

    def begin_survey(self) -> None:
        """Measure from now on. From any thread."""

    def survey(self) -> Sequence[tuple[str, float]]:
        """The processes that took most of the CPU since then, and percent of a core on average."""


@runtime_checkable
class Closable(Protocol):
    """A source that holds something which outlives it, such as a process."""

    def close(self) -> None:
        """Release it. May be called during a read."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that cannot be read on this board, why, and the command that would change that."""

    what: str
    why: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    sources: tuple[Source, ...] = ()
    missing: tuple[Missing, ...] = ()


def join(parts: Sequence[Found]) -> Found:
    return Found(
        tuple(source for part in parts for source in part.sources),
        tuple(missing for part in parts for missing in part.missing),
    )


def sensor(kind: str, label: str, source: str, **more: object) -> SensorInfo:
    """A SensorInfo with the unit that its kind fixes."""
    return SensorInfo(id=f"{kind}/{label}", unit=UNIT_OF_KIND[kind], source=source, **more)  # type: ignore[arg-type]


def power_sensors(
    label: str, source: str, accuracy: str, role: str | None, note: str | None = None
) -> tuple[SensorInfo, ...]:
    """The power, the voltage and the current of one rail."""
    power = sensor("power", label, source, role=role, accuracy=accuracy, note=note)
    return power, *(sensor(kind, label, source, accuracy=accuracy) for kind in ("volt", "current"))


def distinct(names: Sequence[str]) -> list[str]:
    """A label for each name, in their order: without a slash, and of names that are alike the later ones get a number.

    >>> distinct(["nvme", "a/b", "nvme", "a-b"])
    ['nvme', 'a-b', 'nvme-2', 'a-b-2']
    """
    labels: dict[str, None] = {}
    for name in names:
        plain = name.replace("/", "-")
        candidates = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
        labels[next(label for label in candidates if label not in labels)] = None
    return list(labels)


# How often power is read: at jittered intervals, and never faster than there is news.
# A load that repeats with the period of its sampling is always seen at the same phase: of 100 ms of which 30 are busy,
# sampled evenly at 10 Hz, the energy is wrong by half, however long the run; with intervals drawn at random from half
# to one and a half of it, the error shrinks with time (Bilinskis and Mikelsons, Randomized Signal Processing, 1992).

JITTER = 0.5  # of the cadence, to either side


def paced(found: Found, hz: float | None = None) -> Found:
    """The same, with every source of power at jittered intervals: `hz` times a second, or at its own cadence."""
    sources = list(found.sources)
    for place, source in enumerate(sources):
        if any(info.kind == "power" for info in source.sensors):
            fastest_s = fastest(source)
            mean_s = max(1 / hz if hz else source.cadence_s, fastest_s)
            interval_s = max((1 - JITTER) * mean_s, fastest_s), (1 + JITTER) * mean_s
            sources[place] = Reader(source.sensors, source.read, mean_s, source.name, fastest_s, interval_s)
    return Found(tuple(sources), found.missing)


def fastest(source: Source) -> float:
    """Return how soon another read may give a new value, in s: `fastest_s` where it has one, else its cadence."""
    return float(getattr(source, "fastest_s", 0.0) or source.cadence_s)
