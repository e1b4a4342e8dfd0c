"""`edgetop fit`: predict the latency, memory or energy of a model on a device from a measurement on another machine.

Models that were measured on both machines serve as the basis.
"""

from collections.abc import Iterator, Sequence
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
    from edgetop.comparison.sample import Sample

# Keys of the figures in a report, by the values of --figure.
FIGURES = {
    "p50": "p50_ms", "p90": "p90_ms", "p99": "p99_ms", "mean": "mean_ms", "time": "total_time_ms",
    "memory": "rss_peak_mib", "energy": "gross_mj",
}  # fmt: skip
NAME_CELLS = 32


def session_list(given: str) -> list[str]:
    """Parse a comma-separated list of sessions. A path that contains a comma must be given alone.

    >>> session_list("pi-a, pi-b")
    ['pi-a', 'pi-b']
    """
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
    option("--figure", "--latency", "of", type=click.Choice(list(FIGURES)),
        help="Figure to fit: a latency, the total time of programs, the peak memory, or the energy of an inference or, "
        "without inferences, of the run. Default: p50, or time for programs without inferences."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help fit)."),
)  # fmt: skip


@frozen
class FitOptions:
    """The parsed options of `edgetop fit`.

    `on`, `from_` and `predict` can be given several times. Each item of these three fields is a list of session names.
    """

    on: tuple[list[str], ...]
    from_: tuple[list[str], ...]
    predict: tuple[list[str], ...]
    of: str | None  # one of FIGURES; None: the default
    as_json: bool


@click.command("fit", params=[*OPTIONS])
def command(**given: Value) -> int:
    """Fit a line through the latencies of models at the desk and on the device, and predict those of other models.

    Models are matched by the hash of their files. Each runtime, precision and family (the label) gets its own line.
    Programs (edgetop watch) are matched by their commands, without folders. SESSION can be a sweep.

    \b
    Examples:
      edgetop fit --on pi-a,pi-b,pi-c --from desk-a,desk-b,desk-c
      edgetop fit --on pi-a,pi-b,pi-c --from desk-a,desk-b,desk-c --predict desk-new --json
      edgetop fit --on board.sweep --from desk.sweep --figure memory
    """
    from edgetop.cli.comparing.comparison import read_samples  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.output import print_json, print_text, raise_problems  # noqa: PLC0415
    from edgetop.comparison.device_fit import fit, predict  # noqa: PLC0415

    options = taken(FitOptions, given)
    problems, samples = list[str](), []
    for side in (options.from_, options.on, options.predict):
        read, found = read_samples([name for each in side for name in each])
        samples.append(read)
        problems += found
    at_desk, on_device, new_samples = samples
    of, key = _figure(options.of, [*at_desk, *on_device])
    try:
        whole = fit(at_desk, on_device, key)
    except InputError as error:
        raise InputError("; so ".join((*(each.rstrip(".") for each in problems[:1]), str(error)))) from None
    if not whole.lines:
        why = "; ".join(whole.refused or ("no model ran on both sides",))
        raise InputError(f"fit: {why}", "record more models on both sides: edgetop run MODEL")
    predictions = [one for new in new_samples for one in predict(whole, new, key)]
    if options.as_json:
        print_json(_document(of, key, whole, predictions))
    else:
        print_text("\n".join(_text(of, key, whole, predictions)))
    raise_problems(problems, "the rest is fitted")
    if predictions and not any(one.interval95 for one in predictions):
        one = predictions[0]
        raise InputError(f"fit: {one.model}: {one.refused}", "record similar models on both sides")
    return EXIT_DONE


def _figure(of: str | None, samples: "Sequence[Sample]") -> tuple[str, str]:
    """Return `(name, key)` of the figure to predict, such as `("p50", "p50_ms")`.

    `of` is the value of `--figure`; None for the default, which depends on the sessions in `samples`.
    """
    has_latency = any(one.report.latency.p50_ms is not None for one in samples)
    of = of or ("p50" if has_latency or not all(one.session.watched for one in samples) else "time")
    is_of_runs = of == "energy" and not any(one.report.energy.gross_mj is not None for one in samples)
    return of, "run_j" if is_of_runs and any(one.session.watched for one in samples) else FIGURES[of]


def _text(of: str, key: str, whole: "Fit", predictions: "list[Prediction]") -> Iterator[str]:
    """Yield the result of `edgetop fit` as lines of text. Control characters in names are made visible.

    `of` and `key` come from `_figure`, such as `p50` and `p50_ms`. `whole` is the fit over all measured models.
    """
    from edgetop.cli.output import table, text_columns  # noqa: PLC0415
    from edgetop.cli.printing.report_text import wrapped  # noqa: PLC0415
    from edgetop.comparison.device_fit import FIGURES as READ  # noqa: PLC0415
    from edgetop.comparison.device_fit import PROGRAM  # noqa: PLC0415
    from edgetop.formatting import UNKNOWN, clean, fine_percent, or_unknown, plain, shortened  # noqa: PLC0415

    unit = READ[key].unit
    of = of if of in ("p50", "p90", "p99", "mean") else READ[key].label
    for one in whole.lines:
        what = "program" if one.kind.from_runtime == PROGRAM else "model"
        r2 = UNKNOWN if one.r2 is None else f"{one.r2:.3f}"
        words = f"{clean(one.kind.words)}: {of} there = {plain(one.factor)} {unit} x ({unit} here)^{one.slope:.3f}"
        yield from wrapped((f"line       {words}",), text_columns())
        yield f"           {len(one.pairs)} {what}s, R2 {r2}, Kendall's tau of the ranking {one.tau:.2f}"
        rows = [
            [
                shortened(clean(pair.name), NAME_CELLS),
                *(plain(value) for value in (pair.here, pair.there, one.at(pair.here))),
                fine_percent(off),
            ]
            for pair, off in zip(one.pairs, one.left_out, strict=True)
        ]
        yield from table([what, f"{unit} here", f"{unit} there", "line", "off if left out"], rows, {what})
        yield ""
    for each in predictions:
        words = f"refused: {clean(each.refused or '')}"
        if each.interval95:
            low, high = each.interval95
            here, there = f"{or_unknown(each.here, plain)} {unit} here", f"{or_unknown(each.there, plain)} {unit} there"
            words = f"{here}, {there} (95 %: {plain(low)} to {plain(high)})"
        yield from wrapped((f"predicted  {clean(each.model)}: {words}",), text_columns())
    for head, lines in (("no line", whole.refused), ("left out", whole.left_out), ("unfair", whole.notes)):
        yield from wrapped((f"{head:<10} {clean(words)}" for words in lines), text_columns())


def _document(of: str, key: str, whole: "Fit", predictions: "list[Prediction]") -> Document:
    from edgetop.comparison.device_fit import PROGRAM  # noqa: PLC0415
    from edgetop.formatting import rounded  # noqa: PLC0415

    unit = key.rpartition("_")[2]
    lines = [
        {
            "from_runtime": one.kind.from_runtime, "on_runtime": one.kind.on_runtime,
            "precision": one.kind.precision or None, "family": one.kind.family or None,
            "slope": rounded(one.slope, 6), f"factor_{unit}": rounded(one.factor, 6), "r2": rounded(one.r2, 6),
            "tau": rounded(one.tau, 6), f"range_{unit}": [rounded(end, 6) for end in one.range],
            "models": [
                {
                    "name": pair.name, "sha256": None if one.kind.from_runtime == PROGRAM else pair.identity,
                    f"from_{unit}": rounded(pair.here, 6), f"on_{unit}": rounded(pair.there, 6),
                    f"line_{unit}": rounded(one.at(pair.here), 6), "left_out_error": rounded(off, 6),
                }
                for pair, off in zip(one.pairs, one.left_out, strict=True)
            ],
        }
        for one in whole.lines
    ]  # fmt: skip
    predicted = [
        {
            "session": one.session, "model": one.model, f"from_{unit}": rounded(one.here, 6), "kind": one.kind,
            f"on_{unit}": rounded(one.there, 6), "interval95": one.interval95 and list(one.interval95),
            "refused": one.refused,
        }
        for one in predictions
    ]  # fmt: skip
    return {
        "of": of, "lines": lines, "predictions": predicted, "refused": list(whole.refused),
        "left_out": list(whole.left_out), "unfair": list(whole.notes),
    }  # fmt: skip
