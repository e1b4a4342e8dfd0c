"""Spans of throttling as events, as JSON and in words: the same on the screen, in the recording and in the report.

The run records the events as they happen. Whoever analyses the recording finds the spans anew, and shows those.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgetop.analysis.rounding import rounded
from edgetop.analysis.slowdowns.slowdown import SOURCE
from edgetop.analysis.throttles import Throttles, ThrottleSpan, ThrottlesView
from edgetop.analysis.tracks import Tracks
from edgetop.formatting import duration, reading, whole_percent
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Event, JsonValue
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS

BEGIN, END = "throttle-begin", "throttle-end"
FELL = 0.99  # of its best: less is no fall of a clock
SETTLES_NS = NS  # clocks and zones are read once a second: what a beginning is told with
LOOK_EVERY_NS = NS
REMEMBERED = 64


def throttle_events(view: ThrottlesView) -> list[Event]:
    """The newest first of each span; in no order of time among spans. What the end of a session cut has no end."""
    events = []
    for span in reversed(view.spans):
        if span.end_ns is not None and not span.was_cut:
            events.append(_end(span, view))
        events.append(_begin(span, view))
    return events


def begun_words(span: ThrottleSpan, view: ThrottlesView) -> str:
    """`thermal, cpu 1728 to 1267 MHz at 85.5 C`; where no clock fell, by what the board says so."""
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
    told = {**data, "latency_ratio": None}  # which the slowdown tells
    worst = ", ".join([span.cause, *_worst(view.clock, told, view.best_mhz)])
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
    if mhz is not None and best_mhz is None:  # it need not have fallen
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
    """Of the report's `throttles` and `throttled_share`, all in a line; nothing where there is none.

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
        "min_clock_mhz": min(_known(throttles, "min_clock_mhz"), default=None),
        "max_temp_c": max(_known(throttles, "max_temp_c"), default=None),
        "latency_ratio": max(_known(throttles, "latency_ratio"), default=None),
    }
    return f"{times}{of_time}: {', '.join([*causes, *_worst('clock', worst, upto='up to ')])}"


def _known(throttles: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [span[name] for span in throttles if span[name] is not None]


@dataclass(slots=True)
class _Recorded:
    start_ns: int
    cause: str
    is_over: bool = False


class ThrottleEvents:
    """Makes events of what a run brings, each beginning and end once: for its recording."""

    def __init__(self) -> None:
        self._tracks = Tracks(has_timeline=False)
        self._throttles = Throttles(self._tracks)
        self._recorded: list[_Recorded] = []
        self._waiting: list[Batch] = []
        self._viewed_ns = 0

    def fold(self, batch: Batch) -> tuple[Event, ...]:
        """What has begun or ended. A session that ends while throttled has no end of it."""
        self._waiting.append(batch)
        is_last = any(event.kind == "ended" for event in batch.events)
        if batch.until_ns - self._viewed_ns < LOOK_EVERY_NS and not is_last:
            return ()
        for part in self._tracks.parts(replace(merge(self._waiting), inferences=NO_INFERENCES)):
            self._throttles.fold(part)
        self._waiting, self._viewed_ns = [], batch.until_ns
        return tuple(self._news(self._throttles.view(), batch.until_ns, is_last=is_last))

    def _news(self, view: ThrottlesView, now_ns: int, *, is_last: bool) -> Iterator[Event]:
        for span in view.spans[-REMEMBERED:]:
            recorded = self._recorded_of(span)
            is_settled = is_last or span.end_ns is not None or now_ns - span.start_ns >= SETTLES_NS
            if recorded is None and is_settled:
                recorded = _Recorded(span.start_ns, span.cause)
                self._recorded = [*self._recorded, recorded][-2 * REMEMBERED :]
                yield _begin(span, view)
            if recorded and not recorded.is_over and span.end_ns is not None and not span.was_cut:
                recorded.is_over = True
                yield _end(span, view)

    def _recorded_of(self, span: ThrottleSpan) -> _Recorded | None:
        """A beginning may move a little when a late reading comes, and a cause may be known better."""
        for recorded in reversed(self._recorded):
            is_within = recorded.start_ns >= span.start_ns and (span.end_ns is None or recorded.start_ns <= span.end_ns)
            if is_within and recorded.cause in (span.cause, "unknown"):
                return recorded
        return None
