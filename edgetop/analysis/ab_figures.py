"""Computes the figures of an A/B session while it runs, and compares A and B by these figures.

While the session runs, the figures of each quad (four turns) are recorded as an event, `ab-quad`. The comparison is
computed from these events, so it is the same live and from a recording, and does not need the individual inferences.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.paired import LEAST_PAIRS, Difference, Floats, difference, typical_ratio, undisturbed
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.engine_events import LoadBegan, QuadDone, QuadFigures, TurnsBegan, TurnsSettled
from edgetop.session.event_kinds import SessionOver
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.records import NO_INFERENCES, NO_READINGS, Inferences, Readings, last_end_ns, measured
from edgetop.session.seconds import NS
from edgetop.session.turns import SIDES, Plan
from edgetop.session.typed_json import Document

# The figures that have a ratio: the field of `QuadFigures`, the field of `VariantFigures`, and the factor between them.
METRICS = {
    "p50": ("p50_ns", "p50_ms", 1e6), "p90": ("p90_ns", "p90_ms", 1e6), "p99": ("p99_ns", "p99_ms", 1e6),
    "throughput": ("hz", "throughput_hz", 1.0), "energy": ("mj", "energy_mj", 1.0),
}  # fmt: skip
GROWING = ("throughput",)  # Figures of which a higher value is faster.
SHARES = (0.01, *(k / 20 for k in range(1, 20)), 0.99)  # the quantiles that are stored for each quad
# Number of quads before which a session with a precision does not end. Choice: the interval may be narrow by chance.
# Larger: sessions last longer; smaller: chance ends them.
LEAST_RESOLVING = 20
# The same in loads. Choice: the difference between loads is then known to a quarter. Larger: sessions last longer;
# smaller: the difference between loads is underestimated, and equal models differ.
LEAST_RESOLVING_LOADS = 8
# Standard deviation of the logarithm of the ratio that is assumed for one load, if there are too few loads to measure
# how they differ. Measured: in A/A sessions of models of 15 us that loaded each model once, the ratio was 0.95 to
# 1.12. Larger: short sessions find no difference; smaller: equal models differ.
UNKNOWN_SPREAD = 0.12
# Smallest difference that counts. Measured: with 7 to 60 loads that differ by 0.3 to 3 %, 0 to 1.6 % of simulated A/A
# sessions were judged different; the interval alone allows 4 %. Larger: 0.5 % would reduce that to 1.2 %, but miss a
# difference of 1 % in one of five sessions of eight loads that differ by 0.3 %, instead of one of forty; smaller:
# equal models differ.
LEAST_DIFFERENCE = 0.003
# Distance from 1 within which the whole interval must be for "same". Choice: less than a slowdown. Larger: a
# difference that matters is called the same; smaller: short sessions are "unknown".
SAME_WITHIN = 0.05

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


# What follows runs while the session runs.


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
                case SessionOver("ended", reason="duration"):
                    self._is_over = True
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


# What follows is computed from the events.


@frozen
class Ratio:
    """A figure of variant B divided by the same figure of variant A, with its 95 % interval."""

    value: float
    ci95: tuple[float, float]
    verdict: str  # For B: "slower" or "faster", for energy "higher" or "lower"; else "same" or "unknown".
    needs_s: float | None  # Time of turns still needed for the requested precision; None if it is reached.

    @property
    def within(self) -> float:
        """Return the distance from 1 of the interval's farther end, such as 0.03 for the interval 0.99 to 1.03."""
        return max(abs(end - 1) for end in self.ci95)


@frozen
class VariantFigures:
    """The figures of variant A or B.

    Each figure is the median over the quads (of four turns). The field names are keys of the report's JSON document.
    """

    name: str
    count: int  # Number of inferences.
    left_out: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    throughput_hz: float
    energy_mj: float | None


@frozen
class Turn:
    """One turn of an A/B session: the time in which one variant runs alone."""

    variant: str  # "A" or "B"; "" while A runs alone, before the first quad.
    number: int  # Number of the quad, or of the turn of A alone, from 1.
    count: int  # Number of quads in this load, or of turns of A alone.
    load: int = 1  # number of the load
    loads: int = 1  # Number of loads planned; 1 if each variant is loaded once.
    is_over: bool = False  # Whether this was the last turn of its load, so that both variants are being loaded again.


@frozen
class AbView:
    plan: Plan  # Plan of the first load.
    latest: Plan  # Plan of the latest load.
    load: int  # number of the latest load, from 0
    loads: int  # Number of loads of each variant behind the ratios.
    quads: int  # Number of quads that are over.
    disturbed: int  # Number of quads whose ratio of p50 is too far off to count.
    variants: tuple[VariantFigures, ...]  # Empty before the first quad.
    ratios: Mapping[str, Ratio | None]  # By METRICS; None if not known yet.
    smallest: Mapping[str, float | None]  # From A alone: the smallest difference that can be detected, as a share.
    left_out_ns: int | None
    until: float
    is_resolved: bool
    quantiles_ns: tuple[Floats, ...]  # For A and for B: a row of quantiles at SHARES for each quad.
    p50_logs: Floats  # Logarithm of the ratio of p50 in each quad.

    def turn(self, now_ns: int) -> "Turn":
        """Return the turn that runs at the session time `now_ns`, in ns."""
        plan, loads = self.latest, self.latest.loads
        number = (now_ns - plan.begin_ns) // plan.turn_ns
        if number < plan.alone:
            return Turn("", max(0, number) + 1, plan.alone)
        place = min(number - plan.alone, len(plan.order) - 1)
        is_over = number - plan.alone > place and self.load + 1 < loads
        return Turn(plan.order[place], place // 4 + 1, plan.quads, self.load + 1, loads, is_over)


class AbFold:
    """Compares A and B of an A/B session, from its `ab-quad` events alone."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        # The latest load and its plan; None if each variant was loaded once.
        self._latest: tuple[int, Plan] | None = None
        self._left_out_ns: int | None = None
        self._quads: list[QuadDone] = []
        self._alone: list[QuadDone] = []
        self._view: AbView | None = None

    def on_event(self, event: Event) -> None:
        match event.body:
            case TurnsBegan(plan) if plan.turn_ns > 0:
                self._plan = plan
            case LoadBegan(load, plan) if plan.turn_ns > 0:
                self._latest = load, plan
            case TurnsSettled(left_out_ns):
                self._left_out_ns = left_out_ns
            case QuadDone() as quad if _is_sound(quad):
                (self._alone if quad.alone else self._quads).append(quad)
            case _:
                return
        self._view = None

    def view(self, manifest: Manifest | None) -> AbView | None:
        """Return the comparison so far, or None if the session is no A/B session or its first turn has not begun."""
        if self._plan is None or manifest is None or manifest.ab is None:
            return None
        if self._view is None:
            self._view = self._make(self._plan, manifest.ab.until, [v.name for v in manifest.ab.variants])
        return self._view

    def _make(self, plan: Plan, until: float, names: Sequence[str]) -> AbView:
        ratios = {name: _log_ratios(self._quads, key) for name, (key, *_) in METRICS.items()}
        known = {name: between_loads(values, loads) for name, (values, loads) in ratios.items()}
        p50, spent_s = known["p50"], len(self._quads) * 4 * plan.turn_ns / NS
        p50_logs, p50_loads = ratios["p50"]
        loads = len(np.unique(p50_loads))
        load, latest = self._latest or (0, plan)
        sides = zip(names, _both_sides(self._quads), strict=False) if self._quads else ()
        is_enough = len(self._quads) >= LEAST_RESOLVING and loads >= LEAST_RESOLVING_LOADS
        return AbView(
            plan=plan,
            latest=latest,
            load=load,
            loads=loads,
            quads=len(self._quads),
            disturbed=len(p50_logs) - len(undisturbed(p50_logs)),
            variants=tuple(_figures(name, side) for name, side in sides),
            ratios={name: None if d is None else _ratio(name, d, until, spent_s) for name, d in known.items()},
            smallest={name: self._smallest(key, plan.quads * plan.loads) for name, (key, *_) in METRICS.items()},
            left_out_ns=self._left_out_ns,
            until=until,
            is_resolved=p50 is not None and is_enough and p50.half_width <= until,
            quantiles_ns=tuple(map(_quantiles, _both_sides(self._quads))),
            p50_logs=p50_logs,
        )

    def _smallest(self, key: str, quads: int) -> float | None:
        """Return the smallest difference between A and B that `quads` quads can show, as a share (0.01 is 1 %).

        It is estimated from the turns in which A ran alone, and is None if there were too few of them. `key`: the
        figure that is compared, as a field of `QuadFigures`, such as `p50_ns`.
        """
        values = undisturbed(_log_ratios(self._alone, key)[0])
        if len(values) < LEAST_PAIRS - 2:
            return None
        return float(2 * values.std(ddof=1) / math.sqrt(max(quads, 1)))


def _is_sound(quad: QuadDone) -> bool:
    return all(
        all(map(_is_possible, (of.p50_ns, of.p90_ns, of.p99_ns, of.hz, of.count)))
        and of.quantiles_ns.count(",") == len(SHARES) - 1
        and of.quantiles_ns.replace(",", "").isdecimal()
        for of in (quad.a, quad.b)
    )


def _is_possible(value: float | None) -> bool:
    return value is not None and 0 < value < 1e18


def _both_sides(quads: Sequence[QuadDone]) -> tuple[list[QuadFigures], list[QuadFigures]]:
    return [quad.a for quad in quads], [quad.b for quad in quads]


def _log_ratios(quads: Sequence[QuadDone], key: str) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return two arrays with an entry for each quad (four turns): log(B / A) of one figure, and the quad's load number.

    Both models are loaded several times; a quad's load number says which loading came before the quad. `key`: the
    figure, as a field of `QuadFigures`, such as `p50_ns`. Quads in which A or B lacks this figure are left out.
    """
    loads = np.array([quad.load or 0 for quad in quads], np.int64)
    if key == METRICS["p50"][0] and all(_is_possible(quad.p50_ratio) for quad in quads):
        return np.asarray(np.log(np.array([quad.p50_ratio for quad in quads], float))), loads
    pairs = np.array([(getattr(quad.a, key) or 0, getattr(quad.b, key) or 0) for quad in quads], float).reshape(-1, 2)
    is_known = (pairs > 0).all(axis=1)
    a, b = pairs[is_known].T
    return np.asarray(np.log(b / a)), loads[is_known]


def between_loads(logs: Floats, loads: npt.NDArray[np.int64]) -> Difference | None:
    """Return the typical log(B / A) of a figure with its confidence interval, or None if there are too few quads.

    `logs`: log(B / A) of the figure in each quad (four turns). `loads`: for each quad, the number of the loading of
    both models that came before the quad. After another loading, all inferences may be faster or slower. So the mean
    over the quads of one loading is one sample. If there are too few loadings, each quad is a sample, and the interval
    is made wider.
    """
    counted = undisturbed(logs)
    if len(counted) < len(logs):
        is_counted = np.isin(logs, counted)
        logs, loads = logs[is_counted], loads[is_counted]
    numbers = np.unique(loads)
    if len(numbers) >= LEAST_PAIRS:
        return difference(np.array([logs[loads == number].mean() for number in numbers]))
    found = difference(logs)
    if found is None:
        return None
    more = UNKNOWN_SPREAD / math.sqrt(len(numbers))
    return replace(found, low=found.low - more, high=found.high + more)


def _quantiles(side: Sequence[QuadFigures]) -> Floats:
    return np.array([of.quantiles_ns.split(",") for of in side], float).reshape(-1, len(SHARES))


def binned(quantiles: Floats, edges: Floats) -> Floats:
    """Return the share of inferences, 0 to 1, between each two successive `edges`, as the mean over all quads.

    `edges`: latencies in ns, ascending. `quantiles`: a row for each quad (four turns), with its latencies in ns at the
    quantiles SHARES.
    """
    below = np.mean([np.interp(edges, row, SHARES, left=0.0) for row in quantiles], axis=0)
    return np.diff(below)


def _ratio(name: str, found: Difference, until: float, spent_s: float) -> Ratio:
    """Return the ratio B / A of a figure, with its interval and verdict.

    `name`: the figure, a key of METRICS, such as `p99`. `found`: log B minus log A, with its interval. `until`: the
    requested precision, as a share. A difference that is certainly smaller has the verdict "same". `spent_s`: how long
    the turns have lasted so far, in s.
    """
    low, high = math.exp(found.low), math.exp(found.high)
    needs_s = spent_s * (found.half_width / until) ** 2 if found.half_width > until else None
    within = max(abs(low - 1), abs(high - 1))
    if within <= until:
        verdict = "same"
    elif low - LEAST_DIFFERENCE <= 1 <= high + LEAST_DIFFERENCE:
        verdict = "same" if within <= max(SAME_WITHIN, until) else "unknown"
    elif name == "energy":
        verdict = "higher" if low > 1 else "lower"
    else:
        verdict = "faster" if (low > 1) == (name in GROWING) else "slower"
    return Ratio(math.exp(found.value), (low, high), verdict, needs_s)


def _figures(name: str, side: Sequence[QuadFigures]) -> VariantFigures:
    """Return the figures of one variant, each as the median over all quads.

    `name`: the variant's name. `side`: the variant's figures in each quad.
    """
    figures: Document = {}
    for key, field, scale in METRICS.values():
        values = [getattr(of, key) for of in side]
        figures[field] = None if None in values else float(np.median(values)) / scale
    return VariantFigures(name, sum(of.count for of in side), sum(of.left_out for of in side), **figures)
