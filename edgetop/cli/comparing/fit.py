"""`edgetop fit`: predict latency on a device from latency at the desk, by models that ran on both."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli.companions import Value, option, taken
from edgetop.errors import EXIT_DONE, InputError
from edgetop.frozen import frozen
from edgetop.session.typed_json import Document

if TYPE_CHECKING:
    from edgetop.comparison.device_fit import Fit, Prediction

FIGURES = ("p50", "p90", "p99", "mean")
NAME_CELLS = 32


def session_list(given: str) -> list[str]:
    """Parse a comma-separated list of sessions. A path that contains a comma must be given alone."""
    return [given] if not given or Path(given).exists() else [one.strip() for one in given.split(",") if one.strip()]


def _sessions(*names: str, what: str, required: bool = True) -> click.Option:
    return option(
        *names, type=session_list, multiple=True, required=required, metavar="SESSION,...", help=what,
        shell_complete=completion.session_lists,
    )  # fmt: skip


OPTIONS = (
    _sessions("--on", what="Sessions on the device. Repeatable."),
    _sessions("--from", "from_", what="Sessions of the same models at the desk. Repeatable."),
    _sessions("--predict", what="Sessions of other models at the desk, to be predicted. Repeatable.", required=False),
    option("--latency", "of", type=click.Choice(FIGURES), default="p50", show_default=True, help="Latency to fit."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help fit)."),
)  # fmt: skip


@frozen
class FitOptions:
    """Sessions are lists of names, one list for each time that the option was given."""

    on: tuple[list[str], ...]
    from_: tuple[list[str], ...]
    predict: tuple[list[str], ...]
    of: str  # one of FIGURES
    as_json: bool


@click.command("fit", params=[*OPTIONS])
def command(**given: Value) -> int:
    """Fit a line through the latencies of models at the desk and on the device, and predict those of other models.

    Models are matched by the hash of their files. Each runtime, precision and family (the label) gets its own line.

    \b
    Examples:
      edgetop fit --on pi-a,pi-b,pi-c --from desk-a,desk-b,desk-c
      edgetop fit --on pi-a,pi-b,pi-c --from desk-a,desk-b,desk-c --predict desk-new --json
    """
    from edgetop.cli.comparing.comparison import read_samples  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text, raise_problems  # noqa: PLC0415
    from edgetop.comparison.device_fit import fit, predict  # noqa: PLC0415

    options = taken(FitOptions, given)
    key, problems, samples = f"{options.of}_ms", list[str](), []
    for side in (options.from_, options.on, options.predict):
        read, found = read_samples([name for each in side for name in each])
        samples.append(read)
        problems += found
    at_desk, on_device, new_samples = samples
    try:
        whole = fit(at_desk, on_device, key)
    except InputError as error:
        raise InputError("; so ".join((*(each.rstrip(".") for each in problems[:1]), str(error)))) from None
    if not whole.lines:
        why = "; ".join(whole.refused or ("no model ran on both sides",))
        raise InputError(f"fit: {why}", "record more models on both sides: edgetop run MODEL")
    predictions = [one for new in new_samples for one in predict(whole, new, key)]
    if options.as_json:
        print_json(_document(options.of, whole, predictions))
    else:
        print_text("\n".join(_text(options.of, whole, predictions)))
    raise_problems(problems, "the rest is fitted")
    if predictions and not any(one.interval95 for one in predictions):
        one = predictions[0]
        raise InputError(f"fit: {one.model}: {one.refused}", "record similar models on both sides")
    return EXIT_DONE


def _text(of: str, whole: "Fit", predictions: "list[Prediction]") -> Iterator[str]:
    """Yield the lines of the text. Foreign text in them is made safe."""
    from edgetop.cli.output import table  # noqa: PLC0415
    from edgetop.cli.printing.report_text import wrapped  # noqa: PLC0415
    from edgetop.formatting import UNKNOWN, clean, fine_percent, shortened  # noqa: PLC0415

    for one in whole.lines:
        r2 = UNKNOWN if one.r2 is None else f"{one.r2:.3f}"
        words = f"{clean(one.kind.words)}: {of} there = {one.factor:.4g} ms x (ms here)^{one.slope:.3f}"
        yield from wrapped((f"line       {words}",))
        yield f"           {len(one.pairs)} models, R2 {r2}, Kendall's tau of the ranking {one.tau:.2f}"
        rows = [
            [
                shortened(clean(pair.name), NAME_CELLS),
                *(f"{ms:.4g}" for ms in (pair.from_ms, pair.on_ms, one.at(pair.from_ms))),
                fine_percent(off),
            ]
            for pair, off in zip(one.pairs, one.left_out, strict=True)
        ]
        yield from table(["model", "ms here", "ms there", "line", "off if left out"], rows, {"model"})
        yield ""
    for each in predictions:
        words = f"refused: {clean(each.refused or '')}"
        if each.interval95:
            low, high = each.interval95
            words = f"{each.from_ms:.4g} ms here, {each.on_ms:.4g} ms there (95 %: {low:.4g} to {high:.4g})"
        yield from wrapped((f"predicted  {clean(each.model)}: {words}",))
    for head, lines in (("no line", whole.refused), ("left out", whole.left_out), ("unfair", whole.notes)):
        yield from wrapped(f"{head:<10} {clean(words)}" for words in lines)


def _document(of: str, whole: "Fit", predictions: "list[Prediction]") -> Document:
    from edgetop.formatting import rounded  # noqa: PLC0415
    from edgetop.wording.report_document import to_json  # noqa: PLC0415

    lines = [
        {
            "from_runtime": one.kind.from_runtime, "on_runtime": one.kind.on_runtime,
            "precision": one.kind.precision or None, "family": one.kind.family or None,
            "slope": rounded(one.slope, 6), "factor_ms": rounded(one.factor, 6), "r2": rounded(one.r2, 6),
            "tau": rounded(one.tau, 6), "range_ms": list(one.range_ms),
            "models": [
                {
                    "name": pair.name, "sha256": pair.sha256, "from_ms": rounded(pair.from_ms, 6),
                    "on_ms": rounded(pair.on_ms, 6), "line_ms": rounded(one.at(pair.from_ms), 6),
                    "left_out_error": rounded(off, 6),
                }
                for pair, off in zip(one.pairs, one.left_out, strict=True)
            ],
        }
        for one in whole.lines
    ]  # fmt: skip
    return {
        "of": of, "lines": lines, "predictions": to_json(predictions), "refused": list(whole.refused),
        "left_out": list(whole.left_out), "unfair": list(whole.notes),
    }  # fmt: skip
