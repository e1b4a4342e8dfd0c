"""Alerts that follow from what the other folds have found, and from single events."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgetop.analysis.alerts.alert import ENDED, KEPT, RULE, Alert, Figures
from edgetop.analysis.alerts.rules import AlertRule
from edgetop.analysis.growth import GrowthView, leak_rate
from edgetop.analysis.load_words import overload_words
from edgetop.analysis.overload import OverloadView
from edgetop.analysis.slowdowns.slowdown import Slowdown, is_throttling, slowdown_words
from edgetop.analysis.throttle_words import begun_words
from edgetop.analysis.throttles import NO_THROTTLES, ThrottlesView, overlaps
from edgetop.session.events import Event
from edgetop.session.seconds import NS

NOT_RECORDED, RECORDED_AGAIN = ("recording-failed", "recording-behind"), ("recording-restored", "recording-caught-up")
ENDED_BY = {"engine-died": "engine-died", "slo": "gate-failed"}  # the reason of the end -> the alert
_TOLD_BEFORE = ("engine-died", "engine-failed", "gate-failed")
NO_GROWTH = GrowthView()

Span = tuple[int, int | None]  # from and until, in ns; None: it goes on


@dataclass(frozen=True, slots=True)
class Findings:
    """What the others have found up to now."""

    slowdowns: tuple[Slowdown, ...] = ()
    throttles: ThrottlesView = NO_THROTTLES
    overload: OverloadView | None = None
    overloads: tuple[Span, ...] = ()
    stalls: tuple[Span, ...] = ()
    growth: GrowthView = NO_GROWTH
    began_measuring_ns: int | None = None
    why_missed: str = ""  # the deadline, the last time; "": not known


def found(findings: Findings) -> Iterator[Alert]:
    """In no order."""
    yield from _slower(findings)
    for begin_ns, end_ns in findings.overloads:
        last = findings.overload if (begin_ns, end_ns) == findings.overloads[-1] else None
        text = f"a queue grows without end{f': {overload_words(last.asked_hz, last.done_hz)}' if last else ''}"
        yield Alert("overloaded", "critical", begin_ns, end_ns, text)
    for begin_ns, end_ns in findings.stalls:
        yield Alert("stalled", "critical", begin_ns, end_ns, "an inference has not come back")
    rate, slope = leak_rate(findings.growth), findings.growth.mib_per_h
    if rate and slope:
        figures = Figures("MiB/h", slope.low, slope.value, slope.high)
        text = f"the engine's memory grows by {rate}, since the start, and does not level off"
        yield Alert("leak", "warning", findings.began_measuring_ns or 0, None, text, figures=figures)


def _slower(findings: Findings) -> Iterator[Alert]:
    """What the board says of itself, with what that did to the latency; and slowdowns of which it says nothing."""
    limited = [slowdown for slowdown in findings.slowdowns if is_throttling(slowdown)]
    for span in findings.throttles.spans:
        effect = next((slowdown for slowdown in limited if overlaps(span, slowdown)), None)
        text = slowdown_words(effect) if effect else begun_words(span, findings.throttles)
        yield Alert("throttled", "critical", span.start_ns, span.end_ns, text)
    for slowdown in findings.slowdowns:
        if not is_throttling(slowdown):
            yield Alert("slowed", "warning", slowdown.start_ns, slowdown.end_ns, slowdown_words(slowdown))
        elif not any(overlaps(span, slowdown) for span in findings.throttles.spans):
            yield Alert("throttled", "critical", slowdown.start_ns, slowdown.end_ns, slowdown_words(slowdown))


def of_throttling(rule: AlertRule, throttles: ThrottlesView, now_ns: int) -> Iterator[Alert]:
    """What a rule about `throttled` makes of the spans, whatever their causes; oldest first."""
    joined: list[tuple[int, float]] = []
    for span in throttles.spans:
        end_ns = math.inf if span.end_ns is None else span.end_ns
        if joined and span.start_ns <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_ns))
        else:
            joined.append((span.start_ns, end_ns))
    for begin_ns, end_ns in joined:
        if min(end_ns, now_ns) - begin_ns >= rule.for_s * NS:
            yield Alert(
                RULE, "warning", begin_ns, None if end_ns == math.inf else int(end_ns), rule.text, rule.text,
                is_told_once=rule.is_told_once, repeat_ns=rule.repeat_ns,
            )  # fmt: skip


class Incidents:
    """Folds events: how a session ended, and that it was not recorded."""

    def __init__(self) -> None:
        self._alerts: deque[Alert] = deque(maxlen=KEPT)
        self._why = ""

    def fold(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._on_event(event)

    def _on_event(self, event: Event) -> None:
        if event.kind in _TOLD_BEFORE:
            self._why = event.message
        elif event.kind in NOT_RECORDED:
            if not self._is_open():
                text = str(event.data.get("why") or event.message)
                self._alerts.append(Alert("recording-failed", "critical", event.t_ns, None, text))
        elif event.kind in RECORDED_AGAIN and self._is_open():
            self._alerts[-1] = replace(self._alerts[-1], end_ns=event.t_ns)
        elif event.kind in ("ended", "recovered"):
            self._end(event)

    def _is_open(self) -> bool:
        return bool(self._alerts) and self._alerts[-1].end_ns is None

    def _end(self, event: Event) -> None:
        name = ENDED_BY.get(str(event.data.get("reason")))
        if name:
            why = self._why or event.message
            self._alerts.append(Alert(name, "critical", event.t_ns, event.t_ns, why))
        if event.data.get("reason") != "input-error":  # nothing ran
            self._alerts.append(Alert(ENDED, "info", event.t_ns, event.t_ns, event.message))

    def alerts(self) -> list[Alert]:
        """Oldest first."""
        return list(self._alerts)
