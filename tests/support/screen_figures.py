"""The figures that the screen and the lines of a run without a screen show, read from their text."""

import re
from collections.abc import Iterator

from edgetop.analysis.analysis import MonitorView
from edgetop.cli.running.headless import plain_line, progress_line
from edgetop.formatting import UNKNOWN
from edgetop.ui.panes.ab_pane import ab_line
from edgetop.ui.panes.header import tiny_lines, verdict_line, vitals_line
from edgetop.ui.panes.latency_pane import LATENCY
from edgetop.ui.panes.memory_pane import MEMORY
from edgetop.ui.panes.pane import Drawing
from edgetop.ui.panes.power_pane import POWER
from edgetop.ui.panes.thermal_pane import THERMAL
from tests.support.read_figures import (
    FORECAST,
    HEADROOM,
    NOW,
    RATIOS,
    SESSION,
    WINDOW,
    Figures,
    found_in,
    of_verdict,
    written,
)
from tests.support.screens import area, plain

COLUMNS = {"/s": "rate", "n": "count"}


def rows_of(view: MonitorView) -> list[str]:
    return [plain(row) for row in LATENCY.body(view, area(140, 18))]


def of_screen(view: MonitorView) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of the header, the panes and the lines of a run without a screen."""
    stream = f"[{view.latency.stream}]" if view.latency.stream else ""
    window = SESSION if view.latency.window_ns is None else WINDOW
    header = plain(verdict_line(view, area(400, 1), None))
    felt = "response " if "response p50" in header else ""
    unit = "s" if re.search(r" p99 +[\d.]+\??  ?s ", header) else "ms"  # latencies of ten seconds and more
    latency = {
        (f"{felt}p50{stream}", window): (r"(?<!usual )p50 +#\??", unit),
        (f"{felt}p99{stream}", window): (r"  p99 +#\??", unit),
        (f"rate{stream}", window): (r" #/s", "/s"),
    }
    yield "header", found_in(header, latency) | of_verdict(header)
    of_vitals = "response " if view.deadline and view.latency.window_response else ""
    vitals = plain(vitals_line(view, area(400, 1)))
    yield "vitals", found_in(vitals, {
        ("missed", SESSION): (r"missed +# %", "%"), ("deadline", SESSION): (r"p99 +\S+ +of # ms", "ms"),
        (f"{of_vitals}p99{stream}", window): (r"p99 +#\??(?: +of \S+)? ms", "ms"),
        (f"burst p99{stream}", SESSION): (r"p99 +\S+ ms, was #", "ms"),
        ("growth", SESSION): (r"leak +\+# MiB/h", "MiB"),
        ("hottest", NOW): (r"heat +#", "C"), ("power", NOW): (r"power +# W", "W"),
    })  # fmt: skip
    for name, line in (("line", progress_line(view)), ("plain line", plain_line(view))):
        yield name, of_verdict(line) | found_in(line, {
            (f"p50{stream}", window): (r"(?:FINISHED.*? p50|Median latency) #\??", "ms"),
            (f"p99{stream}", window): (r"(?:\?? p99|99th percentile) #\??", "ms"),
            (f"rate{stream}", window): (r"#(?:/s| inferences a second)", "/s"),
            ("hottest", NOW): (r"Hottest zone # degrees Celsius", "C"),
            ("power", NOW): (r"Board power # watts", "W"),
            ("rss", NOW): (r"Engine memory # mebibytes", "MiB"),
            ("count", SESSION): (r" n # in all", ""),
        })  # fmt: skip
    rows = [row.split() for row in rows_of(view)]
    if view.ab is None:
        names = rows[0]
        for row in rows[1:]:
            of = {"10s": WINDOW, "session": SESSION}.get(row[0] if row else "")
            if of:
                shown = dict(zip(names, re.findall(r"\S+(?: [kMG]\b)?", " ".join(row[1:])), strict=True))
                units = {**dict.fromkeys(("p50", "p90", "p95", "p99", "max", "mean"), "ms"), "/s": "/s", "n": ""}
                figures = {
                    (f"{COLUMNS.get(name, name)}{stream}", of): written(shown[name].rstrip("?"), unit)
                    for name, unit in units.items()
                    if shown[name].rstrip("?") != UNKNOWN
                }
                yield f"latency pane, {of}", figures
    if view.ab is not None:
        yield "A/B pane", found_in("\n".join(rows_of(view)), RATIOS)
        yield "A/B line", found_in(plain(ab_line(view.ab, 200)), {("A/B p50", SESSION): (r"at p50: \+?# % \(", "%")})
    else:
        yield from _of_latency(view, stream, window)
    yield from _of_panes(view)


def _of_latency(view: MonitorView, stream: str, window: str) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of the latency pane outside its table: the pane as one line, its streams, its two spans."""
    yield "latency line", found_in(plain(LATENCY.line(view, area(140, 1))), {
        (f"{name}{stream}", window): (rf"{name} #", "ms") for name in ("p50", "p90", "p95", "p99", "max")
    })  # fmt: skip
    yield "latency pane, deadline", found_in("\n".join(rows_of(view)), {
        ("deadline", SESSION): (r"^deadline +# ms:", "ms"), ("missed", SESSION): (r"^deadline .*: # % missed", "%"),
        ("misses", SESSION): (r"% missed \(#\)", ""), **HEADROOM,
    })  # fmt: skip
    tiny = "\n".join(map(plain, tiny_lines(view)))
    yield "tiny screen", found_in(tiny, {
        (f"p50{stream}", SESSION): (r"p50 #", "ms"), (f"p99{stream}", SESSION): (r"p99 #", "ms"),
        (f"rate{stream}", SESSION): (r"rate #", "/s"),
    })  # fmt: skip
    rows = "\n".join(rows_of(view))
    for one in view.latency.streams:
        yield "latency pane, streams", found_in(rows, {
            (f"{figure}[{one.name}]", SESSION if figure == "count" else window): (
                rf"^{re.escape(one.name)}  .*?{before} *#", unit
            )
            for figure, before, unit in (("p50", "p50", "ms"), ("p99", "p99", "ms"), ("rate", r"p99 +\S+", "/s"),
                                         ("count", "/s  n", ""))
        })  # fmt: skip
    spans = "\n".join(plain(row) for row in LATENCY.body(view, area(140, 12)))
    yield "latency pane, spans", found_in(spans, {
        (f"burst p50{stream}", SESSION): (r"burst p50 #", "ms"),
        (f"burst p99{stream}", SESSION): (r"burst p50 \S+ +p99 #", "ms"),
        (f"sustained p50{stream}", SESSION): (r"sustained p50 #", "ms"),
        (f"sustained p99{stream}", SESSION): (r"sustained p50 \S+ +p99 #", "ms"),
    })  # fmt: skip


def _of_panes(view: MonitorView) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of the panes of heat, power and memory: their titles, their one line, their rows."""
    yield "heat pane", found_in(_text(THERMAL, view), {
        **FORECAST, ("hottest", NOW): (r"^zone .*\n\S+ +#", "C"),
        ("hottest", SESSION): (r"^zone .*\n\S+ +\S+ +#", "C"),
    })  # fmt: skip
    yield "heat title", found_in(THERMAL.title(view, area(200, 10)), {("hottest", NOW): (r"^(?:last )?# C", "C")})
    yield "heat line", found_in(plain(THERMAL.line(view, area(200, 1))), {("hottest", NOW): (r"(?:last )?# C ", "C")})
    title, line = POWER.title(view, area(200, 10)), plain(POWER.line(view, area(200, 1)))
    if "a part" not in title:
        yield "power title", found_in(title, {
            ("power", NOW): (r"^(?:last )?# W", "W"), ("energy", SESSION): (r"W, # mJ/inf", "mJ"),
        })  # fmt: skip
        yield "power line", found_in(line, {
            ("power", NOW): (r"power +(?:last )?\S+ # W", "W"), ("power", SESSION): (r"\), mean #", "W"),
            ("energy", SESSION): (r", # mJ/inf", "mJ"),
        })  # fmt: skip
        yield "power pane", found_in(_text(POWER, view), {
            ("power", NOW): (r"^rail.*\n\S+ +#", "W"), ("power", SESSION): (r"^rail.*\n\S+ +\S+ +#", "W"),
            ("power max", SESSION): (r"^rail.*\n\S+ +\S+ +\S+ +#", "W"), ("energy", SESSION): (r"^energy +# \+-", "mJ"),
        })  # fmt: skip
    yield "memory title", found_in(MEMORY.title(view, area(200, 10)), {("rss", NOW): (r"engine #,", "MiB")})
    yield "memory line", found_in(plain(MEMORY.line(view, area(200, 1))), {
        ("rss", NOW): (r"engine # MiB", "MiB"), ("rss_peak", SESSION): (r"peak #(?!\S| G)", "MiB"),
    })  # fmt: skip
    yield "memory pane", found_in(_text(MEMORY, view), {
        ("rss", NOW): (r"engine RSS +#(?! G)", "MiB"), ("rss_peak", SESSION): (r"^peak +#(?! G)", "MiB"),
        ("growth", SESSION): (r"^growth +#  MiB/h", "MiB"),
    })  # fmt: skip


def of_details(view: MonitorView) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of the panes of heat and power when each is alone on the screen."""
    yield "heat pane, alone", found_in(_text(THERMAL, view), {
        ("hottest", NOW): (r"^\S+ +# C  max", "C"), ("hottest", SESSION): (r"^\S+ +\S+ C  max #", "C"),
    })  # fmt: skip
    if view.power.total:
        yield "power pane, alone", found_in(_text(POWER, view), {
            ("power", NOW): (r"^\S+ +# W  mean", "W"), ("power", SESSION): (r"^\S+ +\S+ W  mean #", "W"),
            ("power max", SESSION): (r"^\S+ +\S+ W  mean \S+, max #", "W"),
        })  # fmt: skip


def _text(pane: Drawing, view: MonitorView) -> str:
    """Return the text of a pane that has room for its figures below its chart."""
    return "\n".join(plain(row) for row in pane.body(view, area(79, 40)))
