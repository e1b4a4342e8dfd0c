"""Compares A and B of an A/B session by the figures of its quads (four turns), which `ab_quads` records as events."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.ab_quads import SHARES
from edgetop.analysis.paired import (
    FEWEST_PAIRS,
    LEAST_PAIRS,
    Difference,
    Floats,
    difference,
    undisturbed,
    wide_difference,
)
from edgetop.frozen import frozen
from edgetop.session.distinct import distinct
from edgetop.session.engine_events import LoadBegan, QuadDone, QuadFigures, TurnsBegan, TurnsSettled
from edgetop.session.event_kinds import SessionOver
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS
from edgetop.session.turns import Plan
from edgetop.session.typed_json import Document

# The figures that have a ratio: the field of `QuadFigures`, the field of `VariantFigures`, and the factor between them.
METRICS = {
    "p50": ("p50_ns", "p50_ms", 1e6), "p90": ("p90_ns", "p90_ms", 1e6), "p99": ("p99_ns", "p99_ms", 1e6),
    "throughput": ("hz", "throughput_hz", 1.0), "energy": ("mj", "energy_mj", 1.0),
}  # fmt: skip
GROWING = ("throughput",)  # Figures of which a higher value is faster.
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
class TooFew:
    """Why an A/B session has no ratio: it has too few quads (of four turns) in which both A and B were measured."""

    quads: int  # Number of quads with figures.
    # Number of quads that are over without figures, because in one of their turns no inference of its variant counts.
    empty: int
    least: int  # Number of quads with figures that an interval takes.
    needs_s: float | None  # Further time of turns that is needed at this rate; None if every quad so far is empty.


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
    too_few: TooFew | None = None  # None if the ratio of p50 is known.

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
        self._over = 0  # Number of quads that are over, with figures or without.
        self._before = 0  # Number of quads in earlier loads.
        self._alone_left_ns = 0  # Time in which A should still have run alone when the session ended.

    def on_event(self, event: Event) -> None:
        match event.body:
            case TurnsBegan(plan) if plan.turn_ns > 0:
                self._plan = plan
            case LoadBegan(load, plan) if plan.turn_ns > 0:
                # A new load begins only when all turns of the last load are over.
                self._before += (self._latest[1] if self._latest else self._plan or plan).quads
                self._over = max(self._over, self._before)
                self._latest = load, plan
            case SessionOver() as ended if self._plan is not None:
                latest = self._latest[1] if self._latest else self._plan
                # Unless the time was over, the last quad is over only if an inference ended after it.
                cut_ns = event.t_ns if ended.reason == "duration" else ended.last_end_ns
                in_quads_ns = (event.t_ns if cut_ns is None else cut_ns) - latest.quads_ns
                over, self._alone_left_ns = in_quads_ns // (4 * latest.turn_ns), max(0, -in_quads_ns)
                self._over = max(self._over, self._before + min(max(over, 0), latest.quads))
            case TurnsSettled(left_out_ns):
                self._left_out_ns = left_out_ns
            case QuadDone() as quad if _is_sound(quad):
                (self._alone if quad.alone else self._quads).append(quad)
                self._over = max(self._over, quad.quad + 1)
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
        loads = len(distinct(p50_loads))
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
            too_few=self._too_few(plan, len(p50_logs)) if p50 is None else None,
        )

    def _too_few(self, plan: Plan, known: int) -> TooFew:
        """Return why there is no ratio of p50.

        `plan`: of the first load. `known`: number of quads that have a ratio.
        """
        empty = max(0, self._over - known)
        each_s = 4 * plan.turn_ns / NS * (1 + empty / known) if known else None if empty else 4 * plan.turn_ns / NS
        needs_s = None if each_s is None else self._alone_left_ns / NS + max(FEWEST_PAIRS - known, 0) * each_s
        return TooFew(known, empty, FEWEST_PAIRS, needs_s)

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
    is made wider. With fewer than six quads, the interval assumes in addition that they are normally distributed.
    """
    counted = undisturbed(logs)
    if len(counted) < len(logs):
        is_counted = np.isin(logs, counted)
        logs, loads = logs[is_counted], loads[is_counted]
    numbers = distinct(loads)
    if len(numbers) >= LEAST_PAIRS:
        return difference(np.array([logs[loads == number].mean() for number in numbers]))
    found = difference(logs) or wide_difference(logs)
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
