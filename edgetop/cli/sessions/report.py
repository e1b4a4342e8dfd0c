"""`edgetop report`: summarise a recorded session."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, needs, option

if TYPE_CHECKING:
    from edgetop.analysis.session_gates import Gate


OPTIONS = (
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help report)."),
    option(
        "--fail-if", "gates", type=text.gate, multiple=True, metavar="GATE",
        help="Exit with code 1 if this holds; replaces the gates of the run (edgetop help gates). Repeatable.",
    ),
    option("--junit", type=PATH, metavar="FILE", help="Write the results of the gates as a JUnit file."),
    option("--csv", "csv_file", metavar="FILE", help="Also write the usage as CSV; - prints it alone."),
    option("--html", type=PATH, metavar="FILE", help="Write charts and text as one HTML page, which works offline."),
    option("--md", "md_file", **text.MARKDOWN),
    option("--force", is_flag=True, help="Replace existing files.", rules=[needs("csv_file", "html", "md_file")]),
)  # fmt: skip


@click.command("report", params=[*OPTIONS])
@click.argument("session", required=False, shell_complete=completion.sessions)
def command(
    session: str | None,
    *,
    as_json: bool,
    gates: tuple["Gate", ...],
    junit: Path | None,
    csv_file: str | None,
    html: Path | None,
    md_file: str | None,
    force: bool,
) -> int:
    """Summarise SESSION, given as a path, a name or the beginning of an id.

    Without SESSION, summarise the newest, whose name is printed to stderr.

    \b
    Examples:
      edgetop report
      edgetop report demo-20261121-101502
      edgetop report soak-42.edgetop --json
      edgetop report soak-42 --fail-if 'p99>33ms' --fail-if throttled
      edgetop report soak-42 --html soak-42.html
      edgetop report soak-42 --md - | gh pr comment --body-file -
      edgetop report train-20261121-101502 --csv usage.csv
    """
    from edgetop.cli.sessions.reporting import print_report  # noqa: PLC0415  --help needs none of it

    return print_report(
        session, as_json=as_json, gates=gates, junit=junit, csv_file=csv_file, html=html, md_file=md_file, force=force
    )
