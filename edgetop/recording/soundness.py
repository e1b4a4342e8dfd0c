"""Checks which rows of a table are plausible: sessions come from other people and from failing cards.

The rows that are left out here would make an analysis raise, run for ever or fill the memory.
"""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.events import Event, JsonValue, Severity
from edgetop.session.operators import Burst
from edgetop.session.records import PHASES, Inferences, Readings
from edgetop.session.seconds import NS, Seconds

MAX_SESSION_NS = 10 * 366 * 86_400 * NS
MAX_TEXT = 100_000
SEVERITIES = get_args(Severity)

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]


def _in_time(t_ns: Times) -> Mask:
    """Within the years that a session may last; rounding may give a time shortly before its origin."""
    return np.asarray((t_ns >= -NS) & (t_ns < MAX_SESSION_NS))


def sound_inferences(inferences: Inferences) -> Inferences:
    latency, wait = inferences["latency_ns"], inferences["wait_ns"]
    known = inferences["phase"] < len(PHASES)
    sound = (
        _in_time(inferences["t_ns"])
        & known
        & (latency >= 0)
        & (latency < MAX_SESSION_NS)
        & (np.abs(wait) < MAX_SESSION_NS)
    )
    return inferences if sound.all() else inferences[sound]


def sound_readings(readings: Readings) -> Readings:
    sound = _in_time(readings["t_ns"]) & np.isfinite(readings["value"])
    return readings if sound.all() else readings[sound]


def sound_events(events: tuple[Event, ...]) -> tuple[Event, ...]:
    kept = (event for event in events if -NS <= event.t_ns < MAX_SESSION_NS and event.severity in SEVERITIES)
    return tuple(e if len(e.message) <= MAX_TEXT else replace(e, message=e.message[:MAX_TEXT] + "...") for e in kept)


def sound_data(value: object) -> dict[str, JsonValue]:
    """The data of an event without values that are not plain, which only another program can have written."""
    if not isinstance(value, dict):
        return {}
    finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in value.items()}
    return {
        k: v
        for k, v in finite.items()
        if not isinstance(v, dict | list) and not (isinstance(v, int) and abs(v) >= 2**62)
    }


def sound_seconds(seconds: Seconds) -> Seconds:
    sound = _are_sound(seconds)
    if seconds.response is not None:
        sound &= _are_sound(seconds.response)
    return seconds.where(sound)


def _are_sound(seconds: Seconds) -> Mask:
    """For each second, whether its figures and its histogram are plausible."""
    rows = seconds.rows
    figures = [rows[name] for name in ("count", "errors", "sum_ns", "jitter_sum_ns", "jitter_count", "m2_ns2")]
    sound: Mask = _in_time(rows["t_ns"]) & (rows["t_ns"] % NS == 0) & np.isfinite(rows["m2_ns2"])
    for figure in figures:
        sound &= figure >= 0
    buckets = (seconds.bucket < 0) | (seconds.bucket >= histogram.SIZE) | (seconds.bucket_count < 0)
    second = np.repeat(np.arange(len(rows)), np.diff(seconds.offsets))
    sound &= np.bincount(second[buckets], minlength=len(rows)) == 0
    held = np.bincount(second, weights=seconds.bucket_count, minlength=len(rows))
    sound &= held == rows["count"]
    return sound


def are_sound_operators(t_ns: Times, calls: Times, total_ns: Times) -> Mask:
    """For each row of `operators`, whether it is plausible."""
    return _in_time(t_ns) & (total_ns >= 0) & (total_ns < MAX_SESSION_NS) & (calls > 0)


def sound_bursts(bursts: tuple[Burst, ...]) -> tuple[Burst, ...]:
    return tuple(b for b in bursts if are_sound_operators(np.array([b.t_ns]), b.calls, b.total_ns).all())


def sound_batch(batch: Batch) -> Batch:
    """The plausible part of a batch."""
    return replace(
        batch,
        until_ns=min(batch.until_ns, MAX_SESSION_NS),
        inferences=sound_inferences(batch.inferences),
        readings=sound_readings(batch.readings),
        events=sound_events(batch.events),
        seconds=sound_seconds(batch.seconds) if len(batch.seconds) else batch.seconds,
        bursts=sound_bursts(batch.bursts),
    )
