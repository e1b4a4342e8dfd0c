"""The results of an A/B session in words and as a document. The words are the same on the screen and in reports."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from edgetop import formatting
from edgetop.analysis.ab_figures import METRICS, AbView, Ratio, Turn, VariantFigures
from edgetop.analysis.paired import LEAST_PAIRS
from edgetop.formatting import rounded

FACTOR = 2.0  # from which on a ratio is written as such


def p50_words(view: AbView) -> str:
    """Return how B differs from A at p50, such as `B is slower at p50: +4.9 % (4.1 to 5.7)`."""
    return difference_words(view.ratios["p50"], view.smallest["p50"])


def difference_words(ratio: Ratio | None, smallest: float | None) -> str:
    """Return how B differs from A at p50, such as `B is slower at p50: +4.9 % (4.1 to 5.7)`.

    `ratio` is B divided by A, or None if unknown. `smallest` is the smallest difference that this session could detect,
    as a share (0.01 is 1 %), or None if unknown.
    """
    if ratio is None:
        resolvable = "" if smallest is None else f", {_share(smallest)} can be told apart here"
        return f"too few turns to compare{resolvable}"
    if ratio.verdict == "unknown":
        return f"A and B are not told apart at p50: {change_words(ratio)}"
    return f"B is {verdict_words(ratio)} at p50: {change_words(ratio)}"


def choice_words(ratio: Ratio | None) -> str:
    """Return which of A and B to use, judged by p50, or that more turns are needed to tell A and B apart.

    `ratio` is B divided by A, or None if unknown.
    """
    if ratio is None or ratio.verdict == "unknown":
        return "more turns, to tell A and B apart"
    if ratio.verdict == "same":
        return f"either: p50 is {verdict_words(ratio)}"
    return f"{'A' if ratio.value > 1 else 'B'} (faster)"


def turn_words(turn: Turn) -> str:
    """Return which turn of an A/B session runs now, in words. A quad is four turns (ABBA or BAAB).

    >>> turn_words(Turn("", 3, 12)), turn_words(Turn("B", 4, 12)), turn_words(Turn("B", 1, 3, 2, 9))
    ('A alone, turn 3 of 12', 'quad 4 of 12, turn of B', 'load 2 of 9, quad 1 of 3, turn of B')
    """
    if not turn.variant:
        return f"A alone, turn {turn.number} of {turn.count}"
    if turn.is_over:
        return f"load {turn.load + 1} of {turn.loads} begins"
    load = f"load {turn.load} of {turn.loads}, " if turn.loads > 1 else ""
    return f"{load}quad {turn.number} of {turn.count}, turn of {turn.variant}"


def verdict_words(ratio: Ratio) -> str:
    """Return how B compares with A in a few words, such as `slower`, `the same within 0.8 %`, or `not told apart`.

    An interval that leaves out no difference by a hair proves nothing: `not certain`.
    """
    if ratio.verdict == "same":
        return f"the same within {_share(ratio.within)}"
    if ratio.verdict != "unknown":
        return ratio.verdict
    low, high = ratio.ci95
    return "not told apart" if low <= 1 <= high else "not certain"


def change_words(ratio: Ratio) -> str:
    """Return the change from A to B with its 95 % interval, such as `+4.9 % (4.1 to 5.7)`.

    If B is at least twice or at most half of A, a factor is returned: `x 0.012 (0.011 to 0.013)`.
    """
    return change_text(ratio.value, ratio.ci95)


def change_text(value: float, ci95: tuple[float, float] | None) -> str:
    """Return a ratio as a change in percent, or as a factor if it is at least 2 or at most 1/2.

    `ci95` is the ratio's 95 % interval, or None if unknown.

    >>> change_text(1.049, (1.041, 1.057)), change_text(0.012, (0.011, 0.013)), change_text(0.9, None)
    ('+4.9 % (4.1 to 5.7)', 'x 0.012 (0.011 to 0.013)', '-10.0 %')
    """
    if not FACTOR > value > 1 / FACTOR:
        ends = "" if ci95 is None else f" ({ci95[0]:.3g} to {ci95[1]:.3g})"
        return f"x {value:.3g}{ends}"
    ends = "" if ci95 is None else f" ({(ci95[0] - 1) * 100:.1f} to {(ci95[1] - 1) * 100:.1f})"
    return f"{(value - 1) * 100:+.1f} %{ends}"


def _share(share: float) -> str:
    return f"{share * 100:.1f} %"


def needs_words(view: AbView) -> str:
    """Return the total time of turns that would be needed, for each ratio that is not precise enough yet.

    For example: `turns that would tell 1 %: 4m00s for p50`. Return "" if all ratios are precise enough.
    """
    needs = {name: ratio.needs_s for name, ratio in view.ratios.items() if ratio and ratio.needs_s is not None}
    if not needs:
        return ""
    each = ", ".join(f"{formatting.duration(seconds * 1e9)} for {name}" for name, seconds in needs.items())
    return f"turns that would tell {view.until * 100:g} %: {each}"


def ab_lines(view: AbView) -> Iterator[str]:
    """Yield the lines of the text report about an A/B session: the answer, how to read it, and a table of figures."""
    if not view.variants:
        yield "A/B        too few turns to compare"
        yield f"           {reading_words(view)}"
        return
    yield f"A/B        {p50_words(view)}"
    yield f"           {reading_words(view)}"
    for letter, variant in zip("AB", view.variants, strict=False):
        yield f"{letter:<10} {formatting.clean(variant.name)}"
    yield f"           {'A':>10}   B to A (95 %)          B is"
    for metric, ratio in view.ratios.items():
        if ratio is None:
            words = "no power is read in the turns" if metric == "energy" else "too few turns"
        else:
            words = f"{change_words(ratio):<22} {verdict_words(ratio)}"
        yield f"{metric:<10} {ab_value(view, metric, 0):>10}   {words}"
    if words := needs_words(view):
        yield f"           {words}"
    disturbed = f", {view.disturbed} of them disturbed and left out of p50" if view.disturbed else ""
    after = "" if view.left_out_ns is None else f" in the first {view.left_out_ns / 1e6:.0f} ms after a switch"
    left_out = f"{formatting.quantity(sum(variant.left_out for variant in view.variants), 'inference')}{after} left out"
    quads = formatting.quantity(view.quads, "quad")
    yield f"           {quads}{disturbed}, of turns of {view.plan.turn_ns / 1e9:.3g} s; {left_out}"
    yield f"           {loads_words(view)}"
    if (smallest := view.smallest["p50"]) is not None:
        yield f"           by A alone, {_share(smallest)} can be told apart at p50 in the time that was given"


def reading_words(view: AbView) -> str:
    """Return a sentence on the 95 % interval of the difference of p50: what the interval is, and what it proves."""
    ratio = view.ratios["p50"]
    if ratio is None:
        return too_few_words(view)
    low, high = (end - 1 for end in ratio.ci95)
    ends = f"{low * 100:+.1f} to {high * 100:+.1f} %"
    interval = f"the true difference is from {ends} in 95 of 100 such sessions"
    if ratio.verdict == "same":
        return f"{interval}: if there is one, it is no larger than {_share(ratio.within)}"
    if ratio.verdict == "unknown":
        return f"{interval}: it may be either sign" if low < 0 < high else f"{interval}: too little to be sure"
    return f"{interval}: chance alone does not explain it"


def too_few_words(view: AbView) -> str:
    """Return why there is no ratio of p50, and how long would tell; "" if there is one. A quad is four turns."""
    few = view.too_few
    if few is None:
        return ""
    turn = f"{view.plan.turn_ns / 1e9:.3g} s"
    if few.needs_s is None:
        quads = formatting.quantity(few.empty, "quad")
        return (
            f"in each of {quads}, A or B ended no inference within a turn of {turn}: longer turns would tell (--turn)"
        )
    empty = f", and {few.empty} without an inference in a turn of {turn}" if few.empty else ""
    more = formatting.duration(few.needs_s * 1e9)
    return f"{few.quads} of the {few.least} quads of an interval{empty}: {more} more would tell (longer --max-duration)"


def loads_words(view: AbView) -> str:
    """Return how many times each model was loaded, and whether this is enough to detect a small difference."""
    loads = "one load" if view.loads == 1 else f"{view.loads} loads"
    if view.loads >= LEAST_PAIRS:
        return f"{loads} of each model; the intervals hold what loads differ by"
    return f"{loads} of each model: {LEAST_PAIRS} or more would tell a small difference (longer --max-duration)"


def ab_value(view: AbView, metric: str, side: int) -> str:
    """Return a figure of one variant with its unit, such as `4.20 ms`, or `-` if unknown.

    `metric` is a key of METRICS, such as `p50` or `energy`. `side` is 0 for A and 1 for B.
    """
    value = getattr(view.variants[side], METRICS[metric][1])
    if value is None:
        return formatting.UNKNOWN
    if metric == "throughput":
        return f"{formatting.rate(value)}/s"
    return f"{formatting.millijoules(value)} mJ" if metric == "energy" else f"{formatting.milliseconds(value * 1e6)} ms"


def ab_document(view: AbView) -> dict[str, Any]:
    """Return the results of an A/B session as the part `ab` of `report --json`."""
    return {
        "variants": [_variant(figures) for figures in view.variants],
        "ratios": {name: ratio and _ratio(ratio) for name, ratio in view.ratios.items()},
        "smallest": {name: rounded(smallest, 6) for name, smallest in view.smallest.items()},
        "too_few": view.too_few
        and {
            "quads": view.too_few.quads,
            "empty": view.too_few.empty,
            "least": view.too_few.least,
            "needs_s": rounded(view.too_few.needs_s),
        },
        "loads": view.loads,
        "quads": view.quads,
        "disturbed": view.disturbed,
        "turn_s": rounded(view.plan.turn_ns / 1e9, 6),
        "left_out_ms": rounded(None if view.left_out_ns is None else view.left_out_ns / 1e6),
        "until": view.until,
        "resolved": view.is_resolved,
    }


def _variant(figures: VariantFigures) -> dict[str, Any]:
    return {
        key: value if isinstance(value, str) else rounded(value, 3 if key == "throughput_hz" else 6)
        for key, value in asdict(figures).items()
    }


def _ratio(ratio: Ratio) -> dict[str, Any]:
    return {
        "value": rounded(ratio.value, 6),
        "ci95": [rounded(end, 6) for end in ratio.ci95],
        "verdict": ratio.verdict,
        "needs_s": rounded(ratio.needs_s),
    }
