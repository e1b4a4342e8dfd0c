"""The figures that a user can read in more than one output, as each output prints them.

The outputs are opened as a user opens them, and figures are read from their text or their document with the unit that
stands there: nothing here computes a figure. Each has a name, the window that it is of, and half of its last digit.
"""

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics
from prometheus_client.parser import text_string_to_metric_families as of_prometheus

from edgetop.analysis.alerts.alert_rules import parse_rule
from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.session_gates import judge_gate, parse_gate
from edgetop.analysis.session_report import report
from edgetop.cli.comparing.comparison import comparison_json
from edgetop.cli.printing.junit import Case, suite_xml
from edgetop.cli.printing.report_page import write_report
from edgetop.cli.printing.report_text import summary
from edgetop.cli.running.headless import plain_line, progress_line
from edgetop.cli.sessions.session_list import listed, table
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group, sample
from edgetop.formatting import UNKNOWN, clean
from edgetop.metrics.metric_families import families
from edgetop.metrics.prometheus import Textfile, rendered
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.reader import Recording
from edgetop.session.seconds import NS
from edgetop.ui.panes.ab_pane import ab_line
from edgetop.ui.panes.header import verdict_line, vitals_line
from edgetop.ui.panes.latency_pane import LATENCY
from edgetop.ui.panes.power_pane import POWER
from edgetop.ui.panes.thermal_pane import THERMAL
from edgetop.wording.board_summary import Summaries
from edgetop.wording.gate_words import gate_words
from edgetop.wording.report_document import report_document
from tests.support.screens import area, plain

SESSION, WINDOW, NOW = "session", "last 10 s", "now"
WINDOW_NS = 10 * NS
NUMBER = r"(-?\d+(?:\.\d+)?(?: [kMG]\b)?)"
PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9}
# What one of a unit is in the unit by which figures of its kind are compared.
UNITS = {
    "ms": 1.0, "milliseconds": 1.0, "s": 1e3, "ns": 1e-6, "mJ": 1.0, "J": 1e3, "MiB": 1.0, "bytes": 2.0**-20,
    "%": 1.0, "share": 100.0, "W": 1.0, "watts": 1.0, "C": 1.0, "°C": 1.0, "degrees Celsius": 1.0, "": 1.0, "/s": 1.0,
}  # fmt: skip
COLUMNS = {"/s": "rate", "n": "count"}
DIGITS = 5  # of a summary that goes over ssh; documents have more


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
    """Return the figure that a text states."""
    number, _, prefix = text.partition(" ")
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
            found[key] = Read(figure.value, max(figure.half, _half_of_two_digits(one[1], unit) if is_rough else 0.0))
    return found


def _half_of_two_digits(text: str, unit: str) -> float:
    """Return half of the second significant digit of a number as it is written; 0 if it has more digits than two."""
    number, _, prefix = text.partition(" ")
    digits = f"{float(number):.1e}"
    if float(digits) != float(number):
        return 0.0
    return 0.05 * 10 ** int(digits.partition("e")[2]) * UNITS[unit] * PREFIXES.get(prefix, 1.0)


# Of `report --json`: the path of a figure, its name, its unit, and half of the last digit that is written.
DOCUMENT = (
    ("latency.count", "count", "", 0.0),
    ("latency.throughput_hz", "rate", "/s", 5e-5),
    ("latency.deadline.ms", "deadline", "ms", 5e-7),
    ("latency.deadline.misses", "misses", "", 0.0),
    ("latency.deadline.miss_rate", "missed", "share", 5e-10),
    ("power.mean_w", "power", "W", 5e-4),
    ("energy.gross_mj", "energy", "mJ", 5e-7),
    ("memory.rss_peak_mib", "rss_peak", "MiB", 5e-4),
    ("memory.rss_end_mib", "rss_end", "MiB", 5e-4),
    ("memory.growth_mib_per_h", "growth", "MiB", 5e-4),
    ("usage.cpu_mean_pct", "cpu", "%", 5e-4),
)
OF_SPANS = tuple(
    (f"{span}.{name}_ms", f"{span} {name}", "ms", 5e-7) for span in ("burst", "sustained") for name in ("p50", "p99")
)
OF_STREAM = (
    *((f"latency.{name}_ms", name, "ms", 5e-7) for name in ("p50", "p90", "p95", "p99", "max", "mean")),
    ("latency.response.p99_ms", "response p99", "ms", 5e-7),
    ("latency.count", "count", "", 0.0),
    ("latency.throughput_hz", "rate", "/s", 5e-5),
)


def at(document: Any, path: str) -> Any:
    """Return the value at a path of keys, or None."""
    for key in path.split("."):
        document = (document or {}).get(key)
    return document


def taken(document: Any, paths: Iterable[tuple[str, str, str, float]], suffix: str = "") -> Figures:
    """Return the figures at these paths that are known."""
    known = ((at(document, path), name, unit, half) for path, name, unit, half in paths)
    return {(f"{name}{suffix}", SESSION): stated(v, unit, half) for v, name, unit, half in known if v is not None}


def of_document(document: Mapping[str, Any], streams: int) -> Figures:
    """Return the figures of `report --json`."""
    found = taken(document, DOCUMENT)
    if streams == 1:
        found |= taken(document, OF_SPANS) | taken(document, OF_STREAM)
    else:
        for one in document["streams"]:
            found |= taken(one, OF_STREAM, f"[{one['name']}]")
    for name, ratio in ((document.get("ab") or {}).get("ratios") or {}).items():
        if ratio:
            found[f"A/B {name}", SESSION] = stated(ratio["value"] - 1, "share", 5e-7)
    for key, name in (("steady_c", "steady"), ("trip_c", "trip")):
        if document["forecast"]["throttles"] is not None and document["forecast"][key] is not None:
            found[name, NOW] = stated(document["forecast"][key], "C", 5e-3)
    if document["throttles"]:
        found["throttled", SESSION] = stated(document["throttled_share"], "share", 5e-4)
    heat = [zone["max"] for zone in document["temperature"].values() if zone["max"] is not None]
    if heat:
        found["hottest", SESSION] = stated(max(heat), "C", 5e-4)
    return found


def of_report(text: str) -> Figures:
    """Return the figures of the report as text."""
    columns = re.search(r"^latency +(min .*)\n *(?:service )?ms (.*)\n(?: *resp\. ms (.*)\n)?", text, re.MULTILINE)
    found: Figures = {}
    if columns:
        names = columns[1].split()
        for name, cell in zip(names, columns[2].split(), strict=True):
            if name not in ("min", "p99.9"):
                found[name, SESSION] = written(cell.rstrip("?"), "ms")
        if columns[3]:
            found["response p99", SESSION] = written(columns[3].split()[names.index("p99")].rstrip("?"), "ms")
    return found | found_in(text, {
        ("count", SESSION): (r"^ {11}# inferences,", ""),
        ("rate", SESSION): (r"inferences, #/s", "/s"),
        ("deadline", SESSION): (r"^deadline +# ms:", "ms"),
        ("missed", SESSION): (r"^deadline .*: # % missed", "%"),
        ("misses", SESSION): (r"% missed \(#\)", ""),
        ("throttled", SESSION): (r"^throttles .*?, # % of the time", "%"),
        ("burst p50", SESSION): (r"^burst +p50 #", "ms"),
        ("burst p99", SESSION): (r"^burst .*p99 # ms", "ms"),
        ("sustained p50", SESSION): (r"^sustained +p50 #", "ms"),
        ("sustained p99", SESSION): (r"^sustained .*p99 # ms", "ms"),
        ("hottest", SESSION): (r"^heat .* to # °C", "C"),
        ("power", SESSION): (r"^power +\S+ # W on average, [^;]*$", "W"),
        ("energy", SESSION): (r"^energy +# ± \S+ mJ an inference", "mJ"),
        ("rss_end", SESSION): (r"^memory +engine RSS # MiB at the end", "MiB"),
        ("rss_peak", SESSION): (r"^memory .* # MiB at most", "MiB"),
        ("growth", SESSION): (r"(?:LEAKING|grows by) # MiB/h", "MiB"),
        ("cpu", SESSION): (r"^cpu +engine # % of a core on average", "%"),
    }) | found_in(text, FORECAST) | found_in(text, RATIOS)  # fmt: skip


FORECAST = {
    ("steady", NOW): (r"throttle.*?,?\s+steady\s+# C", "C"),
    ("trip", NOW): (r"throttles at # C", "C"),
}
RATIOS = {
    (f"A/B {name}", SESSION): (rf"^{name} .*?\+?# % \(-?[\d.]+ to", "%") for name in ("p50", "p90", "p99", "throughput")
}


def of_page(folder: Path, analysis: Analysis) -> Figures:
    """Return the figures in the text of the page that `report --html` writes."""
    path = folder.parent / "page.html"
    write_report(NamedOutput(path, force=True), analysis, report(analysis))
    blocks = re.findall(r"<pre[^>]*>(.*?)</pre>", path.read_text(), re.DOTALL)
    return of_report(html.unescape(re.sub("<[^>]*>", "", "\n\n".join(blocks))))


def of_textfile(folder: Path, analysis: Analysis, streams: int) -> Figures:
    """Return the figures in the file that `--prom-textfile` writes."""
    made = Textfile(folder.parent)
    try:
        assert made.send(families(analysis)) == ""
        (path,) = folder.parent.glob("*.prom")
        return of_metrics(path.read_text(), streams, of_prometheus)
    finally:
        made.close()


def of_verdict(text: str) -> Figures:
    """Return the figures within the words of a verdict, wherever they stand."""
    return found_in(text, {
        ("throttled", SESSION): (r"throttled (?:once|\d+ times|\d+x), # %", "%"),
        ("missed", SESSION): (r"missed its deadline of [\d.]+ ms: # %", "%"),
        ("deadline", SESSION): (r"missed its deadline of # ms", "ms"),
    })  # fmt: skip


def of_comparison(document: Mapping[str, Any]) -> Figures:
    """Return the figures of `compare --json` of a session with itself."""
    keys = {"throughput_hz": ("rate", "/s"), "count": ("count", ""), "miss_rate": ("missed", "share"),
            "throttled_share": ("throttled", "share"), "mean_w": ("power", "W"), "gross_mj": ("energy", "mJ"),
            "rss_peak_mib": ("rss_peak", "MiB"), "growth_mib_per_h": ("growth", "MiB"), "cpu_mean_pct": ("cpu", "%"),
            "response_p99_ms": ("response p99", "ms")}  # fmt: skip
    found: Figures = {}
    for row in document["rows"]:
        key, _, stream = row["key"].partition("[")
        value, suffix = row["values"][0], f"[{stream}" if stream else ""
        assert row["values"][1] == value, row
        if isinstance(value, dict):
            value = value["value"]
        if value is None:
            continue
        if key in keys:
            name, unit = keys[key]
            if name != "throttled" or value:
                found[f"{name}{suffix}", SESSION] = stated(value, unit, 5e-4 if key.endswith("share") else 5e-5)
        elif one := re.fullmatch(r"((?:burst_|sustained_)?(?:p50|p90|p95|p99|max|mean))_ms", key):
            found[f"{one[1].replace('_', ' ')}{suffix}", SESSION] = stated(value, "ms")
    return found


def of_metrics(text: str, streams: int, parse: Any = of_openmetrics) -> Figures:
    """Return the figures of the metrics, as `parse`, a parser of Prometheus, reads them."""
    found: Figures = {}
    values: dict[str, dict[str, float]] = {}
    heat = []
    for family in parse(text):
        for one in family.samples:
            if one.name == "edgetop_temperature_celsius":
                heat.append(one.value)
            elif one.name == "edgetop_power_watts" and one.labels["role"] == "total":
                found["power", NOW] = stated(one.value, "W", 5e-7)
            values.setdefault(one.name, {})[one.labels.get("stream", "")] = one.value
    for stream, count in values.get("edgetop_inference_duration_seconds_count", {}).items():
        suffix = f"[{stream}]" if streams > 1 else ""
        sum_s = values["edgetop_inference_duration_seconds_sum"][stream]
        found[f"count{suffix}", SESSION] = stated(count, "", 0.0)
        found[f"mean{suffix}", SESSION] = stated(sum_s / count, "s", 5e-10)
    for name, key, unit in (
        ("deadline_seconds", "deadline", "s"),
        ("memory_growth_bytes_per_second", "growth", "bytes"),
    ):
        if of := values.get(f"edgetop_{name}"):
            found[key, SESSION] = stated(of[""] * (3600 if key == "growth" else 1), unit, 5e-10)
    if misses := values.get("edgetop_deadline_misses_total"):
        found["misses", SESSION] = stated(sum(misses.values()), "", 0.0)
    if heat:
        found["hottest", NOW] = stated(max(heat), "C")
    return found


def rows_of(view: MonitorView) -> list[str]:
    return [plain(row) for row in LATENCY.body(view, area(140, 18))]


def of_screen(view: MonitorView) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of the header, the panes and the lines of a run without a screen."""
    stream = f"[{view.latency.stream}]" if view.latency.stream else ""
    window = SESSION if view.latency.window_ns is None else WINDOW
    header = plain(verdict_line(view, area(400, 1), None))
    felt = "response " if "resp. p50" in header else ""
    latency = {
        (f"{felt}p50{stream}", window): (r"p50 +#\??", "ms"),
        (f"{felt}p99{stream}", window): (r"  p99 +#\??", "ms"),
        (f"rate{stream}", window): (r" #/s", "/s"),
    }
    yield "header", found_in(header, latency) | of_verdict(header)
    vitals = plain(vitals_line(view, area(400, 1)))
    yield "vitals", found_in(vitals, {
        ("missed", SESSION): (r"missed +# %", "%"), ("deadline", SESSION): (r"p99 +\S+ +of # ms", "ms"),
        ("hottest", NOW): (r"heat +#", "C"), ("power", NOW): (r"power +# W", "W"),
    })  # fmt: skip
    for name, line in (("line", progress_line(view)), ("plain line", plain_line(view))):
        yield name, of_verdict(line) | found_in(line, {
            (f"p50{stream}", window): (r"(?:FINISHED.*? p50|Median latency) #\??", "ms"),
            (f"p99{stream}", window): (r"(?:\?? p99|99th percentile) #\??", "ms"),
            (f"rate{stream}", window): (r"#(?:/s| inferences a second)", "/s"),
            ("hottest", NOW): (r"Hottest zone # degrees Celsius", "C"),
            ("power", NOW): (r"Board power # watts", "W"),
            ("count", SESSION): (r" n # in all", ""),
        })  # fmt: skip
    rows = [row.split() for row in rows_of(view)]
    if view.ab is None:
        names = rows[0]
        for row in rows[1:]:
            of = {"10s": WINDOW, "session": SESSION}.get(row[0] if row else "")
            if of:
                shown = dict(zip(names, re.findall(r"\S+(?: [kMG]\b)?", " ".join(row[1:])), strict=True))
                units = {**dict.fromkeys(("p50", "p90", "p95", "p99", "max"), "ms"), "/s": "/s", "n": ""}
                figures = {
                    (f"{COLUMNS.get(name, name)}{stream}", of): written(shown[name].rstrip("?"), unit)
                    for name, unit in units.items()
                    if shown[name].rstrip("?") != UNKNOWN
                }
                yield f"latency pane, {of}", figures
    heat = "\n".join(map(plain, THERMAL.body(view, area(140, 18))))
    yield "heat pane", found_in(heat, FORECAST)
    if view.ab is not None:
        yield "A/B pane", found_in("\n".join(rows_of(view)), RATIOS)
        header_line = plain(ab_line(view.ab, 200))
        yield "A/B line", found_in(header_line, {("A/B p50", SESSION): (r"at p50: \+?# % \(", "%")})
    power = POWER.title(view, area(200, 10))
    if "a part" not in power:
        yield "power pane", found_in(power, {("power", NOW): (r"^(?:last )?# W", "W")})


def of_summary(analysis: Analysis, folder: Path, streams: int) -> Figures:
    """Return the figures of the line of `edgetop fleet`."""
    lines = Summaries(())
    for batch in Recording(folder).play():
        lines.fold(batch)
    of: Any = lines.message()["changed"]
    found = of_verdict(of["words"])
    suffix = f"[{analysis.view(None).latency.stream}]" if streams > 1 else ""
    felt = "response " if of["deadline_ms"] is not None and analysis.view(None).latency.session_response else ""
    units = {"p99_ms": (f"{felt}p99{suffix}", SESSION, "ms"), "deadline_ms": ("deadline", SESSION, "ms"),
             "misses": ("misses", SESSION, ""), "miss_rate": ("missed", SESSION, "share"),
             "temperature_c": ("hottest", NOW, "C"), "power_w": ("power", NOW, "W")}  # fmt: skip
    for field, (name, window, unit) in units.items():
        if of.get(field) is not None:
            found[name, window] = stated(of[field], unit, 0.5 * abs(of[field]) * 10.0 ** (1 - DIGITS))
    return found


def of_gates(analysis: Analysis, streams: int) -> Figures:
    """Return the figures that gates are judged by, as their JUnit file states them."""
    found: Figures = {}
    whole = report(analysis)
    if streams > 1:
        return found
    felt = "response " if whole.latency.response else ""
    for expr, key, unit in (("p99>0ms", f"{felt}p99", "ms"), ("misses>0%", "missed", "%")):
        result = judge_gate(parse_gate(expr), whole)
        xml = suite_xml("a", [Case(result.gate.text, None if result.ok else ("failure", gate_words(result)))], 1.0, "")
        found |= found_in(xml, {(key, SESSION): (rf": (?:response time )?# {unit}", unit)})
    return found


def of_alerts(folder: Path) -> Figures:
    """Return the figures of alerts, as `report --json` states them: of a rule that always holds, and of growth.

    An alert has no value of the whole session if it began late, so only those of the whole session are compared.
    """
    analysis = Analysis((parse_rule("temp>0C"),))
    for batch in Recording(folder).play():
        analysis.fold(batch)
    found: Figures = {}
    for alert in report_document(analysis)["alerts"]:
        if alert["rule"] == "temp>0C" and not alert["begin_s"]:
            found["hottest", SESSION] = stated(alert["max"], alert["unit"], 5e-4)
        found |= found_in(alert["message"], {("growth", SESSION): (r"memory grows by # MiB/h", "MiB")})
    return found


def figures(folder: Path, analysis: Analysis) -> dict[str, Figures]:
    """Open every output on a recorded session. Return its figures by the name of the output."""
    document = json.loads(json.dumps(report_document(analysis)))
    streams = len(document["streams"])
    text = summary(report(analysis))
    words = document["verdict"]
    found = {
        "report --json": of_document(document, streams),
        "report": of_report(text) | of_verdict(text),
        "report --html": of_page(folder, analysis),
        "verdict": of_verdict(f"{words['words']}\n{words['brief']}"),
        "fleet": of_summary(analysis, folder, streams),
        "junit": of_gates(analysis, streams),
        "alerts": of_alerts(folder),
        "metrics": of_metrics(rendered(families(analysis), openmetrics=True).decode(), streams),
        "textfile": of_textfile(folder, analysis, streams),
    }
    one = sample(analysis)
    comparison = compare((Group("a", (one,)), Group("b", (one,))))
    found["compare --json"] = of_comparison(json.loads(comparison_json(comparison, ())))
    sessions = listed(folder.parent, folder.parent)
    (row,) = [one for one in sessions if one.path == str(folder.absolute())]
    of_list = {} if row.p50_ms is None else {("p50", SESSION): stated(row.p50_ms, "ms")}
    found["sessions --json"] = of_list | ({} if row.p99_ms is None else {("p99", SESSION): stated(row.p99_ms, "ms")})
    found["sessions"] = of_verdict(clean("\n".join(table([row], None))))
    for window_ns in (None, WINDOW_NS):
        of = "whole" if window_ns is None else "window"
        found |= {f"{name} ({of})": read for name, read in of_screen(analysis.view(window_ns).freeze())}
    return found


def disagreements(found: Mapping[str, Figures]) -> list[str]:
    """Return each figure of which two outputs say something else."""
    wrong = []
    keys = sorted({key for of in found.values() for key in of})
    for key in keys:
        said = [(name, of[key]) for name, of in found.items() if key in of]
        finest_name, finest = min(said, key=lambda pair: pair[1].half)
        wrong += [
            f"{key[0]} ({key[1]}): {name} has {one.value:.9g}, {finest_name} has {finest.value:.9g}"
            for name, one in said
            if not one.agrees(finest)
        ]
    return wrong
