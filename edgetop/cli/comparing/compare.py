"""`edgetop compare`: sessions side by side, and whether their differences are real."""

from typing import Any

import click

from edgetop.cli import completion
from edgetop.cli import options as text
from edgetop.cli.companions import PATH, needs, option

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
    option("--strict", is_flag=True, help="Or where it cannot be excluded.", rules=[needs("gates")]),
    option(
        "--junit", type=PATH, metavar="FILE", help="Write the gates as a JUnit file.",
        rules=[needs("gates")],
    ),
    option("--html", type=PATH, metavar="FILE", help="Charts and tables as one page, for a browser offline."),
    option("--force", is_flag=True, help="Replace files that exist.", rules=[needs("csv_file", "html")]),
)  # fmt: skip


@click.command("compare", params=[*OPTIONS])
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION SESSION...", shell_complete=completion.sessions)
def command(sessions: tuple[str, ...], **options: Any) -> int:
    """Compare sessions (paths, names, or enough of an id) with the first of them, the baseline.

    \b
    Examples:
      edgetop compare fp32 int8
      edgetop compare run-* --group-by threads
      edgetop compare release-1 release-2 --fail-if 'p50>+3%' --fail-if 'rss>+20MiB' --junit gates.xml
    """
    from edgetop.cli.comparing.comparison import print_comparison  # noqa: PLC0415  --help needs none of it

    return print_comparison(sessions, options)
