"""Alerts that follow from what the other folds have found."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgetop.analysis.alerts.alert import Alert, Figures
from edgetop.analysis.growth import GrowthView, leak_rate
from edgetop.analysis.load_words import overload_words
from edgetop.analysis.overload import OverloadView
from edgetop.analysis.slowdowns.judgement import Slowdown
from edgetop.analysis.slowdowns.words import FROM_START, THROTTLED, told, word

NO_GROWTH = GrowthView()

Span = tuple[int, int | None]  # from and until, in ns; None: it goes on


@dataclass(frozen=True, slots=True)
class Findings:
    """What the others have found up to now."""

    slowdowns: tuple[Slowdown, ...] = ()
    overload: OverloadView | None = None
    overloads: tuple[Span, ...] = ()
    stalls: tuple[Span, ...] = ()
    growth: GrowthView = NO_GROWTH
    began_measuring_ns: int | None = None


def found(findings: Findings) -> Iterator[Alert]:
    """In no order."""
    for slowdown in findings.slowdowns:
        name = "throttled" if word(slowdown) in (THROTTLED, FROM_START) else "slowed"
        severity = "warning" if name == "slowed" else "critical"
        yield Alert(name, severity, slowdown.start_ns, slowdown.end_ns, told(slowdown))  # type: ignore[arg-type]
    for begin_ns, end_ns in findings.overloads:
        last = findings.overload if (begin_ns, end_ns) == findings.overloads[-1] else None
        text = f"a queue grows without end{f': {overload_words(last.asked_hz, last.done_hz)}' if last else ''}"
        yield Alert("overloaded", "critical", begin_ns, end_ns, text)
    for begin_ns, end_ns in findings.stalls:
        yield Alert("stalled", "critical", begin_ns, end_ns, "an inference has not come back")
    rate, slope = leak_rate(findings.growth), findings.growth.mib_per_h
    if rate and slope:
        figures = Figures("MiB/h", slope.low, slope.value, slope.high)
        text = f"the engine's memory grows by {rate} and does not level off"
        yield Alert("leak", "warning", findings.began_measuring_ns or 0, None, text, figures=figures)
