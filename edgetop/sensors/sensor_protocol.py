"""The interface of sensors: sources of readings, and the results of discovery.

Nearly every source is a `Reader`, which has sensors and a function that reads them. A family of sensors is a file with
a function `discover` that returns its readers; `discovery.py` lists the families.
"""

import itertools
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace
from typing import Protocol, TypeVar, runtime_checkable

from edgetop.frozen import frozen
from edgetop.sensors.root import Root
from edgetop.session.events import Body, Severity
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter

UNIT_OF_KIND = {
    "temp": "°C",
    "ambient": "°C",
    "humidity": "%",
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
    "input": "elements",
}


@frozen
class Gap:
    """A value that could not be read, and why."""

    reason: str


def gap_of(error: OSError | ValueError) -> Gap:
    """Turn a failed read into a gap, with the error's text as its reason."""
    return Gap((error.strerror if isinstance(error, OSError) else None) or str(error))


T = TypeVar("T")
Values = Sequence[float | Gap]


def attempt(read: Callable[[], T]) -> T | Gap:
    """Return what `read` returns, or a gap if it raises OSError or ValueError."""
    try:
        return read()
    except (OSError, ValueError) as error:
        return gap_of(error)


def attempt_all(reads: Iterable[Callable[[], T]]) -> "list[T | Gap]":
    return [attempt(read) for read in reads]


def begin_call(call: Callable[[], T], name: str) -> "queue.SimpleQueue[T]":
    """Make a call on another thread, since a driver may hang for ever. Returns the queue that will have the result."""
    result: queue.SimpleQueue[T] = queue.SimpleQueue()
    threading.Thread(target=lambda: result.put(call()), name=name, daemon=True).start()
    return result


@frozen
class Backlog(Gap):
    """Values of earlier moments, such as those in a log, while there is no value of the present moment."""

    samples: tuple[tuple[int, float], ...] = ()  # (session time in ns, value), in order of time


@frozen
class SensorEvent:
    """Something that a source reports besides values. It becomes an event of the session."""

    body: Body
    message: str
    severity: Severity = "info"


class Source(Protocol):
    """A file, chip or command with one or more sensors, which are read together."""

    @property
    def name(self) -> str: ...

    @property
    def sensors(self) -> tuple[SensorInfo, ...]: ...

    @property
    def cadence_s(self) -> float: ...

    def read(self) -> Values:
        """Read a value for each of `sensors`, in their order. If it raises OSError or ValueError, all are gaps."""


@frozen
class Reader:
    """A source whose sensors are read by a function, as most are."""

    sensors: tuple[SensorInfo, ...]
    read: Callable[[], Values]
    cadence_s: float = 1.0
    name: str = ""  # by default the id of the first sensor
    fastest_s: float = 0.0  # reading more often than this gives nothing new; 0 means the cadence
    interval_s: tuple[float, float] | None = None  # range of random intervals between reads; None means the cadence
    events: list[SensorEvent] = field(default_factory=list)  # `read` appends to it

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
        """Return the events of the last read. Called after each read that returned."""


@runtime_checkable
class SurveysProcesses(Protocol):
    """A source that measures the CPU use of other processes."""

    @property
    def unseen(self) -> str | None:
        """Why this user cannot see all processes (`process_table.why_unseen`), or None if all can be seen."""

    def begin_survey(self) -> None:
        """Measure from now on. May be called from any thread."""

    def survey(self) -> Sequence[tuple[str, float]]:
        """Return the processes that used the CPU most since `begin_survey`, as (name, mean percent of a core)."""


@runtime_checkable
class Closable(Protocol):
    """A source that must be closed, because it holds a process, for example."""

    def close(self) -> None:
        """Release everything that the source holds. May be called during a read."""


@frozen
class Missing:
    """Something that cannot be read on this board, why, and the command that would help."""

    what: str
    why: str
    fix: str | None = None


@frozen
class Found:
    sources: tuple[Source, ...] = ()
    missing: tuple[Missing, ...] = ()


def join(parts: Sequence[Found]) -> Found:
    return Found(
        tuple(source for part in parts for source in part.sources),
        tuple(missing for part in parts for missing in part.missing),
    )


def sensor(kind: str, label: str, source: str, **more: object) -> SensorInfo:
    """Return a SensorInfo with the unit of its kind. `more` are other fields of SensorInfo."""
    return SensorInfo(id=f"{kind}/{label}", unit=UNIT_OF_KIND[kind], source=source, **more)  # type: ignore[arg-type]


def power_sensors(
    label: str, source: str, accuracy: str, role: str | None, note: str | None = None, meter: Meter | None = None
) -> tuple[SensorInfo, ...]:
    """Return the sensors of a rail: power, voltage and current. `meter`: the instrument that measures them."""
    power = sensor("power", label, source, role=role, accuracy=accuracy, note=note, meter=meter)
    return power, *(sensor(kind, label, source, accuracy=accuracy) for kind in ("volt", "current"))


def distinct(names: Sequence[str]) -> list[str]:
    """Return a distinct label for each name, in order. Slashes become dashes; repeated names get a number.

    >>> distinct(["nvme", "a/b", "nvme", "a-b"])
    ['nvme', 'a-b', 'nvme-2', 'a-b-2']
    """
    labels: dict[str, None] = {}
    for name in names:
        plain = name.replace("/", "-")
        candidates = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
        labels[next(label for label in candidates if label not in labels)] = None
    return list(labels)


# Power is read at jittered intervals, and never faster than new values come. A load that repeats with the period of the
# samples would always be seen in the same phase: if 30 of every 100 ms are busy and samples come regularly at 10 Hz,
# the energy is wrong by half, however long the run. With random intervals of half to one and a half of the mean, the
# error shrinks with time (Bilinskis and Mikelsons, Randomized Signal Processing, 1992).

JITTER = 0.5  # largest deviation from the mean interval, as a share of it


def paced(found: Found, hz: float | None = None) -> Found:
    """Return the same sources, but with those of power read at jittered intervals.

    Their mean rate is `hz` reads per second. If that is None, each is read at its own cadence.
    """
    sources = list(found.sources)
    for place, source in enumerate(sources):
        if any(info.kind == "power" for info in source.sensors):
            fastest_s = fastest(source)
            mean_s = max(1 / hz if hz else source.cadence_s, fastest_s)
            interval_s = max((1 - JITTER) * mean_s, fastest_s), (1 + JITTER) * mean_s
            sources[place] = Reader(source.sensors, source.read, mean_s, source.name, fastest_s, interval_s)
    return Found(tuple(sources), found.missing)


def sampled(found: Found, interval_s: float | None, kinds: Collection[str] = ()) -> Found:
    """Return the same sources, read every `interval_s` seconds. None: each at its own cadence.

    `kinds`: if given, only sources of sensors of these kinds change.
    """
    if interval_s is None:
        return found
    sources = list(found.sources)
    for place, source in enumerate(sources):
        is_meant = not kinds or any(info.kind in kinds for info in source.sensors)
        if is_meant and isinstance(source, Reader) and source.interval_s is None:
            sources[place] = replace(source, cadence_s=interval_s)
    return Found(tuple(sources), found.missing)


def fastest(source: Source) -> float:
    """Return the shortest time in seconds after which another read may give a new value.

    It is the source's `fastest_s` if that is set, else its cadence.
    """
    return float(getattr(source, "fastest_s", 0.0) or source.cadence_s)
