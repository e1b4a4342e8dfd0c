"""Compare the outputs of models and their accuracy, because speed alone is misleading.

The outputs are those that sessions kept (`run --keep-outputs`) for the same inputs. All elements of all inferences are
compared together, as real numbers.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgetop.errors import InputError
from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.session.outputs import Array, KeptOutputs

MOST_CLASS_AXES = 3  # for an output with more axes, the axis of the classes is unknown
TOP = 5
CHANNELS_FIRST, CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # orders of axes that convert to these layouts
KEEP = "keep outputs with edgetop run --keep-outputs 64"
Metric = Callable[[Mapping[str, list[Array]], Array | None], float]
# Rows of an output by the end of their keys: their names and units.
LIKELIHOOD = "log-likelihood"  # output of a language model: engines/child/token_outputs.py
PERPLEXITY = "perplexity"
AGREEMENT = {
    "max_abs": ("largest difference", ""),
    "mean_abs": ("mean difference", ""),
    "cosine": ("cosine", ""),
    "snr_db": ("signal to noise", "dB"),
    "same_top": ("same highest class", "share"),
    "non_finite": ("finite in one only", "elements"),
    "unlike": ("NaN or infinite in both, but not alike", "elements"),
}
NON_FINITE = "non_finite_share"  # end of the key of the row with each side's share of NaN and infinite elements


@frozen
class Judge:
    """How the outputs are judged, besides comparing them with the baseline: by labels and by the user's own metric."""

    labels: Array | None = None  # true classes, one for each row of classes, in the order of the inferences
    metric: Metric | None = None  # metric of the user
    metric_name: str = ""


@frozen
class Agreement:
    """How well one output of a session's model agrees with the same output of the baseline session."""

    name: str  # name of the output in the baseline
    max_abs: float | None = None
    mean_abs: float | None = None
    cosine: float | None = None  # None if one of the outputs is all zeros
    snr_db: float | None = None  # None if the outputs are equal or that of the baseline is all zeros
    same_top: float | None = None  # share of rows; None if the output has no classes
    non_finite: float | None = None  # number of elements that are finite in only one of the two; None if zero
    # Share of elements that are NaN or infinite, of the baseline and of the other.
    non_finite_shares: tuple[float, float] = (0.0, 0.0)
    unlike: float | None = None  # number of elements that are NaN in one and infinite in the other, or of other sign
    other_name: str | None = None  # name of the output in the other session; None if it is the same
    # Element type of the baseline's output and of the other's, if it is an 8-bit integer without a known scale and the
    # other side has real numbers. Otherwise None. The differences then mean nothing, but the order of classes does.
    unscaled: tuple[str | None, str | None] = (None, None)


@frozen
class OutputAgreements:
    """How well the outputs of a session's model agree with those of the baseline session."""

    by_output: Mapping[int, Agreement]  # by the number of the output in the baseline, those that both have
    # Names of the outputs that only one of the two has: of the baseline, and of the other.
    unpaired: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    differing: tuple[str, ...] = ()  # names, in the baseline, of outputs whose shapes differ in some inference


def compare_outputs(base: KeptOutputs, other: KeptOutputs) -> OutputAgreements:
    """Return how well each output of the baseline agrees with the same output of another session.

    Raises ValueError with the reason if no output can be compared.
    """
    count = min(len(base.inputs), len(other.inputs))
    if base.inputs[:count] != other.inputs[:count]:
        raise ValueError(f"other inputs: {other.fed}, not {base.fed}")
    pairs = _matched(base, other)
    sums = {place: _Sums() for place in pairs}
    matched, differing = dict(pairs), dict[int, int]()  # by place, the first inference in which the shapes differ
    for inference in range(count):
        for place, partner in list(pairs.items()):
            first = base.numbers(inference, place)
            second = fitted(other.numbers(inference, partner), first.shape)
            if second is None:
                differing[place] = inference + 1
                del pairs[place]
            else:
                sums[place].add(first, second)
    if not pairs:
        place, number = next(iter(differing.items()))
        raise ValueError(f"output {base.outputs[place].name} differs in shape for inference {number}")
    found = {}
    for place, partner in pairs.items():
        name, other_name = base.outputs[place].name, other.outputs[partner].name
        found[place] = replace(
            sums[place].agreement(name),
            other_name=None if name == other_name else other_name,
            unscaled=_unscaled((base, place), (other, partner)) if count else (None, None),
        )
    sides = ((base, matched.keys()), (other, set(matched.values())))
    of_base, of_other = (
        tuple(one.name for place, one in enumerate(kept.outputs) if place not in compared) for kept, compared in sides
    )
    return OutputAgreements(found, (of_base, of_other), tuple(base.outputs[place].name for place in differing))


def _unscaled(*sides: tuple[KeptOutputs, int]) -> tuple[str | None, str | None]:
    """Return, for each of two outputs, the type of its raw 8-bit integers if it lacks a scale and the other output is
    real.

    The type is a text such as "int8". It is None for any other output. Each of `sides` is the kept outputs of a session
    and the number of the output.
    """
    types = [kept.read(0, place).dtype for kept, place in sides]
    is_real = [
        dtype.kind == "f" or bool(kept.outputs[place].scale) for dtype, (kept, place) in zip(types, sides, strict=True)
    ]
    raw = [
        str(dtype) if dtype.kind in "iu" and dtype.itemsize == 1 and not real else None
        for dtype, real in zip(types, is_real, strict=True)
    ]
    return (raw[0] if is_real[1] else None, raw[1] if is_real[0] else None)


def _matched(base: KeptOutputs, other: KeptOutputs) -> dict[int, int]:
    """Return the index of the same output in `other` for each output of `base` that has one, by its index in `base`.

    All outputs are matched by name, else by order, else by unique shapes, if in one of these ways all shapes agree. If
    not, those are matched that have the same name and shape, and of the rest those with the same place and shape.
    Raises ValueError if there are none.
    """
    shapes, others = ([kept.numbers(0, place).shape for place in range(len(kept.outputs))] for kept in (base, other))
    names, theirs = ([one.name for one in kept.outputs] for kept in (base, other))
    if len(names) == len(theirs):
        ways = [list(range(len(names)))]
        if sorted(names) == sorted(theirs) and len(set(names)) == len(names):
            ways.insert(0, [theirs.index(name) for name in names])
        for way in ways:
            if all(_fits(others[partner], shape) for partner, shape in zip(way, shapes, strict=True)):
                return dict(enumerate(way))
        found = [[place for place, has in enumerate(others) if _fits(has, shape)] for shape in shapes]
        if all(len(each) == 1 for each in found) and len({each[0] for each in found}) == len(found):
            return {place: each[0] for place, each in enumerate(found)}
    same = {
        place: theirs.index(name)
        for place, name in enumerate(names)
        if names.count(name) == theirs.count(name) == 1 and _fits(others[theirs.index(name)], shapes[place])
    }
    for place, (shape, has_shape) in enumerate(zip(shapes, others, strict=False)):
        is_free = place not in same and place not in same.values()
        if is_free and names[place] not in theirs and theirs[place] not in names and _fits(has_shape, shape):
            same[place] = place
    if same:
        return dict(sorted(same.items()))
    has, wants = ("; ".join(str(list(shape)) for shape in each) for each in (others, shapes))
    raise ValueError(f"other outputs: {has}, not {wants}; neither names nor order and shapes match")


def fitted(array: Array, shape: tuple[int, ...]) -> Array | None:
    """Return the array rearranged to `shape`, or None if that is not possible.

    Only the place of the channels (first or last) or axes of size one may differ.
    """
    if array.shape == shape:
        return array
    if array.ndim == len(CHANNELS_LAST) == len(shape):
        for axes in (CHANNELS_FIRST, CHANNELS_LAST):
            if tuple(array.shape[axis] for axis in axes) == shape:
                return np.transpose(array, axes)
    return np.reshape(array, shape) if _squeezed(array.shape) == _squeezed(shape) else None


def _squeezed(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _fits(has: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return fitted(np.broadcast_to(0.0, has), shape) is not None


class _Sums:
    """Sums over all inferences from which the agreement of two outputs is computed, such as the sum of differences."""

    def __init__(self) -> None:
        self._count = self._one_only = self._unlike = self._rows = self._same = self._elements = 0
        self._bad = [0, 0]  # elements of each side that are not finite
        self._most = self._abs = self._noise = self._signal = self._other = self._both = 0.0

    def add(self, first: Array, second: Array) -> None:
        if (scores := class_scores(first)) is not None:
            others = second.reshape(scores.shape)
            highest = (scores.argmax(-1) == others.argmax(-1)) & _has_order(scores) & _has_order(others)
            self._rows, self._same = self._rows + highest.size, self._same + int(highest.sum())
        self._elements += first.size
        for side, array in enumerate((first, second)):
            self._bad[side] += array.size - int(np.isfinite(array).sum())
        finite = np.isfinite(first) & np.isfinite(second)
        self._one_only += int((np.isfinite(first) != np.isfinite(second)).sum())
        same = (first == second) | (np.isnan(first) & np.isnan(second))
        self._unlike += int((~np.isfinite(first) & ~np.isfinite(second) & ~same).sum())
        a, b = first[finite], second[finite]
        with np.errstate(over="ignore"):  # a sum that becomes infinite is unknown
            off = np.abs(a - b)
            self._count += off.size
            self._most = max(self._most, float(off.max(initial=0.0)))
            self._abs += float(off.sum())
            self._noise += float(np.square(off).sum())
            self._signal, self._other, self._both = (
                total + float(x @ y)
                for total, x, y in ((self._signal, a, a), (self._other, b, b), (self._both, a, b))
            )  # fmt: skip

    def agreement(self, name: str) -> Agreement:
        shares = (self._bad[0] / max(1, self._elements), self._bad[1] / max(1, self._elements))
        same_top = self._same / self._rows if self._rows else None
        whole = Agreement(
            name,
            same_top=same_top,
            non_finite=self._one_only or None,
            non_finite_shares=shares,
            unlike=self._unlike or None,
        )
        if not self._count:
            return whole
        lengths = math.sqrt(self._signal) * math.sqrt(self._other)
        has_noise = 0 < self._noise < math.inf and 0 < self._signal < math.inf
        return replace(
            whole,
            max_abs=_known(self._most),
            mean_abs=_known(self._abs / self._count),
            cosine=min(self._both / lengths, 1.0) if 0 < lengths < math.inf and math.isfinite(self._both) else None,
            snr_db=10 * math.log10(self._signal / self._noise) if has_noise else None,
        )


def _known(value: float) -> float | None:
    """Return a sum or difference of finite numbers, or None if it is too large for a float."""
    return value if math.isfinite(value) else None


def class_scores(array: Array) -> Array | None:
    """Return the scores of a classifier's output with the classes on the last axis, or None for another output.

    An output of more than three axes must have one axis, besides the batch, with another size than 1, as in [N,C,1,1].
    """
    if array.ndim > MOST_CLASS_AXES:
        sizes = [size for size in array.shape[1:] if size != 1]
        return array.reshape(array.shape[0], sizes[0]) if len(sizes) == 1 and array.size else None
    return array if array.ndim and array.shape[-1] > 1 and array.size else None


def _has_order(scores: Array) -> Array:
    """Return, for each row of scores, whether its classes have an order: no score is NaN or plus infinity."""
    found: Array = np.isnan(scores) | np.isposinf(scores)
    return np.asarray(~found.any(-1))


def right(kept: KeptOutputs, labels: Array) -> tuple[str, dict[str, float]] | None:
    """Return name and accuracies of the first output that has class scores, or None if no output has them.

    Accuracies are shares of rows, such as `{"top-1": 0.71, "top-5": 0.9}`; "top-5" needs more than five classes.
    `labels` has the correct class of each row. Raises InputError if the labels do not match the output.
    """
    found = ((p, class_scores(kept.numbers(0, p))) for p in range(len(kept.outputs)))
    place, first = next(((p, scores) for p, scores in found if scores is not None), (0, None))
    if first is None:
        return None
    rows = [kept.numbers(inference, place) for inference in range(len(kept.inputs))]
    classes = first.shape[-1]
    scores = np.concatenate([row.reshape(-1, classes) for row in rows])
    if labels.dtype.kind not in "iu" or labels.size < len(scores):
        text = f"{labels.size} of {labels.dtype} for {quantity(len(scores), 'row')} of {classes} classes"
        raise InputError(f"--labels: they do not match: {text}", "labels must be integers, one for each row of classes")
    wanted = labels.reshape(-1)[: len(scores), None]
    if wanted.min() < 0 or wanted.max() >= classes:
        raise InputError(f"--labels: {wanted.min()} to {wanted.max()} do not match: classes are 0 to {classes - 1}")
    ranked = (np.argsort(-scores, axis=1, kind="stable") == wanted) & _has_order(scores)[:, None]
    return kept.outputs[place].name, {
        f"top-{top}": float(ranked[:, :top].any(1).mean()) for top in (1, TOP) if top == 1 or classes > top
    }


def perplexity(kept: KeptOutputs) -> float | None:
    """Return the perplexity of a language model over the kept tokens, or None for any other model.

    The perplexity is e to the mean of the negative log-likelihoods, at most e^700.
    """
    place = next((place for place, one in enumerate(kept.outputs) if one.name == LIKELIHOOD), None)
    if place is None or not kept.inputs:
        return None
    each = np.concatenate([kept.numbers(inference, place).reshape(-1) for inference in range(len(kept.inputs))])
    mean = -float(each.mean()) if each.size else math.nan
    return None if math.isnan(mean) else math.exp(min(mean, 700.0))


def measured(kept: KeptOutputs, judge: Judge) -> float | None:
    """Return the value of the user's metric, or None if there is no metric or its value is not finite.

    The metric gets the outputs (by name, each a list with an array per inference) and the labels. Raises InputError if
    the metric raises an exception or does not return a number.
    """
    if judge.metric is None:
        return None
    given = {
        one.name: [kept.numbers(inference, place) for inference in range(len(kept.inputs))]
        for place, one in enumerate(kept.outputs)
    }
    try:
        value = float(judge.metric(given, judge.labels))
    except (Exception, SystemExit) as error:  # noqa: BLE001  the user's own: any type it likes
        text = f"--metric {judge.metric_name}: {type(error).__name__}: {error}"
        raise InputError(text, "it takes outputs (name: list of arrays) and labels, and must return a number") from None
    return value if math.isfinite(value) else None


def unpaired_words(found: OutputAgreements, base: str, other: str) -> str:
    """Return which outputs are not compared because one side lacks them or shapes differ, or "" if there are none.

    `base` and `other` are how the two sides are called, such as `A` and `B`.

    >>> unpaired_words(OutputAgreements({}, (("boxes",), ("a", "b"))), "A", "B")
    'boxes, which only A has, and a, b, which only B has'
    """
    parts = zip(found.unpaired, (base, other), strict=True)
    lacking = [f"{', '.join(names)}, which only {side} has" for names, side in parts if names]
    differing = [f"{', '.join(found.differing)}, whose shapes differ in some inferences"] if found.differing else []
    return ", and ".join(lacking + differing)


@frozen
class Line:
    """A row about outputs in a comparison. There is a value for each column, the baseline first; None means unknown."""

    key: str
    label: str
    unit: str
    values: tuple[str | float | None, ...]


def lines(kept: Sequence[KeptOutputs | None], judge: Judge) -> tuple[list[Line], dict[int, str], dict[int, str]]:
    """Return the rows about outputs, why columns have no values, and which outputs of other columns have none.

    The texts are by index of the column.

    `kept` has the kept outputs of each column, or None, with the baseline first. Raises InputError if labels or metric
    cannot be used.
    """
    refused, partly, found = dict[int, str](), dict[int, str](), dict[int, Mapping[int, Agreement]]()
    base = kept[0]
    for place, one in enumerate(kept):
        if one is None or base is None:
            refused |= {} if one is base else {place: f"{'it' if one is None else 'the baseline'} kept no outputs"}
        elif place:
            try:
                whole = compare_outputs(base, one)
                found[place] = whole.by_output
            except ValueError as error:
                refused[place] = str(error)
            else:
                if which := unpaired_words(whole, "the baseline", "it"):
                    partly[place] = which
    rows = []
    if any(kept):
        words = tuple(
            f"{len(one.inputs)}{', dequantised' if any(of.scale for of in one.outputs) else ''}" if one else None
            for one in kept
        )
        rows.append(Line("outputs", "outputs kept", "", words))
    rows += _agreement_lines(base, found, len(kept)) if base else []
    return [*rows, *judged_lines(kept, judge)], refused, partly


def _agreement_lines(base: KeptOutputs, found: Mapping[int, Mapping[int, Agreement]], columns: int) -> Iterator[Line]:
    """Yield the rows about how well the outputs agree, with a value for each of the `columns`.

    `found` has the agreement of each output of `base` that a column has too, by the index of the column and by the
    number of the output.
    """
    for output, of in enumerate(base.outputs):
        compared = {place: one[output] for place, one in found.items() if output in one}
        if not compared:
            continue
        for end, (label, unit) in AGREEMENT.items():
            each = tuple(getattr(compared[place], end) if place in compared else None for place in range(columns))
            if any(value is not None for value in each):
                yield Line(f"output/{of.name}/{end}", f"{of.name}: {label}", unit, each)
        shares = {place: one.non_finite_shares for place, one in compared.items()}
        own = {place: theirs for place, (_, theirs) in shares.items()} | {0: next(iter(shares.values()))[0]}
        values = tuple(own.get(place) for place in range(columns))
        yield Line(f"output/{of.name}/{NON_FINITE}", f"{of.name}: NaN or infinite", "share", values)


def judged_lines(kept: Sequence[KeptOutputs | None], judge: Judge) -> list[Line]:
    """Return the rows of perplexity, of accuracy and of the user's metric, one value per column.

    `kept` has the kept outputs of each column, or None. Raises InputError if labels or metric cannot be used.
    """
    rows = []
    likely = [None if one is None else perplexity(one) for one in kept]
    if any(value is not None for value in likely):
        rows.append(Line(f"output/{LIKELIHOOD}/{PERPLEXITY}", "perplexity", "", tuple(likely)))
    if judge.labels is not None:
        each = [None if one is None else right(one, judge.labels) for one in kept]
        found = next((one for one in each if one), None)
        if found is None:
            raise InputError("--labels: no session kept an output with classes", KEEP)
        name, tops = found
        for top in tops:
            values = tuple(one[1].get(top) if one else None for one in each)
            rows.append(Line(f"output/{name}/{top}", f"{name}: {top} right", "share", values))
    if judge.metric is not None:
        values = tuple(None if one is None else measured(one, judge) for one in kept)
        if all(value is None for value in values):
            raise InputError(f"--metric {judge.metric_name}: no session has a number", KEEP)
        rows.append(Line(f"metric/{judge.metric_name}", judge.metric_name, "", values))
    return rows
