"""The figures of the documents that a user pastes or reads elsewhere: Markdown, comparisons, CSV, OpenTelemetry."""

import csv
import io
import re
from collections.abc import Iterator

from opentelemetry.sdk.resources import Resource

from edgetop.cli.printing.comparison_markdown import comparison_markdown
from edgetop.cli.printing.comparison_words import comparison_text, csv_rows
from edgetop.comparison.ratios import Comparison
from edgetop.metrics.metric_families import Family
from edgetop.metrics.otlp import metrics_data
from tests.support.read_figures import (
    NOW,
    SESSION,
    Figures,
    found_in,
    named,
    stated,
    table_rows,
    written,
)

TIMES = {"p50 ms": ("p50", "ms"), "p99 ms": ("p99", "ms")}
SPANS = {**TIMES, "inferences/s": ("rate", "/s")}
# Of a comparison: the label of a row, the name of the figure, and its unit.
ROWS = {
    "throughput 1/s": ("rate", "/s"), "inferences": ("count", ""), "missed": ("missed", "%"),
    "time throttled": ("throttled", "%"), "mean power W": ("power", "W"), "energy, gross mJ": ("energy", "mJ"),
    "peak RSS MiB": ("rss_peak", "MiB"), "CPU %": ("cpu", "%"),
    **{f"{name} ms": (name, "ms") for name in (
        "p50", "p90", "p95", "p99", "max", "mean", "burst p50", "burst p99", "sustained p50", "sustained p99",
        "response p99",
    )},
}  # fmt: skip
KEYS = {
    "throughput_hz": ("rate", "/s"), "miss_rate": ("missed", "share"), "throttled_share": ("throttled", "share"),
    "mean_w": ("power", "W"), "gross_mj": ("energy", "mJ"), "rss_peak_mib": ("rss_peak", "MiB"),
    "growth_mib_per_h": ("growth", "MiB"), "cpu_mean_pct": ("cpu", "%"), "response_p99_ms": ("response p99", "ms"),
    **{f"{name}_ms": (name.replace("_", " "), "ms") for name in (
        "p50", "p90", "p95", "p99", "max", "mean", "burst_p50", "burst_p99", "sustained_p50", "sustained_p99",
    )},
}  # fmt: skip


def of_markdown(text: str) -> Figures:
    """Return the figures in the tables of `report --md`, in front of the folded text."""
    tables = text.partition("<details>")[0]
    found: Figures = {}
    times = {name: (name, "ms") for name in ("p50", "p90", "p95", "p99", "max", "mean")}
    for row in table_rows(tables, "| latency |"):
        found |= named(row, {"p99": ("response p99", "ms")} if row["latency"] == "response ms" else times)
    for row in table_rows(tables, "| model | p50 ms"):
        found |= named(row, {**TIMES, "inferences": ("count", "")}, f"[{row['model']}]")
    for row in table_rows(tables, "|   | p50 ms"):
        found |= named(row, {column: (f"{row['']} {name}", unit) for column, (name, unit) in SPANS.items()})
    for row in table_rows(tables, "| slowdown at"):
        found |= named({"": row["slower by"].removesuffix(" %")}, {"": (f"slower at {row['slowdown at']}", "%")})
    return found | found_in(tables, {
        ("count", SESSION): (r"^\| inferences \| #", ""),
        ("rate", SESSION): (r"^\| inferences/s \| #", "/s"),
        ("deadline", SESSION): (r"^\| missed # ms", "ms"),
        ("missed", SESSION): (r"^\| missed .* \| # %", "%"),
        ("hottest", SESSION): (r"^\| hottest, .* \| # °C", "C"),
        ("power", SESSION): (r"^\| power, .* \| # W", "W"),
        ("energy", SESSION): (r"^\| energy of an inference \| #", "mJ"),
        ("rss_peak", SESSION): (r"^\| peak RSS \| # MiB", "MiB"),
    })  # fmt: skip


def of_comparisons(comparison: Comparison) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of a comparison as text, as Markdown and as CSV, by the name of the output."""
    text = comparison_text(comparison)
    cells = (re.split(r" {2,}", line) for line in text.splitlines())
    yield "compare", _of_rows((row[0], row[1]) for row in cells if len(row) > 2)
    lines = "\n".join(comparison_markdown(comparison)).splitlines()
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| "))
    yield "compare --md", _of_rows((row[0], row[1]) for row in rows)
    written_csv = io.StringIO()
    csv.writer(written_csv).writerows(csv_rows(comparison))
    found: Figures = {}
    for row in csv.DictReader(io.StringIO(written_csv.getvalue())):
        key, _, stream = row["key"].partition("[")
        if key in KEYS and row["session"] == comparison.names[0] and row["value"]:
            name, unit = KEYS[key]
            half = 5e-7 if unit == "ms" else 5e-4 if unit == "share" else 5e-5
            found[f"{name}{'[' if stream else ''}{stream}", SESSION] = stated(float(row["value"]), unit, half)
    yield "compare --csv", found


def _of_rows(rows: Iterator[tuple[str, str]]) -> Figures:
    """Return the figures of the rows (label, value) of a comparison; a label can contain the name of a stream."""
    found: Figures = {}
    for label, value in rows:
        one = re.fullmatch(r"(p50|p99|response p99) (\S+) ms", label)
        name, unit, suffix = (one[1], "ms", f"[{one[2]}]") if one else (*ROWS.get(label, ("", "")), "")
        if name and re.match(r"-?\d", value):
            found[f"{name}{suffix}", SESSION] = written(value.removesuffix(" %"), unit)
    return found


def of_otlp(families: list[Family], streams: int) -> Figures:
    """Return the figures that go to a collector of OpenTelemetry."""
    (of,) = metrics_data(families, Resource({}), 10**9).resource_metrics
    found: Figures = {}
    heat = []
    for metric in of.scope_metrics[0].metrics:
        for point in metric.data.data_points:
            suffix = f"[{point.attributes['stream']}]" if streams > 1 and "stream" in point.attributes else ""
            if metric.name == "edgetop_inference_duration_seconds":
                found[f"count{suffix}", SESSION] = stated(point.count, "", 0.0)
                found[f"count in buckets{suffix}", SESSION] = stated(sum(point.positive.bucket_counts), "", 0.0)
                found[f"mean{suffix}", SESSION] = stated(point.sum / point.count, "s", 5e-10)
                found[f"max{suffix}", SESSION] = stated(point.max, "s", 5e-10)
            elif metric.name == "edgetop_temperature_celsius":
                heat.append(point.value)
            elif metric.name == "edgetop_power_watts" and point.attributes["role"] == "total":
                found["power", NOW] = stated(point.value, "W")
            elif metric.name == "edgetop_deadline_seconds":
                found["deadline", SESSION] = stated(point.value, "s", 5e-10)
            elif metric.name == "edgetop_memory_growth_bytes_per_second":
                found["growth", SESSION] = stated(point.value * 3600, "bytes", 5e-10)
    if heat:
        found["hottest", NOW] = stated(max(heat), "C")
    return found
