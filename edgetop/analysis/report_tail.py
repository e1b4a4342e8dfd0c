"""What the report's document tells of the tail."""

from typing import Any

from edgetop.analysis.tail import STANDS_OUT, SlowInference, TailPart, TailView, tail_words
from edgetop.session.seconds import NS


def tail_document(tail: TailView) -> dict[str, Any]:
    """Of a session in which nothing stands out, empty lists."""
    return {
        "stands_out": STANDS_OUT,
        "summary": tail_words(tail.parts) or None,
        "parts": [_part(part) for part in tail.parts],
        "slowest": [_inference(one) for one in tail.slowest],
    }


def _part(part: TailPart) -> dict[str, Any]:
    return {"cause": part.cause, "count": part.count, "who": dict(part.who)}


def _inference(one: SlowInference) -> dict[str, Any]:
    return {
        "t_s": round(one.t_ns / NS, 9),
        "latency_ms": round(one.latency_ns / 1e6, 6),
        "cause": one.cause,
        "who": one.who or None,
        "proven": one.is_proven,
    }
