"""Fit a line through a figure of models on two machines, to predict the figure of other models on the second machine.

The figure is a latency, the total time of a program, the peak memory or the energy. Models are matched by the hashes of
their files, and programs by their commands.

The line is fitted to logarithms, because models and errors differ by factors. The slope is the median of the slopes of
all pairs (Theil and Sen; Sen 1968, Journal of the American Statistical Association 63), so one outlier has little
effect. The intercept is the median of the residuals. The interval of a prediction is computed as for a straight line
(Draper and Smith, Applied Regression Analysis, 3rd ed., 1.4), with the scatter of the models about this line. `edgetop
help fit` says how often the interval holds.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from edgetop import formatting
from edgetop.analysis.timeline import Floats
from edgetop.comparison.figures import ended_itself
from edgetop.comparison.sample import Sample
from edgetop.comparison.student import LEVEL, quantile
from edgetop.errors import InputError
from edgetop.frozen import frozen

FAMILY = "family"  # name of the label
METERED = "a sensor of the whole board's power is needed: edgetop help power"
# Number of models for a line. Choice: two always lie on one. Larger: a prediction needs more models; smaller: a line
# without a test.
LEAST_MODELS = 3
MOST_LOG = 300.0
# Least scatter about a line, as a logarithm. Computed: each of the two runs varies by 1 %. Larger: predictions are
# vaguer; smaller: three models on a line by chance promise too much.
SCATTER = 0.0142


PROGRAM = "program"  # stands for the runtime of a program


@frozen
class FitFigure:
    label: str
    unit: str
    read: Callable[[Sample], float | None]
    advice: str = "record it for longer"  # for a session that lacks the figure


def _latency(name: str) -> FitFigure:
    return FitFigure(name, "ms", lambda one: getattr(one.report.latency, f"{name}_ms"))


def _total_ms(one: Sample) -> float | None:
    return one.report.usage.total_time_ms if one.report.usage and ended_itself(one) else None


# The figures by their keys in a report.
FIGURES: Mapping[str, FitFigure] = {
    "p50_ms": _latency("p50"),
    "p90_ms": _latency("p90"),
    "p99_ms": _latency("p99"),
    "mean_ms": _latency("mean"),
    "total_time_ms": FitFigure("total time", "ms", _total_ms, "watch a program until it ends by itself"),
    "rss_peak_mib": FitFigure("peak memory", "MiB", lambda one: one.report.memory.rss_peak_mib),
    "gross_mj": FitFigure("energy of an inference", "mJ", lambda one: one.report.energy.gross_mj, METERED),
    "run_j": FitFigure("energy of the run", "J", lambda one: one.report.energy.run_j, METERED),
}


@frozen
class Kind:
    """What all models of one fitted line have in common: runtimes, precision and family."""

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
    """One model or program with a figure, such as p50, that was measured on both machines."""

    name: str
    identity: str  # hash of the model's file, or the command of the program
    kind: Kind
    here: float
    there: float


@frozen
class Line:
    kind: Kind
    pairs: tuple[Pair, ...]  # the smallest at the desk first
    slope: float  # slope of the logarithms; 1 means that the device is slower by the same factor for all models
    factor: float  # figure on the device of a model with the figure 1 at the desk
    r2: float | None  # None if all have the same figure on the device
    tau: float  # Kendall's tau-b between the two rankings
    left_out: tuple[float, ...]  # error of the line without each model, as a share, for that model
    scatter: float  # standard deviation about the line, as a logarithm

    def at(self, here: float) -> float:
        """Return the figure that the line predicts for the second machine, from the first machine's figure `here`."""
        return _exp(math.log(self.factor) + self.slope * math.log(here))

    @property
    def range(self) -> tuple[float, float]:
        return self.pairs[0].here, self.pairs[-1].here

    def interval(self, here: float) -> tuple[float, float]:
        """Return (low, high): the 95 % interval of the figure predicted for the second machine.

        `here` is the figure on the first machine, in the same unit.
        """
        x = np.log([pair.here for pair in self.pairs])
        off = float((math.log(here) - x.mean()) ** 2 / np.square(x - x.mean()).sum())
        half = quantile(LEVEL, len(x) - 2) * self.scatter * math.sqrt(1 + 1 / len(x) + off)
        middle = math.log(self.at(here))
        return _exp(middle - half), _exp(middle + half)


def why_no_line(pairs: Sequence[Pair]) -> str:
    """Return a sentence that says why no line can be fitted through these models, or "" if a line can be fitted."""
    if len(pairs) < LEAST_MODELS:
        what = PROGRAM if any(pair.kind.from_runtime == PROGRAM for pair in pairs) else "model"
        are = f"{what} is" if len(pairs) == 1 else f"{what}s are"
        return f"{len(pairs)} {are} on both sides, but a line needs {LEAST_MODELS}"
    if len({pair.here for pair in pairs}) < LEAST_MODELS:
        return "the figure is the same for all at the desk, which allows no prediction"
    return ""


def line(pairs: Sequence[Pair]) -> Line:
    """Return the line through the models' figures on two machines. `why_no_line(pairs)` must be ""."""
    ordered = tuple(sorted(pairs, key=lambda pair: pair.here))
    x, y = np.log([pair.here for pair in ordered]), np.log([pair.there for pair in ordered])
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
    """Return e to the power of `log`, limited to a finite range."""
    # Models with nearly equal latencies can give a slope of any size, and `math.exp` could overflow.
    return math.exp(min(max(log, -MOST_LOG), MOST_LOG))


def theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    """Return slope and intercept of the line through the points. An outlier has little effect.

    >>> theil_sen(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 5.0, 7.0, 70.0]))
    (2.0, 1.0)
    """
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i, j in combinations(range(len(x)), 2) if x[j] != x[i]]
    slope = float(np.median(slopes)) if slopes else 0.0
    return slope, float(np.median(y - slope * x))


def kendall(x: Floats, y: Floats) -> float:
    """Return how similar the orders of `x` and `y` are (Kendall's tau-b): 1 for the same order, -1 for the reverse.

    The result is 0 if the orders are unrelated, or if all values of `x` or of `y` are equal.

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
    here: float | None = None
    kind: str | None = None  # kind of the line
    there: float | None = None
    interval95: tuple[float, float] | None = None
    refused: str | None = None  # why there is no prediction


def fit(desk: Sequence[Sample], device: Sequence[Sample], key: str) -> Fit:
    """Return a line for each kind of models, fitted through one figure on two machines.

    `desk` has the sessions on the first machine, and `device` those on the second. `key` is the figure's name, such as
    `p50_ms`. Raises InputError if the sessions of one machine cannot be compared, or if a session lacks the figure.
    """
    sides = _models(desk, "--from"), _models(device, "--on")
    both = [sha for sha in sides[0] if sha in sides[1]]
    by_kind: dict[Kind, list[Pair]] = {}
    for sha in both:
        here, there = (side[sha] for side in sides)
        kind = _kind(here[0], there[0])
        pair = Pair(_name(here[0]), sha, kind, mean_of(here, key), mean_of(there, key))
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
    """Return predictions of a model's figure on the second machine: one from each line for models of its kind.

    A prediction that cannot be made has the reason instead of a value. `found` has the lines. `new` is a session of the
    model on the first machine. `key` is the figure's name, such as `p50_ms`.
    """
    unknown = Prediction(new.session.name, _name(new))
    try:
        _refuse_unfit(new, "--predict")
        value = mean_of([new], key)
    except InputError as error:
        return [replace(unknown, refused=str(error))]
    unknown, kind, each = replace(unknown, here=value), _kind(new, new), []
    for one in found.lines:
        low, high = one.range
        if replace(kind, on_runtime=one.kind.on_runtime) != one.kind:
            continue
        if low <= value <= high:
            interval = one.interval(value)
            each.append(replace(unknown, kind=one.kind.words, there=one.at(value), interval95=interval))
        else:
            unit = FIGURES[key].unit
            here, *ends = map(formatting.plain, (value, low, high))
            text = f"{here} {unit} is outside the range of the line's models, {' to '.join(ends)} {unit}"
            each.append(replace(unknown, kind=one.kind.words, refused=text))
    return each or [replace(unknown, refused=f"there is no line for its kind ({kind.words})")]


def _models(samples: Sequence[Sample], option: str) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for one in {sample.session.id: sample for sample in samples}.values():
        _refuse_unfit(one, option)
        found.setdefault(identity(one), []).append(one)
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
    if one.in_turns or session.ab:
        text = f"{option} {session.name}: an A/B session, which has not one model"
        raise InputError(text, "record it with edgetop run")
    if session.watched is None and session.model.sha256 is None:
        raise InputError(f"{option} {session.name}: the hash of its model is not known", "record it with edgetop run")


def _settings(one: Sample) -> str:
    session, engine = one.session, one.session.engine
    if session.watched:
        cpus = session.constraints.cpus
        return ", ".join(
            filter(None, ("" if cpus is None else f"{cpus:g} CPU{'' if cpus == 1 else 's'}", session.constraints.words))
        )
    words = f"{engine.runtime} on {', '.join(engine.providers)}, {formatting.threads(engine.threads)}"
    return ", ".join(filter(None, (words, f"batch {session.load.batch or 1}", session.constraints.words)))


def _kind(here: Sample, there: Sample) -> Kind:
    family = here.session.labels.get(FAMILY, "")
    if here.session.watched:  # another program is another family, unless the label says otherwise
        return Kind(PROGRAM, PROGRAM, "", family or here.session.watched.name)
    own, theirs = (one.session.engine.runtime or "" for one in (here, there))
    return Kind(own, theirs, here.session.model.precision or "", family)


def identity(one: Sample) -> str:
    """Return a text that tells which model or program ran, and is the same on both machines: a hash or a command line.

    Paths in the command are reduced to file names. Return "" for a model without a hash.
    """
    if one.session.watched is None:
        return one.session.model.sha256 or ""
    words = [re.sub(r"[^\s=:,'\"]*/", "", word) for word in one.session.watched.command]
    return " ".join(words[1:] if len(words) > 1 and re.fullmatch(r"python[\d.]*", words[0]) else words)


def _name(one: Sample) -> str:
    return identity(one) if one.session.watched else one.session.model.path.rpartition("/")[2]


def mean_of(samples: Sequence[Sample], key: str) -> float:
    """Return the geometric mean of a figure over the sessions. `key` is the figure's name, one of `FIGURES`.

    Raises InputError if a session lacks the figure.
    """
    figure = FIGURES[key]
    known = [figure.read(one) for one in samples]
    values = [value for value in known if value is not None and value > 0]
    if len(values) == len(known):
        return float(np.exp(np.mean(np.log(values))))
    one = next(one for one, value in zip(samples, known, strict=True) if value is None or value <= 0)
    lacks = f"{one.session.name}: has no {figure.label}"
    if figure.unit != "ms" or key == "total_time_ms" or one.report.latency.count:
        raise InputError(lacks, figure.advice)
    raise InputError(f"{lacks}: it has no measured inference", "leave it out, or record it again")


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
