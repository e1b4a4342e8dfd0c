"""Finds slowdowns of a language model's prefill (the processing of prompts), with prompt times at equal length.

A long prompt takes longer than a short one, and that is no slowdown. A session records the length and the time of
individual prompts (`session.sized_calls`, stream 1). The median time of each second is converted to one length, as for
other models whose inputs vary in size (`equal_size`). Prompts that were processed beside other requests are not
recorded.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgetop.analysis.slowdowns.equal_position import EqualPosition
from edgetop.analysis.slowdowns.equal_size import LATEST_S
from edgetop.analysis.slowdowns.slowdown import Rows, Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.steady import figures, sustained
from edgetop.analysis.tracks import LATE_S, Tracks
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest
from edgetop.session.phases import Phases
from edgetop.session.records import Readings, of_sensors
from edgetop.session.second_aggregator import DurationAggregator
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate
from edgetop.session.sized_calls import PREFILL, PREFILL_OF_PROGRAM, sensors_of

NAME = "prefill"  # of the stream
MOST_WAITING_S = 4096  # Most seconds with prompts that wait for their row.
MOST_MS = 1e9


def prompts_of(manifest: Manifest) -> int:
    """Return the number of the stream with the prompts of the session's language model."""
    return PREFILL if manifest.watched is None else PREFILL_OF_PROGRAM


class PrefillSlowdowns(Slowdowns):
    """Finds the slowdowns of the prefill in a session with a language model."""

    def __init__(self, tracks: Tracks | None = None, phases: Phases | None = None) -> None:
        super().__init__(tracks, phases)
        self._place = -1  # index in the manifest of the sensor that has the times of prompts; -1 if it has none
        self._times_ns: dict[int, list[int]] = {}  # times of prompts, by second
        self._reached_s = 0  # rows were made for all seconds before this one
        self._summary = DurationAggregator(np.empty(0, np.int64))
        self.rows = NO_SECONDS.rows  # of the last LATEST_S seconds that end with a prompt, as they were

    def join(self, first: Slowdowns, number: int = PREFILL, *, of_tokens: bool = False) -> None:
        """Use the sensor signals of `first`, the object that finds the slowdowns of generating tokens.

        `number`: the number of the stream with the prompts. Each batch must be passed to `first` before it is passed to
        this object.
        """
        super().join(first, number, of_tokens=of_tokens)
        self.signals.positions = EqualPosition()  # the position in the context is without meaning for a prompt

    def fold_part(self, batch: Batch) -> None:
        """Take a part of a batch.

        The times of prompts are taken from its readings. Its seconds are used only to see up to when data has arrived.
        """
        if batch.manifest is not None:
            self._register(batch.manifest)
        if self._place < 0:
            return
        self._take(batch.readings)
        super().fold_part(replace(batch, seconds=self._complete(batch.seconds), judged=None))

    def _register(self, manifest: Manifest) -> None:
        took = sensors_of(prompts_of(manifest))[1]
        generates = manifest.generation is not None
        places = [place for place, info in enumerate(manifest.sensors) if info.id == took and generates]
        self._place = places[0] if places else -1

    def _take(self, readings: Readings) -> None:
        own = of_sensors(readings, [self._place]) if len(readings) else readings
        for t_ns, took_ms in zip(own["t_ns"].tolist(), own["value"].tolist(), strict=True):
            second = t_ns // NS
            if 0 < took_ms < MOST_MS and (second in self._times_ns or len(self._times_ns) < MOST_WAITING_S):
                self._times_ns.setdefault(second, []).append(round(took_ms * 1e6))

    def _complete(self, seconds: Seconds) -> Seconds:
        """Return rows with the prompt times of the seconds for which no more prompts can arrive, a row for each second.

        Each row is returned by one call only. `seconds`: the newest complete seconds of the session.
        """
        if not len(seconds):
            return NO_SECONDS
        newest_s = int(seconds.rows["t_ns"][-1]) // NS
        over_ns = self._phases.measured_until_ns
        until_s = newest_s + 1 if over_ns and newest_s + 1 >= over_ns // NS else newest_s - LATE_S
        due = sorted(second for second in self._times_ns if second < until_s)
        rows = []
        for second in due:
            times_ns = np.array(self._times_ns.pop(second), np.int64)
            if second >= self._reached_s:
                rows.append(self._summary.second(second * NS, times_ns))
        if until_s > self._reached_s and (not due or due[-1] < until_s - 1):  # a second without prompts
            rows.append(self._summary.second((until_s - 1) * NS, np.empty(0, np.int64)))
        self._reached_s = max(self._reached_s, until_s)
        made = concatenate(rows)
        if len(made):
            self.rows = np.concatenate([self.rows, made.rows[made.rows["count"] > 0]])[-LATEST_S:]
        return made

    def judged_rows(self) -> Rows:
        """Return the rows of the last seconds with prompts, with times for prompts of one length if possible."""
        equal = self.view().equal_rows
        return equal if len(equal) else self.rows

    def drift_ratio(self) -> float | None:
        """Return the median prefill time of the last steady span, divided by the median of the first steady 30 s.

        Both medians are for prompts of equal length. The result is None if one of the medians is unknown.
        """
        view = self.view()
        if view.burst is None:
            return None
        burst, later = (
            figures(view.burst_rows, view.burst.from_s, view.burst.to_s),
            sustained(self.judged_rows(), view.burst),
        )
        return round(later.p50_ns / burst.p50_ns, 4) if burst and later and burst.p50_ns else None


def with_prefill(decode: SlowdownsView, prefill: SlowdownsView) -> SlowdownsView:
    """Return `decode` with those slowdowns of `prefill` added that do not overlap with a slowdown of `decode` in time.

    `decode`: the slowdowns of generating tokens. `prefill`: the slowdowns of processing prompts. An added slowdown has
    "prefill" as the name of its stream.
    """
    alone = tuple(replace(one, streams=(NAME,)) for one in prefill.slowdowns if not _overlaps(one, decode.slowdowns))
    if not alone:
        return decode
    joined = sorted((*decode.slowdowns, *alone), key=lambda one: (not one.from_start, one.start_ns))
    return replace(decode, slowdowns=tuple(joined), total=decode.total + len(alone))


def _overlaps(one: Slowdown, others: Sequence[Slowdown]) -> bool:
    return any(
        (one.end_ns is None or other.start_ns <= one.end_ns) and (other.end_ns is None or one.start_ns <= other.end_ns)
        for other in others
    )
