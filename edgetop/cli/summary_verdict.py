"""The verdict that leads a report: how the session ended, and what is true of it before any table is read."""

from collections.abc import Iterator
from typing import Any

from edgetop import formatting
from edgetop.analysis.deadline import WORTH_TELLING
from edgetop.analysis.load_words import misses_words, overload_words
from edgetop.analysis.slowdowns.words import FROM_START, THROTTLED, word_of
from edgetop.analysis.verdict import GATE_FAILED, LEAKING, MISSES, OVERLOADED, final_verdict, in_order
from edgetop.formatting import clean

NS = 1e9


def verdict_of(document: dict[str, Any]) -> tuple[str, list[str]]:
    """How it ended with the gravest that is to be said of it, and the rest of that, as the screen orders it."""
    ended = _ended(document)
    told = dict(_found(document))
    found = [told[word] for word in in_order(told) if word != ended]
    if not found:
        return (f"{ended}, STEADY" if document["slowdowns"] == [] else ended), []
    return f"{ended}, {found[0]}", found[1:]


def _ended(document: dict[str, Any]) -> str:
    reason = document["session"]["end_reason"]
    if reason is None:
        return "LIVE"
    if reason in ("duration", "runs") and _has_failed(document):
        return GATE_FAILED
    verdict = final_verdict(str(reason))
    is_plain = verdict.word not in ("CUT SHORT", "ENDED")
    return verdict.word if is_plain else f"{verdict.word} ({clean(verdict.reason)})"


def _has_failed(document: dict[str, Any]) -> bool:
    return any(not gate["ok"] for gate in document["gates"] or ())


def _found(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each word that is true of it, with what there is to say of that."""
    latency = document["latency"]
    response, deadline = latency["response"], latency["deadline"]
    yield from _slow(document)
    if response and response["overloaded"]:
        yield OVERLOADED, f"{OVERLOADED}: {overload_words(response['asked_hz'], latency['throughput_hz'] or 0.0)}"
    if _has_failed(document):
        yield GATE_FAILED, GATE_FAILED
    if deadline and deadline["miss_rate"] >= WORTH_TELLING:
        yield MISSES, f"{MISSES} {misses_words(deadline['miss_rate'], deadline['ms'])}"
    if document["memory"]["leak"]:
        yield LEAKING, f"{LEAKING} {document['memory']['growth_mib_per_h']:.1f} MiB/h"


def _slow(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the board did to itself, from the start or later, and apart from that what others did to it."""
    by_word: dict[str, list[dict[str, Any]]] = {}
    for slowdown in document["slowdowns"] or ():
        by_word.setdefault(word_of(slowdown["cause"], from_start=slowdown["from_start"]), []).append(slowdown)
    if FROM_START in by_word:
        by_word[FROM_START] += by_word.pop(THROTTLED, [])
    for word, slowdowns in by_word.items():
        yield word, f"{word}{_how_much(slowdowns)}{_for_how_long(document, slowdowns)}: {_why(slowdowns)}"


def _how_much(slowdowns: list[dict[str, Any]]) -> str:
    """At most; nothing where none has a ratio."""
    ratios = [slowdown["latency_ratio"] for slowdown in slowdowns if slowdown["latency_ratio"] is not None]
    up_to = " up to" if len(ratios) > 1 else ""
    return f"{up_to} {(max(ratios) - 1) * 100:.0f} %" if ratios else ""


def _why(slowdowns: list[dict[str, Any]]) -> str:
    causes = ", ".join(dict.fromkeys(slowdown["cause"] for slowdown in slowdowns))
    return "unknown cause" if causes == "unknown" else causes


def _for_how_long(document: dict[str, Any], slowdowns: list[dict[str, Any]]) -> str:
    end_ns = document["session"]["duration_ns"]
    ends = [end_ns / NS if s["end_s"] is None and end_ns else s["end_s"] for s in slowdowns]
    if None in ends:
        return ""  # it is live, and goes on
    total_s = sum(end - slowdown["start_s"] for end, slowdown in zip(ends, slowdowns, strict=True))
    return f" for {formatting.duration(total_s * NS)}"
