"""Compare recordings, and print the result as text, JSON, CSV, an HTML page or a JUnit file."""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.analysis.analysis import Analysis
from edgetop.cli.output import csv_output_of, print_failures, print_text, raise_problems, write_csv
from edgetop.cli.printing.comparison_markdown import comparison_markdown
from edgetop.cli.printing.comparison_words import comparison_text, csv_rows
from edgetop.cli.printing.junit import Case, refuse_unwritable, suite_xml, write_xml
from edgetop.cli.printing.markdown import markdown_output, write_markdown
from edgetop.cli.printing.output_agreement_words import judge_of
from edgetop.cli.printing.page import refuse_html
from edgetop.comparison.agreement import Agreements, agreements
from edgetop.comparison.comparison_gates import RelativeResult, judge_gates
from edgetop.comparison.device_fit import identity
from edgetop.comparison.ratios import Comparison, compare, comparison_document
from edgetop.comparison.sample import Group, ModelWork, Sample, grouped, sample, variants
from edgetop.comparison.usage_table import usage_rows
from edgetop.errors import EXIT_DONE, EXIT_GATE_FAILED, InputError, ReaderLeftError
from edgetop.frozen import frozen
from edgetop.paths import recordings_home
from edgetop.recording.export.export_formats import NamedOutput, StreamOutput
from edgetop.recording.kept_outputs import read_outputs
from edgetop.recording.reader import Recording
from edgetop.recording.registry import locate
from edgetop.session.manifest import Model
from edgetop.session.turns import SIDES
from edgetop.sweep_plan import FILE, read_plan
from edgetop.sweep_plan import SUFFIX as SWEEP

if TYPE_CHECKING:
    from edgetop.comparison.comparison_gates import RelativeGate


@frozen
class CompareOptions:
    """The parsed options of `edgetop compare`."""

    group_by: str | None
    as_json: bool
    labels: Path | None
    metric: str | None
    csv_file: str | None  # "-": standard output
    gates: tuple["RelativeGate", ...]
    strict: bool
    junit: Path | None
    html: Path | None
    md_file: str | None  # "-": standard output
    force: bool


def print_comparison(sessions: Sequence[str], options: CompareOptions) -> int:
    """Compare the sessions, and write what the options of `edgetop compare` ask for. Return the exit code.

    `sessions` are names or paths of sessions or sweeps; the first is the baseline. Raises InputError and OutputError.
    """
    csv_output = _outputs_checked(options)
    page = refuse_html(options.html, force=options.force) if options.html else None
    markdown = markdown_output(options.md_file, as_json=options.as_json, csv=options.csv_file, force=options.force)
    groups, problems = _groups(sessions, options)
    samples = [one for group in groups for one in group.samples]
    found, agreeing = _compared(groups, options), _agreement(groups, sessions)
    results = judge_gates(options.gates, found, strict=options.strict)
    if options.junit:
        cases = [Case(f"{one.gate.text} {one.session}", None if one.ok else ("failure", one.reason)) for one in results]
        seconds = sum(one.session.duration_ns or 0 for one in samples) / 1e9
        xml = suite_xml(f"compare.{found.names[0]}", cases, seconds, samples[0].session.created_utc)
        write_xml(options.junit, xml)
    if page:
        from edgetop.cli.printing.comparison_page import write_comparison  # noqa: PLC0415  loads Bokeh

        write_comparison(page, found, results, agreeing)
    with contextlib.suppress(ReaderLeftError):  # the exit code still says whether a gate failed
        if csv_output:
            write_csv(csv_output, csv_rows(found, agreeing))
        if markdown:
            write_markdown(markdown, comparison_markdown(found, results, agreeing))
        if options.as_json:
            click.echo(comparison_json(found, results, agreeing, indent=1))
        elif "-" not in (options.csv_file, options.md_file):
            print_text(comparison_text(found, results, agreeing, is_whole=not _are_sweeps(sessions)))
    raise_problems(problems, "the rest is compared")
    return exit_code(results)


def comparison_json(
    comparison: Comparison,
    results: Sequence[RelativeResult],
    agreeing: Agreements | None = None,
    indent: int | None = None,
) -> str:
    more = {
        "agreement": agreeing and agreeing.to_json(),
        "gates": [one.to_json() for one in results] or None,
        "usage": [row.to_json() for row in usage_rows(comparison.groups)],
    }
    return json.dumps(comparison_document(comparison) | more, indent=indent)


def exit_code(results: Sequence[RelativeResult]) -> int:
    """Return the exit code for the results of `--fail-if`: 1 if a gate failed, else 0. Print failed gates to stderr."""
    return EXIT_GATE_FAILED if print_failures([one.reason for one in results if not one.ok]) else EXIT_DONE


def _outputs_checked(options: CompareOptions) -> NamedOutput | StreamOutput | None:
    """Return the output for `--csv`, or None without that option.

    Check that the files of `--csv` and `--junit` can be written. Raises InputError and OutputError.
    """
    if options.junit:
        refuse_unwritable(options.junit)
    return csv_output_of(options.csv_file, as_json=options.as_json, force=options.force)


def _groups(sessions: Sequence[str], options: CompareOptions) -> tuple[tuple[Group, ...], list[str]]:
    """Return `(groups, problems)`: the groups of sessions to compare, and a line about each part that cannot be read.

    With `--group-by`, sessions with the same value of that label or property form a group. Without it, each sweep and
    each session is a group. If there is no sweep, A and B of an A/B session are two groups. Raises InputError if a
    session cannot be found or read.
    """
    if options.group_by or not any(map(sweep_sessions, sessions)):
        samples, problems = read_samples(sessions)
        return grouped(samples, options.group_by), problems
    groups, problems = [], []
    for name in sessions:
        samples, found = read_samples([name])
        groups.append(Group(Path(name).name.removesuffix(SWEEP), tuple(samples)))
        problems += found
    return tuple(groups), problems


def _are_sweeps(sessions: Sequence[str]) -> bool:
    return len(sessions) == 2 and all(map(sweep_sessions, sessions))


def _agreement(groups: Sequence[Group], sessions: Sequence[str]) -> Agreements | None:
    """Return how well two groups of sessions agree in their ranking of models (or programs).

    Return None if there are not exactly two groups, or if a group has only one model. Raises InputError if both
    `sessions` are sweeps, and these have no model in common.
    """
    if len(groups) != 2 or any(len(set(map(identity, group.samples))) < 2 for group in groups):
        return None
    try:
        return agreements(groups[0].samples, groups[1].samples)
    except InputError:
        if _are_sweeps(sessions):
            raise
        return None


def _compared(groups: Sequence[Group], options: CompareOptions) -> Comparison:
    """Compare each group with the first group, and return the result. Raises InputError if nothing can be compared."""
    key = options.group_by
    try:
        return compare(groups, judge=judge_of(options.labels, options.metric))
    except ValueError as error:
        several = sum(len(group.samples) for group in groups) > 1
        advice = f"all have the same {key}" if key and several else "choose two or more sessions"
        raise InputError(str(error), advice) from None


def read_samples(sessions: Sequence[str]) -> tuple[list[Sample], list[str]]:
    """Return `(samples, problems)`: the figures of each session, and a line about each part that could not be read.

    `sessions` are names or paths. An A/B session gives two samples, one for A and one for B. A sweep gives a sample for
    each complete run. Raises InputError if a session cannot be found or read.
    """
    samples: list[Sample] = []
    problems: list[str] = []
    for session in (each for name in sessions for each in sweep_sessions(name) or (name,)):
        with Recording(locate(session, recordings_home())) as recording:
            analysis = Analysis.of(recording.play())
            both = variants(analysis, recording.play(inferences=True)) if recording.manifest.ab else []
            for side, one in zip(SIDES if both else ("",), both or [sample(analysis)], strict=True):
                try:
                    outputs = read_outputs(recording.folder, side)
                except InputError as error:
                    outputs, problems = None, [*problems, str(error)]
                samples.append(replace(one, outputs=outputs, work=_work(one.session.model)))
            problems += recording.problems
    return samples, problems


def sweep_sessions(name: str) -> list[str]:
    """Return the paths of the complete runs of a sweep, or [] if `name` is not a sweep.

    `name` is the path of the sweep's folder, or its name in the current folder or in the recordings folder. Raises
    InputError if no run is complete.
    """
    places = (Path(name), Path(f"{name}{SWEEP}"), recordings_home() / f"{name}{SWEEP}")
    folder = next((place for place in places if (place / FILE).is_file()), None)
    if folder is None:
        return []
    done = [str(folder / run.session) for run in read_plan(folder).runs if run.state == "done"]
    if not done:
        raise InputError(f"{name}: no run of this sweep is complete", "edgetop sweep --resume continues it")
    return done


def _total(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes, or None if there are none or one is unknown."""
    known = list(sizes)
    return sum(size or 0 for size in known) if known and None not in known else None


def _work(model: Model) -> ModelWork:
    """Return figures of the model's file, such as its number of parameters.

    All figures are None if the file has changed since the session, or cannot be inspected.
    """
    from hashlib import sha256  # noqa: PLC0415  4 MiB of OpenSSL, which a sweep does without until it is over

    from edgetop.models.external_data import external_files  # noqa: PLC0415  as above
    from edgetop.models.inspection import READERS, inspected, read_model  # noqa: PLC0415  as above

    path = Path(model.path)
    try:
        is_it = path.is_file() and path.stat().st_size == model.size_bytes and model.sha256 is not None
        if not is_it or model.format not in READERS or sha256(path.read_bytes()).hexdigest() != model.sha256:
            return ModelWork()
        declared = read_model(path, model.format)
        if model.signature and len(declared.signatures) > 1:
            return ModelWork()  # another graph may have run than the one that is inspected
        found = inspected(declared, {one.name: one.shape for one in model.inputs})
    except (InputError, OSError, ValueError):
        return ModelWork()
    totals, weights = found.totals, found.weights
    stored = sum(size for _, size in weights.by_dtype.values())
    return ModelWork(
        parameters=weights.parameters,
        macs=None if totals.macs_unknown else totals.macs,
        flops=None if totals.flops_unknown else totals.flops,
        depth=sum(bool(one.parameters) and not one.is_folded for one in found.operators),
        weight_bits=round(8 * stored / weights.parameters, 3) if weights.parameters else None,
        external_bytes=_total(one.size_bytes for one in external_files(declared.external, path.parent)),
    )
