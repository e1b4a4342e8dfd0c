"""The figures that a user can read in more than one output, as each output prints them.

The outputs are opened as a user opens them, and figures are read from their text or their document with the unit that
stands there: nothing here computes a figure. Each has a name, the window that it is of, and half of its last digit.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_openmetrics
from prometheus_client.parser import text_string_to_metric_families as of_prometheus
from prometheus_client.samples import Sample

from edgetop.analysis.alerts.alert_rules import parse_rule
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_gates import judge_gate, parse_gate
from edgetop.analysis.session_report import report
from edgetop.cli.comparing.comparison import comparison_json
from edgetop.cli.printing.junit import Case, suite_xml
from edgetop.cli.printing.report_markdown import report_markdown
from edgetop.cli.printing.report_page import write_report
from edgetop.cli.printing.report_text import brief_summary, summary
from edgetop.cli.sessions.session_list import listed, table
from edgetop.comparison.ratios import compare
from edgetop.comparison.sample import Group, sample
from edgetop.formatting import clean, clock_time
from edgetop.metrics.metric_families import families
from edgetop.metrics.prometheus import Textfile, rendered
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.reader import Recording
from edgetop.session.seconds import NS
from edgetop.wording.board_summary import Summaries
from edgetop.wording.gate_words import gate_words
from edgetop.wording.report_document import report_document
from tests.support.document_figures import of_comparisons, of_markdown, of_otlp
from tests.support.read_figures import (
    FORECAST,
    HEADROOM,
    NOW,
    RATIOS,
    SESSION,
    WINDOW_NS,
    Figures,
    found_in,
    of_verdict,
    stated,
    written,
)
from tests.support.screen_figures import of_details, of_screen

DIGITS = 5  # of a summary that goes over ssh; documents have more

# Of `report --json`: the path of a figure, its name, its unit, and half of the last digit that is written.
DOCUMENT = (
    ("latency.count", "count", "", 0.0),
    ("latency.throughput_hz", "rate", "/s", 5e-5),
    ("latency.deadline.ms", "deadline", "ms", 5e-7),
    ("latency.deadline.misses", "misses", "", 0.0),
    ("latency.deadline.miss_rate", "missed", "share", 5e-10),
    ("power.mean_w", "power", "W", 5e-4),
    ("power.max_w", "power max", "W", 5e-4),
    ("energy.gross_mj", "energy", "mJ", 5e-7),
    ("memory.rss_peak_mib", "rss_peak", "MiB", 5e-4),
    ("memory.rss_end_mib", "rss_end", "MiB", 5e-4),
    ("memory.growth_mib_per_h", "growth", "MiB", 5e-4),
    ("usage.cpu_mean_pct", "cpu", "%", 5e-4),
)
OF_SPANS = tuple(
    (f"{span}.{key}", f"{span} {name}", unit, half)
    for span in ("burst", "sustained")
    for key, name, unit, half in (
        ("p50_ms", "p50", "ms", 5e-7), ("p99_ms", "p99", "ms", 5e-7), ("throughput_hz", "rate", "/s", 5e-5),
    )
)  # fmt: skip
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
            found |= taken(one, (*OF_SPANS, *OF_STREAM), f"[{one['name']}]")
    return found | _of_board(document)


def _of_board(document: Mapping[str, Any]) -> Figures:
    """Return the figures of `report --json` that are not of a stream: of slowdowns, heat, throttles, and A/B turns."""
    found = _of_throttles(document)
    for one in document["slowdowns"] or ():
        if one["latency_ratio"] is not None:
            begin = clock_time(one["start_s"] * NS)
            found[f"slower at {begin}", SESSION] = stated(one["latency_ratio"] - 1, "share", 5e-5)
    for name, ratio in ((document.get("ab") or {}).get("ratios") or {}).items():
        if ratio:
            found[f"A/B {name}", SESSION] = stated(ratio["value"] - 1, "share", 5e-7)
    for key, name in (("steady_c", "steady"), ("trip_c", "trip")):
        if document["forecast"]["throttles"] is not None and document["forecast"][key] is not None:
            found[name, NOW] = stated(document["forecast"][key], "C", 5e-3)
    if deadline := document["latency"]["deadline"]:
        found["headroom", SESSION] = stated(abs(deadline["headroom_ms"]), "ms")
    heat = [zone["max"] for zone in document["temperature"].values() if zone["max"] is not None]
    if heat:
        found["hottest", SESSION] = stated(max(heat), "C", 5e-4)
    return found


def _of_throttles(document: Mapping[str, Any]) -> Figures:
    found: Figures = {}
    if document["throttles"]:
        found["throttled", SESSION] = stated(document["throttled_share"], "share", 5e-4)
        if ratios := [one["latency_ratio"] for one in document["throttles"] if one["latency_ratio"] is not None]:
            found["throttled by", SESSION] = stated(max(ratios) - 1, "share", 5e-5)
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
    for begin, size in re.findall(r"^slowdown +(\S+) to (?:the end|\S+)  \+?(-?\d+) %", text, re.MULTILINE):
        found[f"slower at {begin}", SESSION] = written(size, "%")
    streams = re.findall(r"^stream +(\S+) +p50 (\S+) +p99 (\S+) ms +n (\d+(?: [kM])?)", text, re.MULTILINE)
    for name, p50, p99, count in streams:
        for figure, cell, unit in (("p50", p50, "ms"), ("p99", p99, "ms"), ("count", count, "")):
            found[f"{figure}[{name}]", SESSION] = written(cell, unit)
    return found | found_in(text, {
        ("count", SESSION): (r"^ {11}# inferences,", ""),
        ("rate", SESSION): (r"inferences, #/s", "/s"),
        ("deadline", SESSION): (r"^deadline +# ms:", "ms"),
        ("missed", SESSION): (r"^deadline .*: # % missed", "%"),
        ("misses", SESSION): (r"% missed \(#\)", ""),
        ("throttled", SESSION): (r"^throttles .*?, # % of the time", "%"),
        ("burst p50", SESSION): (r"^burst +p50 #", "ms"),
        ("burst p99", SESSION): (r"^burst .*p99 # ms", "ms"),
        ("burst rate", SESSION): (r"^burst .* ms  #/s", "/s"),
        ("sustained rate", SESSION): (r"^sustained .* ms  #/s", "/s"),
        ("throttled by", SESSION): (r"p50\s+up\s+to\s+\+#\s+%", "%"),
        ("sustained p50", SESSION): (r"^sustained +p50 #", "ms"),
        ("sustained p99", SESSION): (r"^sustained .*p99 # ms", "ms"),
        ("hottest", SESSION): (r"^heat .* to # °C", "C"),
        ("power", SESSION): (r"^power +\S+ # W on average, [^;]*$", "W"),
        ("power max", SESSION): (r"^power +\S+ \S+ W on average, # at most[^;]*$", "W"),
        ("energy", SESSION): (r"^energy +# ± \S+ mJ an inference", "mJ"),
        ("rss_end", SESSION): (r"^memory +engine RSS # MiB at the end", "MiB"),
        ("rss_peak", SESSION): (r"^memory .* # MiB at most", "MiB"),
        ("growth", SESSION): (r"(?:LEAKING|grows by) # MiB/h", "MiB"),
        ("cpu", SESSION): (r"^cpu +engine # % of a core on average", "%"),
    }) | found_in(text, FORECAST | RATIOS | HEADROOM)  # fmt: skip


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
            found |= _now(one)
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


def _now(one: Sample) -> Figures:
    """Return the present value that a sample of a sensor has, if other outputs show it too."""
    if one.name == "edgetop_power_watts" and one.labels["role"] == "total":
        return {("power", NOW): stated(one.value, "W", 5e-7)}
    if one.name == "edgetop_memory_bytes" and one.labels["kind"] == "rss":
        return {("rss", NOW): stated(one.value, "bytes", 5e-4)}
    return {}


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
        "report --md": of_markdown("\n".join(report_markdown(report(analysis)))),
        "brief report": of_report(brief_summary(report(analysis))),
        "report --html": of_page(folder, analysis),
        "verdict": of_verdict(f"{words['words']}\n{words['brief']}"),
        "fleet": of_summary(analysis, folder, streams),
        "junit": of_gates(analysis, streams),
        "alerts": of_alerts(folder),
        "metrics": of_metrics(rendered(families(analysis), openmetrics=True).decode(), streams),
        "textfile": of_textfile(folder, analysis, streams),
        "otlp": of_otlp(families(analysis), streams),
    }
    one = sample(analysis)
    comparison = compare((Group("a", (one,)), Group("b", (one,))))
    found["compare --json"] = of_comparison(json.loads(comparison_json(comparison, ())))
    found |= of_comparisons(comparison)
    sessions = listed(folder.parent, folder.parent)
    (row,) = [one for one in sessions if one.path == str(folder.absolute())]
    of_list = {} if row.p50_ms is None else {("p50", SESSION): stated(row.p50_ms, "ms")}
    found["sessions --json"] = of_list | ({} if row.p99_ms is None else {("p99", SESSION): stated(row.p99_ms, "ms")})
    found["sessions"] = of_verdict(clean("\n".join(table([row], None))))
    found |= of_details(analysis.view(None, kinds=("temp", "power")).freeze())
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
