"""`edgetop report`: the summary of a recorded session."""

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import Companion, needs
from edgetop.errors import EXIT_DONE, EXIT_GATE_FAILED, InputError, ReaderLeftError

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis
    from edgetop.analysis.gates import Gate
    from edgetop.recording.reader import Recording

PATH = click.Path(path_type=Path)


@click.command("report")
@click.argument("session", required=False, shell_complete=completion.sessions)
@click.option("--json", "as_json", is_flag=True, help="One JSON document (edgetop help report).")
@click.option(
    "--fail-if", "gates", type=text.gate, multiple=True, metavar="GATE",
    help="Exit with 1 where this holds, instead of the gates that the run had (edgetop help gates). Repeatable.",
)  # fmt: skip
@click.option("--junit", type=PATH, metavar="FILE", help="Write the gates as a JUnit file.")
@click.option("--html", type=PATH, metavar="FILE", help="Charts and text as one page, for a browser offline.")
@click.option("--force", is_flag=True, help="Replace a page that exists.", cls=Companion, rules=[needs("html")])
def command(
    session: str | None, *, as_json: bool, gates: tuple["Gate", ...], junit: Path | None, html: Path | None, force: bool
) -> int:
    """Summarise SESSION: a path, a name, or enough of an id. Without SESSION: the newest; a line on stderr names it.

    \b
    Examples:
      edgetop report
      edgetop report demo-20261121-101502
      edgetop report soak-42.edgetop --json
      edgetop report soak-42 --fail-if 'p99>33ms' --fail-if throttled
      edgetop report soak-42 --html soak-42.html
    """
    from edgetop.analysis.report import report, to_json  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.agreement import outputs_lines, with_outputs  # noqa: PLC0415
    from edgetop.cli.choosing import recorded  # noqa: PLC0415
    from edgetop.cli.gates import print_failed_gates  # noqa: PLC0415
    from edgetop.cli.junit import refuse_unwritable, write  # noqa: PLC0415
    from edgetop.cli.output import print_text, raise_problems  # noqa: PLC0415
    from edgetop.cli.page import refuse_html  # noqa: PLC0415
    from edgetop.cli.summary import summary, wrapped  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415

    if junit:
        refuse_unwritable(junit)
    page = refuse_html(html, force=force) if html else None
    recording = Recording(recorded(session))
    analysis = _analysed(recording, gates)
    if junit and not analysis.gates:
        raise InputError("--junit needs a gate", "the run had none: give one with --fail-if (edgetop help gates)")
    result = report(analysis)
    if junit:
        write(junit, result)
    if page:
        from edgetop.cli.report_page import write_report  # noqa: PLC0415  loads Bokeh

        write_report(page, analysis, result, list(outputs_lines(recording.folder)))
    with contextlib.suppress(ReaderLeftError):  # the gates are judged all the same
        if as_json:
            click.echo(json.dumps(with_outputs(to_json(result), recording.folder), indent=1))
        else:
            print_text("\n".join((summary(result), *wrapped(outputs_lines(recording.folder)))))
    raise_problems(recording.problems, "the rest is reported")
    return EXIT_GATE_FAILED if gates and print_failed_gates(result) else EXIT_DONE


def _analysed(recording: "Recording", gates: tuple["Gate", ...]) -> "Analysis":
    """The whole recording, judged by these gates; none: by those that the run had."""
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  --help needs none of it

    analysis = Analysis()
    for batch in recording.play():
        analysis.fold(batch)
    analysis.gates = gates or analysis.gates
    return analysis
