"""A power sensor that reads a log while an instrument writes it during the session.

The file is followed as it grows, in pieces of limited size. The user gives the session time at which the log's own time
is 0. A sample is used when the session has reached the sample's time, so that a complete log can be used as well.
Samples are averaged over bins of 0.1 s, so that an instrument's 100,000 samples a second become ten readings with the
same energy. A second sensor has the highest sample of each bin, since means hide short peaks.
"""

import itertools
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from edgetop.captured_text import decode, encoding_of, printable, whole_lines
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.sensors.log_formats import INTERVAL_S, TEGRASTATS, Sample, columns_of
from edgetop.sensors.plausible import consumed_w
from edgetop.sensors.rails import CHIP, NOTES, plan_of
from edgetop.sensors.sensor_protocol import Backlog, Found, Gap, Values, sensor
from edgetop.sensors.tegrastats import parse_line, power_log
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter

CADENCE_S = 0.25  # interval of reading the file
BIN_S = 0.1
PIECE_BYTES = 1 << 20  # most bytes of the file in one read
LINE_BYTES = 4096  # a file without an end of line within this size is not a log
LEAST_MISSED = 20  # rows without a sample, one after the other, from which they are reported
NS = 1_000_000_000
# Shunts and input voltage of the modules whose total is VDD_IN in tegrastats: Orin Nano and NX, Xavier NX
# (tegra234-p3767.dtsi, tegra194-p3668.dtsi: shunt-resistor-micro-ohms = <5000>).
SHUNT_OF, SHUNT_OHM, MODULE_V = ("VDD_IN",), 0.005, 5.0


@frozen
class LogSpec:
    """One power log, as the user describes it on the command line."""

    path: Path
    format: str
    volts: float | None  # voltage of the supply if the log has none, or to replace the log's
    offset_s: float = 0.0  # session time of the log's time 0
    interval_s: float = INTERVAL_S  # interval of the lines of a tegrastats log without times


class PowerLog:
    """A source of power readings from one log file, which an instrument writes meanwhile.

    `now_ns` returns the session time in ns. `bin_s` is the span in seconds over which samples are averaged.
    """

    def __init__(self, spec: LogSpec, now_ns: Callable[[], int], bin_s: float = BIN_S) -> None:
        self.name = f"power log {spec.path.name}"
        self.cadence_s = CADENCE_S
        note = f"{spec.format} log, its time 0 at session time {spec.offset_s:g} s, means of {bin_s:g} s"
        if spec.volts is not None:
            note += f", at {spec.volts:g} V"
        source = str(spec.path.absolute())
        if spec.format == TEGRASTATS:
            log = _of_tegrastats(spec, note)
        else:
            log = sensor(
                "power", "log", source, role="total", accuracy="external-shunt", averages=True, note=note,
                meter=Meter(spec.format),
            )  # fmt: skip
        peak = f"the highest sample of each {bin_s:g} s of power/log"
        self.sensors = (log, sensor("power", "log-peak", source, role="peak", accuracy=log.accuracy, note=peak))
        self._spec = spec
        self._now_ns = now_ns
        self._bins = _Bins(bin_s, spec.offset_s)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._position = 0  # offset of the first line that was not taken yet
        self._encoding = "utf-8"
        self._sample: Sample | None = None
        self._inode: int | None = None
        self._failed: ValueError | None = None  # found in the last read, which still had bins
        self._missed, self._first_missed = 0, ""  # rows without a sample since the last one, and the first of them
        self._bins.forget()

    def read(self) -> Values:
        """Return two `Backlog`s (lists of past samples): the mean and the peak, in W, of each bin.

        A bin is a span of `bin_s` seconds. Only bins that ended since the last read are returned, and there may be
        none. If there is none and the last rows of the log have no time and power, two gaps say so. A bin
        in which power flows out of the board is left out. If it does in all bins, as with a reversed probe, two gaps
        say so. Raises OSError, or
        ValueError if the file is not a log of the expected format.
        """
        now_s = self._now_ns() / NS
        done: list[tuple[int, float, float]] = []  # bins that have ended: mean time of samples, mean, peak
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed
        for line, size in self._lines():
            if self._bins.newest_s > now_s:
                break
            self._position += size
            try:
                self._take(line, done)
            except ValueError as error:
                if not done:
                    raise
                self._failed = error  # the next read raises it, after the bins that ended before it
                break
        if not done and self._missed >= LEAST_MISSED:
            why = f'its last {self._missed} rows have no time and power, the first of them: "{self._first_missed}"'
            return [Gap(why)] * 2
        flows = [(t_ns, consumed_w(mean), peak) for t_ns, mean, peak in done]
        known = [(t_ns, flow, max(flow, peak)) for t_ns, flow, peak in flows if not isinstance(flow, Gap)]
        if flows and not known:
            return [flows[-1][1]] * 2
        means, peaks = (tuple((t_ns, watts[place]) for t_ns, *watts in known) for place in (0, 1))
        return [Backlog("a log has past samples", samples) for samples in (means, peaks)]

    def _take(self, line: str, done: list[tuple[int, float, float]]) -> None:
        """Add the sample in one line of the log to the present bin, a span over which samples are averaged.

        If the sample belongs to a new bin, the present bin ends. It is appended to `done` as
        `(session time in ns, mean in W, peak in W)`. A line without a sample is only counted. Raises ValueError if the
        log's time stands still.
        """
        had_header = self._sample is not None
        if (sample := self._parse(line)) is not None:
            self._missed = 0
            self._bins.add(*sample, done)
        elif had_header and line.strip():
            self._first_missed = self._first_missed if self._missed else printable(line)
            self._missed += 1

    def _lines(self) -> Iterator[tuple[str, int]]:
        """Yield `(line, size in bytes)` for each complete line in the next piece of the file.

        The line includes its line break.
        """
        fd = os.open(self._spec.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if status.st_ino != self._inode or status.st_size < self._position:  # another file, or rewritten
                self._begin_anew()
                self._inode = status.st_ino
            piece = os.pread(fd, PIECE_BYTES, self._position)
        finally:
            os.close(fd)
        mark = 0
        if not self._position:
            self._encoding, mark = encoding_of(piece)
        if len(piece) > LINE_BYTES and b"\n" not in piece:
            raise ValueError(f"no line ends within {LINE_BYTES} bytes: not a {self._spec.format} log")
        lines = whole_lines(piece[mark:], self._encoding)
        for line, size in itertools.islice(lines, 1):
            yield line, mark + size
        yield from lines

    def _parse(self, line: str) -> tuple[float, float] | None:
        """Return `(time in s, power in W)` of one line, where the time is the log's own.

        Return None for a line without time or power, such as the line that names the columns.
        """
        if self._sample is not None:
            return self._sample(line)
        spec, line = self._spec, line.lstrip("\ufeff")
        try:
            if spec.format == TEGRASTATS:
                self._sample = power_log(line, spec.volts, spec.interval_s)
                return self._sample(line)
            self._sample = columns_of(spec.format, line, spec.volts)
        except ValueError:
            self._begin_anew()  # so that the next read parses the first line again
            raise
        return None


def _of_tegrastats(spec: LogSpec, note: str) -> SensorInfo:
    """Return the description of the power sensor for a log of tegrastats. `note` is added to the description.

    The log's first line, if it is written already, says which rail is the total.
    """
    line, source = parse_line(_first_line(spec.path)), str(spec.path.absolute())
    plan = plan_of(set(line.rails)) if line else None
    if plan is None:
        what = "the rail that is the total: VDD_IN, POM_5V_IN or VIN"
    elif plan.total is None:
        what = f"{' + '.join(plan.parts)}: about the module, and no total"
    else:
        what = f"{plan.total}, the total: {NOTES.get(plan.total, 'what goes into the board')}"
    role = "total" if plan is None or plan.total is not None else None
    meter = Meter(CHIP, SHUNT_OHM if plan and plan.total in SHUNT_OF else None, volts=MODULE_V)
    return sensor("power", "log", source, role=role, accuracy="on-board-monitor", note=f"{what}; {note}", meter=meter)


def is_tegrastats(path: Path) -> bool:
    """Return whether the first line of a log is of tegrastats.

    Other formats are not recognised, so the user must name them.
    """
    return parse_line(_first_line(path)) is not None


def _first_line(path: Path) -> str:
    """Return the first line of a file, or "" if it is not written yet or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb", buffering=0) as file:
            return decode(file.read(LINE_BYTES) or b"").partition("\n")[0]
    except OSError:
        return ""


class _Bins:
    """Computes the mean and the peak of a log's samples in each bin, which is a span of session time.

    A bin ends when a sample of a later bin is added.
    """

    def __init__(self, bin_s: float, offset_s: float) -> None:
        self._bin_ns = round(bin_s * NS)
        self._offset_s = offset_s
        self.forget()

    def forget(self) -> None:
        self._bin = 0
        self._begin()
        self.newest_s = -math.inf  # session time of the newest sample

    def _begin(self) -> None:
        self._sum_s = self._sum_w = 0.0
        self._peak_w = -math.inf
        self._count = 0

    def add(self, log_s: float, watts: float, done: list[tuple[int, float, float]]) -> None:
        """Add a sample of `watts` W. If it belongs to a new bin, first append the finished bin to `done`.

        `log_s` is the sample's time in seconds, on the log's own clock. A finished bin is `(mean session time of its
        samples in ns, mean in W, peak in W)`. Samples from before the session, or older than the previous sample, are
        left out.
        """
        at_s = log_s + self._offset_s
        if at_s < self.newest_s:
            return
        self.newest_s = at_s
        if at_s < 0:
            return
        number = round(at_s * NS) // self._bin_ns  # integers, so that samples at the edges are in the right bin
        if number != self._bin and self._count:
            done.append((round(self._sum_s / self._count * NS), self._sum_w / self._count, self._peak_w))
            self._begin()
        self._bin = number
        self._sum_s += at_s
        self._sum_w += watts
        self._peak_w = max(self._peak_w, watts)
        self._count += 1


def follow(spec: LogSpec, now_ns: Callable[[], int], bin_s: float = BIN_S) -> Found:
    """Return the source that follows a log. The log may still be empty.

    `now_ns` returns the session time in ns. `bin_s` is the span in seconds over which samples are averaged. Raises
    InputError if the file is no power log.
    """
    if spec.path.exists() and not spec.path.is_file():
        raise InputError(f"--power-log {spec.path}: not a file")
    try:
        PowerLog(spec, lambda: 0).read()
    except FileNotFoundError:
        advice = "start the instrument first, or make an empty file that it will write to"
        raise InputError(f"--power-log {spec.path}: no such file", advice) from None
    except (OSError, ValueError) as error:
        raise InputError(f"--power-log {spec.path}: {getattr(error, 'strerror', None) or error}") from None
    return Found((PowerLog(spec, now_ns, bin_s),))
