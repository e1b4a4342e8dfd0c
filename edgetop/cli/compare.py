"""`edgetop compare`: sessions side by side, and whether their differences are real."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click import option

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import Companion, needs
from edgetop.errors import EXIT_DONE, EXIT_GATE_FAILED, InputError, ReaderLeftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgetop.comparison.gates import RelativeResult
    from edgetop.comparison.sample import Sample
    from edgetop.session.manifest import Model

PATH = click.Path(path_type=Path)

OPTIONS = (
    option(
        "--group-by", metavar="KEY", shell_complete=completion.group_keys,
        help="Sessions of one value together: a label's key, model, threads ...",
    ),
    option("--json", "as_json", is_flag=True, help="One JSON document (edgetop help compare)."),
    option("--labels", **text.LABELS),
    option("--metric", **text.METRIC),
    option("--csv", "csv_file", metavar="FILE", help="The rows as CSV as well; - is the standard output, alone."),
    option(
        "--fail-if", "gates", type=text.relative_gate, multiple=True, metavar="GATE",
        help="Exit with 1 where this is certain against the first: p50>+3%, rss>+20MiB. Repeatable.",
    ),
    option("--strict", is_flag=True, help="Or where it cannot be excluded.", cls=Companion, rules=[needs("gates")]),
    option(
        "--junit", type=PATH, metavar="FILE", help="Write the gates as a JUnit file.",
        cls=Companion, rules=[needs("gates")],
    ),
    option("--html", type=PATH, metavar="FILE", help="Charts and tables as one page, for a browser offline."),
    option("--force", is_flag=True, help="Replace files that exist.", cls=Companion, rules=[needs("csv_file", "html")]),
)  # fmt: skip


@click.command("compare")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION SESSION...", shell_complete=completion.sessions)
@text.add_options(OPTIONS)
def command(sessions: tuple[str, ...], **options: Any) -> int:
    """Compare sessions (paths, names, or enough of an id) with the first of them, the baseline.

    \b
    Examples:
      edgetop compare fp32 int8
      edgetop compare run-* --group-by threads
      edgetop compare release-1 release-2 --fail-if 'p50>+3%' --fail-if 'rss>+20MiB' --junit gates.xml
    """
    from edgetop.cli import comparison_text  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.agreement import judge_of  # noqa: PLC0415
    from edgetop.cli.output import print_text, raise_problems, write_csv  # noqa: PLC0415
    from edgetop.cli.page import refuse_html  # noqa: PLC0415
    from edgetop.comparison.compare import compare, comparison_document  # noqa: PLC0415
    from edgetop.comparison.gates import judge_gates  # noqa: PLC0415
    from edgetop.comparison.sample import grouped  # noqa: PLC0415

    place = _prepared(options)
    page = refuse_html(options["html"], force=options["force"]) if options["html"] else None
    samples, problems = read_samples(sessions)
    try:
        groups = grouped(samples, options["group_by"])
        found = compare(groups, judge=judge_of(options["labels"], options["metric"]))
    except ValueError as error:
        key = options["group_by"]
        advice = f"all have the same {key}" if key and len(samples) > 1 else "name two sessions or more"
        raise InputError(str(error), advice) from None
    results = judge_gates(options["gates"], found, strict=options["strict"])
    if options["junit"]:
        _write_junit(options["junit"], found.names[0], samples, results)
    if page:
        from edgetop.cli.comparison_page import write_comparison  # noqa: PLC0415

        write_comparison(page, found, results)
    with contextlib.suppress(ReaderLeftError):
        if place:
            write_csv(place, comparison_text.csv_rows(found))
        if options["as_json"]:
            document = comparison_document(found) | {"gates": [one.to_json() for one in results] or None}
            click.echo(json.dumps(document, indent=1))
        elif options["csv_file"] != "-":
            print_text(comparison_text.comparison_text(found, results))
    raise_problems(problems, "the rest is compared")
    return exit_code(results)


def exit_code(results: "Sequence[RelativeResult]") -> int:
    """Tells which gates failed."""
    from edgetop.cli.output import print_text  # noqa: PLC0415  --help needs none of it

    failed = [one for one in results if not one.ok]
    for one in failed:
        print_text(f"edgetop: gate failed: {one.reason}", err=True)
    return EXIT_GATE_FAILED if failed else EXIT_DONE


def _prepared(options: dict[str, Any]) -> Any:
    """Where the CSV goes, before anything is read. Raises InputError."""
    import sys  # noqa: PLC0415

    from edgetop.cli.junit import refuse_unwritable  # noqa: PLC0415
    from edgetop.recording.export.protocol import NamedOutput, StreamOutput  # noqa: PLC0415

    if options["junit"]:
        refuse_unwritable(options["junit"])
    if options["csv_file"] == "-":
        if options["as_json"]:
            raise InputError("--json and --csv - both want the standard output", "give --csv a file")
        return StreamOutput(sys.stdout.buffer)
    if options["csv_file"] is None:
        return None
    return NamedOutput(Path(options["csv_file"]), force=options["force"], elsewhere="name another place with --csv")


def read_samples(sessions: "Sequence[str]") -> "tuple[list[Sample], list[str]]":
    """What a comparison takes of each recording, and what of them could not be read. Raises InputError.

    Of an A/B session each variant.
    """
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415
    from edgetop.comparison.sample import sample  # noqa: PLC0415
    from edgetop.comparison.variants import variants  # noqa: PLC0415
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.outputs import read_outputs  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415
    from edgetop.recording.registry import locate  # noqa: PLC0415
    from edgetop.session.turns import SIDES  # noqa: PLC0415

    samples: list[Sample] = []
    problems: list[str] = []
    for session in sessions:
        recording = Recording(locate(session, recordings_home()))
        analysis = Analysis()
        for batch in recording.play():
            analysis.fold(batch)
        both = variants(analysis, recording.play(inferences=True)) if recording.manifest.ab else []
        for side, one in zip(SIDES if both else ("",), both or [sample(analysis)], strict=True):
            try:
                outputs = read_outputs(recording.folder, side)
            except InputError as error:
                outputs, problems = None, [*problems, str(error)]
            parameters, macs = _work(one.session.model)
            samples.append(replace(one, outputs=outputs, parameters=parameters, macs=macs))
        problems += recording.problems
    return samples, problems


def _work(model: "Model") -> tuple[int | None, int | None]:
    """Parameters and MACs of an inference, from the model's file where that is still the one that ran."""
    from hashlib import sha256  # noqa: PLC0415

    from edgetop.models.inspection import READERS, inspected, read_model  # noqa: PLC0415

    path = Path(model.path)
    try:
        is_it = path.is_file() and path.stat().st_size == model.size_bytes and model.sha256 is not None
        if not is_it or model.format not in READERS or sha256(path.read_bytes()).hexdigest() != model.sha256:
            return None, None
        found = inspected(read_model(path, model.format), {one.name: one.shape for one in model.inputs})
    except (InputError, OSError, ValueError):
        return None, None
    totals = found.totals
    return found.weights.parameters, None if totals.macs_unknown else totals.macs


def _write_junit(path: Path, baseline: str, samples: "list[Sample]", results: Any) -> None:
    from edgetop.cli.junit import Case, suite_xml, write_xml  # noqa: PLC0415

    cases = [Case(f"{one.gate.text} {one.session}", None if one.ok else ("failure", one.reason)) for one in results]
    seconds = sum(one.session.duration_ns or 0 for one in samples) / 1e9
    write_xml(path, suite_xml(f"compare.{baseline}", cases, seconds, samples[0].session.created_utc))
