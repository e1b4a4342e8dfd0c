"""`edgetop compare`: compare sessions, and find out whether they really differ."""

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, Value, needs, option, taken

OPTIONS = (
    option(
        "--group-by", metavar="KEY", shell_complete=completion.group_keys,
        help="Group sessions by a label or a property such as model or threads.",
    ),
    option("--json", "as_json", is_flag=True, help="Print one JSON document (edgetop help compare)."),
    option("--labels", **text.LABELS),
    option("--metric", **text.METRIC),
    option("--csv", "csv_file", metavar="FILE", help="Also write the rows as CSV; - prints them alone."),
    option(
        "--fail-if", "gates", type=text.relative_gate, multiple=True, metavar="GATE",
        help="Exit with code 1 if this change from the first session is certain: p50>+3%, rss>+20MiB. Repeatable.",
    ),
    option("--strict", is_flag=True, help="Also fail if a regression cannot be ruled out.", rules=[needs("gates")]),
    option(
        "--junit", type=PATH, metavar="FILE", help="Write the results of the gates as a JUnit file.",
        rules=[needs("gates")],
    ),
    option("--html", type=PATH, metavar="FILE", help="Write charts and tables as one HTML page, which works offline."),
    option("--md", "md_file", **text.MARKDOWN),
    option("--force", is_flag=True, help="Replace existing files.", rules=[needs("csv_file", "html", "md_file")]),
)  # fmt: skip


@click.command("compare", params=[*OPTIONS])
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION SESSION...", shell_complete=completion.sessions)
def command(sessions: tuple[str, ...], **options: Value) -> int:
    """Compare sessions with the first one, the baseline. SESSION is a path, a name, or the beginning of an id.

    \b
    Examples:
      edgetop compare fp32 int8
      edgetop compare run-* --group-by threads
      edgetop compare release-1 release-2 --fail-if 'p50>+3%' --fail-if 'rss>+20MiB' --junit gates.xml
    """
    from edgetop.cli.comparing.comparison import CompareOptions, print_comparison  # noqa: PLC0415  --help needs none of it

    return print_comparison(sessions, taken(CompareOptions, options))
