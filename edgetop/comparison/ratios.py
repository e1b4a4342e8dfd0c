"""Compare sessions: each figure as a ratio to the baseline, with an interval and a verdict such as `slower`.

Three corrections prevent false differences (`edgetop help compare`). Intervals hold jointly for all groups that are
compared with the baseline (Bonferroni). Rows other than the main figures must pass a test of the false discovery rate
(Benjamini and Hochberg 1995, Journal of the Royal Statistical Society B 57(1)). The listed operators are those that
changed most, so their level is divided by the number of all operators. Groups without a significant difference share a
rank.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgetop.comparison.fairness import fairness, warmth
from edgetop.comparison.figures import (
    FACTS,
    FIGURES,
    TOTAL_TIME,
    Figure,
    figures_for,
    figures_of_streams,
    operators,
    setting_facts,
)
from edgetop.comparison.meters import is_same_meter, spread_of_meters
from edgetop.comparison.output_agreement import Judge, lines
from edgetop.comparison.sample import Group, Sample, in_turns, p99_spread, turns_ratio
from edgetop.comparison.student import LEVEL, Contrast, Side, contrast, quantile, sessions_needed
from edgetop.formatting import rounded
from edgetop.frozen import frozen
from edgetop.session.events import Notice
from edgetop.wording.ab_words import verdict_words
from edgetop.wording.report_document import to_json

Value = str | float | None
RANKED_BY = "p50_ms"
LEADS = frozenset(figure.key for figure in FIGURES if figure.is_lead)

LONE = "cannot tell: one session each"
FEW = "cannot tell (too few)"
CHANCE = "cannot tell (one of many rows)"
# Number of sessions that measure the spread between sessions. Choice: as `edgetop help compare` advises. Larger: the
# advice takes hours; smaller: the spread is itself rough.
SEVERAL = 5
SAME_OUTPUTS = "outputs are matched by name and shape, else by place and shape; the others are compared"
AS_MANY = "keep as many of both, from the same --input and --seed: edgetop run --keep-outputs 64"


@frozen
class Ratio:
    """A figure, such as p50, of one group of sessions compared with the same figure of the baseline."""

    value: float | None  # None if one of them is unknown, or if the figure is compared as a difference
    ci95: tuple[float, float] | None
    verdict: str  # slower, faster, higher, lower, same or unknown
    difference: float | None
    difference_ci95: tuple[float, float] | None
    words: str
    chance: float | None = None  # probability of such a difference if there is none in truth
    # What would settle a verdict that is "unknown", as far as it is known:
    needs_sessions: int | None = None  # sessions of each side, as long as these
    needs_s: float | None = None  # seconds of measuring, of all sessions together


@frozen
class Row:
    key: str
    label: str
    unit: str
    values: tuple[Value, ...]  # value of each group: the geometric mean of its sessions, or the mean
    ratios: tuple[Ratio | None, ...]  # None for the baseline itself, and in rows that are not compared
    stream: str = ""  # the stream that the row is of, in sessions with several
    settled: tuple[bool, ...] = ()  # of each group, whether all sessions have enough inferences for it; (): all have

    def is_settled(self, place: int) -> bool:
        """Whether all sessions of the group number `place` have enough inferences for the figure."""
        return not self.settled or self.settled[place]


@frozen
class Rank:
    rank: int
    sessions: tuple[str, ...]  # names of the groups that share this rank
    values: tuple[float, ...]


@frozen
class Comparison:
    groups: tuple[Group, ...]  # the first group is the baseline
    rows: tuple[Row, ...]
    fair: tuple[Notice, ...]
    ranking: tuple[Rank, ...]
    ranked_by: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(group.name for group in self.groups)

    @property
    def leads(self) -> tuple[Row, ...]:
        """The rows of the main figures, which sum up the comparison. The figure that ranks the groups comes first."""
        keys = {*LEADS, self.ranked_by}
        rows = [row for row in self.rows if row.key.partition("[")[0] in keys and any(row.ratios)]
        return tuple(sorted(rows, key=lambda row: row.key != self.ranked_by))

    def row(self, key: str) -> Row | None:
        return next((row for row in self.rows if row.key == key), None)


def compare(groups: Sequence[Group], ranked_by: str | None = None, judge: Judge | None = None) -> Comparison:
    """Return the comparison of two or more groups of sessions. The first group is the baseline.

    `ranked_by` is the key of the figure that ranks the groups; None means p50, or the total time for programs without
    inferences. `judge` has labels and a metric for kept outputs. Raises ValueError for fewer than two groups.
    """
    if len(groups) < 2:
        raise ValueError("a comparison needs two sessions or groups")
    level = LEVEL / (len(groups) - 1)
    base, others = groups[0], [sample for group in groups[1:] for sample in group.samples]
    moved, of = operators(base.samples[0], others)
    outputs = [next((one.outputs for one in group.samples if one.outputs), None) for group in groups]
    agreeing, refused, partly = lines(outputs, judge or Judge())
    none = (None,) * len(groups)
    samples = [sample for group in groups for sample in group.samples]
    facts = (
        Row(one.key, one.label, one.unit, tuple(_fact(of, one.read) for of in groups), none)
        for one in (*FACTS, *setting_facts(samples))
    )
    spreads = tuple(p99_spread(group.samples) for group in groups)
    is_known = any(one is not None for one in spreads)
    spread = [Row("p99_spread", "p99 spread", "share", spreads, none)] if is_known else []
    streams, figures = figures_of_streams(samples), figures_for(samples)
    leads = {figure.key for figure in figures if figure.is_lead}
    rows = discovered([_row(groups, figure, level) for figure in (*streams, *figures)], leads)
    if ranked_by is None:
        has_latency = any(one.report.latency.p50_ms is not None for one in samples)
        ranked_by = RANKED_BY if has_latency or figures is FIGURES else TOTAL_TIME.key
    return Comparison(
        groups=tuple(groups),
        rows=(
            *facts,
            *spread,
            *(Row(one.key, one.label, one.unit, one.values, none) for one in agreeing),
            *rows,
            *(_row(groups, figure, level / of) for figure in moved),
        ),
        fair=(
            *fairness(groups),
            *(
                Notice("outputs-not-compared", f"{groups[place].name}: outputs are not compared: {why}", AS_MANY)
                for place, why in refused.items()
            ),
            *(
                Notice("outputs-not-compared", f"{groups[place].name}: not compared: output {which}", SAME_OUTPUTS)
                for place, which in partly.items()
            ),
        ),
        ranking=_ranking(groups, next(figure for figure in figures if figure.key == ranked_by)),
        ranked_by=ranked_by,
    )


def _fact(group: Group, read: Callable[[Sample], Value]) -> Value:
    """Return the value that all sessions of a group share, or a text with all values if they differ."""
    each = list(dict.fromkeys(map(read, group.samples)))
    return each[0] if len(each) == 1 else ", ".join(map(str, each))


def _row(groups: Sequence[Group], figure: Figure, level: float) -> Row:
    values = tuple(_value(group, figure) for group in groups)
    ratios = tuple(ratio(groups[0], group, figure, level) for group in groups[1:])
    settled = tuple(all(map(figure.is_settled, group.samples)) for group in groups)
    return Row(figure.key, figure.label, figure.unit, values, (None, *ratios), figure.stream, settled)


def _value(group: Group, figure: Figure) -> float | None:
    each = [value for sample in group.samples if (value := figure.read(sample)) is not None]
    if not each:
        return None
    if figure.is_difference or min(each) <= 0:
        return round(float(np.mean(each)), 6)
    return each[0] if len(each) == 1 else round(float(np.exp(np.mean(np.log(each)))), 6)


def ratio(base: Group, other: Group, figure: Figure, level: float = LEVEL) -> Ratio:
    """Return one figure of the group `other` divided by the same figure of the group `base`, with a verdict.

    `level` is the share of intervals that may miss the true value, such as 0.05.
    """
    known = [[value for one in group.samples if (value := figure.known(one)) is not None] for group in (base, other)]
    if not all(known):
        return Ratio(None, None, "unknown", None, None, "not known")
    before, after = (float(np.mean([figure.on_scale(value) for value in values])) for values in known)
    is_lone = len(base.samples) == len(other.samples) == 1
    if is_lone and (view := in_turns(base.samples[0], other.samples[0])):
        whole = replace(judged(None, before, after, figure), words="")
        if (turns := turns_ratio(view, figure.key)) is None:
            return whole
        value, low, high = (round(end, 6) for end in (turns.value, *turns.ci95))
        apart = [round(math.exp(min(before, 700.0)) * (end - 1), 6) for end in (value, low, high)]
        needs_s = rounded(turns.needs_s) if turns.verdict == "unknown" else None
        words = verdict_words(turns)
        return Ratio(value, (low, high), turns.verdict, apart[0], (apart[1], apart[2]), words, needs_s=needs_s)
    found = _contrast(base, other, figure)
    one = judged(found, before, after, figure, level, is_lone=is_lone)
    if one.verdict != "unknown" or not figure.is_judged:
        return one
    sessions, seconds = _needs(base, other, figure, found, level)
    return replace(one, needs_sessions=sessions, needs_s=rounded(seconds))


def _needs(
    base: Group, other: Group, figure: Figure, found: Contrast | None, level: float
) -> tuple[int | None, float | None]:
    """Return how many sessions each side needs for a certain difference, and the time in s of all these sessions.

    If the present sessions have too few inferences, only their needed time is known. None means unknown. `found` is the
    present difference. `level` is the share of intervals that may miss the true value, such as 0.05.
    """
    samples = (*base.samples, *other.samples)
    lasted_s = [(one.session.duration_ns or 0) / 1e9 for one in samples]
    counts = [one.report.latency.count or 0 for one in samples]
    if min(counts) < figure.least_count:
        if not (min(counts) and min(lasted_s)):
            return None, None
        return None, sum(s * max(1.0, figure.least_count / count) for s, count in zip(lasted_s, counts, strict=True))
    if found is None or not found.error:
        return None, None
    sizes = len(base.samples), len(other.samples)
    # A difference is certain if its interval excludes 0, or lies within the limits of "the same".
    off = abs(found.difference)
    within = figure.within if figure.is_difference else math.log1p(figure.within)
    meters = _of_meters(base, other, figure)  # No number of sessions reduces the errors of meters.
    left = max(off, within - off) ** 2 - (quantile(level, math.inf) * meters) ** 2
    if left <= 0:
        return None, None
    spread = math.sqrt(max(found.error**2 - meters**2, 0.0) / sum(1 / size for size in sizes))
    sessions = sessions_needed(spread, math.sqrt(left), level)
    if sessions is None and max(sizes) > 1:
        return None, None
    sessions = max(sessions or SEVERAL, max(sizes) + 1)
    if max(sizes) == 1:  # the spread is a cautious assumption; several sessions measure it
        sessions = min(sessions, SEVERAL)
    mean_s = sum(lasted_s) / len(lasted_s)
    return sessions, 2 * sessions * mean_s if min(lasted_s) else None


def judged(
    found: Contrast | None, before: float, after: float, figure: Figure, level: float = LEVEL, *, is_lone: bool = False
) -> Ratio:
    """Return the ratio of two means, with a verdict on whether the difference is real.

    `before` and `after` are the means of baseline and group, on the figure's scale (a logarithm for ratios). `found` is
    their difference with its uncertainty, or None if unknown. `level` is the share of intervals that may miss the true
    value. `is_lone` says that each side has one session.
    """
    if figure.is_difference:
        whole = Ratio(None, None, "unknown", round(after - before, 6), None, "")
    else:
        times = math.exp(after - before)
        whole = Ratio(round(times, 6), None, "unknown", round(math.exp(before) * (times - 1), 6), None, "")
    if found is None or not figure.is_judged:
        return replace(whole, words="" if not figure.is_judged else LONE if is_lone else FEW)
    low, high = found.interval(level)
    if figure.is_difference:
        whole = replace(whole, difference_ci95=(round(low, 6), round(high, 6)))
    else:
        ends = tuple(math.exp(min(end, 700.0)) for end in (low, high))
        whole = replace(
            whole,
            ci95=(round(ends[0], 6), round(ends[1], 6)),
            difference_ci95=(round(math.exp(before) * (ends[0] - 1), 6), round(math.exp(before) * (ends[1] - 1), 6)),
        )
    verdict, words = _verdict(figure, low, high, is_lone=is_lone and bool(found.error))
    return replace(whole, verdict=verdict, words=words, chance=found.chance)


def _verdict(figure: Figure, low: float, high: float, *, is_lone: bool) -> tuple[str, str]:
    if low > 0 or high < 0:
        word = figure.more if low > 0 else figure.less
        return word, word
    off = max(0.0, -low, high) if figure.is_difference else max(1 - math.exp(low), math.expm1(min(high, 700.0)))
    if is_lone or off > figure.within:
        return "unknown", LONE if is_lone else FEW
    if figure.unit == "share":
        return "same", f"the same within {off * 100:.2g} points"
    return "same", f"the same within {f'{off:.2g} {figure.unit}' if figure.is_difference else f'{off * 100:.2g} %'}"


def _contrast(base: Group, other: Group, figure: Figure) -> Contrast | None:
    if any((one.report.latency.count or 0) < figure.least_count for one in (*base.samples, *other.samples)):
        return None
    first, second = base.samples[0], other.samples[0]
    is_lone = len(base.samples) == len(other.samples) == 1
    if is_lone and first.session.id == second.session.id and figure.read(first) == figure.read(second):
        return Contrast(0.0, 0.0, 1.0)
    sides = []
    for group, facing in ((base, second), (other, first)):
        values = [figure.on_scale(value) for one in group.samples if (value := figure.known(one)) is not None]
        lone = figure.spread_between_runs(group.samples[0], warmth(group.samples[0], facing)) if is_lone else None
        sides.append(Side(values, lone))
    if max(len(side.values) for side in sides) == 1 and not is_lone:
        return None
    found = contrast(sides[0], sides[1])
    return found and found.with_fixed(_of_meters(base, other, figure))


def _of_meters(base: Group, other: Group, figure: Figure) -> float:
    """Return the standard uncertainty that the power meters of two groups add to the difference of a figure.

    The meter of a group's first session counts.
    """
    if figure.meter is None:
        return 0.0
    first, second = base.samples[0], other.samples[0]
    return spread_of_meters(figure.meter(first), figure.meter(second), is_same=is_same_meter(first, second))


def discovered(rows: list[Row], leads: Collection[str] = LEADS) -> list[Row]:
    """Return the rows after a test for false discoveries: a difference that fails the test gets the verdict "unknown".

    `leads` are the keys of the main figures, which are exempt.
    """
    chances = sorted(
        (one.chance, i, k)
        for i, row in enumerate(rows)
        for k, one in enumerate(row.ratios)
        if one and one.chance is not None
    )
    passed = [n for n, (chance, *_) in enumerate(chances, 1) if chance <= LEVEL * n / len(chances)]
    for _, i, k in chances[max(passed, default=0) :]:
        one = rows[i].ratios[k]
        if one and one.verdict not in ("same", "unknown") and rows[i].key.partition("[")[0] not in leads:
            doubtful = replace(one, verdict="unknown", words=CHANCE)
            rows[i] = replace(rows[i], ratios=(*rows[i].ratios[:k], doubtful, *rows[i].ratios[k + 1 :]))
    return rows


def _ranking(groups: Sequence[Group], figure: Figure) -> tuple[Rank, ...]:
    """Return the ranks of the groups by one figure, the best first.

    Groups that do not differ significantly share a rank.
    """
    known = [(value, group) for group in groups if (value := _value(group, figure)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=figure.more == "faster")
    level = LEVEL / max(len(known) * (len(known) - 1) / 2, 1)
    apart = [[ratio(a, b, figure, level).verdict not in ("same", "unknown") for _, b in known] for _, a in known]
    found: list[Rank] = []
    begin = 0
    for cut in range(1, len(known) + 1):
        if cut == len(known) or all(apart[i][j] for i in range(cut) for j in range(cut, len(known))):
            tied = known[begin:cut]
            found.append(Rank(begin + 1, tuple(group.name for _, group in tied), tuple(value for value, _ in tied)))
            begin = cut
    return tuple(found)


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as the document that `--json` prints."""
    groups = ((group.name, [one.session for one in group.samples]) for group in comparison.groups)
    ratios = (
        [one and {name: value for name, value in to_json(one).items() if name != "chance"} for one in row.ratios]
        for row in comparison.rows
    )
    rows = zip(comparison.rows, ratios, strict=True)
    return {
        "sessions": list(comparison.names),
        "groups": [
            {"name": name, "sessions": [of.name for of in each], "simulated": any(of.board.simulated for of in each)}
            for name, each in groups
        ],
        "rows": [{"key": row.key, "unit": row.unit, "values": list(row.values), "ratios": of} for row, of in rows],
        "fair": [{"code": one.code, "message": one.message, "advice": one.advice} for one in comparison.fair],
        "ranking": to_json(comparison.ranking),
        "ranked_by": comparison.ranked_by,
    }
