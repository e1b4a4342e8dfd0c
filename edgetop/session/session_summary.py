"""The summary of a session, computed on the board that runs it. `edgetop fleet` shows it as one line for each board.

The names of the fields are keys of `edgetop fleet --json`. A board sends all fields as JSON at first, then only those
that changed. The receiver raises ValueError if a value has the wrong type or is too large.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

from edgetop.frozen import frozen
from edgetop.session.events import Severity
from edgetop.session.typed_json import JsonValue

MAX_TEXT, MAX_COURSE, MAX_GATES, MAX_EVENTS = 300, 64, 16, 64
MAX_AGE_S = 1e8  # oldest age of an event: three years
LEVELS = ("good", "neutral", "warning", "critical")
COURSE = 20  # number of steps of a course

Course = tuple[float | None, ...]
Json = JsonValue | list[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The current figures and verdict of one session. None means that a value is unknown."""

    session: str = ""
    model: str = ""
    board: str = ""
    simulated: bool = False
    phase: str = ""
    word: str = ""  # the verdict in one word
    level: str = "neutral"  # of the verdict; one of LEVELS
    words: str = ""  # the verdict in a few words
    throttled: bool | None = None  # whether a throttle signal is set now
    elapsed_s: float | None = None  # time since the session began
    asked_s: float | None = None  # requested duration of the measured phase; None if it has no end
    deadline_ms: float | None = None
    # Of the last ten seconds, or of the whole session if it is over. Response time if that counts for the deadline.
    p50_ms: float | None = None
    p99_ms: float | None = None
    settled: bool = False  # whether p99 is made from enough inferences
    misses: float | None = None  # deadline misses in the whole session
    miss_rate: float | None = None
    sensor: str = ""  # the zone nearest to its trip, or the hottest one
    temperature_c: float | None = None  # of that zone
    headroom_c: float | None = None  # from there to the zone's trip
    clock_share: float | None = None  # present clock as a share of the best one
    power_w: float | None = None
    memory_left_mib: float | None = None
    course_step_s: float | None = None  # length of a step of the courses, which have the last COURSE steps
    p99_course_ms: Course = ()
    temperature_course_c: Course = ()
    # Of a language model, over the whole session, apart from the rate, which is that of the last ten seconds.
    decode_tok_s: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p99_ms: float | None = None
    j_per_token: float | None = None
    context_used: float | None = None  # tokens in the context in the last second with tokens
    failed_gates: dict[str, str] | None = None  # gates requested by the viewer that fail, and why each does


@frozen
class Happened:
    """An event of a board, as the log of `edgetop fleet` shows it."""

    age_s: float  # its age when the board reported it
    severity: Severity
    text: str


def changes(before: Mapping[str, Json], now: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in now.items() if name not in before or before[name] != value}


def to_json(summary: Summary) -> dict[str, Json]:
    """Return the summary's fields as JSON values, by name. Numbers are rounded to five digits."""
    return {field.name: _plain(getattr(summary, field.name)) for field in fields(summary)}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def parse_summary(changed: Mapping[str, Any], before: Summary) -> Summary:
    """Return a copy of `before` with the fields of the JSON object `changed`. Unknown fields are ignored.

    Raises ValueError if a value is invalid.
    """
    known = {field.name: field.type for field in fields(Summary)}
    given = {name: _READERS[known[name]](value) for name, value in changed.items() if name in known}
    summary = replace(before, **given)
    if summary.level not in LEVELS:
        raise ValueError("a verdict of an unknown level")
    return summary


def parse_events(given: Any) -> tuple[Happened, ...]:
    """Return events from a JSON list of `[age in s, severity, text]`. Raises ValueError if the list is invalid."""
    if not isinstance(given, list) or len(given) > MAX_EVENTS:
        raise ValueError("no list of events")
    return tuple(map(_happened, given))


def _happened(given: Any) -> Happened:
    if not isinstance(given, list) or len(given) != 3 or given[1] not in get_args(Severity):
        raise ValueError("not an event")
    age_s = min(max(_number(given[0]) or 0.0, 0.0), MAX_AGE_S)
    return Happened(age_s, given[1], _text(given[2]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")  # noqa: TRY004  callers expect ValueError for every invalid value
    return value[:MAX_TEXT]


def _flag(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        raise ValueError("not a number")
    return float(value)


def _course(value: Any) -> Course:
    if not isinstance(value, list) or len(value) > MAX_COURSE:
        raise ValueError("not a course")
    return tuple(map(_number, value))


def _gates(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > MAX_GATES:
        raise ValueError("no gates")
    return {_text(gate): _text(reason) for gate, reason in value.items()}


_READERS: Mapping[Any, Callable[[Any], Any]] = {
    str: _text, bool: lambda value: bool(_flag(value)), bool | None: _flag, float | None: _number, Course: _course,
    dict[str, str] | None: _gates,
}  # fmt: skip
