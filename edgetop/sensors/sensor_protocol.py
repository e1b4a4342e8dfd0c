"""The interface of sensors: sources, which give readings, and the results of looking for sources on a board.

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
    "dram": "B/s",
    "stage": "ms",
    "frame": "ms",
    "drop": "frames",
    "call": "ms",
    "input": "elements",
}


@frozen
class Gap:
    """Stands in the place of a value that could not be read, and says why."""

    reason: str


def gap_of(error: OSError | ValueError) -> Gap:
    """Return a gap whose reason is the text of the error."""
    return Gap((error.strerror if isinstance(error, OSError) else None) or str(error))


T = TypeVar("T")
Values = Sequence[float | Gap]


def attempt(read: Callable[[], T]) -> T | Gap:
    """Call `read`, and return its result. If it raises OSError or ValueError, return a gap with the reason."""
    try:
        return read()
    except (OSError, ValueError) as error:
        return gap_of(error)


def attempt_all(reads: Iterable[Callable[[], T]]) -> "list[T | Gap]":
    return [attempt(read) for read in reads]


def begin_call(call: Callable[[], T], name: str) -> "queue.SimpleQueue[T]":
    """Call a function on another thread, since a driver may hang for ever. Return the queue that will get its result.

    `name` is the thread's name.
    """
    result: queue.SimpleQueue[T] = queue.SimpleQueue()
    threading.Thread(target=lambda: result.put(call()), name=name, daemon=True).start()
    return result


@frozen
class Backlog(Gap):
    """A list of values of earlier moments, such as the samples in a log.

    A source returns it in place of a present value, so it is a kind of gap.
    """

    samples: tuple[tuple[int, float], ...] = ()  # (session time in ns, value), in order of time


@frozen
class SensorEvent:
    """One thing that happened, such as a reached limit, as a source reports it. It becomes an event of the session."""

    body: Body
    message: str
    severity: Severity = "info"


class Source(Protocol):
    """A file, chip or command with one or more sensors, which are all read at once."""

    @property
    def name(self) -> str: ...

    @property
    def sensors(self) -> tuple[SensorInfo, ...]: ...

    @property
    def cadence_s(self) -> float: ...

    def read(self) -> Values:
        """Return a value for each of `sensors`, in their order.

        If this raises OSError or ValueError, each value is taken as a gap.
        """


@frozen
class Reader:
    """A source whose sensors are all read by one function, `read`. Most sources are of this class."""

    sensors: tuple[SensorInfo, ...]
    read: Callable[[], Values]
    cadence_s: float = 1.0
    name: str = ""  # by default the id of the first sensor
    fastest_s: float = 0.0  # reading more often than this gives nothing new; 0 means the cadence
    interval_s: tuple[float, float] | None = None  # range of random intervals between reads; None means the cadence
    events: list[SensorEvent] = field(default_factory=list)  # `read` appends to it
    # Whether the session has its sensors only from the first value above 0 on: most boards never have one.
    is_latent: bool = False

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
    """Return a reader of one sensor whose value is in one file.

    `relative` is the file's path below the root. `info` describes the sensor. `convert` turns the file's text into the
    value, or raises ValueError. `cadence_s` is the interval of reads in seconds.
    """
    file = root.file(relative)
    return Reader((info,), lambda: [convert(file.read_text())], cadence_s)


@runtime_checkable
class Notifying(Protocol):
    """A source that also reports events."""

    def take_events(self) -> Sequence[SensorEvent]:
        """Return the events of the last read. Whoever reads the source calls this after each read that returned."""


@runtime_checkable
class SurveysProcesses(Protocol):
    """A source that measures the CPU use of other processes."""

    @property
    def unseen(self) -> str | None:
        """Return why this user cannot see all processes, or None if all can be seen.

        The reason is "hidepid" (an option of /proc hides those of other users) or "container".
        """

    def begin_survey(self) -> None:
        """Begin to measure the CPU use of other processes, for the next `survey`. May be called from any thread."""

    def survey(self) -> Sequence[tuple[str, float]]:
        """Return `(process name, mean percent of a core)` for the busiest processes since `begin_survey`."""


@runtime_checkable
class Closable(Protocol):
    """A source that must be closed at the end, for example because it runs a helper process."""

    def close(self) -> None:
        """Release everything that the source holds. May be called while another thread reads the source."""


@frozen
class Missing:
    """One thing that cannot be read on this board: what it is, why, and a shell command that would help."""

    what: str
    why: str
    fix: str | None = None


@frozen
class Found:
    """The result of a search for sensors: the sources that were found, and what cannot be read, with reasons."""

    sources: tuple[Source, ...] = ()
    missing: tuple[Missing, ...] = ()
    unset: tuple[str, ...] = ()  # ids of sensors of limits that are not set now, so that they can stop nothing
    watches: "tuple[Callable[[], Change | None], ...]" = ()  # to be called now and then: whether anything has changed


@frozen
class Change:
    """Other sources that replace those with the same sensors, for example because a process was moved."""

    found: Found
    event: SensorEvent | None = None  # tells the user


def join(parts: Sequence[Found]) -> Found:
    return Found(
        tuple(source for part in parts for source in part.sources),
        tuple(missing for part in parts for missing in part.missing),
        tuple(one for part in parts for one in part.unset),
        tuple(watch for part in parts for watch in part.watches),
    )


def sensor(kind: str, label: str, source: str, **more: object) -> SensorInfo:
    """Return the description of a sensor, with the unit of its kind and the id `kind/label`.

    `kind` is a key of `UNIT_OF_KIND`, such as `temp`. `label` tells sensors of a kind apart. `source` says where the
    values come from. `more` are other fields of SensorInfo, such as `note="read as root"`.
    """
    return SensorInfo(id=f"{kind}/{label}", unit=UNIT_OF_KIND[kind], source=source, **more)  # type: ignore[arg-type]


def power_sensors(
    label: str, source: str, accuracy: str, role: str | None, note: str | None = None, meter: Meter | None = None
) -> tuple[SensorInfo, ...]:
    """Return the descriptions of a power rail's three sensors: power, voltage and current.

    `label` is the rail's name, and `source` says where the values come from. `accuracy` says what kind of instrument
    measures them, such as `on-board-monitor`. `role` is "total" for the rail of the board's whole input power,
    "part" for a rail behind it, or None if unknown. `note` is a remark for the user. `meter` describes the instrument.
    """
    power = sensor("power", label, source, role=role, accuracy=accuracy, note=note, meter=meter)
    return power, *(sensor(kind, label, source, accuracy=accuracy) for kind in ("volt", "current"))


def distinct(names: Sequence[str]) -> list[str]:
    """Return a label for each name, in the same order. No two labels are equal.

    Slashes become dashes, and repeated names get a number.

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
    """Return the same sources, but sources of power are read at random intervals around a mean.

    `hz` is the mean number of reads per second. With None, each source keeps its own interval as the mean.
    """
    sources = list(found.sources)
    for place, source in enumerate(sources):
        if any(info.kind == "power" for info in source.sensors):
            fastest_s = fastest(source)
            mean_s = max(1 / hz if hz else source.cadence_s, fastest_s)
            interval_s = max((1 - JITTER) * mean_s, fastest_s), (1 + JITTER) * mean_s
            sources[place] = Reader(source.sensors, source.read, mean_s, source.name, fastest_s, interval_s)
    return replace(found, sources=tuple(sources))


def sampled(found: Found, interval_s: float | None, kinds: Collection[str] = ()) -> Found:
    """Return the same sources, but read every `interval_s` seconds. With None, each keeps its own interval.

    If `kinds` is not empty, only the sources with a sensor of these kinds change. An example of a kind is `temp`.
    """
    if interval_s is None:
        return found
    sources = list(found.sources)
    for place, source in enumerate(sources):
        is_meant = not kinds or any(info.kind in kinds for info in source.sensors)
        if is_meant and isinstance(source, Reader) and source.interval_s is None:
            sources[place] = replace(source, cadence_s=interval_s)
    return replace(found, sources=tuple(sources))


def fastest(source: Source) -> float:
    """Return the shortest time in seconds after which another read may give a new value.

    It is the source's `fastest_s` if that is set, else the usual interval of its reads.
    """
    return float(getattr(source, "fastest_s", 0.0) or source.cadence_s)
