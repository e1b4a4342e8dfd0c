"""Printing of the report of a recording as text, JSON, an HTML page, CSV, Markdown or a JUnit file."""

import contextlib
from pathlib import Path

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_gates import Gate
from edgetop.analysis.session_report import report
from edgetop.cli.choosing import recorded
from edgetop.cli.output import csv_output_of, print_json, print_text, raise_problems, text_columns, write_csv
from edgetop.cli.printing.junit import refuse_unwritable, write
from edgetop.cli.printing.markdown import markdown_output, write_markdown
from edgetop.cli.printing.output_agreement_words import outputs_lines, with_outputs
from edgetop.cli.printing.page import refuse_html
from edgetop.cli.printing.report_text import summary, wrapped
from edgetop.cli.printing.usage_text import usage_csv
from edgetop.cli.running.early_end import print_failed_gates
from edgetop.comparison.usage_table import usage_row
from edgetop.errors import EXIT_DONE, EXIT_GATE_FAILED, InputError, ReaderLeftError
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.reader import Recording
from edgetop.wording.report_document import to_json


def print_report(
    session: str | None,
    *,
    as_json: bool,
    gates: tuple[Gate, ...],
    junit: Path | None,
    csv_file: str | None = None,
    html: Path | None,
    md_file: str | None = None,
    force: bool,
) -> int:
    """Print the report of a session in the requested forms, and return the exit code.

    `session` is a session's name; None means the newest. `gates` are conditions that fail the command; if there are
    none, the gates that the run was given are used. `junit`, `csv_file`, `html` and `md_file` are files to write; "-"
    as CSV or Markdown means standard output. `force` allows replacing files. Raises InputError and OutputError.
    """
    if junit:
        refuse_unwritable(junit)
    page = refuse_html(html, force=force) if html else None
    csv_output = csv_output_of(csv_file, as_json=as_json, force=force)
    markdown = markdown_output(md_file, as_json=as_json, csv=csv_file, force=force)
    with Recording(recorded(session)) as recording:
        analysis = Analysis.of(recording.play())
        analysis.gates = gates or analysis.gates
        if junit and not analysis.gates:
            raise InputError("--junit needs a gate", "the run had no gate: add one with --fail-if (edgetop help gates)")
        result = report(analysis)
        if junit:
            write(junit, result)
        if page:
            from edgetop.cli.printing.report_page import write_report  # noqa: PLC0415  loads Bokeh

            write_report(page, analysis, result, list(outputs_lines(recording.folder)))
        with contextlib.suppress(ReaderLeftError):  # the exit code still says whether a gate failed
            if csv_output:
                row = usage_row(result.session.name, [result.usage])
                write_csv(csv_output, usage_csv([row] if row else []))
            if markdown:
                from edgetop.cli.printing.report_markdown import report_markdown  # noqa: PLC0415  where it is asked for

                write_markdown(markdown, report_markdown(result, list(outputs_lines(recording.folder))))
            written = [page, markdown if isinstance(markdown, NamedOutput) else None]
            if "-" in (csv_file, md_file):
                pass
            elif as_json:
                print_json(with_outputs(to_json(result), recording.folder))
            elif any(written):  # whoever asks for a file does not read the text
                print_text("\n".join(str(output.path.absolute()) for output in written if output))
            else:
                columns = text_columns()
                outputs = wrapped(outputs_lines(recording.folder), columns)
                print_text("\n".join((summary(result, columns), *outputs)))
        raise_problems(recording.problems, "the rest is reported")
        return EXIT_GATE_FAILED if gates and print_failed_gates(result) else EXIT_DONE
