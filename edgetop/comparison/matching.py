"""Pairs the models that ran on both sides of a fit, by the hashes of their files, with the latency of each on either.

The lines of a fit go through these pairs and predict the latencies of other models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetop.comparison.fit import Kind, Line, Pair, line, why_no_line
from edgetop.comparison.sample import Sample
from edgetop.errors import InputError

FAMILY = "family"  # the label


@dataclass(frozen=True, slots=True)
class Fit:
    lines: tuple[Line, ...]
    refused: tuple[str, ...]  # kinds of model without a line, and why
    left_out: tuple[str, ...]  # models of one side alone
    notes: tuple[str, ...]  # what else differs


@dataclass(frozen=True, slots=True)
class Prediction:
    session: str
    model: str
    from_ms: float | None = None
    kind: str | None = None  # of the line
    on_ms: float | None = None
    interval95: tuple[float, float] | None = None
    refused: str | None = None  # why there is none


def fit(desk: Sequence[Sample], device: Sequence[Sample], key: str) -> Fit:
    """`key`: which latency, as in `report --json`. Raises InputError where sessions of a side do not go together."""
    sides = _models(desk, "--from"), _models(device, "--on")
    both = [sha for sha in sides[0] if sha in sides[1]]
    by_kind: dict[Kind, list[Pair]] = {}
    for sha in both:
        here, there = (side[sha] for side in sides)
        kind = Kind(_runtime(here[0]), _runtime(there[0]), *_precision_and_family(here[0]))
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
    """Predict by each line of the model's kind; where none applies, say why."""
    unknown = Prediction(new.session.name, _name(new))
    try:
        _refuse_unfit(new, "--predict")
        ms = _ms([new], key)
    except InputError as error:
        return [replace(unknown, refused=str(error))]
    unknown, runtime, (precision, family) = replace(unknown, from_ms=ms), _runtime(new), _precision_and_family(new)
    each = []
    for one in found.lines:
        low, high = one.range_ms
        if (one.kind.from_runtime, one.kind.precision, one.kind.family) != (runtime, precision, family):
            continue
        if low <= ms <= high:
            interval = one.interval(ms)
            each.append(replace(unknown, kind=one.kind.words, on_ms=one.at(ms), interval95=interval))
        else:
            text = f"{ms:.4g} ms is outside of the line's models, {low:.4g} to {high:.4g} ms"
            each.append(replace(unknown, kind=one.kind.words, refused=text))
    words = ", ".join(filter(None, (runtime, precision, family)))
    return each or [replace(unknown, refused=f"no line is of its kind ({words})")]


def _models(samples: Sequence[Sample], option: str) -> dict[str, list[Sample]]:
    """The sessions of each model."""
    found: dict[str, list[Sample]] = {}
    for one in {sample.session.id: sample for sample in samples}.values():
        _refuse_unfit(one, option)
        found.setdefault(one.session.model.sha256 or "", []).append(one)
    boards = {_board(one) for one in samples}
    if len(boards) > 1:
        raise InputError(f"{option}: sessions of several boards: {'; '.join(sorted(boards))}", "give those of one")
    for each in found.values():
        settings = {_settings(one) for one in each}
        if len(settings) > 1:
            names = ", ".join(one.session.name for one in each)
            raise InputError(
                f"{option}: {names}: one model with other settings: {'; '.join(sorted(settings))}", "give one"
            )
    return found


def _refuse_unfit(one: Sample, option: str) -> None:
    session = one.session
    if one.in_turns or session.ab or session.watched:
        kind = "a session of a program" if session.watched else "an A/B session"
        raise InputError(f"{option} {session.name}: {kind}, which is not of one model", "record it with edgetop run")
    if session.model.sha256 is None:
        raise InputError(f"{option} {session.name}: the hash of its model is not known", "record it with edgetop run")


def _board(one: Sample) -> str:
    return f"{one.session.board.model or one.session.board.cpu}{' SIMULATED' if one.session.board.simulated else ''}"


def _settings(one: Sample) -> str:
    session, engine = one.session, one.session.engine
    words = f"{engine.runtime} on {', '.join(engine.providers)}, {engine.threads or 'default'} threads"
    return ", ".join(filter(None, (words, f"batch {session.load.batch or 1}", session.constraints.words)))


def _runtime(one: Sample) -> str:
    return one.session.engine.runtime or ""


def _precision_and_family(one: Sample) -> tuple[str, str]:
    return one.session.model.precision or "", one.session.labels.get(FAMILY, "")


def _name(one: Sample) -> str:
    return one.session.model.path.rpartition("/")[2]


def _ms(samples: Sequence[Sample], key: str) -> float:
    """The geometric mean over the sessions."""
    known = [getattr(one.report.latency, key) for one in samples]
    if None in known or min(known) <= 0:
        one = samples[known.index(None) if None in known else 0]
        lacks = f"{one.session.name}: has no {key.removesuffix('_ms')}"
        if one.report.latency.count:
            raise InputError(lacks, "record it for longer")
        raise InputError(f"{lacks}: no measured inference is left of it", "leave it out, or record it again")
    return float(np.exp(np.mean(np.log(known))))


def _notes(samples: Sequence[Sample], option: str) -> list[str]:
    notes, settings = [], {_settings(one) for one in samples}
    if len(settings) > 1:
        notes.append(f"{option}: the models ran with other settings: {'; '.join(sorted(settings))}")
    if any(one.session.board.simulated for one in samples):
        notes.append(f"{option}: the board is SIMULATED")
    throttled = [one.session.name for one in samples if one.report.throttled]
    if throttled and len(throttled) < len(samples):
        notes.append(f"{option}: throttled, and others are not: {', '.join(throttled)}")
    return notes
