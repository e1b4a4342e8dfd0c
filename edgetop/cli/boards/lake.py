"""`edgetop lake`: queries over the sessions of many boards."""

import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

import click
from click import BadParameter

from edgetop.cli.companions import PATH, needs, option
from edgetop.cli.options import duration, label

QUESTIONS = ("fleet", "worst", "regressions", "throttling", "energy", "sql")
ENGINES = ("duckdb", "daft")
DIALECTS = ("duckdb", "daft", "spark", "trino")
DAY_NS = 86_400 * 10**9


def since(text: str) -> str:
    """`2026-11-20`, or `7d`: from that day on (UTC)."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text).isoformat()
        ago = timedelta(days=duration(text) / DAY_NS)
    except (BadParameter, ValueError, OverflowError):
        raise BadParameter(f"{text!r} is no day; write 2026-11-20, or 7d for the last week") from None
    return (datetime.now(timezone.utc) - ago).strftime("%Y-%m-%d")


OPTIONS = (
    option("--since", type=since, metavar="DAY", help="Sessions that began then or later: 2026-11-20, 7d."),
    option("--model", metavar="NAME", help="Of this model: the name of its file."),
    option("--label", "labels", type=label, multiple=True, metavar="K=V", help="With this label. Repeatable."),
    option("--by", metavar="KEYS", help="Group by: board, version, enclosure, software ... (edgetop help lake)."),
    option("--limit", type=click.IntRange(1), metavar="N", help="So many rows at most."),
    option("--json", "as_json", is_flag=True, help="One JSON document."),
    option("--html", type=PATH, metavar="FILE", help="The fleet as a page with charts."),
    option("--force", is_flag=True, help="Replace a page that exists.", rules=[needs("html")]),
    option("--engine", type=click.Choice(ENGINES), default="duckdb", show_default=True, help="What answers."),
    option("--ray", metavar="ADDRESS", default="", help="On this Ray cluster.", rules=[
        needs("engine", holds=lambda engine: engine == "daft", message="{} is for --engine daft")
    ]),
    option("--print-sql", is_flag=True, help="Print the question as SQL, and ask nothing."),
    option("--dialect", type=click.Choice(DIALECTS), default="duckdb", help="Of --print-sql.",
           rules=[needs("print_sql")]),
)  # fmt: skip


@click.command("lake", params=[*OPTIONS])
@click.argument("target")
@click.argument("question", type=click.Choice(QUESTIONS), default="fleet")
@click.argument("statement", required=False)
def command(target: str, question: str, statement: str | None, **options: Any) -> None:
    """Ask the lake at TARGET, which edgetop push fills, about all its boards.

    \b
    fleet        latency, misses and throttling, by model
    worst        the boards with the highest p99
    regressions  versions against each other, each board being its own control
    throttling   who is throttled, how long, by what
    energy       what an inference costs
    sql          a statement of your own: tables sessions, seconds, events, readings, operators, inferences
    \b
    Examples:
      edgetop lake s3://boards/lake
      edgetop lake /mnt/lake worst --since 7d --model yolo.onnx
      edgetop lake /mnt/lake fleet --by enclosure,version --json
      edgetop lake /mnt/lake sql "SELECT board, count(*) FROM events WHERE kind = 'throttle-begin' GROUP BY board"
      edgetop lake /mnt/lake fleet --print-sql --dialect spark
      edgetop lake /mnt/lake --html fleet.html
    """
    from edgetop.cli.boards.lake_answers import answer  # noqa: PLC0415  --help needs none of it

    answer(target, question, statement, options)
