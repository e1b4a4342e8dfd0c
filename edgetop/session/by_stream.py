"""The statistics of a session's seconds, divided by stream (one of several models or sides of a session)."""

from dataclasses import replace

import numpy as np

from edgetop.session.seconds import Seconds, concatenate, emptied, has_runs

NOTHING = np.empty(0, np.int64)


class ByStream:
    """Splits a table of seconds by stream: `of` returns the rows of one stream."""

    def __init__(self, seconds: Seconds) -> None:
        self.seconds = seconds
        self._made: dict[int, Seconds] = {}
        self._empty: Seconds | None = None
        self._numbers: list[int] | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of the streams that have inferences in the table, in ascending order."""
        if self._numbers is None:
            self._numbers = _stream_numbers(self.seconds)
        return self._numbers

    def of(self, number: int) -> Seconds:
        """Return the rows of stream `number`: one for each second of the table.

        A second in which the stream did not run has a row with zero counts. If only stream 0 ran in a second, its row
        is a copy of the row of the whole second. The jitter in such a copy also counts the difference from the previous
        inference, which may be of another stream.
        """
        if number not in self._made:
            self._made[number] = self._of(number)
        return self._made[number]

    def _of(self, number: int) -> Seconds:
        whole, streams = self.seconds, self.seconds.streams
        if streams is None:
            return self._without_runs() if number else whole
        here = np.flatnonzero(streams.number == number)
        if len(here) == len(whole):
            first = int(here[0])
            is_next = here[-1] - first + 1 == len(here)
            return streams.seconds.between(first, first + len(here)) if is_next else streams.seconds.take(here)
        alone = np.flatnonzero(np.diff(streams.offsets) == 0) if number == 0 else NOTHING
        if not len(here) and not len(alone):
            return self._without_runs()
        parts = [self._without_runs(), streams.seconds, *([replace(whole, streams=None)] if len(alone) else [])]
        places = np.arange(len(whole))  # In the first part, and after it in those that follow.
        places[streams.owner[here]] = len(whole) + here
        places[alone] = len(whole) + len(streams) + alone
        return concatenate(parts).take(places)

    def _without_runs(self) -> Seconds:
        if self._empty is None:
            self._empty = emptied(self.seconds)
        return self._empty


def _stream_numbers(seconds: Seconds) -> list[int]:
    streams = seconds.streams
    if streams is None:
        return [0] if has_runs(seconds).any() else []
    found = set(streams.number[has_runs(streams.seconds)].tolist())
    is_alone = np.diff(streams.offsets) == 0
    return sorted(found | ({0} if (has_runs(seconds) & is_alone).any() else set()))
