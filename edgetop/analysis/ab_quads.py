"""Computes the figures of an A/B session while it runs: an event, `ab-quad`, for each quad (four turns).

`ab_figures` compares A and B by these events, so the comparison is the same live and from a recording, and does not
need the individual inferences.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.paired import Floats, typical_ratio
from edgetop.session.batch import Batch
from edgetop.session.engine_events import LoadBegan, QuadDone, QuadFigures, TurnsBegan, TurnsSettled
from edgetop.session.event_kinds import SessionOver
from edgetop.session.events import Event
from edgetop.session.records import NO_INFERENCES, NO_READINGS, Inferences, Readings, last_end_ns, measured
from edgetop.session.seconds import NS
from edgetop.session.turns import SIDES, Plan

SHARES = (0.01, *(k / 20 for k in range(1, 20)), 0.99)  # the quantiles that are stored for each quad

# Just after a switch the caches hold the other model's data and threads are asleep. Latencies at these times after a
# switch are compared with those of the second half of the turn.
STEPS_NS = tuple(ms * 1_000_000 for ms in (0, 10, 20, 40, 80, 160, 320))
# Time after a switch that is left out at least. Choice: caches and threads need some milliseconds. Larger: short
# turns have few inferences; smaller: the other model's cache misses count.
LEAST_LEFT_OUT_NS = 10_000_000
# Difference, as a share, of latencies after a switch to later ones from which they are off. Choice. Larger: the
# settling is counted; smaller: noise leaves too much out.
OFF = 0.02
# The same in standard errors of the turns' differences. Statistics: one normal value in 370 is farther off. Larger:
# the settling is counted; smaller: noise leaves too much out.
OFF_ERRORS = 3.0
SETTLING_QUADS = 4  # Number of quads from which the settling time is computed.


class QuadEvents:
    """Makes the `ab-quad` event of each complete quad (four turns) of a running A/B session."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._load = 0  # Number of earlier loads of both variants.
        self._before = 0  # Number of quads in earlier loads.
        self._power: int | None = None  # Index of the sensor of the whole board's power.
        self._averages = False  # Whether that sensor's readings are means since the previous reading.
        self._inferences: Inferences = NO_INFERENCES
        self._readings: Readings = NO_READINGS
        self._is_over = False  # Whether every turn of the plan is over.
        self._is_last = False  # Whether no turn follows.
        self._done = 0  # Quads of the plan that are done, with those of A alone and those of both.
        self._left_out_ns: int | None = None

    def fold(self, batch: Batch) -> tuple[Event, ...]:
        for place, info in enumerate(batch.manifest.sensors if batch.manifest else ()):
            if info.kind == "power" and info.role == "total":
                self._power, self._averages = place, info.averages is True
        self._inferences = np.concatenate([self._inferences, measured(batch.inferences)])
        if self._power is not None:
            self._readings = np.concatenate([self._readings, batch.readings[batch.readings["sensor"] == self._power]])
        found: list[Event] = []
        for event in batch.events:
            match event.body:
                case TurnsBegan(began) if began.turn_ns > 0 and self._plan is None:
                    self._plan = began
                case LoadBegan(load, began) if began.turn_ns > 0 and self._plan is not None:
                    # A new load begins only when all turns of the last load are over, so all its inferences have
                    # arrived.
                    self._is_over = True
                    found += self._events(self._plan)
                    self._before += self._plan.quads
                    self._plan, self._load, self._done, self._is_over = began, load, 0, False
                case SessionOver("ended", reason=reason):
                    self._is_over, self._is_last = reason == "duration", True
        if self._plan is None:
            self._inferences, self._readings = NO_INFERENCES, NO_READINGS
            return ()
        found += self._events(self._plan)
        self._forget(self._plan)
        return tuple(found)

    def _events(self, plan: Plan) -> Iterator[Event]:
        if not len(self._inferences):
            return
        reached_ns = plan.end_ns if self._is_over else int(self._inferences["t_ns"][-1])
        alone = plan.alone // 4
        count = alone + plan.quads
        if self._is_last and self._left_out_ns is None:  # fewer must do to find how long the latency is disturbed
            over = max(0, reached_ns - plan.begin_ns) // (4 * plan.turn_ns)
            count = min(count, max(over, alone))
        while self._done < count and reached_ns >= self._edges(plan, self._done)[-1]:
            if self._done >= alone and self._left_out_ns is None:
                if reached_ns < self._edges(plan, min(count, alone + SETTLING_QUADS) - 1)[-1]:
                    return
                yield self._settle(plan, min(count, alone + SETTLING_QUADS))
            quad = self._quad(plan, self._done)
            self._done += 1
            if quad is not None:
                yield quad

    def _edges(self, plan: Plan, quad: int) -> list[int]:
        """Return five session times in ns: the beginnings of the quad's four turns, and the end of the last turn."""
        return [plan.begin_ns + (4 * quad + turn) * plan.turn_ns for turn in range(5)]

    def _letters(self, plan: Plan, quad: int) -> str:
        place = 4 * quad - plan.alone
        return plan.order[place : place + 4] if place >= 0 else ("ABBA", "BAAB")[quad % 2]

    def _within(self, from_ns: int, to_ns: int) -> Inferences:
        begin, end = np.searchsorted(self._inferences["t_ns"], [from_ns, to_ns])
        return np.asarray(self._inferences[begin:end])

    def _settle(self, plan: Plan, until: int) -> Event:
        """Return the event that states for how long, in ns, the latency is disturbed after a switch between A and B.

        `until`: only the quads (of four turns) with a lower number are examined.
        """
        turns = []
        for quad in range(plan.alone // 4, until):
            edges, letters = self._edges(plan, quad), self._letters(plan, quad)
            for turn in (1, 3):  # Turns 2 and 4 follow a turn of the other variant.
                found = self._within(edges[turn], edges[turn + 1])
                found = found[found["variant"] == SIDES.index(letters[turn])]
                turns.append((found["t_ns"] - edges[turn], found["latency_ns"].astype(float)))
        self._left_out_ns = settling_ns(turns, plan.turn_ns)
        return DerivedEvent(plan.quads_ns, TurnsSettled(self._left_out_ns), "info", "edgetop")

    def _quad(self, plan: Plan, quad: int) -> Event | None:
        edges, letters = self._edges(plan, quad), self._letters(plan, quad)
        is_alone = quad < plan.alone // 4
        both = []
        for side, letter in enumerate(SIDES):
            spans = []
            for turn in range(4):
                if letters[turn] == letter:
                    switched = not is_alone and (turn == 0 or letters[turn - 1] != letter)
                    spans.append((edges[turn] + (self._left_out_ns or 0) * switched, edges[turn], edges[turn + 1]))
            found = self._figures(spans, 0 if is_alone else side)
            if found is None:
                return None
            both.append(found)
        (a, a_ns), (b, b_ns) = both
        number = self._before + quad - plan.alone // 4
        body = QuadDone(number, letters, is_alone, a, b, typical_ratio(a_ns, b_ns), self._load)
        return DerivedEvent(edges[-1], body, "info", "edgetop")

    def _figures(self, spans: Sequence[tuple[int, int, int]], side: int) -> tuple[QuadFigures, Floats] | None:
        """Return `(figures, latencies in ns)` of A or B in one quad, or None if a turn has no usable inference.

        `spans`: `(from, begin, end)` in ns for each turn of this variant. The turn lasts from `begin` to `end`, but
        inferences before `from` are left out. `side`: 0 for A, 1 for B.
        """
        kept, seconds, left_out, power = [], 0.0, 0, []
        for from_ns, begin_ns, end_ns in spans:
            turn = self._within(begin_ns, end_ns)
            turn = turn[turn["variant"] == side]
            counts = turn[(turn["t_ns"] >= from_ns) & (turn["t_ns"] + turn["latency_ns"] <= end_ns)]
            left_out += len(turn) - len(counts)
            if not len(counts):
                return None
            kept.append(counts["latency_ns"].astype(float))
            seconds += (last_end_ns(counts) - int(counts["t_ns"][0])) / NS
            power.append(self._watts(from_ns, end_ns))
        latencies = np.concatenate(kept)
        p50, p90, p99 = np.percentile(latencies, [50, 90, 99])
        known = [watts for watts in power if watts is not None]
        hz, watts = len(latencies) / seconds, float(np.mean(known)) if known else None
        figures = QuadFigures(
            count=len(latencies),
            left_out=left_out,
            p50_ns=float(p50),
            p90_ns=float(p90),
            p99_ns=float(p99),
            hz=hz,
            mj=None if watts is None else watts / hz * 1e3,
            quantiles_ns=",".join(f"{value:.0f}" for value in np.quantile(latencies, SHARES)),
        )
        return figures, latencies

    def _watts(self, from_ns: int, to_ns: int) -> float | None:
        """Return the mean power in W between two session times in ns, or None if it is unknown.

        Some sensors report the mean since their previous reading. For these sensors, the first reading in the span is
        left out, because it also covers time before the span.
        """
        t_ns = self._readings["t_ns"]
        begin, end = np.searchsorted(t_ns, [from_ns, to_ns]).tolist()
        begin += self._averages
        return float(self._readings["value"][begin:end].mean()) if begin < end else None

    def _forget(self, plan: Plan) -> None:
        first = max(plan.alone // 4, self._done) if self._left_out_ns is None else self._done
        from_ns = self._edges(plan, min(first, self._done))[0]
        self._inferences = self._inferences[np.searchsorted(self._inferences["t_ns"], from_ns) :].copy()
        self._readings = self._readings[np.searchsorted(self._readings["t_ns"], from_ns) :].copy()


def settling_ns(turns: Sequence[tuple[npt.NDArray[np.int64], Floats]], turn_ns: int) -> int:
    """Return for how many ns after a switch to A or B the latencies differ from those in the rest of the turn.

    The result is at least LEAST_LEFT_OUT_NS, or a quarter of the turn if that is shorter. `turns`: for each turn, two
    arrays in ns with an entry for each inference: its time since the switch, and its latency. `turn_ns`: the length of
    a turn in ns.
    """
    steps = [step for step in STEPS_NS if step <= turn_ns / 2]
    left_out = min(LEAST_LEFT_OUT_NS, turn_ns // 4)
    for begin, end in pairwise(steps):
        ratios = []
        for t_ns, latencies in turns:
            early, late = latencies[(t_ns >= begin) & (t_ns < end)], latencies[t_ns >= turn_ns / 2]
            if len(early) and len(late):
                ratios.append(float(np.median(early) / np.median(late)))
        if len(ratios) < len(turns) / 2 or not ratios:
            continue
        middle = float(np.median(ratios))
        scatter = float(np.median(np.abs(np.array(ratios) - middle))) * 1.4826 / math.sqrt(len(ratios))
        if abs(middle - 1) > max(OFF, OFF_ERRORS * scatter):
            left_out = max(left_out, end)
    return left_out
