"""Throttling that the board reports, in words."""

from collections.abc import Iterator, Sequence

from edgetop.analysis.slowdowns.throttle_spans import SAME_CLOCK
from edgetop.analysis.slowdowns.throttles import ThrottleAt
from edgetop.formatting import duration, reading, rounded, signed_percent, whole_percent
from edgetop.session.typed_json import Document
from edgetop.wording.sensor_words import sensor_name


def throttle_words(throttle: ThrottleAt) -> str:
    """Return the cause of a throttling, and the clock that fell because of it or, if no clock fell, the sensor.

    >>> from edgetop.analysis.slowdowns.throttles import ThrottleSpan
    >>> fell = ThrottleSpan(0, None, "thermal", "throttle/thermal", None, None, None, 1267.0, 85.5, 1728.0)
    >>> throttle_words(ThrottleAt(fell, "cpu"))
    'thermal, cpu 1728 to 1267 MHz at 85.5 C'
    >>> throttle_words(ThrottleAt(ThrottleSpan(0, None, "power", "throttle/over-current", None, None, None), "cpu"))
    'power (the over-current flag)'
    """
    span = throttle.span
    mhz, best_mhz = span.begin_clock_mhz, span.best_mhz
    heat = f" at {reading(span.begin_temp_c, 'C')} C" if span.begin_temp_c is not None else ""
    if mhz is None or best_mhz is None or mhz > SAME_CLOCK * best_mhz:
        return f"{span.cause}{heat if span.cause == 'thermal' else ''} ({sensor_name(span.sensor)})"
    return f"{span.cause}, {throttle.clock} {reading(best_mhz, 'MHz')} to {reading(mhz, 'MHz')} MHz{heat}"


def throttle_begin_words(throttle: ThrottleAt) -> str:
    return f"throttling begins: {throttle_words(throttle)}"


def throttle_end_words(throttle: ThrottleAt) -> str:
    """Return the message at the end of a throttling: how long it lasted, its lowest clock and highest temperature.

    For example: `throttling over after 20.0s: thermal, cpu down to 1037 MHz, 86.2 C at most`.
    """
    span = throttle.span
    lasted_ns = 0 if span.end_ns is None else span.end_ns - span.start_ns
    worst = _worst(throttle.clock, rounded(span.min_clock_mhz), rounded(span.max_temp_c), best_mhz=span.best_mhz)
    return f"throttling over after {duration(lasted_ns)}: {', '.join([span.cause, *worst])}"


def throttles_words(throttles: Sequence[Document], share: float | None) -> str:
    """Return a summary of all throttling in a session in one line, or "" if there was none.

    `throttles` and `share` are the values of `throttles` and `throttled_share` in the JSON report. `share` is the
    throttled share of the time, 0 to 1.

    >>> span = {"cause": "thermal", "min_clock_mhz": 1037.0, "max_temp_c": 85.2, "latency_ratio": 1.32}
    >>> throttles_words([span] * 3, 0.12)
    '3 times, 12 % of the time: thermal, lowest clock 1037 MHz, 85.2 C at most, p50 up to +32 %'
    """
    if not throttles:
        return ""
    times = "once" if len(throttles) == 1 else f"{len(throttles)} times"
    of_time = "" if not share else f", {whole_percent(share)} of the time"
    causes = dict.fromkeys(str(span["cause"]) for span in throttles)
    mhz, heat_c, ratio = (
        extreme((span[name] for span in throttles if span[name] is not None), default=None)
        for name, extreme in (("min_clock_mhz", min), ("max_temp_c", max), ("latency_ratio", max))
    )
    worst = [*_worst("clock", mhz, heat_c), *([] if ratio is None else [f"p50 up to {signed_percent(ratio - 1)}"])]
    return f"{times}{of_time}: {', '.join([*causes, *worst])}"


def _worst(clock: str, mhz: float | None, heat_c: float | None, *, best_mhz: float | None = None) -> Iterator[str]:
    """Yield the lowest clock and the highest temperature of a throttling in words. Unknown values are left out.

    `clock` is the name of the clock, and `mhz` its lowest value. `best_mhz` is the clock's value before the throttling,
    or None if unknown.
    """
    if mhz is not None and best_mhz is None:  # The clock may not have fallen.
        yield f"lowest {clock} {reading(mhz, 'MHz')} MHz"
    elif mhz is not None and best_mhz is not None and mhz <= SAME_CLOCK * best_mhz:
        yield f"{clock} down to {reading(mhz, 'MHz')} MHz"
    if heat_c is not None:
        yield f"{reading(heat_c, 'C')} C at most"
