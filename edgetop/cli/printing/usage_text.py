"""Shows how much CPU, memory, disk and network sessions used: as lines, as a table, as CSV."""

from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.session_report import Report
from edgetop.analysis.usage import UsageFigures
from edgetop.cli.output import table
from edgetop.comparison.usage_table import KEYS, UsageRow
from edgetop.formatting import clean, cut_middle, or_unknown

LEAST_CELLS, WIDE_CELLS = 12, 44  # characters of a name: at least, and so many that the table is not cut into two
HEAD = "usage"
# Heads of the columns by key. A column in which no row has a value is left out.
HEADS = {
    "cpu_mean_pct": "CPU %", "cpu_peak_pct": "peak", "mem_mean_mib": "MiB", "mem_peak_mib": "peak MiB",
    "mem_limit_mib": "limit", "cgroup_peak_mib": "cgroup", "net_rx_bytes": "net in", "net_tx_bytes": "net out",
    "block_read_bytes": "disk read", "block_write_bytes": "written", "total_time_ms": "time",
}  # fmt: skip
# Columns that a narrow terminal shows in a table of their own.
TRAFFIC = ("net_rx_bytes", "net_tx_bytes", "block_read_bytes", "block_write_bytes")


def usage_lines(rows: Sequence[UsageRow], columns: int) -> Iterator[str]:
    """Yield the lines of a table of what each session used, at most `columns` characters wide.

    A wider table is split into two tables, and long names are cut in their middle.
    """
    if not rows:
        return
    yield ""
    longest = max(len(clean(row.name)) for row in rows)
    room = columns - _width(rows, KEYS)
    if room >= min(longest, WIDE_CELLS):
        yield from _table(rows, KEYS, room)
        return
    parts = [[key for key in KEYS if key not in TRAFFIC]]
    if any(row.values[KEYS.index(key)] is not None for row in rows for key in TRAFFIC):
        parts.append(list(TRAFFIC))
    room = max(LEAST_CELLS, columns - max(_width(rows, keys) for keys in parts))
    for number, keys in enumerate(parts):
        yield from ("",) * bool(number)
        yield from _table(rows, keys, room)


def _width(rows: Sequence[UsageRow], keys: Sequence[str]) -> int:
    """Return how many characters wide a table with the columns `keys` is, without its column of names."""
    return max(map(len, _table(rows, keys, 0))) - len(HEAD)


def _table(rows: Sequence[UsageRow], keys: Sequence[str], cells: int) -> Iterator[str]:
    """Yield the lines of a table with the columns `keys`. Names are cut to `cells` characters."""
    shown = [key for key in keys if any(row.values[KEYS.index(key)] is not None for row in rows)]
    texts = [[cut_middle(row.name, cells), *(usage_cell(row, key) for key in shown)] for row in rows]
    return table([HEAD, *(HEADS[key] for key in shown)], texts, (HEAD,))


def usage_cell(row: UsageRow, key: str) -> str:
    """Return one value of a row as text. `key` is the name of the value, such as `cpu_mean_pct`."""
    value = row.values[KEYS.index(key)]
    if key.endswith("_bytes"):
        return or_unknown(value, formatting.size)
    if key == "total_time_ms":
        return or_unknown(value, lambda ms: formatting.duration(ms * 1e6))
    return or_unknown(value, "{:.0f}".format if key.endswith("_pct") else "{:.1f}".format)


def usage_csv(rows: Sequence[UsageRow]) -> Iterator[Sequence[object]]:
    """Yield the rows of a CSV file: a header, then a row for each session."""
    yield "name", *KEYS
    for row in rows:
        yield clean(row.name), *row.values


def program_memory(usage: UsageFigures) -> str:
    """Return the memory of a watched program as text: its resident memory, its cgroup's memory, and the limit."""
    resident = f"program RSS {_mib(usage.mem_mean_mib)} on average, {_mib(usage.mem_peak_mib)} at most"
    group = "" if usage.cgroup_peak_mib is None else f"; its cgroup {_mib(usage.cgroup_peak_mib)} at most"
    return resident + group + ("" if usage.mem_limit_mib is None else f", limit {_mib(usage.mem_limit_mib)}")


def usage_summary(report: Report) -> Iterator[str]:
    """Yield lines about the CPU, memory and disk use of the engine or program, and about network traffic.

    The traffic is that of the whole board, because the kernel does not count traffic by process. A program in a
    container with its own network is the exception: its own traffic is shown.
    """
    if (usage := report.usage) is None:
        return
    who = "program" if report.session.watched else "engine"
    mean, peak = usage.cpu_mean_pct, usage.cpu_peak_pct
    if mean is not None:
        most = "" if peak is None else f", {peak:.0f} % at most in a second"  # unknown for a run of under a second
        yield f"cpu        {who} {mean:.0f} % of a core on average{most}"
    counts = (usage.net_rx_bytes, usage.net_tx_bytes, usage.block_read_bytes, usage.block_write_bytes)
    received, sent, read, written = (or_unknown(count, formatting.size) for count in counts)
    whose = "" if usage.net_of_container else " of the board"
    traffic = f"network{whose} {received} received, {sent} sent; disks {read} read, {written} written"
    resident = f"memory {_mib(usage.mem_mean_mib)} on average, {_mib(usage.mem_peak_mib)} at most"
    took = or_unknown(usage.total_time_ms, lambda ms: formatting.duration(ms * 1e6))
    if report.session.watched:  # its memory has a line of its own
        yield f"usage      {traffic}; in {took}"
    else:
        yield f"usage      {resident}; {traffic}; in {took}"


def _mib(value: float | None) -> str:
    return or_unknown(value, "{:.1f} MiB".format)
