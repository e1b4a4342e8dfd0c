"""OTLP by the official SDK, as the protocol's own decoder reads it."""

import http.server
import importlib
import sys
import threading
from datetime import datetime, timezone

import numpy as np
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from edgetop.errors import InputError
from edgetop.metrics.metric_families import families
from edgetop.metrics.otlp import Collector, exponential
from edgetop.session import histogram
from tests.support.scripts import measured_with_power
from tests.support.sessions import folded


@pytest.fixture
def collector():
    """A server that answers with the statuses it was given, and keeps what came with 200; and its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = self.server.statuses.pop(0) if self.server.statuses else 200
            if status == 200:
                self.server.came.append((self.path, ExportMetricsServiceRequest.FromString(body)))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.came, server.statuses, server.daemon_threads = [], [], True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_collector_gets_the_session(collector) -> None:
    analysis = folded(measured_with_power(20).batches)
    sender = Collector(f"http://127.0.0.1:{collector.server_port}")
    collector.statuses = [503]
    assert sender.send(families(analysis)) == "", "it is tried again"
    [(path, request)] = collector.came
    assert path == "/v1/metrics"
    [resource] = request.resource_metrics
    assert resource.resource.attributes[0].value.string_value == "edgetop"
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    latency, statistics = metrics["edgetop_inference_duration_seconds"], analysis.statistics()
    [point] = latency.exponential_histogram.data_points
    assert (latency.unit, point.count, sum(point.positive.bucket_counts)) == ("s", statistics.count, statistics.count)
    assert point.max == statistics.max_ns / 1e9
    assert p99_s(point) == pytest.approx(statistics.percentile_ns(0.99) / 1e9, rel=0.03)
    began = datetime.fromtimestamp(point.start_time_unix_nano / 1e9, timezone.utc)
    assert began.isoformat() == "2026-11-21T10:15:02.123456+00:00", "when the session began"
    energy = metrics["edgetop_energy_joules"]
    assert (energy.unit, energy.sum.is_monotonic, energy.sum.aggregation_temporality) == ("J", True, 2)
    assert metrics["edgetop_session_info"].gauge.data_points[0].as_double == 1.0
    sender.close()


def p99_s(point):
    counts = np.cumsum(point.positive.bucket_counts)
    index = point.positive.offset + int(np.searchsorted(counts, 0.99 * point.count))
    return 2.0 ** ((index + 0.5) / 2**point.scale)


def test_a_collector_that_is_not_there_is_told(collector) -> None:
    sender = Collector(f"http://127.0.0.1:{collector.server_port}/v1/metrics")
    collector.statuses = [400]
    assert "not accepted" in sender.send([])
    sender.close()


@pytest.mark.parametrize("spread", [1.0, 40.0, 1e7])
def test_buckets_hold_what_they_say(spread) -> None:
    """However far apart the fastest and the slowest are, there are at most 160, each count within 1 % of its bucket."""
    latency_ns = np.geomspace(20_000, 20_000 * spread, 1_000).astype(np.int64)
    scale, offset, counts = exponential(histogram.count_buckets(latency_ns))
    assert len(counts) <= 160
    assert sum(counts) == 1_000
    upper_s = 2.0 ** ((offset + 1 + np.arange(len(counts))) / 2.0**scale)
    upto = np.cumsum(counts)
    assert np.all(upto <= [(latency_ns / 1e9 <= edge * 1.01).sum() for edge in upper_s])
    assert np.all(upto >= [(latency_ns / 1e9 <= edge / 1.01).sum() for edge in upper_s])


def test_nothing_measured() -> None:
    assert exponential(np.zeros(histogram.SIZE, np.int64))[1:] == (0, [])


def test_without_the_sdk_a_line_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    monkeypatch.delitem(sys.modules, "edgetop.metrics.otlp")
    with pytest.raises(InputError, match=r"pip install .*opentelemetry-sdk"):
        importlib.import_module("edgetop.metrics.otlp")


def test_tokens_have_the_names_of_the_conventions_for_generative_ai() -> None:
    from edgetop.metrics.otlp import metrics_data
    from tests.analysis.test_equal_position import Model, session

    analysis = folded([session(Model(most=40, noise=0.02), 30)])
    view = analysis.generation.view()
    found = metrics_data(families(analysis), None, 10**18).resource_metrics[0].scope_metrics[0].metrics
    metrics = {metric.name: metric.data.data_points for metric in found}
    [point] = metrics["gen_ai.server.time_per_output_token"]
    assert (point.count, point.attributes["gen_ai.operation.name"]) == (view.itl.count, "text_completion")
    [point] = metrics["gen_ai.server.time_to_first_token"]
    assert point.count == view.ttft.count
    numbers = {one.attributes["type"]: one.value for one in metrics["edgetop_tokens"]}
    assert numbers == {"input": view.tokens_in, "output": view.tokens_out}
