"""A Grafana dashboard and Prometheus alert rules for the metrics of `metric_families`, as texts to print.

The label `instance`, which Prometheus adds, distinguishes the series of boards. In series from a textfile, the label
`run` distinguishes runs.
"""

from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 24, 8  # width of a screen and height of a panel, in Grafana's units
_OF = "instance=~'$instance'"
_EACH = "instance, run"
_COUNT = "edgetop_inference_duration_seconds_count"


def _quantile(quantile: float, where: str = "") -> str:
    rate = f"rate(edgetop_inference_duration_seconds_bucket{{{where}}}[5m])"
    return f"histogram_quantile({quantile}, sum by ({_EACH}, le) ({rate}))"


def _per_inference(what: str, where: str = "", selector: str = "", by: str = _EACH) -> str:
    """Return a PromQL query for the increase of the counter `what` per inference.

    `where` is a label filter, such as `instance="a"`. `selector` is a further filter for the counter alone. `by` has
    the labels to group by, such as "instance, run".
    """
    counter = f"{what}{{{', '.join(filter(None, (where, selector)))}}}"
    return f"sum by ({by}) (rate({counter}[5m])) / sum by ({by}) (rate({_COUNT}{{{where}}}[5m]))"


_ABOUT = "model, runtime, board"
FLEET = (
    ("what runs", "none", f"max by ({_EACH}, {_ABOUT}) (edgetop_session_info)"),
    ("p50", "s", _quantile(0.5)),
    ("p99", "s", _quantile(0.99)),
    ("inferences/s", "none", f"sum by ({_EACH}) (rate({_COUNT}[5m]))"),
    ("misses", "percentunit", _per_inference("edgetop_deadline_misses_total")),
    ("hottest", "celsius", f"max by ({_EACH}) (edgetop_temperature_celsius)"),
    ("throttled", "none", f"max by ({_EACH}) (edgetop_throttled)"),
    ("power", "watt", f"max by ({_EACH}) (edgetop_power_watts{{role='total'}})"),
    ("memory left", "bytes", f"max by ({_EACH}) (edgetop_memory_bytes{{kind='system-available'}})"),
    ("age", "s", f"time() - max by ({_EACH}) (edgetop_timestamp_seconds)"),
)

# (row, title, unit, kind of panel, queries with their legends)
PANELS = (
    ("A board", "latency", "s", "timeseries", (
        *((_quantile(q, _OF), f"{{{{instance}}}} p{q * 100:g}") for q in (0.5, 0.9, 0.99)),
        (f"edgetop_deadline_seconds{{{_OF}}}", "{{instance}} deadline"),
    )),
    ("A board", "latency by bucket", "s", "heatmap", (
        (f"sum by (le) (increase(edgetop_inference_duration_seconds_bucket{{{_OF}}}[$__rate_interval]))", "{{le}}"),
    )),
    ("A board", "deadline misses", "percentunit", "timeseries", (
        (_per_inference("edgetop_deadline_misses_total", _OF), "{{instance}}"),
    )),
    ("A board", "errors a second", "none", "timeseries", (
        (f"rate(edgetop_inference_errors_total{{{_OF}}}[5m])", "{{instance}}"),
    )),
    ("A board", "memory", "bytes", "timeseries", (
        (f"edgetop_memory_bytes{{{_OF}, kind=~'rss|system-available|edgetop'}}", "{{instance}} {{kind}}"),
    )),
    ("A board", "load", "percentunit", "timeseries", (
        (f"edgetop_load_ratio{{{_OF}}}", "{{instance}} {{kind}}"),
    )),
    ("Throttling", "throttled by", "none", "state-timeline", (
        (f"edgetop_throttled{{{_OF}}}", "{{instance}} {{cause}}"),
    )),
    ("Throttling", "verdict", "none", "state-timeline", (
        (f"edgetop_verdict{{{_OF}}}", "{{instance}} {{verdict}}"),
    )),
    ("Throttling", "temperature", "celsius", "timeseries", (
        (f"edgetop_temperature_celsius{{{_OF}}}", "{{instance}} {{sensor}}"),
    )),
    ("Throttling", "clocks and their caps", "hertz", "timeseries", (
        (f"edgetop_clock_hertz{{{_OF}}}", "{{instance}} {{sensor}}"),
        (f"edgetop_clock_cap_hertz{{{_OF}}}", "{{instance}} {{sensor}} cap"),
    )),
    ("Energy", "power", "watt", "timeseries", (
        (f"edgetop_power_watts{{{_OF}}}", "{{instance}} {{rail}}"),
    )),
    ("Energy", "energy per inference", "joule", "timeseries", (
        (_per_inference("edgetop_energy_joules_total", _OF, "role='total'"), "{{instance}}"),
    )),
)  # fmt: skip

# Alert rules. They do not use the clock of a board: a session is live if its values change from scrape to scrape.
_BY = "job, instance, run"
_ON_BOARD = "on (job, instance)"
_ON = f"on ({_BY})"
_IS_LIVE = f"and {_ON} edgetop:session_live"
_NOT_RECORDING = "edgetop_verdict{verdict='NOT RECORDING'}"


def _any(metric: str, *by: str) -> str:
    return f"max by ({', '.join((_BY, *by))}) ({metric}) > 0"


def _of_board(metric: str) -> str:
    return f"max by ({_BY}) ({metric})"


def _last(metric: str, within: str) -> str:
    return _of_board(f"last_over_time({metric}[{within}])")


_RUNNING, _FAILED = "edgetop_session_running", "edgetop_session_failed"
_RUNNING_BEFORE, _FAILED_BEFORE = _last("edgetop:session_running", "1d"), _last("edgetop:session_failed", "1d")
_RUNNING_LAST = _last(_RUNNING, "10m")
_RUNNING_KEPT = f"({_RUNNING_LAST} * {_ON} {_RUNNING_BEFORE} or {_RUNNING_LAST} or {_RUNNING_BEFORE})"
_IS_DOWN, _IS_UP = f"and {_ON_BOARD} up == 0", f"and {_ON_BOARD} up == 1"

# Names and expressions, in the order of evaluation. While a board cannot be scraped, they keep the last known state. A
# session may end between two evaluations, so its last sample counts as well as the recorded value. A textfile is
# removed at the end, so no session runs on a board that answers without metrics.
RECORDED = (
    (
        "edgetop:session_running",
        f"{_of_board(_RUNNING)} or {_RUNNING_KEPT} {_IS_DOWN} or 0 * {_RUNNING_BEFORE} {_IS_UP}",
    ),
    (
        "edgetop:session_live",
        f"{_of_board(_RUNNING)} == 1 and {_ON} {_of_board('changes(edgetop_session_duration_seconds[5m])')} > 0",
    ),
    (
        "edgetop:session_failed",
        f"{_of_board(_FAILED)} or ({_last(_FAILED, '10m')} or {_FAILED_BEFORE}) {_IS_DOWN}",
    ),
)

# Each alert: name, condition, duration, severity and message.
ALERTS = (
    (
        "EdgetopBoardSilent", f"edgetop:session_running == 1 unless {_ON} edgetop:session_live", "2m", "critical",
        "the session on {{ $labels.instance }} is silent, but has not ended",
    ),
    (
        "EdgetopSessionFailed",
        f"{_of_board('max_over_time(edgetop_session_failed[15m])')} == 1 or edgetop:session_failed == 1", "0m",
        "critical", "the session on {{ $labels.instance }} failed: its engine, its program, a gate or its disk",
    ),
    (
        "EdgetopStalled", f"{_any('edgetop_stalled')} {_IS_LIVE}", "2m", "critical",
        "an inference on {{ $labels.instance }} does not return",
    ),
    (
        "EdgetopNoInference", f"edgetop:session_live unless {_ON} {_any(_COUNT)}", "15m", "warning",
        "the session on {{ $labels.instance }} runs, but has measured no inference",
    ),
    (
        "EdgetopInferenceErrors", f"sum by ({_BY}) (rate(edgetop_inference_errors_total[5m])) > 0", "10m", "critical",
        "inferences on {{ $labels.instance }} fail: {{ $value | humanize }} a second",
    ),
    (
        "EdgetopNotRecording", f"{_any(_NOT_RECORDING)} {_IS_LIVE}", "5m", "critical",
        "measurements on {{ $labels.instance }} are not being recorded",
    ),
    (
        "EdgetopInternalError", f"{_any('edgetop_internal_error', 'part')} {_IS_LIVE}", "1m", "warning",
        "an internal error of edgetop on {{ $labels.instance }} affects a part of its analysis: {{ $labels.part }}",
    ),
    (
        "EdgetopThrottled", f"{_any('edgetop_throttled', 'cause')} {_IS_LIVE}", "1m", "warning",
        "{{ $labels.instance }} is throttled: {{ $labels.cause }}",
    ),
    (
        "EdgetopDeadlineMisses", f"{_per_inference('edgetop_deadline_misses_total', by=_BY)} > 0.01", "5m", "warning",
        "{{ $labels.instance }} misses its deadline in {{ $value | humanizePercentage }} of inferences",
    ),
    (
        "EdgetopMemoryLeak", f"{_any('edgetop_memory_leak')} {_IS_LIVE}", "10m", "warning",
        "the engine's memory on {{ $labels.instance }} grows and does not level off",
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """Return a dashboard for Grafana 9 and later, as a JSON document that users can import or provision as a file."""
    panels: list[dict[str, Any]] = [_row("Fleet", 0), _fleet_table(1)]
    y, row = 1 + HEIGHT, ""
    for place, (of, title, unit, kind, queries) in enumerate(PANELS):
        if of != row:
            y, row, first = y + HEIGHT, of, place
            panels.append(_row(of, y))
            y += 1
        elif (place - first) % 2 == 0:
            y += HEIGHT
        query_format = "heatmap" if kind == "heatmap" else "time_series"
        grid = {"x": (place - first) % 2 * WIDTH // 2, "y": y, "w": WIDTH // 2, "h": HEIGHT}
        panels.append({
            "type": kind,
            "title": title,
            "datasource": SOURCE,
            "gridPos": grid,
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": [
                {"refId": chr(65 + i), "expr": query, "legendFormat": legend, "format": query_format}
                for i, (query, legend) in enumerate(queries)
            ],
        })  # fmt: skip
    return {
        "title": "edgetop",
        "uid": "edgetop",
        "schemaVersion": 37,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus"},
            {
                "name": "instance", "type": "query", "datasource": SOURCE, "multi": True, "includeAll": True,
                "allValue": ".*", "refresh": 2, "query": "label_values(edgetop_session_info, instance)",
                "current": {"text": "All", "value": "$__all"},
            },
        ]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, 1)],
    }  # fmt: skip


def _row(title: str, y: int) -> dict[str, Any]:
    return {"type": "row", "title": title, "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1}, "panels": []}


def _fleet_table(y: int) -> dict[str, Any]:
    """Return a table panel with a row per board and a column per query, `y` grid rows below the top."""
    targets, renamed, overrides = [], {}, []
    for place, (title, unit, query) in enumerate(FLEET):
        ref = chr(65 + place)
        targets.append({"refId": ref, "expr": query, "format": "table", "instant": True})
        renamed[f"Value #{ref}"] = title
        matcher = {"id": "byName", "options": title}
        overrides.append({"matcher": matcher, "properties": [{"id": "unit", "value": unit}]})
    hidden = {"Time": True, "Value #A": True}
    return {
        "type": "table",
        "title": "boards",
        "datasource": SOURCE,
        "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 2 * HEIGHT - 1},
        "fieldConfig": {"defaults": {}, "overrides": overrides},
        "targets": targets,
        "transformations": [
            # Rows are matched by the labels that the queries share.
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": renamed}},
        ],
    }


def alert_rules() -> str:
    """Return a file of alert rules for Prometheus, as YAML text."""
    lines = ["groups:", "  - name: edgetop", "    rules:"]
    for name, expression in RECORDED:
        lines += [f"      - record: {name}", f'        expr: "{expression}"']
    for name, condition, lasting, severity, summary in ALERTS:
        lines += [
            f"      - alert: {name}",
            f'        expr: "{condition}"',
            f"        for: {lasting}",
            f"        labels: {{severity: {severity}}}",
            f'        annotations: {{summary: "{summary}"}}',
        ]
    return "\n".join(lines) + "\n"
