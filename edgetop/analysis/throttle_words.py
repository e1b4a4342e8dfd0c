"""Spans of throttling as events, as JSON and in words: the same on the screen, in the recording and in the report.

The run records the events as they happen. An analysis of the recording derives the spans again, and shows those.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetop.analysis.slowdowns.slowdown import SOURCE
from edgetop.analysis.throttles import Throttles, ThrottleSpan, ThrottlesView
from edgetop.analysis.tracks import Tracks
from edgetop.formatting import duration, reading, rounded, whole_percent
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Event, JsonValue
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS

BEGIN, END = "throttle-begin", "throttle-end"
FELL = 0.99  # of its best: above it a clock has not fallen
SETTLES_NS = NS  # clocks and zones, which a beginning is reported with, are read once a second
CHECK_EVERY_NS = NS
MAX_RECORDED = 64


def throttle_events(view: ThrottlesView) -> list[Event]:
    """Return the end of each span before its beginning; spans in no order. One cut by the session's end has no end."""
    events = []
    for span in reversed(view.spans):
        if span.end_ns is not None and not span.was_cut:
            events.append(_end(span, view))
        events.append(_begin(span, view))
    return events


def begun_words(span: ThrottleSpan, view: ThrottlesView) -> str:
    """`thermal, cpu 1728 to 1267 MHz at 85.5 C`; where no clock fell, with the signal."""
    mhz, best_mhz = span.begin_clock_mhz, view.best_mhz
    heat = f" at {reading(span.begin_temp_c, 'C')} C" if span.begin_temp_c is not None else ""
    if mhz is None or best_mhz is None or mhz > FELL * best_mhz:
        return f"{span.cause}{heat if span.cause == 'thermal' else ''} ({span.sensor})"
    return f"{span.cause}, {view.clock} {reading(best_mhz, 'MHz')} to {reading(mhz, 'MHz')} MHz{heat}"


def _begin(span: ThrottleSpan, view: ThrottlesView) -> Event:
    text = f"throttling begins: {begun_words(span, view)}"
    return Event(span.start_ns, BEGIN, "critical", SOURCE, text, _data(span, view))


def _end(span: ThrottleSpan, view: ThrottlesView) -> Event:
    assert span.end_ns is not None
    lasted_ns = span.end_ns - span.start_ns
    data: dict[str, JsonValue] = {
        **_data(span, view),
        "min_clock_mhz": rounded(span.min_clock_mhz),
        "max_temp_c": rounded(span.max_temp_c),
        "latency_ratio": span.latency_ratio,
        "duration_s": rounded(lasted_ns / NS),
    }
    figures = {**data, "latency_ratio": None}  # the slowdown has that
    worst = ", ".join([span.cause, *_worst(view.clock, figures, view.best_mhz)])
    return Event(span.end_ns, END, "info", SOURCE, f"throttling over after {duration(lasted_ns)}: {worst}", data)


def _data(span: ThrottleSpan, view: ThrottlesView) -> dict[str, JsonValue]:
    return {
        "cause": span.cause,
        "sensor": span.sensor,
        "clock_mhz": rounded(span.begin_clock_mhz),
        "best_mhz": rounded(view.best_mhz),
        "temp_c": rounded(span.begin_temp_c),
    }


def _worst(clock: str, figures: Mapping[str, Any], best_mhz: float | None = None, upto: str = "") -> Iterator[str]:
    mhz, heat, ratio = (figures[name] for name in ("min_clock_mhz", "max_temp_c", "latency_ratio"))
    if mhz is not None and best_mhz is None:  # it may not have fallen
        yield f"lowest {clock} {reading(mhz, 'MHz')} MHz"
    elif mhz is not None and best_mhz is not None and mhz <= FELL * best_mhz:
        yield f"{clock} down to {reading(mhz, 'MHz')} MHz"
    if heat is not None:
        yield f"{reading(heat, 'C')} C at most"
    if ratio is not None:
        yield f"p50 {upto}{(ratio - 1) * 100:+.0f} %"


def throttles_document(view: ThrottlesView) -> list[dict[str, Any]]:
    """Oldest first."""
    return [
        {
            "start_s": rounded(span.start_ns / NS),
            "end_s": None if span.end_ns is None else rounded(span.end_ns / NS),
            "cause": span.cause,
            "sensor": span.sensor,
            "min_clock_mhz": rounded(span.min_clock_mhz),
            "max_temp_c": rounded(span.max_temp_c),
            "latency_ratio": span.latency_ratio,
        }
        for span in view.spans
    ]


def throttles_words(throttles: Sequence[Mapping[str, Any]], share: float | None) -> str:
    """The report's `throttles` and `throttled_share` in one line; empty without any.

    >>> span = {"cause": "thermal", "min_clock_mhz": 1037.0, "max_temp_c": 85.2, "latency_ratio": 1.32}
    >>> throttles_words([span] * 3, 0.12)
    '3 times, 12 % of the time: thermal, lowest clock 1037 MHz, 85.2 C at most, p50 up to +32 %'
    """
    if not throttles:
        return ""
    times = "once" if len(throttles) == 1 else f"{len(throttles)} times"
    of_time = "" if not share else f", {whole_percent(share)} of the time"
    causes = dict.fromkeys(str(span["cause"]) for span in throttles)
    worst = {
        name: extreme((span[name] for span in throttles if span[name] is not None), default=None)
        for name, extreme in (("min_clock_mhz", min), ("max_temp_c", max), ("latency_ratio", max))
    }
    return f"{times}{of_time}: {', '.join([*causes, *_worst('clock', worst, upto='up to ')])}"


@dataclass(slots=True)
class _Recorded:
    start_ns: int
    cause: str
    is_over: bool = False


class ThrottleEvents:
    """Makes the events of a run for its recording, each beginning and end once."""

    def __init__(self) -> None:
        self._tracks = Tracks(has_timeline=False)
        self._throttles = Throttles(self._tracks)
        self._recorded: list[_Recorded] = []
        self._waiting: list[Batch] = []
        self._viewed_ns = 0

    def fold(self, batch: Batch) -> tuple[Event, ...]:
        """Return the new beginnings and ends. A throttling cut by the end of the session has no end."""
        self._waiting.append(batch)
        is_last = any(event.kind == "ended" for event in batch.events)
        if batch.until_ns - self._viewed_ns < CHECK_EVERY_NS and not is_last:
            return ()
        for part in self._tracks.parts(replace(merge(self._waiting), inferences=NO_INFERENCES)):
            self._throttles.fold(part)
        self._waiting, self._viewed_ns = [], batch.until_ns
        return tuple(self._news(self._throttles.view(), batch.until_ns, is_last=is_last))

    def _news(self, view: ThrottlesView, now_ns: int, *, is_last: bool) -> Iterator[Event]:
        for span in view.spans[-MAX_RECORDED:]:
            recorded = self._recorded_of(span)
            is_settled = is_last or span.end_ns is not None or now_ns - span.start_ns >= SETTLES_NS
            if recorded is None and is_settled:
                recorded = _Recorded(span.start_ns, span.cause)
                self._recorded = [*self._recorded, recorded][-2 * MAX_RECORDED :]
                yield _begin(span, view)
            if recorded and not recorded.is_over and span.end_ns is not None and not span.was_cut:
                recorded.is_over = True
                yield _end(span, view)

    def _recorded_of(self, span: ThrottleSpan) -> _Recorded | None:
        """Return the recorded event of a span, whose beginning and cause may have changed with a late reading."""
        for recorded in reversed(self._recorded):
            is_within = recorded.start_ns >= span.start_ns and (span.end_ns is None or recorded.start_ns <= span.end_ns)
            if is_within and recorded.cause in (span.cause, "unknown"):
                return recorded
        return None
