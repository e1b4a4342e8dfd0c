"""The seconds of a session, divided by stream."""

from dataclasses import replace

import numpy as np

from edgetop.session.seconds import Seconds, concatenate, emptied, has_runs

NOTHING = np.empty(0, np.int64)


class ByStream:
    """The seconds of each stream. Those of a stream are made when they are first asked for, and only once."""

    def __init__(self, seconds: Seconds) -> None:
        self.seconds = seconds
        self._made: dict[int, Seconds] = {}
        self._empty: Seconds | None = None
        self._numbers: list[int] | None = None

    @property
    def numbers(self) -> list[int]:
        """The numbers of the streams that have inferences here, in ascending order."""
        if self._numbers is None:
            self._numbers = _stream_numbers(self.seconds)
        return self._numbers

    def of(self, number: int) -> Seconds:
        """Return the seconds of the stream with this number. A second in which it has no inferences is empty.

        If a second has inferences of stream 0 alone, the row of stream 0 is that of the second itself. Its jitter then
        begins with the difference from the inference before, whichever stream that was of.
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
