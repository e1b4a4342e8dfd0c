"""A figure as an output has it: read from its text or its document, with the unit that stands there."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from edgetop.formatting import UNKNOWN
from edgetop.session.seconds import NS

SESSION, WINDOW, NOW = "session", "last 10 s", "now"
WINDOW_NS = 10 * NS
NUMBER = r"(-?\d+(?:\.\d+)?(?: [kMG]\b)?)"
PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9}
# What one of a unit is in the unit by which figures of its kind are compared.
UNITS = {
    "ms": 1.0, "milliseconds": 1.0, "s": 1e3, "ns": 1e-6, "mJ": 1.0, "J": 1e3, "MiB": 1.0, "bytes": 2.0**-20,
    "%": 1.0, "share": 100.0, "W": 1.0, "watts": 1.0, "C": 1.0, "°C": 1.0, "degrees Celsius": 1.0, "": 1.0, "/s": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Read:
    """A figure as an output has it: its value in the unit of comparison, and half of its last digit there."""

    value: float
    half: float

    def agrees(self, other: "Read") -> bool:
        return abs(self.value - other.value) <= (self.half + other.half) * (1 + 1e-9) + 1e-9 * abs(self.value)


Key = tuple[str, str]  # the name of a figure, and its window
Figures = dict[Key, Read]


def written(text: str, unit: str) -> Read:
    """Return the figure that a text states. A `?` behind it, the mark of too few inferences, is left out."""
    number, _, prefix = text.removesuffix("?").partition(" ")
    scale = UNITS[unit] * PREFIXES.get(prefix, 1.0)
    decimals = len(number.partition(".")[2])
    return Read(float(number) * scale, 0.5 * 10**-decimals * scale)


def stated(value: float, unit: str, half: float = 5e-7) -> Read:
    """Return the figure of a document, which is rounded to `half`."""
    return Read(value * UNITS[unit], half * UNITS[unit])


def found_in(text: str, patterns: Mapping[Key, tuple[str, str]]) -> Figures:
    """Return the figures that stand in a text: by the pattern before each number, and its unit."""
    found = {}
    for key, (pattern, unit) in patterns.items():
        if one := re.search(pattern.replace("#", NUMBER), text, re.MULTILINE):
            figure = written(one[1], unit)
            is_rough = text[one.end(1) : one.end(1) + 1] == "?"  # not settled: line 1 has two significant digits
            found[key] = Read(figure.value, max(figure.half, half_of_two_digits(one[1], unit) if is_rough else 0.0))
    return found


def half_of_two_digits(text: str, unit: str) -> float:
    """Return half of the second significant digit of a number as it is written; 0 if it has more digits than two."""
    number, _, prefix = text.partition(" ")
    digits = f"{float(number):.1e}"
    if float(digits) != float(number):
        return 0.0
    return 0.05 * 10 ** int(digits.partition("e")[2]) * UNITS[unit] * PREFIXES.get(prefix, 1.0)


# The same words stand in several outputs.
FORECAST = {
    ("steady", NOW): (r"throttle.*?,?\s+steady\s+# C", "C"),
    ("trip", NOW): (r"throttles at # C", "C"),
}
HEADROOM = {("headroom", SESSION): (r"p99\s+(?:leaves|exceeds\s+it\s+by)\s+#\s+ms", "ms")}
RATIOS = {
    (f"A/B {name}", SESSION): (rf"^{name} .*?\+?# % \(-?[\d.]+ to", "%") for name in ("p50", "p90", "p99", "throughput")
}


def of_verdict(text: str) -> Figures:
    """Return the figures within the words of a verdict, wherever they stand."""
    return found_in(text, {
        ("throttled", SESSION): (r"throttled (?:once|\d+ times|\d+x), # %", "%"),
        ("missed", SESSION): (r"missed its deadline of [\d.]+ ms: # %", "%"),
        ("deadline", SESSION): (r"missed its deadline of # ms", "ms"),
    })  # fmt: skip


def table_rows(text: str, head: str) -> Iterator[dict[str, str]]:
    """Yield the rows of the Markdown table whose head begins with `head`, each by the heads of its columns."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(head):
            heads = _cells(line)
            for row in lines:
                if not row.startswith("|"):
                    return
                if not row.startswith("| ---"):
                    yield dict(zip(heads, _cells(row), strict=True))


def _cells(row: str) -> list[str]:
    return [cell.strip().strip("`") for cell in row.strip().strip("|").split(" | ")]


def named(cells: Mapping[str, str], keys: Mapping[str, tuple[str, str]], suffix: str = "") -> Figures:
    """Return the figures in the cells of a table, of the whole session: `keys` has the name and the unit by column."""
    return {
        (f"{name}{suffix}", SESSION): written(cells[column].rstrip("?"), unit)
        for column, (name, unit) in keys.items()
        if cells.get(column, UNKNOWN).rstrip("?") != UNKNOWN
    }
