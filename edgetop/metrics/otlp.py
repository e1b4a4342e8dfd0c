"""Sends metrics over OTLP/HTTP by OpenTelemetry's SDK (`--otlp`).

Import this module only if needed: the SDK takes 16 MiB. The SDK's own instruments would have to be called for each
inference. Instead, this module fills the SDK's data objects from the metrics of `metric_families`. The SDK's
environment variables (OTEL_EXPORTER_OTLP_HEADERS ...) apply.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgetop import __version__
from edgetop.errors import InputError
from edgetop.installation import extra_command
from edgetop.metrics.metric_families import BETWEEN, PREFIX, STARTED, TO_FIRST, Distribution, Family, Sample
from edgetop.session import histogram

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import export as sdk
    from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricExportResult
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError:
    raise InputError("--otlp needs OpenTelemetry's SDK", extra_command("otel")) from None

EVERY_S = 10.0
TIMEOUT_S = 10.0
METRICS_PATH = "/v1/metrics"  # default path of OTLP/HTTP
FINEST_SCALE = 5  # buckets are 2.2 % wide; those of the session are up to 0.8 % wide
MOST_BUCKETS = 160  # the limit of the SDK

# UCUM (https://opentelemetry.io/docs/specs/semconv/general/metrics/)
_UNITS = {
    "seconds": "s", "celsius": "Cel", "watts": "W", "joules": "J", "hertz": "Hz", "bytes": "By", "ratio": "1",
    "volts": "V", "amperes": "A", "rpm": "{rotation}/min",
}  # fmt: skip


class Collector:
    """Sends metrics over HTTP to an OpenTelemetry collector (a server that receives metrics)."""

    def __init__(self, url: str) -> None:
        logger = logging.getLogger("opentelemetry")  # it would write onto the screen
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        self._url = url if url.rstrip("/").endswith(METRICS_PATH) else url.rstrip("/") + METRICS_PATH
        self._exporter = OTLPMetricExporter(endpoint=self._url, timeout=TIMEOUT_S)
        self._resource = Resource(
            {"service.name": "edgetop", "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
        )

    def send(self, found: Sequence[Family]) -> str:
        """Send the metrics. Return the error as text, or "" if the collector has accepted them."""
        data = metrics_data(found, self._resource, time.time_ns())
        if self._exporter.export(data) is MetricExportResult.SUCCESS:
            return ""
        return f"{self._url}: not reachable, or metrics not accepted"

    def close(self) -> None:
        self._exporter.shutdown(timeout_millis=0)


# Names and attributes of the semantic conventions for generative AI, where they have the metric
# (https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/).
GENERATIVE = {
    PREFIX + TO_FIRST: "gen_ai.server.time_to_first_token",
    PREFIX + BETWEEN: "gen_ai.server.time_per_output_token",
}
OPERATION = {"gen_ai.operation.name": "text_completion", "gen_ai.provider.name": "edgetop"}


def metrics_data(found: Sequence[Family], resource: Resource, now_ns: int) -> sdk.MetricsData:
    """Return the metrics as a data object of OpenTelemetry's SDK.

    Sums are cumulative from the beginning of the session. `resource` has the attributes of this run, such as the
    program's version. `now_ns` is the present Unix time.
    """
    started = next((family for family in found if family.name == PREFIX + STARTED), None)
    begin_ns = int(float(started.samples[0].value) * 1e9) if started else now_ns  # type: ignore[arg-type]
    metrics = []
    for family in found:
        name, samples = f"{family.name}_info" if family.kind == "info" else family.name, family.samples
        if name in GENERATIVE:
            name, labels = GENERATIVE[name], tuple(OPERATION.items())
            samples = tuple(replace(one, labels=labels) for one in family.samples)
        data = _data(replace(family, samples=samples), begin_ns, now_ns)
        metrics.append(sdk.Metric(name, family.about, _UNITS.get(family.unit, ""), data))
    scope = sdk.ScopeMetrics(InstrumentationScope("edgetop", __version__), metrics, "")
    return sdk.MetricsData([sdk.ResourceMetrics(resource, [scope], "")])


def _data(family: Family, begin_ns: int, now_ns: int) -> Any:
    if family.kind == "histogram":
        points = [_distribution(sample, begin_ns, now_ns) for sample in family.samples]
        return sdk.ExponentialHistogram(points, AggregationTemporality.CUMULATIVE)
    numbers = [sdk.NumberDataPoint(dict(sample.labels), begin_ns, now_ns, sample.value) for sample in family.samples]
    if family.kind == "counter":
        return sdk.Sum(numbers, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return sdk.Gauge(numbers)


def _distribution(sample: Sample, begin_ns: int, now_ns: int) -> sdk.ExponentialHistogramDataPoint:
    of = sample.value
    assert isinstance(of, Distribution)
    scale, offset, counts = exponential(of.counts)
    return sdk.ExponentialHistogramDataPoint(
        attributes=dict(sample.labels),
        start_time_unix_nano=begin_ns,
        time_unix_nano=now_ns,
        count=of.count,
        sum=of.sum_s,
        scale=scale,
        zero_count=0,
        positive=sdk.Buckets(offset, counts),
        negative=sdk.Buckets(0, []),
        flags=0,
        min=of.min_s,
        max=of.max_s,
    )


def exponential(counts: histogram.Counts) -> tuple[int, int, list[int]]:
    """Return scale, offset and counts of an OTLP exponential histogram, from the counts of a session's histogram.

    Bucket i has the values above 2^((offset + i) / 2^scale) s, up to 2^((offset + i + 1) / 2^scale) s. A value on the
    wrong side of a bound is at most 0.4 % away from the bound.
    """
    bucket = np.flatnonzero(counts)
    # Each bucket goes as a whole into the bucket that contains its middle.
    middle_s = histogram.lower_edge_ns(bucket + np.array([[0], [1]])).mean(axis=0) / 1e9
    for scale in range(FINEST_SCALE, -11, -1):
        index = np.ceil(np.log2(middle_s) * 2.0**scale).astype(np.int64) - 1
        if not len(index) or index[-1] - index[0] < MOST_BUCKETS:
            break
    if not len(index):
        return scale, 0, []
    held = np.bincount(index - index[0], weights=counts[bucket]).astype(np.int64)
    return scale, int(index[0]), held.tolist()
