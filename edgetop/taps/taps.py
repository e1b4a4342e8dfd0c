"""All rings of a watched application, read as the records and messages of an engine."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from edgetop.engines.protocol import (
    Loaded,
    LogLine,
    Message,
    PhaseBegan,
    ProfilerChosen,
    RecordsLost,
    Sampled,
    StreamsSeen,
)
from edgetop.session.records import MEASURE, Inferences
from edgetop.taps.frames import Frames
from edgetop.taps.ring import Ring
from edgetop.taps.streams import Streams

MAX_RINGS = 512  # processes, of which each has one or two
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a mapped file on a disk stalls its writer under write-back
PREFIX = "edgetop-tap-"
QUIET_NS = 10_000_000_000  # without an inference: then a warning says what the process has loaded


class Taps:
    def __init__(self) -> None:
        self.folder: Path | None = None  # where the rings are; None: not yet
        self.started_ns = 0  # when watching began
        self.since_ns = 0  # calls that began earlier do not count
        self.began_ns: int | None = None  # the first inference that was seen
        self._measured = 0
        self._rings: dict[str, Ring | None] = {}  # by file name; None: no ring
        self._lost = 0
        self._streams = Streams()
        self._frames = Frames()
        self._reported: StreamsSeen | None = None
        self._warned = False  # that no inference was seen

    def open(self) -> Path:
        """Make a folder for the rings, in shared memory where possible. Removes those of an edgetop that was killed."""
        home = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        owners = {os.getuid(), int(os.environ.get("SUDO_UID") or os.getuid())}
        for folder in (home or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
            number = folder.name.removeprefix(PREFIX).partition("-")[0]  # of the process that made it
            with contextlib.suppress(OSError):
                if number.isdigit() and folder.stat().st_uid in owners and not Path(f"/proc/{number}").exists():
                    shutil.rmtree(folder, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=home))
        return self.folder

    def poll(self, now_ns: int, *, is_over: bool) -> tuple[Inferences, list[Message]]:
        """The records and messages since the last poll. `is_over`: nobody writes any more."""
        messages: list[Message] = []
        self._read_rings(messages)
        records = self._streams.release(now_ns, is_over=is_over)
        messages += self._stream_news()
        if len(records) and self.began_ns is None:
            self.began_ns = int(records["t_ns"][0])
            messages += [PhaseBegan("first", self.began_ns), PhaseBegan("measure", self.began_ns)]
        self._measured += int((records["phase"] == MEASURE).sum())
        samples = self._streams.take_samples() | self._frames.release(now_ns, is_over=is_over)
        messages += [Sampled(sensor, tuple(each)) for sensor, each in samples.items()]
        return records, messages

    def reached(self, duration_ns: int | None, runs: int | None, now_ns: int) -> str:
        """Return the limit that was reached, "duration" or "runs"; "": none."""
        if self.began_ns is None:
            return ""
        if duration_ns is not None and now_ns - self.began_ns >= duration_ns:
            return "duration"
        return "runs" if runs is not None and self._measured >= runs else ""

    def warn_if_quiet(self, now_ns: int, why: Callable[[], str], *, is_over: bool = False) -> list[Message]:
        """Warn once, where no inference was seen for a while; `why`: what the process has loaded."""
        if self.began_ns is not None or self._warned or (now_ns - self.started_ns <= QUIET_NS and not is_over):
            return []
        self._warned = True
        text = "the program ended without an inference that was seen"
        text = text if is_over else f"no inference was seen in 10 s: {why()}"
        return [LogLine("warning", "edgetop", text, "no-inference")]

    @property
    def has_rings(self) -> bool:
        """Whether a process has begun to report."""
        return any(self._rings.values())

    def _read_rings(self, messages: list[Message]) -> None:
        assert self.folder
        with contextlib.suppress(OSError):
            for name in sorted(path.name for path in self.folder.iterdir()):
                if name.endswith(".tap") and self._rings.get(name) is None and len(self._rings) < MAX_RINGS:
                    with contextlib.suppress(ValueError, OSError):  # not complete yet; tried again the next time
                        self._rings[name] = Ring(self.folder / name)
        rings = [ring for ring in self._rings.values() if ring]
        for ring in rings:
            ring.find_whole()
        read = [(ring, ring.read()) for ring in rings]
        reported = [(ring, calls[calls["start_ns"] >= self.since_ns]) for ring, calls in read]
        for ring, calls in reported:
            self._streams.add(ring, calls)
        self._frames.add(reported)
        if (lost := sum(ring.lost for ring in rings)) > self._lost:
            messages.append(RecordsLost(lost - self._lost))
            self._lost = lost

    def _stream_news(self) -> list[Message]:
        """Return messages on what is known of the streams, where that has changed."""
        streams, names = self._streams, self._streams.names
        if not names:
            return []
        rings = [ring for ring in self._rings.values() if ring and ring.source]
        sources = tuple(sorted({ring.source for ring in rings}))
        cost_ns, models = max((ring.cost_ns for ring in rings), default=0), tuple(name.model for name in names)
        seen = StreamsSeen(models, sources, cost_ns or None, streams.threads, streams.inputs, self._frames.deadline_ns)
        before, self._reported = self._reported, seen
        if before is None:
            first, why = names[0], f"seen by {', '.join(sources)}"
            runtime = first.runtime or "unknown"
            reason = "the program runs its own sessions: edgetop ops MODEL profiles its model alone"
            loaded = Loaded(runtime, first.version, why, first.providers, (), (), (), streams.load_ns)
            return [seen, loaded, ProfilerChosen("", reason)]
        return [] if seen == before else [seen]

    def close(self) -> None:
        for ring in filter(None, self._rings.values()):
            ring.close()
        self._rings = {}
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
