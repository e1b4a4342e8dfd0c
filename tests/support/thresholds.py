"""The thresholds of all judgements, with what the comment above each says of it.

A threshold is a constant whose comment has this form, in one paragraph:

    # What it is. Choice: why. Larger: what it costs; smaller: what that costs.

Instead of a choice it may come from a measurement, a calculation, statistics, a paper, a data sheet or the kernel.
`python -m tests.support.thresholds` writes the table of all of them into `edgetop help slowdowns`.
"""

import math
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.support.moved_thresholds import path_of, threshold_names

ANALYSIS = "edgetop.analysis"
SLOWDOWNS = f"{ANALYSIS}.slowdowns"
FORECAST = f"{ANALYSIS}.forecast"
ALERTS = f"{ANALYSIS}.alerts"
COMPARISON = "edgetop.comparison"
TOPIC = Path("edgetop/docs/slowdowns.md")
TITLE, RULER = "## Thresholds", "| --- | --- | --- | --- | --- |"
INTRODUCTION = """\
Every number that decides a judgement, with what a larger or a smaller one would cost. A log-likelihood ratio says by
how much a change explains the latencies better than chance does. Tests hold each number on both of its sides."""

SECTIONS = {
    "The burst": (f"{SLOWDOWNS}.baseline",),
    "Slowdowns": (f"{SLOWDOWNS}.detector", f"{SLOWDOWNS}.judgement", f"{SLOWDOWNS}.slowdown"),
    "Noise": (f"{SLOWDOWNS}.levels",),
    "Causes": (f"{SLOWDOWNS}.evidence", f"{SLOWDOWNS}.clock_parts", f"{SLOWDOWNS}.signals"),
    "A second cause": (f"{SLOWDOWNS}.stages",),
    "Limits and contention from the start": (f"{SLOWDOWNS}.from_start",),
    "Slow inferences": (f"{SLOWDOWNS}.slow_inferences",),
    "The risk of a miss": (f"{ANALYSIS}.miss_risk",),
    "Throttling": (f"{SLOWDOWNS}.throttle_spans", "edgetop.session.trips", f"{ANALYSIS}.tracks"),
    "The verdict and the vital signs": (
        f"{ANALYSIS}.verdict", f"{ANALYSIS}.rolling_latency", f"{ANALYSIS}.progress", f"{ANALYSIS}.vitals",
        f"{ANALYSIS}.heat",
    ),
    "Equal size": (f"{SLOWDOWNS}.equal_size",),
    "Several models": (f"{ANALYSIS}.streams", f"{ANALYSIS}.stream_verdicts", f"{ANALYSIS}.statistics"),
    "Precision": (f"{ANALYSIS}.precision", f"{ANALYSIS}.steady"),
    "Warnings": (
        f"{ANALYSIS}.notices", "edgetop.session.quiet", f"{ANALYSIS}.operator_hints", f"{ANALYSIS}.operator_bounds",
        f"{ANALYSIS}.hotspots",
    ),
    "Deadline and load": (f"{ANALYSIS}.deadline", f"{ANALYSIS}.late_starts", f"{ANALYSIS}.overload"),
    "Memory and counters": (f"{ANALYSIS}.memory_use", f"{ANALYSIS}.usage", f"{ANALYSIS}.event_counts"),
    "Energy": (f"{ANALYSIS}.energy", f"{ANALYSIS}.rail_energy"),
    "The forecast": (f"{FORECAST}.heat_forecast", f"{FORECAST}.steady_load", f"{FORECAST}.elsewhere"),
    "Alerts": (f"{ALERTS}.alerts", f"{ALERTS}.alert", f"{ALERTS}.values"),
    "A and B": (f"{ANALYSIS}.ab_figures", f"{ANALYSIS}.paired"),
    "Comparisons": tuple(
        f"{COMPARISON}.{name}"
        for name in ("figures", "student", "fairness", "device_fit", "application_gap", "input_sizes")
    ),
}  # fmt: skip

# Numbers in these modules that decide nothing by a little more or less of them: marks, units, statistics, constants of
# a method, how much is stored, how often something is done, and how figures are written.
NO_THRESHOLDS = {
    "baseline": {"EDGE_POINTS", "EDGE_S", "LEAST_SCATTER"},
    "detector": {"CHECK_EVERY", "LEAST_REACH", "LEAVE_EVERY", "MAX_POINTS", "MAX_WINDOWS", "RECENT", "WILD_DENSITY"},
    "judgement": {"MAX_ROWS"},
    "slowdown": {"MAX_SLOWDOWNS"},
    "levels": {"MAX_LEVELS", "NEPER", "OF_FIVE", "OF_MEDIANS", "SIZES", "SURE", "_PER_MAD"},
    "evidence": {
        "ALL_SEEN", "LEAST_CONFIDENCE", "MOST_CONFIDENCE", "NOTHING_SEEN", "_HUGE"
    },
    "clock_parts": {"LEAST_LEVEL"},
    "signals": {"PRESSURE_PER_STALLED_MS", "SET", "_PER_STALLED_MS"},
    "stages": {"DEEPEST", "LONGEST", "NAMED_EVERY", "NAMED_FROM"},
    "equal_size": {"HELD_S", "LARGEST", "LARGEST_LOG", "LATEST_S", "MOST_HELD_S", "MOST_MS", "RECENT_S"},
    "from_start": {"MOST_CONFIDENCE"},
    "miss_risk": {"ENDS", "LEAST_BLOCKS", "RESAMPLES"},
    "slow_inferences": {"KEPT", "KEPT_RECENT", "RECENT_S", "USUAL_S"},
    "throttle_spans": {"COUNTED", "MAX_SPANS", "MOST_LEVEL", "NEVER"},
    "tracks": {"BRIDGED_S", "FOLDED_AT_ONCE_S", "LARGEST", "LATE_S", "SECONDS"},
    "rolling_latency": {"LATEST_NS", "NEVER_NS", "RECENT_SECONDS"},
    "heat": {"GROUPED_FROM", "_UNREAD"},
    "precision": {
        "COARSE", "CUT", "LEAST_AGE_S", "LEAST_BLOCKS", "LEAST_WAVES", "MOST_AGE_S", "MOST_BLOCKS", "MOST_WAVES",
        "ROWS_AT_ONCE", "WAVES_A_BLOCK",
    },
    "steady": {"LENGTHS_S", "LEVELS", "STEP_S"},
    "hotspots": {"MAX_NAMED", "MAX_UNMATCHED", "MOST_RECENT_BURSTS"},
    "overload": {"MAX_SPANS", "MAX_STEPS"},
    "memory_use": {"GIB_FROM", "HOUR_S", "WHOLE_FROM", "Z_975"},
    "energy": {"DUST"},
    "rail_energy": {
        "BATCH_READINGS", "KEPT_READINGS", "LEARNED_INTERVALS", "MOST_W", "SETTLED_AT_ONCE", "STRIPS_AT_ONCE"
    },
    "heat_forecast": {"PACES_S", "SLOWEST_S"},
    "steady_load": {"ALTERNATES_AT", "BLOCKS", "WIDTHS_S"},
    "alerts": {"MAX_BURSTS", "MAX_RULES"},
    "alert": {"MAX_ALERTS"},
    "ab_figures": {"METRICS", "SETTLING_QUADS", "SHARES"},
    "paired": {"EXACT_PAIRS", "MOST_OF_A_SIDE", "MOST_PAIRS", "SMALLEST"},
    "figures": {"MOST_OPERATORS", "MOST_SETTINGS", "MOST_STREAMS", "STREAM_CELLS"},
    "student": {"_LEAST_SESSIONS", "_MOST_FREEDOM", "_MOST_SESSIONS", "_PLACES"},
    "device_fit": {"MOST_LOG"},
    "application_gap": {"MOST_WAITED"},
}  # fmt: skip

_FORM = re.compile(
    r"(?P<what>.+?)\. (?P<source>(?:Choice|Measured|Computed|Statistics|Paper|Datasheet|Kernel)\b.*?)\. "
    r"Larger: (?P<larger>.+?); smaller: (?P<smaller>.+)\."
)
_UNITS = (
    ("MIB_PER_H", "MiB/h"), ("_MIB", "MiB"), ("_PER_S", "/s"), ("_PCT", "%"), ("_MS", "ms"), ("_S", "s"), ("_C", "°C"),
    ("_V", "V"), ("OVER_CURRENT_PERCENT", "%"),
)  # fmt: skip


class Threshold(NamedTuple):
    module: str
    constant: str
    what: str
    source: str
    larger: str
    smaller: str

    @property
    def label(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.constant}"

    @property
    def numbers(self) -> list[str]:
        """Return `NAME`, or `NAME[key]` for each number in a tuple or a dictionary."""
        return [name for name in threshold_names(self.module) if name.partition("[")[0] == self.constant]

    @property
    def value(self) -> object:
        return getattr(import_module(self.module), self.constant)


def thresholds_of(module: str) -> Iterator[Threshold]:
    comment: list[str] = []
    for line in path_of(module).read_text().splitlines():
        if line.startswith("# "):
            comment.append(line[2:])
            continue
        if "Larger: " in " ".join(comment):
            found, name = _FORM.fullmatch(" ".join(comment)), re.match(r"(_?[A-Z][A-Z0-9_]*)(: .+?)? = ", line)
            assert found, f"{module}: {line} {comment}"
            assert name, f"{module}: {line} {comment}"
            yield Threshold(module, name[1], **found.groupdict())
        comment = []


def all_thresholds() -> Iterator[Threshold]:
    """Yield the thresholds of all judgements, in the order of the table."""
    for modules in SECTIONS.values():
        for module in modules:
            yield from thresholds_of(module)


def value_words(threshold: Threshold) -> str:
    """Return the value with its unit, as the table shows it."""
    value = threshold.value
    if isinstance(value, dict):
        return ", ".join(f"{key} {number:g}" for key, number in value.items())
    if isinstance(value, tuple):
        return ", ".join(f"{number:g}" for number in value)
    assert isinstance(value, (int, float))
    if threshold.constant.endswith("_NS"):
        return f"{value / 1e9:g} s" if value >= 1e9 else f"{value / 1e6:g} ms" if value >= 1e6 else f"{value:g} ns"
    unit = next((unit for end, unit in _UNITS if threshold.constant.endswith(end)), "")
    if unit:
        return f"{value:g} {unit}"
    if "NEPER)" in _definition(threshold):
        return f"{math.expm1(value / 1e6) * 100:.3g} %"
    return f"{value * 100:g} %" if "hare" in threshold.what and value < 1 else f"{value:g}"


def _definition(threshold: Threshold) -> str:
    lines = path_of(threshold.module).read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{threshold.constant} = "))


def table() -> str:
    """Return the last section of the topic."""
    lines = [TITLE, "", INTRODUCTION]
    for title, modules in SECTIONS.items():
        lines += ["", f"### {title}", "", "| what | value | where it comes from | larger | smaller |", RULER]
        for threshold in (one for module in modules for one in thresholds_of(module)):
            value = "see Signals" if threshold.constant == "_COUNTS" else value_words(threshold)
            source = threshold.source[0].lower() + threshold.source[1:]
            lines.append(f"| {threshold.what} | {value} | {source} | {threshold.larger} | {threshold.smaller} |")
    return "\n".join([*lines, *_counts(), ""])


def _counts() -> Iterator[str]:
    yield from ("", "### Signals", "")
    yield "| signal | cause | change beyond its usual range | and share of it | how well it proves its cause alone |"
    yield RULER
    for name, (cause, least, share, weight, unit) in import_module(f"{SLOWDOWNS}.signals")._COUNTS.items():
        proof = "by its clock" if weight is None else f"{weight:g}"
        yield f"| `{name}` | `{cause}` | {least:g} {unit} | {share * 100:g} % | {proof} |"


def topic() -> str:
    """Return the topic as it should be."""
    return TOPIC.read_text(encoding="utf-8").partition(TITLE)[0] + table()


if __name__ == "__main__":
    TOPIC.write_text(topic(), encoding="utf-8")
