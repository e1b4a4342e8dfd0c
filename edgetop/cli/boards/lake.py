"""`edgetop lake`: query the sessions of many boards."""

import re
from datetime import date, datetime, timedelta, timezone

import click
from click import BadParameter

from edgetop.cli.companions import PATH, Value, needs, option, taken
from edgetop.cli.options import duration, label

QUESTIONS = ("fleet", "worst", "regressions", "throttling", "energy", "tokens", "sql")
ENGINES = ("duckdb", "daft")
DIALECTS = ("duckdb", "daft", "spark", "trino")
DAY_NS = 86_400 * 10**9


def since(text: str) -> str:
    """Return the day that a text such as "2026-11-20" or "7d" (seven days ago) means, in UTC.

    Raises BadParameter if the text has another form.

    >>> since("2026-11-20")
    '2026-11-20'
    """
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text).isoformat()
        ago = timedelta(days=duration(text) / DAY_NS)
    except (BadParameter, ValueError, OverflowError):
        raise BadParameter(f"{text!r} is not a day; write 2026-11-20, or 7d for the last week") from None
    return (datetime.now(timezone.utc) - ago).strftime("%Y-%m-%d")


OPTIONS = (
    option("--since", type=since, metavar="DAY", help="Use only sessions since DAY: 2026-11-20, 7d."),
    option("--model", metavar="NAME", help="Use only sessions of this model, by the name of its file."),
    option("--label", "labels", type=label, multiple=True, metavar="K=V",
           help="Use only sessions with this label. Repeatable."),
    option("--by", metavar="KEYS", help="Group by: board, version, enclosure, software ... (edgetop help lake)."),
    option("--limit", type=click.IntRange(1), metavar="N", help="Print at most N rows."),
    option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    option("--html", type=PATH, metavar="FILE", help="Write the fleet as an HTML page with charts."),
    option("--force", is_flag=True, help="Replace an existing page.", rules=[needs("html")]),
    option("--engine", type=click.Choice(ENGINES), default="duckdb", show_default=True, help="Query engine."),
    option("--ray", metavar="ADDRESS", default="", help="Run the query on this Ray cluster.", rules=[
        needs("engine", holds=lambda engine: engine == "daft", message="{} is for --engine daft")
    ]),
    option("--print-sql", is_flag=True, help="Print the SQL of the query without running it."),
    option("--dialect", type=click.Choice(DIALECTS), default="duckdb", help="SQL dialect of --print-sql.",
           rules=[needs("print_sql")]),
)  # fmt: skip


@click.command("lake", params=[*OPTIONS])
@click.argument("target")
@click.argument("question", type=click.Choice(QUESTIONS), default="fleet")
@click.argument("statement", required=False)
def command(target: str, question: str, statement: str | None, **options: Value) -> None:
    """Query all boards of the lake at TARGET, which edgetop push fills.

    \b
    fleet        latency, misses and throttling, by model
    worst        the boards with the highest p99
    regressions  differences between versions on the same boards
    throttling   throttled boards, for how long, and why
    energy       energy per inference
    tokens       tokens per second and energy per token of language models
    sql          your own statement over sessions, seconds, events, readings, operators, inferences
    \b
    Examples:
      edgetop lake s3://boards/lake
      edgetop lake /mnt/lake worst --since 7d --model yolo.onnx
      edgetop lake /mnt/lake fleet --by enclosure,version --json
      edgetop lake /mnt/lake sql "SELECT board, count(*) FROM events WHERE kind = 'throttle-begin' GROUP BY board"
      edgetop lake /mnt/lake fleet --print-sql --dialect spark
      edgetop lake /mnt/lake --html fleet.html
    """
    from edgetop.cli.boards.lake_answers import LakeOptions, answer  # noqa: PLC0415  --help needs none of it

    answer(target, question, statement, taken(LakeOptions, options))
