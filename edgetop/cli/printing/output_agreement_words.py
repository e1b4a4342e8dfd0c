"""Compares the kept outputs of models (`--keep-outputs`): how well they agree, and how accurate they are."""

import contextlib
import importlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from edgetop.cli.printing.comparison_words import value_text
from edgetop.comparison.comparison_gates import RelativeGate, is_of, judge_outputs
from edgetop.comparison.output_agreement import (
    AGREEMENT,
    Judge,
    Line,
    OutputAgreements,
    compare_outputs,
    judged_lines,
    lines,
    unpaired_words,
)
from edgetop.comparison.ratios import Comparison
from edgetop.errors import InputError
from edgetop.files import read_file
from edgetop.formatting import clean
from edgetop.recording.kept_outputs import read_outputs
from edgetop.session.turns import SIDES
from edgetop.session.typed_json import Document

MAX_LABELS_BYTES = 256 * 1024 * 1024
JUDGED = ("top-1", "top-5", "metric")
SHOWN = ("same_top", "snr_db", "max_abs")
IF_ANY = ("non_finite", "unlike")  # shown if there are any


def judge_of(path: Path | str | None, name: str | None, folder: Path | None = None) -> Judge:
    """Return an object that measures the accuracy of model outputs, with the values of `--labels` and `--metric`.

    `path` is a .npy file of true classes. `name` is a function that scores outputs, such as `eval:score`. The
    function's module is searched in `folder`, by default the current folder. Raises InputError if the file or the
    function cannot be loaded.
    """
    labels = metric = None
    if path:
        try:
            labels = np.asarray(np.load(io.BytesIO(read_file(Path(path), MAX_LABELS_BYTES)), allow_pickle=False))
        except (OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
            why = getattr(error, "strerror", None) or "not an array as numpy.save writes it"
            raise InputError(f"--labels {path}: {why}") from None
    if name:
        module, _, function = name.partition(":")
        place = str(folder or Path.cwd())
        sys.path.insert(0, place)  # import from the folder, as `python -m` does
        try:
            metric = getattr(importlib.import_module(module), function)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the user's own module: any type it likes
            text = f"--metric {name}: cannot be loaded: {type(error).__name__}: {error}"
            raise InputError(text, "write MODULE:FUNCTION, as in eval:score for score() of eval.py") from None
        finally:
            with contextlib.suppress(ValueError):  # the module may have changed sys.path
                sys.path.remove(place)
            sys.path.append(place)  # last, so that it hides no module that edgetop imports later
    return Judge(labels, metric, name or "")


def with_outputs(document: Document, folder: Path | None, judge: Judge | None = None) -> Document:
    """Add how well B's outputs agree with A's to the JSON document of an A/B report, and return the document.

    The new value is `document["ab"]["outputs"]`. Nothing is added if no outputs were kept. `folder` is the folder of
    the session; None if it was not recorded. `judge` measures accuracy; None for agreement only.
    """
    if document.get("ab") and folder and (found := _found(folder, judge)):
        document["ab"] = {**document["ab"], "outputs": found}
    return document


def outputs_lines(folder: Path | None, judge: Judge | None = None) -> Iterator[str]:
    """Yield lines about how well B's outputs agree with A's. Yield nothing if no outputs were kept.

    `folder` is the folder of the session; None if it was not recorded. `judge` measures accuracy; None for agreement
    only.
    """
    found = _found(folder, judge) if folder else None
    if found and found["refused"]:
        yield f"outputs    {'' if found['agreement'] else 'not compared: '}{clean(found['refused'])}"
    for one in found["agreement"] if found else ():
        shown = ((key, *AGREEMENT[key]) for key in SHOWN if one[key] is not None)
        parts = [f"{what} {value_text(one[key], unit)}{' dB' if unit == 'dB' else ''}" for key, what, unit in shown]
        parts += [f"{label} {one[key]:.0f}" for key in IF_ANY if one[key] and (label := AGREEMENT[key][0])]
        if any(shares := one["non_finite_shares"]):
            parts.append(f"NaN or infinite {' and '.join(value_text(share, 'share') for share in shares)}")
        parts += [
            f"{side}'s are {dtype} without a known scale, so only the classes can be compared"
            for side, dtype in zip(SIDES, one["unscaled"], strict=True)
            if dtype
        ]
        named = f", compared with A's {clean(one['name'])}" if one["other_name"] else " of B to A's"
        words = ", ".join(parts) or "it holds no numbers"
        yield f"outputs    {clean(one['other_name'] or one['name'])}{named}: {words}"
    of_a, of_b = found["unpaired"] if found else ((), ())
    differing = tuple(found["differing"]) if found else ()
    if words := unpaired_words(OutputAgreements({}, (tuple(of_a), tuple(of_b)), differing), *SIDES):
        yield f"outputs    not compared: {clean(words)}"
    if found and found["left_out"]:
        yield f"outputs    not compared, because they are no numbers: {clean(', '.join(found['left_out']))}"
    for one in found["judged"] if found else ():
        each = (f"{side} {value_text(value, one['unit'])}" for side, value in zip(SIDES, one["values"], strict=True))
        yield f"outputs    {clean(one['label'])}: {', '.join(each)}"


def failed_gates(gates: Sequence[RelativeGate], folder: Path | None, judge: Judge | None = None) -> list[str]:
    """Return a line for each of the gates on outputs (such as `top-1<-1%`) that an A/B session fails.

    `folder` is the folder of the session; None if it was not recorded. `judge` measures accuracy; None without labels
    and metric.
    """
    rows: list[Line] = []
    try:
        both = [read_outputs(folder, side) if folder else None for side in SIDES]
        rows = lines(both, judge or Judge())[0] if all(both) else []
    except InputError as error:
        return [f"{gate.text}: unknown: {clean(str(error))}" for gate in gates]
    judged = [
        judge_outputs(
            gate, "B", [(row.unit, row.values[0], row.values[1]) for row in rows if is_of(gate.name, row.key)]
        )
        for gate in gates
    ]
    return [one.reason for one in judged if not one.ok]


def _found(folder: Path, judge: Judge | None) -> Document | None:
    found: Document = {
        "agreement": [],
        "judged": [],
        "refused": None,
        "left_out": [],
        "unpaired": [[], []],
        "differing": [],
    }
    try:
        first, second = (read_outputs(folder, side) for side in SIDES)
        if first is None or second is None:
            return None
        found["left_out"] = list(dict.fromkeys([*first.left_out, *second.left_out]))
        compared = compare_outputs(first, second)
        found["agreement"] = [asdict(one) for one in compared.by_output.values()]
        found["unpaired"] = [list(names) for names in compared.unpaired]
        found["differing"] = list(compared.differing)
        found["judged"] = [asdict(one) for one in judged_lines([first, second], judge or Judge())]
    except (InputError, ValueError) as error:
        found["refused"] = str(error)
    return found


def worst(comparison: Comparison | None, name: str) -> dict[str, float]:
    """Return how well the outputs of one variant agree with those of the first variant, and how accurate they are.

    `name` is the name of the variant in the comparison. The keys of the result are `same_top`, `snr_db`, `top-1`,
    `top-5` and `metric`. Unknown values are absent. If a model has several outputs, the lowest `same_top` and `snr_db`
    count.
    """
    if comparison is None or name not in comparison.names:
        return {}
    place = comparison.names.index(name)
    found = {}
    for end in ("same_top", "snr_db"):
        rows = (row.values[place] for row in comparison.rows if row.key.startswith("output/") and row.key.endswith(end))
        values = [value for value in rows if isinstance(value, float)]
        if values:
            found[end] = min(values)
    for row in comparison.rows:
        value, (kind, _, rest) = row.values[place], row.key.partition("/")
        key = kind if kind == "metric" else rest.rpartition("/")[2]
        if isinstance(value, float) and key in JUDGED and kind in ("output", "metric"):
            found[key] = value
    return found
