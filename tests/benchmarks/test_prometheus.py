"""A real Prometheus scrapes two runs (`apt install prometheus`), and systemd reads the unit that a service is."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from contextlib import ExitStack

import pytest

from edgetop.metrics.grafana_dashboard import alert_rules
from tests.support.commands import edgetop, start_edgetop
from tests.support.prometheus_queries import queries

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

RUN_S = 40
CONFIG = """
global: {{scrape_interval: 2s, scrape_timeout: 2s}}
rule_files: [edgetop.yml]
scrape_configs:
  - job_name: edgetop
    authorization: {{credentials: s3cret}}
    static_configs: [{{targets: ["127.0.0.1:{}", "127.0.0.1:{}"]}}]
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """A function that asks Prometheus, at the end of two demos, each of another scenario; and their reports."""
    home, ports = tmp_path_factory.mktemp("scraped"), (free_port(), free_port(), free_port())
    (home / "token").write_text("s3cret")
    (home / "edgetop.yml").write_text(alert_rules())
    (home / "prometheus.yml").write_text(CONFIG.format(*ports))
    assert shutil.which("prometheus"), "apt install prometheus"
    with ExitStack() as stack:
        runs = []
        for number, scenario in enumerate(("thermal", "under-voltage")):
            options = ("--scenario", scenario, "--speed", "60x", "--duration", f"{RUN_S}s", "--deadline", "2ms")
            serves = ("--metrics", f"127.0.0.1:{ports[number]}", "--metrics-token-file", "token")
            limited = ("--rate", "30", "--threads", "1", "-o", f"run{number}")
            runs.append(start_edgetop("demo", "--headless", *options, *serves, *limited, home=home))
            stack.callback(runs[-1].kill)
        listens = f"--web.listen-address=127.0.0.1:{ports[2]}"
        server = subprocess.Popen(
            ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", listens],
            cwd=home, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(server.wait)
        stack.callback(server.terminate)

        def asked(query):
            url = f"http://127.0.0.1:{ports[2]}/api/v1/query?" + urllib.parse.urlencode({"query": query})
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]["result"]

        answers, until_s = {}, time.monotonic() + RUN_S + 15
        while any(run.poll() is None for run in runs) and time.monotonic() < until_s:
            time.sleep(2)
            for query in (*queries(), "max_over_time(up[5m])"):
                answers[query] = _asked(asked, query) or answers.get(query, [])
        for run in runs:
            run.communicate(timeout=60)
        reports = [json.loads(edgetop("report", f"run{n}", "--json", home=home).stdout) for n in range(2)]
        yield asked, answers, reports, ports


def _asked(asked, query):
    try:
        return asked(query.replace("$instance", ".*").replace("$__rate_interval", "1m"))
    except OSError:  # it has only just begun
        return []


def test_p99_of_promql_lies_in_the_bucket_of_the_report(scraped) -> None:
    asked, _, reports, ports = scraped
    for number, report in enumerate(reports):
        instance = f"127.0.0.1:{ports[number]}"
        last = f"last_over_time(edgetop_inference_duration_seconds_bucket{{instance='{instance}'}}[10m])"
        count = float(
            asked(f"last_over_time(edgetop_inference_duration_seconds_count{{instance='{instance}'}}[10m])")[0][
                "value"
            ][1]
        )
        [quantile] = asked(f"histogram_quantile(0.99, {last})")
        buckets = sorted((float(of["metric"]["le"]), float(of["value"][1])) for of in asked(last))
        place = next(i for i, (_, upto) in enumerate(buckets) if upto >= 0.99 * count)
        low, high = buckets[place - 1][0], buckets[place][0]
        p99_s = report["latency"]["p99_ms"] / 1e3
        print(f"{count:.0f} of {report['latency']['count']} inferences scraped; p99 by PromQL {quantile['value'][1]}, "
              f"by report {p99_s}, bucket {low} to {high}")  # fmt: skip
        assert low <= float(quantile["value"][1]) <= high
        assert count >= 0.8 * report["latency"]["count"]
        assert low * 0.9 <= p99_s <= high * 1.1, "what came after the last scrape may move it by a little"


def test_every_query_of_dashboard_and_alerts_is_answered(scraped) -> None:
    """With data, but for what did not happen."""
    _, answers, _, _ = scraped
    empty = {query for query in queries() if not answers[query]}
    print(f"{len(queries())} queries, without an answer: {empty}")
    rare = (
        r"memory_leak|unless|session_failed|stalled|internal_error|NOT RECORDING|errors_total|edgetop_throttled\) > 0"
    )
    assert all(re.search(rare, query) for query in empty)
    assert [of["value"][1] for of in answers["max_over_time(up[5m])"]] == ["1", "1"]


def test_systemd_takes_the_unit(tmp_path) -> None:
    (tmp_path / "edgetop.service").write_text(
        edgetop("service", "demo", "--note", 'a "b" $x 5 %', home=tmp_path).stdout
    )
    verify = ("systemd-analyze", "verify", "--user", tmp_path / "edgetop.service")
    done = subprocess.run(
        verify, check=False, capture_output=True, text=True, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
