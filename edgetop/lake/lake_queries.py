"""The predefined questions about a lake, as SQL for DuckDB, Daft, Spark and Trino.

The relations are `sessions` (edgetop.lake.lake_tables), `seconds` and the other tables of the session format, each with
the columns `session`, `board` and `date`. `DIALECTS` contains the differences of the engines. Percentiles are computed
from merged histograms: the middle of the bucket with the nearest rank, accurate to 0.4 %.
"""

import re
from collections.abc import Mapping, Sequence

from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.lake.lake_tables import COLUMNS, label_text
from edgetop.nearest import nearest_hint
from edgetop.session.histogram import SUB_BUCKET_BITS, UNIT_NS

QUANTILES = {"p50_ms": 500, "p90_ms": 900, "p99_ms": 990, "p999_ms": 999}  # per mille


@frozen
class Dialect:
    """The parts of SQL in which a query engine differs from the other engines."""

    # Select list and source that turn `seconds` into one row per bucket: session, bucket, n. `{0}` stands for a prefix
    # of the columns that have the histogram: "", or "itl_" for the times between tokens.
    buckets: str
    contains: str = "contains({0}, {1})"
    escapes: bool = False  # whether a backslash escapes in a string literal

    def text(self, value: str) -> str:
        """Return `value` as a string literal of SQL. Raises InputError if it contains unprintable characters."""
        if not value.isprintable():
            raise InputError(f"{value!r} is no text to search for")
        if self.escapes:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + value.replace("'", "''") + "'"


DIALECTS: Mapping[str, Dialect] = {
    "duckdb": Dialect("session, unnest({0}bucket) AS bucket, unnest({0}bucket_count) AS n FROM seconds"),
    "daft": Dialect("session, explode({0}bucket) AS bucket, explode({0}bucket_count) AS n FROM seconds"),
    "spark": Dialect(
        "session, inline(arrays_zip({0}bucket, {0}bucket_count)) AS (bucket, n) FROM seconds", escapes=True
    ),
    "trino": Dialect(
        "session, e.bucket, e.n FROM seconds CROSS JOIN UNNEST({0}bucket, {0}bucket_count) AS e (bucket, n)",
        "strpos({0}, {1}) > 0",
    ),
}


@frozen
class Chosen:
    """A filter for sessions. A session must match each field that is not empty."""

    since: str = ""  # first day, YYYY-MM-DD
    model: str = ""
    labels: Sequence[tuple[str, str]] = ()

    def where(self, dialect: Dialect) -> str:
        claims = ["state IS NOT NULL"]  # true for every session
        if self.since:
            claims.append(f"date >= {dialect.text(self.since)}")
        if self.model:
            claims.append(f"model = {dialect.text(self.model)}")
        claims += [dialect.contains.format("labels", dialect.text(label_text(*one))) for one in self.labels]
        return " AND ".join(claims)


@frozen
class Question:
    """A predefined question: how to group the sessions of a lake, and which figures to compute for each group."""

    about: str
    by: tuple[str, ...]  # columns that define a group
    columns: Mapping[str, str]  # names of the figures, with the SQL that computes each over a group
    order: str  # what ORDER BY gets
    quantiles: tuple[str, ...] = ()  # keys of `QUANTILES`
    where: str = ""
    limit: int | None = None
    of: str = ""  # prefix of the columns of `seconds` with the histogram, and of the percentiles in the answer


def _share(part: str, whole: str) -> str:
    """Return SQL for the sum of the column `part` divided by the sum of the column `whole`.

    Sessions in which `part` is unknown do not count in either sum.
    """
    known = f"sum(CASE WHEN {part} IS NULL THEN NULL ELSE {whole} END)"
    # 1e0 is a double in every engine; 1.0 is a decimal in some.
    return f"sum({part} * 1e0) / CASE WHEN {known} > 0 THEN {known} ELSE NULL END"


def _rate(number: str, per_s: str) -> str:
    """Return SQL for a rate over several sessions: the sum of the column `number`, divided by the sessions' total time.

    The column `per_s` has the rate of each session, so a session's time is `number / per_s`. Sessions whose rate is
    unknown are left out.
    """
    known = f"CASE WHEN {per_s} > 0 THEN {number} * 1e0{{}} ELSE NULL END"
    return f"sum({known.format('')}) / sum({known.format(f' / {per_s}')})"


def _log_mean(column: str) -> str:
    """Return SQL for the geometric mean of the positive values of a column."""
    return f"exp(avg(ln(CASE WHEN {column} > 0 THEN {column} ELSE NULL END)))"


_SESSIONS = {"boards": "count(DISTINCT board)", "sessions": "count(*)", "hours": "sum(measured_s) / 3.6e3"}
_SIMULATED = {"simulated": "sum(CASE WHEN simulated THEN 1 ELSE 0 END)"}  # number of sessions on a simulated board
_MISSED = {"missed_share": _share("misses", "inferences")}
_THROTTLED = {"throttled_share": _share("throttled_s", "measured_s")}
_HOT = {"temp_max_c": "max(temp_max_c)"}

QUESTIONS: Mapping[str, Question] = {
    "fleet": Question(
        "what the fleet does", ("model",),
        {**_SESSIONS, "inferences": "sum(inferences)", "max_ms": "max(max_ms)", **_MISSED, **_THROTTLED, **_SIMULATED},
        "hours DESC", tuple(QUANTILES),
    ),
    "worst": Question(
        "the boards with the highest p99", ("board", "model"),
        {"sessions": "count(*)", "max_ms": "max(max_ms)", **_MISSED, **_THROTTLED, **_HOT, **_SIMULATED},
        "p99_ms DESC", ("p50_ms", "p99_ms", "p999_ms"), limit=20,
    ),
    "throttling": Question(
        "who is throttled, and by what", ("board_model", "model", "enclosure", "throttle_cause"),
        {
            **_SESSIONS, "throttles": "sum(throttle_count)", **_THROTTLED, **_HOT, "ambient_c": "avg(ambient_c)",
            "drift_ratio": _log_mean("drift_ratio"), **_SIMULATED,
        },
        "throttled_share DESC",
    ),
    "energy": Question(
        "what an inference costs", ("board_model", "model"),
        {
            **_SESSIONS, "inferences": "sum(inferences)", "mean_w": _share("joules", "measured_s"),
            "gross_mj": _share("gross_mj * inferences", "inferences"),
            "net_mj": _share("net_mj * inferences", "inferences"),
            "watt_hours": "sum(joules) / 3.6e3", **_SIMULATED,
        },
        "gross_mj DESC", where="joules IS NOT NULL",
    ),
    "tokens": Question(
        "what language models do", ("model", "board_model"),
        {
            **_SESSIONS, "tokens": "sum(tokens_out)",
            "decode_tok_s": _rate("tokens_out", "decode_tok_s"), "prefill_tok_s": _rate("tokens_in", "prefill_tok_s"),
            "ttft_p99_ms": "max(ttft_p99_ms)", "j_per_token": _share("j_per_token * tokens_out", "tokens_out"),
            **_THROTTLED, **_SIMULATED,
        },
        "tokens DESC", ("p50_ms", "p99_ms"), where="tokens_out > 0", of="itl_",
    ),
    "regressions": Question(
        "versions of a model or of the software, each board against itself", ("model", "board", "version"),
        {
            "sessions": "count(*)", "inferences": "sum(inferences)", "first_utc": "min(created_utc)",
            "throughput_hz": _log_mean("throughput_hz"), "gross_mj": _log_mean("gross_mj"),
            "rss_peak_mib": _log_mean("rss_peak_mib"), **_THROTTLED, "temp_end_c": "avg(temp_end_c)", **_SIMULATED,
        },
        "first_utc", ("p50_ms", "p99_ms"),
    ),
}  # fmt: skip

# Columns of `sessions` by which sessions can be grouped.
KEYS = (
    "board", "board_model", "model", "version", "software", "runtime", "provider", "precision", "enclosure", "governor",
    "power_mode", "kernel", "load", "throttle_cause", "end_reason", "date",
)  # fmt: skip


def keys(text: str) -> tuple[str, ...]:
    """Return the column names in a list such as `board,version`.

    Raises InputError for a column by which sessions cannot be grouped.
    """
    found = tuple(dict.fromkeys(key.strip().replace("-", "_") for key in text.split(",")))
    for key in found:
        if key not in KEYS:
            raise InputError(f"--by {key}: sessions have no such column", nearest_hint(key, KEYS))
    return found


_PLAIN = """\
WITH chosen AS (
  SELECT {named}, {rest}
  FROM sessions WHERE {where}),
summed AS (
  SELECT {group},
    {figures}
  FROM chosen GROUP BY {group})"""
_LATENCY = """,
buckets AS (
  SELECT {buckets}{since}),
per_session AS (
  SELECT session, bucket, sum(n) AS n FROM buckets GROUP BY session, bucket),
named AS (
  SELECT {of_chosen}, per_session.bucket AS bucket, per_session.n AS n
  FROM per_session JOIN chosen ON per_session.session = chosen.session),
merged AS (
  SELECT {group}, bucket, sum(n) AS n FROM named GROUP BY {group}, bucket),
ranked AS (
  SELECT {group}, bucket,
    sum(n) OVER (PARTITION BY {group} ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upto,
    sum(n) OVER (PARTITION BY {group}) AS total FROM merged),
latency AS (
  SELECT {group},
    {ranks}
  FROM ranked GROUP BY {group})"""
_RANK = "min(CASE WHEN upto * 1000 >= {share} * total THEN bucket ELSE NULL END) AS {name}"


def sql_of(question: Question, chosen: Chosen, by: Sequence[str], limit: int | None, name: str = "duckdb") -> str:
    """Return the SQL text that answers a question about the chosen sessions, grouped by the columns `by`.

    `limit` is the most rows of the result; None for all. `name` is the query engine, a key of `DIALECTS`.
    """
    dialect, source = DIALECTS[name], "summed"
    claims = [f"date >= {dialect.text(chosen.since)}"] if chosen.since else []
    if question.of:  # the columns are null for other models
        claims.append(f"{question.of}bucket IS NOT NULL")
    words = set(re.findall(r"\w+", " ".join(question.columns.values())))
    columns = [f"summed.{key} AS {key}" for key in by]
    text = _PLAIN
    if question.quantiles:
        text += _LATENCY
        source += " LEFT JOIN latency ON " + " AND ".join(f"summed.{key} = latency.{key}" for key in by)
        columns += [f"{_middle_ms(f'latency.{one}_bucket')} AS {question.of}{one}" for one in question.quantiles]
    columns += [f"summed.{column} AS {column}" for column in question.columns]
    with_parts = text.format(
        named=", ".join(f"coalesce({key}, '-') AS {key}" for key in by),
        rest=", ".join(sorted({"session", *({*COLUMNS, "board"} & words)} - {*by})),
        where=" AND ".join(filter(None, (chosen.where(dialect), question.where))),
        group=", ".join(by),
        figures=",\n    ".join(f"{what} AS {column}" for column, what in question.columns.items()),
        buckets=dialect.buckets.format(question.of),
        since=f" WHERE {' AND '.join(claims)}" if claims else "",
        of_chosen=", ".join(f"chosen.{key} AS {key}" for key in by),
        ranks=",\n    ".join(_RANK.format(share=QUANTILES[one], name=f"{one}_bucket") for one in question.quantiles),
    )
    order = ", ".join((f"{question.order} NULLS LAST" if "DESC" in question.order else question.order, *by))
    most = f"\nLIMIT {limit}" if limit else ""
    listed = ",\n  ".join(columns)
    return f"{with_parts}\nSELECT\n  {listed}\nFROM {source}\nORDER BY {order}{most}"


def _middle_ms(bucket: str) -> str:
    """Return SQL for the middle of a histogram's bucket in ms. `bucket` is SQL for the bucket's number."""
    sub, unit = 1 << SUB_BUCKET_BITS, UNIT_NS / 1e6
    # exp(e ln 2) in place of 2^e works in every engine.
    exponent = f"(floor({bucket} / {sub}e0) - 1)"
    wide = f"({bucket} - {exponent} * {sub} + 5e-1) * exp({exponent} * 6.931471805599453e-1)"
    return f"CASE WHEN {bucket} < {2 * sub} THEN ({bucket} + 5e-1) * {unit} ELSE {wide} * {unit} END"
