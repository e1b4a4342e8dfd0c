"""Parse what other tools report about the CPU, memory and traffic of a program.

The result is imported like a watched program of which no inference was seen. The tools:

- `docker stats --format json` and `podman stats --format json`: a JSON object in each line.
- The OUTPUTFILE of Auptimizer's Profiler: a line of `docker stats` with a time in ms (src/aup/profiler/statscript.sh).
- `pidstat` of sysstat, also with `-r`, `-d`, `-h`: a table for each point in time.
- `/usr/bin/time -v`: totals.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from edgetop.captured_text import LeftOut
from edgetop.formatting import clean
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import MAX_NS, NUMBER, Origin, SensorLog, number, time_ns
from edgetop.sensors.sensor_protocol import sensor
from edgetop.session.event_kinds import ProgramEnded

DOCKER = Origin("docker stats", None)
PROFILER = Origin("aup.profiler", None)
PIDSTAT = Origin("pidstat", None)
TIME = Origin("time", None)

STATS_KEYS = {"CPUPerc", "MemUsage"}  # of Docker
PODMAN_KEYS = {"cpu_percent", "mem_usage"}
NS, MIB = 1_000_000_000, 2**20
MOST_ROWS = 2_000_000
_UNITS = {"b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SIZE = r"([0-9.]+\s?[kKMGT]?i?B)"
_PAIR = rf"{_SIZE} / {_SIZE}"
_SAMPLE = re.compile(
    rf"^(?P<name>\S+) +(?P<cpu>[0-9.]+)% +(?P<mem>{_PAIR}) +(?P<net>{_PAIR}) +(?P<block>{_PAIR}) +"
    r"(?P<ms>[0-9]{12,14}) *$",
    re.MULTILINE,
)
# What the Profiler writes around its samples, and the table that it computes from them.
_FRAME = re.compile(
    r"^(?:Profiling script: .*|NAME +AVG CPU.*|FINISHED.*|[*]+ *|Usage [Ss]tats.*|Refer to the documentation.*"
    r"|Encountered time stamps.*|\S+ +[0-9.]+% +[0-9.]+ +\S+ \S+ / .*)$",
    re.MULTILINE,
)
_TIMED = re.compile(r'^\s*Command being timed: "(.*)"$', re.MULTILINE)
# GNU time, src/time.c, `longstats`. Its output and that of the program may be in one file, so the names are exact.
# A row of that table: means and peaks of one run (src/aup/profiler/analysis, printed with tabulate).
_WHOLE_RUN = re.compile(
    rf"^(?P<name>\S+) +(?P<cpu>[0-9.]+)% +(?P<peak>[0-9.]+) +(?P<mem>{_PAIR}) +(?P<most>{_SIZE}) +(?P<net>{_PAIR}) +"
    rf"(?P<block>{_PAIR}) +(?P<ms>[0-9.]+) *$",
    re.MULTILINE,
)
_LABELS = (
    "User time", "System time", "Percent of CPU this job got", "Elapsed (wall clock) time", "Average shared text size",
    "Average unshared data size", "Average stack size", "Average total size", "Average resident set size",
    "Maximum resident set size", "Major", "Minor", "Voluntary context switches", "Involuntary context switches",
    "Swaps",
    "File system inputs", "File system outputs", "Socket messages sent", "Socket messages received",
    "Signals delivered", "Page size", "Exit status",
)  # fmt: skip
_TOTAL = re.compile(
    rf"^[ \t]*({'|'.join(map(re.escape, _LABELS))})(?: \([\w/:; ]{{1,40}}\)(?: page faults)?)?: ([0-9:.]+|\?)%?$",
    re.MULTILINE,
)
_TIME_ENDED = re.compile(
    r"^[ \t]*Command (?:exited with non-zero status|terminated by signal|stopped by signal) .*$", re.MULTILINE
)
_PIDSTAT_ROW = re.compile(r"\s*([0-9]{2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?|[0-9]{9,11})\s+([0-9]+\s.*)$")
_PIDSTAT_READ = ("UID", "PID", "TGID", "TID", "%CPU", "CPU", "RSS", "Command")
_PIDSTAT_CELL = re.compile(r"-?[0-9]+(?:[.,][0-9]+)?|-")  # a column that the kernel does not have is a dash
_PIDSTAT_HEAD = re.compile(r"^(?:#\s*Time|\S+(?: [AP]M)?)\s+UID\s+(?:PID|TGID\s+TID)\s.*Command\s*$", re.MULTILINE)


class _Rows:
    """Collects the samples of one program: pairs of time and value for each sensor, and the newest counts of bytes."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.values: dict[str, list[tuple[int, float]]] = {}
        self.counts: dict[str, int] = {}  # bytes so far, by the field of ProgramEnded

    def add(self, t_ns: int, **values: float) -> None:
        for name, value in values.items():
            rows = self.values.setdefault(_SENSORS[name], [])
            rows.append((t_ns, value))
            if len(rows) > MOST_ROWS:
                raise ValueError(f"it has more than {MOST_ROWS} samples")

    def pairs(self, net: str, block: str) -> None:
        """Keep two pairs of sizes as the counts of bytes so far.

        `net` has the bytes received and sent, such as `1.5kB / 2MB`. `block` has the bytes read and written, in the
        same form.
        """
        for text, fields in ((net, ("net_rx_bytes", "net_tx_bytes")), (block, ("read_bytes", "write_bytes"))):
            self.counts |= dict(zip(fields, map(round, _sizes(text)), strict=True))

    def log(self, note: str, command: Sequence[str] = (), *, is_of_profiler: bool = False) -> SensorLog:
        """Return all samples as sensor readings, with the program's totals.

        A sample is a mean over the time since the sample before. The first sample has none before: its time is taken as
        the median time between samples, or as 1 s if it is the only sample. `note` tells the user how the times were
        found. `command` is the program's command line. If `command` is empty, the program's name is used instead.

        With `is_of_profiler`, the totals are computed as Auptimizer's Profiler does: the time from the first to the
        last sample, and the mean CPU load of all samples. Raises ValueError if there are no samples, or samples of two
        programs.
        """
        if not self.values:
            raise ValueError("it has no sample")
        if len(self.names) > 1:
            raise ValueError(f"it has samples of {len(self.names)} programs: keep one in a file")
        read_at = [np.array([t_ns for t_ns, _ in rows], np.int64) for rows in self.values.values()]
        if any((np.diff(each) < 0).any() for each in read_at):
            raise ValueError("its times go back")
        first_ns, last_ns = min(int(each[0]) for each in read_at), max(int(each[-1]) for each in read_at)
        if last_ns - first_ns > MAX_NS:
            raise ValueError("it takes longer than a run can")
        steps = np.diff(read_at[0])
        lead_ns = int(np.median(steps)) if len(steps) else NS
        times, end_ns = tuple(each - first_ns + lead_ns for each in read_at), last_ns - first_ns + lead_ns
        parts = (name.split("/") for name in self.values)
        infos = tuple(sensor(kind, label, "imported") for kind, label in parts)
        values = tuple(np.array([value for _, value in rows], np.float64) for rows in self.values.values())
        words = tuple(command) or (next(iter(self.names), "program"),)
        counts, total_ns = self.counts, end_ns - lead_ns if is_of_profiler else end_ns
        mean = float(np.mean([value for _, value in self.values[_SENSORS["cpu"]]])) if is_of_profiler else None
        used = ProgramEnded(
            total_ns,
            None if mean is None else round(mean / 100 * total_ns),
            read_bytes=counts.get("read_bytes"),
            write_bytes=counts.get("write_bytes"),
            net_rx_bytes=counts.get("net_rx_bytes"),
            net_tx_bytes=counts.get("net_tx_bytes"),
        )
        return SensorLog(infos, times, values, end_ns, None, note, used, words)


_SENSORS = {"cpu": "load/application", "mem": "mem/application", "limit": "mem/cgroup-limit"}


def _size(text: str) -> float:
    """Return the number of bytes in a size such as `37.48MiB`. Raises ValueError if the text is no size.

    >>> _size("1.5kB"), _size("2 MiB")
    (1500.0, 2097152.0)
    """
    match = re.fullmatch(rf"{NUMBER}\s?([A-Za-z]+)", text.strip())
    if not match or match[2].lower() not in _UNITS:
        raise ValueError(f"{text[:40]!r} is no size")
    return number(match[1]) * _UNITS[match[2].lower()]


def _sizes(text: str) -> tuple[float, float]:
    first, _, second = text.partition(" / ")
    return _size(first), _size(second)


def is_stats(keys: AbstractSet[str]) -> bool:
    """Return whether a JSON object with these keys is a sample of `docker stats` or `podman stats`."""
    return keys >= STATS_KEYS or keys >= PODMAN_KEYS


def read_stats(entries: Sequence[Mapping[str, Any]], interval_ns: int, page: Page) -> SensorLog:
    """Return the samples of `docker stats` or `podman stats`.

    `entries` are the parsed JSON objects. The objects have no time. So `interval_ns` is assumed as the time from each
    object to the next. A note in `page` counts the samples without values. Raises ValueError if a value cannot be read,
    or if there are no samples.
    """
    rows = _Rows()
    empty = list[str]()  # of a container that begins or has ended
    for place, entry in enumerate(entries):
        texts = {key: str(value) for key, value in entry.items()}
        cpu = texts.get("CPUPerc") or texts.get("cpu_percent", "--")
        memory = texts.get("MemUsage") or texts.get("mem_usage", "")
        if "--" in (cpu.rstrip("%"), memory.partition(" ")[0]):
            empty.append(f"{cpu} {memory}")
            continue
        name = texts.get("Name") or texts.get("name") or texts.get("Container", "container")
        rows.names[clean(name)] = None
        held, limit = _sizes(memory)
        rows.add(place * interval_ns, cpu=number(cpu.rstrip("%")), mem=held / MIB, limit=limit / MIB)
        net, block = (
            texts.get(one) or texts.get(other, "") for one, other in (("NetIO", "net_io"), ("BlockIO", "block_io"))
        )
        if "--" not in net + block and net and block:
            rows.pairs(net, block)
    _note_empty(page, len(empty), len(entries), empty[:1])
    return rows.log(f"its lines have no time: one each {interval_ns / 1e9:g} s is assumed")


def _note_empty(page: Page, count: int, total: int, first: Sequence[str]) -> None:
    if count:
        page.notes.append(
            LeftOut(count, total, "samples", "have no values, as the container did not run", first[0]).words
        )


def is_profiler(text: str) -> bool:
    return "BLOCK I/O" in text and (_SAMPLE.search(text) or _WHOLE_RUN.search(text)) is not None


def read_profiler(page: Page) -> SensorLog:
    """Return the samples that Auptimizer's Profiler wrote, or the totals of its table if it has no samples.

    Raises ValueError if a value cannot be read, or if there are several programs.
    """
    rows = _Rows()
    for _ in page.found(_FRAME):
        pass
    if not _SAMPLE.search(page.text):
        return _of_whole_run(page)
    empty = list[str]()
    lines = list(page.found(_SAMPLE))
    for line in lines:
        rows.names[clean(line["name"])] = None
        held, limit = _sizes(line["mem"])
        if number(line["cpu"]) == held == 0:  # the container has ended
            empty.append(line[0])
            continue
        rows.add(int(line["ms"]) * 1_000_000, cpu=number(line["cpu"]), mem=held / MIB, limit=limit / MIB)
        rows.pairs(line["net"], line["block"])
    _note_empty(page, len(empty), len(lines), empty[:1])
    return rows.log(
        "its times are those of docker stats, which takes about two seconds for a sample", is_of_profiler=True
    )


def _of_whole_run(page: Page) -> SensorLog:
    """Return the totals of one run from the table that the Profiler computes from its samples."""
    found = list(_WHOLE_RUN.finditer(page.text))
    if len(found) > 1:
        raise ValueError(f"its table has {len(found)} programs: keep one in a file")
    (run,) = found
    total_ns, (held, limit) = time_ns(run["ms"]), _sizes(run["mem"])
    (received, sent), (read, written) = _sizes(run["net"]), _sizes(run["block"])
    used = ProgramEnded(
        total_ns,
        round(number(run["cpu"]) / 100 * total_ns),
        rss_peak_mib=round(_size(run["most"]) / MIB, 3),
        pss_mean_mib=round(held / MIB, 3),
        read_bytes=round(read),
        write_bytes=round(written),
        net_rx_bytes=round(received),
        net_tx_bytes=round(sent),
    )
    page.notes.append(
        f"its peak CPU of {run['peak']} % is left out: a single reading of docker stats, without its time"
    )
    limits = (np.array([total_ns], np.int64),), (np.array([limit / MIB]),)
    infos = (sensor("mem", "cgroup-limit", "imported"),)
    return SensorLog(infos, *limits, total_ns, None, "totals, without readings", used, (clean(run["name"]),))


def is_time(text: str) -> bool:
    return _TIMED.search(text) is not None


def read_time(page: Page) -> SensorLog:
    """Return the totals that `/usr/bin/time -v` printed, as a log without readings.

    Raises ValueError if a total is missing, or if there are several programs.
    """
    timed = list(page.found(_TIMED))
    if len(timed) > 1:
        raise ValueError(f"it has {len(timed)} programs: keep one in a file")
    found: dict[str, str] = {}
    for match in page.found(_TOTAL, timed[0].end()):
        found.setdefault(match[1], match[2])
    for _ in page.found(_TIME_ENDED):
        pass
    try:
        total_ns = _clock_ns(found["Elapsed (wall clock) time"])
        cpu_ns = sum(time_ns(found[name], 1000.0) for name in ("User time", "System time"))
    except KeyError as error:
        raise ValueError(f"it has no line {error}") from None
    peak, inputs, outputs = (
        None if name not in found else number(found[name])
        for name in ("Maximum resident set size", "File system inputs", "File system outputs")
    )
    used = ProgramEnded(
        total_ns,
        cpu_ns,
        rss_peak_mib=None if peak is None else round(peak / 1024, 3),
        read_bytes=None if inputs is None else round(inputs * 512),
        write_bytes=None if outputs is None else round(outputs * 512),
    )
    command = tuple(clean(word) for word in timed[0][1].split()) or ("program",)
    return SensorLog((), (), (), total_ns, None, "totals, without readings", used, command)


def _clock_ns(text: str) -> int:
    """Return a duration in ns. Raises ValueError if the text is no duration.

    >>> _clock_ns("1:02.50")
    62500000000
    """
    parts = text.split(":")
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"{text[:40]!r} is no time")
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + number(part)
    return time_ns(str(seconds), 1000.0)


def is_pidstat(text: str) -> bool:
    return _PIDSTAT_HEAD.search(text) is not None


def read_pidstat(page: Page) -> SensorLog:
    """Return the samples that pidstat printed. At each time, the values of several processes are added up.

    Raises ValueError if a value cannot be read, or if there are no samples.
    """
    at: dict[int, dict[str, float]] = {}
    commands: dict[str, None] = {}
    columns: dict[str, None] = {}
    for t_ns, row in _pidstat_rows(page):
        columns |= dict.fromkeys(row)
        if row.get("TGID") == "-":  # a thread (-t), whose process has its own row
            continue
        commands[clean(row["Command"])] = None
        values = at.setdefault(t_ns, {})
        for name, column, scale in (("cpu", "%CPU", 1.0), ("mem", "RSS", 1 / 1024)):
            if column in row:
                values[name] = values.get(name, 0.0) + number(row[column].replace(",", ".")) * scale
        if len(at) > MOST_ROWS:
            raise ValueError(f"it has more than {MOST_ROWS} samples")
    unread = [name for name in columns if name not in _PIDSTAT_READ]
    if unread:
        page.notes.append(LeftOut(len(unread), len(columns), "columns", "not read", unread[0]).words)
    if commands and not any(at.values()):
        raise ValueError("its tables have neither %CPU nor RSS: run pidstat with -u or -r")
    rows = _Rows()
    rows.names[next(iter(commands), "program")] = None
    for t_ns, values in sorted(at.items()):
        rows.add(t_ns, **values)
    return rows.log("its times are whole seconds", tuple(commands)[:1])


def _pidstat_rows(page: Page) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield `(time in ns, values)` for each line about a process.

    The values are texts by column name, such as `%CPU`.
    """
    heads: list[str] = []
    place = 0
    day_ns, before_ns = 0, 0
    for raw in page.text.split("\n"):
        begin, place = place, place + len(raw) + 1
        if _PIDSTAT_HEAD.match(raw):
            page.know(begin, begin + len(raw))
            heads = raw.lstrip("#").split()
            heads = heads[heads.index("UID") :]
        elif raw.startswith(("Linux ", "Average:")):
            page.know(begin, begin + len(raw))
        elif heads and (found := _PIDSTAT_ROW.match(raw)):
            fields = found[2].split(None, len(heads) - 1)  # a command may have blanks
            if len(fields) < len(heads) or not all(_PIDSTAT_CELL.fullmatch(each) for each in fields[:-1]):
                continue
            t_ns = _time_of_day_ns(found[1].split()) + day_ns
            if t_ns < before_ns - 43_200 * NS:  # past midnight
                day_ns, t_ns = day_ns + 86_400 * NS, t_ns + 86_400 * NS
            before_ns = t_ns
            page.know(begin, begin + len(raw))
            yield t_ns, dict(zip(heads, fields, strict=True))


def _time_of_day_ns(words: Sequence[str]) -> int:
    if ":" not in words[0]:
        return int(number(words[0], 1e11)) * NS  # seconds since 1970, with -h
    hours, *rest = (number(part, 60) for part in words[0].split(":"))
    if len(words) > 1:
        hours = hours % 12 + 12 * (words[1] == "PM")
    seconds = hours
    for part in rest:
        seconds = 60 * seconds + part
    return int(seconds) * NS
