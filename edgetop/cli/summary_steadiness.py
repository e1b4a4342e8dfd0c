"""Burst, sustained speed and slowdowns as text, for the head of a report."""

from collections.abc import Iterator
from typing import Any

from edgetop import formatting
from edgetop.analysis.throttle_words import throttles_words
from edgetop.formatting import UNKNOWN, clean

SHOWN = 10  # slowdowns; the document has all
NS = 1e9


def steadiness_lines(document: dict[str, Any]) -> Iterator[str]:
    """Nothing where nothing was measured long enough to tell."""
    burst, sustained, drift = document["burst"], document["sustained"], document["drift_ratio"]
    if burst is None and sustained is None and not (document["slowdowns"] or document["throttles"]):
        return
    yield ""
    if sustained:
        change = "" if drift is None else f", {(drift - 1) * 100:+.1f} % to the burst"
        yield f"sustained  {_span(sustained)}{change}"
    else:
        yield "sustained  not known: nothing was steady after the burst"
    yield f"burst      {_span(burst)}" if burst else "burst      not known"
    if words := throttles_words(document["throttles"], document["throttled_share"]):
        yield f"throttles  {words}"
    yield from _slowdowns(document["slowdowns"])


def _span(span: dict[str, Any]) -> str:
    p50, p99 = (formatting.milliseconds(span[key] * 1e6) for key in ("p50_ms", "p99_ms"))
    when = f"{formatting.clock_time(span['from_s'] * NS)} to {formatting.clock_time(span['to_s'] * NS)}"
    return f"p50 {p50}  p99 {p99} ms  {formatting.rate(span['throughput_hz'])}/s  {when}"


def _slowdowns(slowdowns: list[dict[str, Any]] | None) -> Iterator[str]:
    if slowdowns is None:
        return
    if not slowdowns:
        yield "slowdowns  none"
        return
    longest_first = sorted(slowdowns, key=_length, reverse=True)
    shown = sorted(longest_first[:SHOWN], key=lambda slowdown: float(slowdown["start_s"]))
    for slowdown in shown:
        ratio, end_s = slowdown["latency_ratio"], slowdown["end_s"]
        size = UNKNOWN if ratio is None else f"+{(ratio - 1) * 100:.0f} %"
        end = "the end" if end_s is None else formatting.clock_time(end_s * NS)
        when = f"{formatting.clock_time(slowdown['start_s'] * NS)} to {end}"
        yield f"slowdown   {when}  {size}  {slowdown['cause']} (confidence {slowdown['confidence']:.2f})"
        for sentence in slowdown["evidence"]:
            yield f"             {clean(sentence)}"
    if len(slowdowns) > SHOWN:
        yield f"           and {len(slowdowns) - SHOWN} shorter ones"


def _length(slowdown: dict[str, Any]) -> float:
    return float("inf") if slowdown["end_s"] is None else float(slowdown["end_s"] - slowdown["start_s"])
