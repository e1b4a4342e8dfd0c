"""Fit a line through the latencies of models on two machines, and predict those of other models.

Models that ran on both machines are matched by the hashes of their files.

The line fits logarithms, because models and errors differ by factors. The slope is that of Theil and Sen: the median of
the slopes of all pairs (Sen 1968, Journal of the American Statistical Association 63), so one outlier has little
effect. The intercept is the median of the residuals. The interval of a prediction is that of a straight line (Draper
and Smith, Applied Regression Analysis, 3rd ed., 1.4), with the scatter of the models about this line; `edgetop help
fit` says how often it holds.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from edgetop.analysis.timeline import Floats
from edgetop.comparison.sample import Sample
from edgetop.comparison.student import LEVEL, quantile
from edgetop.errors import InputError
from edgetop.frozen import frozen

FAMILY = "family"  # name of the label
# Number of models for a line. Choice: two always lie on one. Larger: a prediction needs more models; smaller: a line
# without a test.
LEAST_MODELS = 3
MOST_LOG = 300.0
# Least scatter about a line, as a logarithm. Computed: each of the two runs varies by 1 %. Larger: predictions are
# vaguer; smaller: three models on a line by chance promise too much.
SCATTER = 0.0142


@frozen
class Kind:
    """The properties that the models of one line share."""

    from_runtime: str
    on_runtime: str
    precision: str
    family: str = ""  # value of the label, if there is one

    @property
    def words(self) -> str:
        there = "" if self.on_runtime == self.from_runtime else f"{self.on_runtime} there"
        return ", ".join(filter(None, (self.from_runtime, there, self.precision, self.family)))


@frozen
class Pair:
    """The latencies of a model on both machines."""

    name: str
    sha256: str
    kind: Kind
    from_ms: float
    on_ms: float


@frozen
class Line:
    kind: Kind
    pairs: tuple[Pair, ...]  # the fastest first
    slope: float  # slope of the logarithms; 1 means that the device is slower by the same factor for all models
    factor: float  # latency on the device, in ms, of a model that takes 1 ms at the desk
    r2: float | None  # None if all models take the same time on the device
    tau: float  # Kendall's tau-b between the two rankings
    left_out: tuple[float, ...]  # error of the line without each model, as a share, for that model
    scatter: float  # standard deviation about the line, as a logarithm

    def at(self, from_ms: float) -> float:
        return _exp(math.log(self.factor) + self.slope * math.log(from_ms))

    @property
    def range_ms(self) -> tuple[float, float]:
        return self.pairs[0].from_ms, self.pairs[-1].from_ms

    def interval(self, from_ms: float) -> tuple[float, float]:
        """Return the interval, in ms, of the latency on the device of a model that takes `from_ms` at the desk.

        It contains the latency with probability 1 - LEVEL.
        """
        x = np.log([pair.from_ms for pair in self.pairs])
        off = float((math.log(from_ms) - x.mean()) ** 2 / np.square(x - x.mean()).sum())
        half = quantile(LEVEL, len(x) - 2) * self.scatter * math.sqrt(1 + 1 / len(x) + off)
        middle = math.log(self.at(from_ms))
        return _exp(middle - half), _exp(middle + half)


def why_no_line(pairs: Sequence[Pair]) -> str:
    """Return why no line can be fitted, or "" if one can."""
    if len(pairs) < LEAST_MODELS:
        are = "model is" if len(pairs) == 1 else "models are"
        return f"{len(pairs)} {are} on both sides, but a line needs {LEAST_MODELS}"
    if len({pair.from_ms for pair in pairs}) < LEAST_MODELS:
        return "the models take the same time at the desk, which allows no prediction"
    return ""


def line(pairs: Sequence[Pair]) -> Line:
    """Fit the line of models of one kind, for which `why_no_line` returns ""."""
    ordered = tuple(sorted(pairs, key=lambda pair: pair.from_ms))
    x, y = np.log([pair.from_ms for pair in ordered]), np.log([pair.on_ms for pair in ordered])
    slope, base = theil_sen(x, y)
    rest = y - base - slope * x
    spread = float(np.square(y - y.mean()).sum())
    others = [theil_sen(np.delete(x, k), np.delete(y, k)) for k in range(len(x))]
    return Line(
        kind=ordered[0].kind,
        pairs=ordered,
        slope=slope,
        factor=_exp(base),
        r2=1 - float(np.square(rest).sum()) / spread if spread else None,
        tau=kendall(x, y),
        left_out=tuple(_exp(abs(float(y[k] - b - s * x[k]))) - 1 for k, (s, b) in enumerate(others)),
        scatter=max(math.sqrt(float(np.square(rest).sum()) / (len(x) - 2)), SCATTER),
    )  # fmt: skip


def _exp(log: float) -> float:
    """Return the exponential, limited because models with nearly equal latencies can give a slope of any size."""
    return math.exp(min(max(log, -MOST_LOG), MOST_LOG))


def theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    """Return slope and intercept.

    >>> theil_sen(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 5.0, 7.0, 70.0]))
    (2.0, 1.0)
    """
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i, j in combinations(range(len(x)), 2) if x[j] != x[i]]
    slope = float(np.median(slopes)) if slopes else 0.0
    return slope, float(np.median(y - slope * x))


def kendall(x: Floats, y: Floats) -> float:
    """Return Kendall's tau-b: 1 for the same order, -1 for the reverse, 0 for none or if one side has only ties.

    >>> kendall(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    0.6666666666666666
    """
    first, second = np.triu_indices(len(x), 1)
    signs = [np.sign(each[second] - each[first]) for each in (x, y)]
    untied = math.sqrt(float(np.abs(signs[0]).sum() * np.abs(signs[1]).sum()))
    return float((signs[0] * signs[1]).sum() / untied) if untied else 0.0


@frozen
class Fit:
    lines: tuple[Line, ...]
    refused: tuple[str, ...]  # kinds of models without a line, with the reason
    left_out: tuple[str, ...]  # models that ran on one side only
    notes: tuple[str, ...]  # other differences


@frozen
class Prediction:
    session: str
    model: str
    from_ms: float | None = None
    kind: str | None = None  # kind of the line
    on_ms: float | None = None
    interval95: tuple[float, float] | None = None
    refused: str | None = None  # why there is no prediction


def fit(desk: Sequence[Sample], device: Sequence[Sample], key: str) -> Fit:
    """Fit a line per kind of models. `key`: the latency to use. Raises InputError if the sessions of a side differ."""
    sides = _models(desk, "--from"), _models(device, "--on")
    both = [sha for sha in sides[0] if sha in sides[1]]
    by_kind: dict[Kind, list[Pair]] = {}
    for sha in both:
        here, there = (side[sha] for side in sides)
        kind = _kind(here[0], there[0])
        pair = Pair(_name(here[0]), sha, kind, _ms(here, key), _ms(there, key))
        by_kind.setdefault(kind, []).append(pair)
    lines = [line(pairs) for pairs in by_kind.values() if not why_no_line(pairs)]
    refused = [f"{kind.words}: {why}" for kind, pairs in by_kind.items() if (why := why_no_line(pairs))]
    left_out = [
        f"{_name(samples[0])}: not among {option}"
        for side, option, other in ((sides[0], "--on", sides[1]), (sides[1], "--from", sides[0]))
        for sha, samples in side.items() if sha not in other
    ]  # fmt: skip
    notes = (*_notes(desk, "--from"), *_notes(device, "--on"))
    return Fit(tuple(lines), tuple(refused), tuple(left_out), notes)


def predict(found: Fit, new: Sample, key: str) -> list[Prediction]:
    """Return a prediction for each line of the model's kind, or one with the reason why no line applies."""
    unknown = Prediction(new.session.name, _name(new))
    try:
        _refuse_unfit(new, "--predict")
        ms = _ms([new], key)
    except InputError as error:
        return [replace(unknown, refused=str(error))]
    unknown, kind, each = replace(unknown, from_ms=ms), _kind(new, new), []
    for one in found.lines:
        low, high = one.range_ms
        if replace(kind, on_runtime=one.kind.on_runtime) != one.kind:
            continue
        if low <= ms <= high:
            interval = one.interval(ms)
            each.append(replace(unknown, kind=one.kind.words, on_ms=one.at(ms), interval95=interval))
        else:
            text = f"{ms:.4g} ms is outside the range of the line's models, {low:.4g} to {high:.4g} ms"
            each.append(replace(unknown, kind=one.kind.words, refused=text))
    return each or [replace(unknown, refused=f"there is no line for its kind ({kind.words})")]


def _models(samples: Sequence[Sample], option: str) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for one in {sample.session.id: sample for sample in samples}.values():
        _refuse_unfit(one, option)
        found.setdefault(one.session.model.sha256 or "", []).append(one)
    boards = {
        f"{board.model or board.cpu}{' SIMULATED' if board.simulated else ''}"
        for board in (one.session.board for one in samples)
    }
    if len(boards) > 1:
        raise InputError(
            f"{option}: sessions of several boards: {'; '.join(sorted(boards))}", "choose those of one board"
        )
    for each in found.values():
        settings = {_settings(one) for one in each}
        if len(settings) > 1:
            names = ", ".join(one.session.name for one in each)
            raise InputError(
                f"{option}: {names}: one model with other settings: {'; '.join(sorted(settings))}", "choose one"
            )
    return found


def _refuse_unfit(one: Sample, option: str) -> None:
    session = one.session
    if one.in_turns or session.ab or session.watched:
        kind = "a session of a program" if session.watched else "an A/B session"
        raise InputError(f"{option} {session.name}: {kind}, which has not one model", "record it with edgetop run")
    if session.model.sha256 is None:
        raise InputError(f"{option} {session.name}: the hash of its model is not known", "record it with edgetop run")


def _settings(one: Sample) -> str:
    session, engine = one.session, one.session.engine
    words = f"{engine.runtime} on {', '.join(engine.providers)}, {engine.threads or 'default'} threads"
    return ", ".join(filter(None, (words, f"batch {session.load.batch or 1}", session.constraints.words)))


def _kind(here: Sample, there: Sample) -> Kind:
    own, theirs = (one.session.engine.runtime or "" for one in (here, there))
    return Kind(own, theirs, here.session.model.precision or "", here.session.labels.get(FAMILY, ""))


def _name(one: Sample) -> str:
    return one.session.model.path.rpartition("/")[2]


def _ms(samples: Sequence[Sample], key: str) -> float:
    """Return the geometric mean over the sessions."""
    known = [getattr(one.report.latency, key) for one in samples]
    if None in known or min(known) <= 0:
        one = samples[known.index(None) if None in known else 0]
        lacks = f"{one.session.name}: has no {key.removesuffix('_ms')}"
        if one.report.latency.count:
            raise InputError(lacks, "record it for longer")
        raise InputError(f"{lacks}: it has no measured inference", "leave it out, or record it again")
    return float(np.exp(np.mean(np.log(known))))


def _notes(samples: Sequence[Sample], option: str) -> list[str]:
    notes, settings = [], {_settings(one) for one in samples}
    if len(settings) > 1:
        notes.append(f"{option}: the models ran with other settings: {'; '.join(sorted(settings))}")
    if any(one.session.board.simulated for one in samples):
        notes.append(f"{option}: the board is SIMULATED")
    throttled = [one.session.name for one in samples if one.report.throttled]
    if throttled and len(throttled) < len(samples):
        notes.append(f"{option}: throttled, unlike others: {', '.join(throttled)}")
    return notes
