"""The text formats of Prometheus, of the same families.

Version 0.0.4, which node_exporter's textfile collector reads
(https://prometheus.io/docs/instrumenting/exposition_formats/), and OpenMetrics 1.0
(https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md). They differ in how families of
counters and infos are named, in units, and in the last line.
"""

from collections.abc import Iterable, Iterator

from edgetop.metrics.families import Distribution, Family, Labels, Sample

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

_SUFFIX = {"counter": "_total", "info": "_info", "gauge": "", "histogram": ""}
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def rendered(families: Iterable[Family], *, openmetrics: bool, labels: Labels = ()) -> bytes:
    """`labels`: in front of those of each sample."""
    lines = [line for family in families for line in _lines(family, labels, openmetrics=openmetrics)]
    return "".join(f"{line}\n" for line in (*lines, *(["# EOF"] if openmetrics else []))).encode()


def _lines(family: Family, labels: Labels, *, openmetrics: bool) -> Iterator[str]:
    name = family.name if openmetrics else family.name + _SUFFIX[family.kind]
    yield f"# HELP {name} {family.about}"
    yield f"# TYPE {name} {'gauge' if family.kind == 'info' and not openmetrics else family.kind}"
    if family.unit and openmetrics:
        yield f"# UNIT {name} {family.unit}"
    for sample in family.samples:
        for suffix, more, value in _values(family, sample):
            yield f"{family.name}{suffix}{_labelled((*labels, *sample.labels, *more))} {value!r}"


def _values(family: Family, sample: Sample) -> Iterator[tuple[str, Labels, float]]:
    if not isinstance(sample.value, Distribution):
        yield _SUFFIX[family.kind], (), float(sample.value)
        return
    for bound_s, upto in sample.value.cumulative():
        yield "_bucket", (("le", repr(bound_s)),), upto
    yield "_bucket", (("le", "+Inf"),), sample.value.count
    yield "_sum", (), sample.value.sum_s
    yield "_count", (), sample.value.count


def _labelled(labels: Labels) -> str:
    """
    >>> _labelled((("sensor", 'a"b'), ("n", "1")))
    '{sensor="a\\\\"b",n="1"}'
    """
    named = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels)
    return f"{{{named}}}" if named else ""
