"""The tables of a lake: the columns of `sessions`, and every table as an Arrow dataset.

The table `sessions` has one row for each session: its manifest, and the values of its report in columns that engines
can group and sum. `COLUMNS` defines these columns. An unknown value is null.

The parts of a path (`date`, `board`, `session`) become text columns. A query that filters by them opens only the
matching files. Other columns are those of this version of edgetop, with nulls for an older file without the column.
"""

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from edgetop import __version__
from edgetop.analysis.session_report import Report
from edgetop.formatting import clean
from edgetop.lake.place import Place
from edgetop.paths import component
from edgetop.recording.token_columns import ALL_SCHEMAS, SECONDS_OF_TOKENS
from edgetop.session.manifest import Manifest
from edgetop.wording import verdict_words
from edgetop.wording.report_document import to_json

TABLE = "sessions"
_MOST_NAMED = 3  # most models of one session to be named


def _software(session: Manifest) -> str:
    runtime = " ".join(filter(None, (session.engine.runtime, session.engine.version)))
    return ", ".join(filter(None, (runtime, f"edgetop {session.edgetop_version}")))


def _models(session: Manifest) -> str | None:
    """Return the file name of the session's model, or None if unknown. Names of several models are joined by ` | `."""
    if session.ab:
        return " | ".join(variant.name for variant in session.ab.variants)
    streams = session.watched.streams if session.watched else ()
    names = dict.fromkeys(re.sub(r"#\d+$", "", stream.name).rpartition("/")[2] for stream in streams if stream.name)
    if len(names) < 2:
        return session.model_name or None
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return " | ".join([*names][:_MOST_NAMED] + more)


def label_text(key: str, value: str) -> str:
    """Return a label of a session as text for the column `labels`. The quotes make a search find only this label.

    >>> label_text("site", "lab")
    '"site=lab"'
    """
    return json.dumps(f"{key}={value}")


def _throttle_cause(report: Report) -> str | None:
    """Return the cause that throttled the board longest: "none" without throttling, and None if unknown."""
    if report.throttled is None:
        return None
    lasted: dict[str, int] = {}
    for span in report.throttles.spans:
        lasted[span.cause] = lasted.get(span.cause, 0) + (span.end_ns or span.start_ns + 1) - span.start_ns
    return max(lasted, key=lambda cause: lasted[cause], default="none")


def _seconds(report: Report, share: float | None = 1.0) -> float | None:
    """Return a share (0 to 1) of the measured time, in s, or None if the share or the time is unknown."""
    total_ms = report.usage.total_time_ms if report.usage else None
    return None if share is None or total_ms is None else share * (total_ms / 1e3)


def _hottest(report: Report, column: str) -> float | None:
    values = (getattr(zone, column) for zone in report.temperature.values())
    return max((value for value in values if value is not None), default=None)


def _steady(end: str) -> Callable[[Report], float | None]:
    def read(report: Report) -> float | None:
        estimate = report.forecast.steady_c
        return None if estimate is None else float(getattr(estimate, end))

    return read


def _token_time(of: str, figure: str) -> Callable[[Report], float | None]:
    def read(report: Report) -> float | None:
        times = getattr(report.generation, of, None)
        return None if times is None else getattr(times, figure)

    return read


TEXT, NUMBER, WHOLE, TRUTH = pa.string(), pa.float64(), pa.int64(), pa.bool_()
Read = Callable[[Report], Any]

COLUMNS: Mapping[str, tuple[Any, Read]] = {
    "name": (TEXT, lambda r: r.session.name),
    "created_utc": (TEXT, lambda r: r.session.began_utc),
    "state": (TEXT, lambda r: r.session.state),
    "end_reason": (TEXT, lambda r: r.session.end_reason),
    "edgetop_version": (TEXT, lambda r: r.session.edgetop_version),
    "model": (TEXT, lambda r: _models(r.session)),
    "model_sha256": (TEXT, lambda r: r.session.model.sha256),
    "version": (TEXT, lambda r: r.session.labels.get("version") or (r.session.model.sha256 or "")[:12] or None),
    "precision": (TEXT, lambda r: r.session.model.precision),
    "software": (TEXT, lambda r: _software(r.session)),
    "runtime": (TEXT, lambda r: r.session.engine.runtime),
    "provider": (TEXT, lambda r: ",".join(r.session.engine.providers) or None),
    "threads": (WHOLE, lambda r: r.session.engine.threads),
    "batch": (WHOLE, lambda r: r.session.load.batch or 1),
    "load": (TEXT, lambda r: r.session.load.mode),
    "rate_hz": (NUMBER, lambda r: r.session.load.rate_hz),
    "board_model": (TEXT, lambda r: r.session.board.model or r.session.board.cpu),
    "kernel": (TEXT, lambda r: r.session.board.kernel),
    "governor": (TEXT, lambda r: r.session.board.governor),
    "power_mode": (TEXT, lambda r: r.session.board.power_mode),
    "simulated": (TRUTH, lambda r: r.session.board.simulated),
    "enclosure": (TEXT, lambda r: r.session.methodology.enclosure),
    "ambient_c": (NUMBER, lambda r: r.session.methodology.ambient_c),
    "labels": (TEXT, lambda r: " ".join(label_text(*one) for one in r.session.labels.items())),
    "verdict": (TEXT, lambda r: verdict_words.words(r.verdict)),
    "measured_s": (NUMBER, _seconds),
    "inferences": (WHOLE, lambda r: r.latency.count),
    "errors": (WHOLE, lambda r: r.latency.errors),
    "mean_ms": (NUMBER, lambda r: r.latency.mean_ms),
    "p50_ms": (NUMBER, lambda r: r.latency.p50_ms),
    "p90_ms": (NUMBER, lambda r: r.latency.p90_ms),
    "p99_ms": (NUMBER, lambda r: r.latency.p99_ms),
    "p999_ms": (NUMBER, lambda r: r.latency.p999_ms),
    "max_ms": (NUMBER, lambda r: r.latency.max_ms),
    "throughput_hz": (NUMBER, lambda r: r.latency.throughput_hz),
    "deadline_ms": (NUMBER, lambda r: r.latency.deadline.ms if r.latency.deadline else None),
    "misses": (WHOLE, lambda r: r.latency.deadline.misses if r.latency.deadline else None),
    "drift_ratio": (NUMBER, lambda r: r.drift_ratio),
    "throttled": (TRUTH, lambda r: r.throttled),
    "throttled_s": (NUMBER, lambda r: None if r.throttled is None else _seconds(r, r.throttled_share)),
    "throttle_count": (WHOLE, lambda r: None if r.throttled is None else r.throttles.measured_total),
    "throttle_cause": (TEXT, _throttle_cause),
    "temp_max_c": (NUMBER, lambda r: _hottest(r, "max")),
    "temp_end_c": (NUMBER, lambda r: _hottest(r, "end")),
    "trip_c": (NUMBER, lambda r: r.forecast.trip_c),
    "steady_c": (NUMBER, _steady("value")),
    "steady_low_c": (NUMBER, _steady("low")),
    "steady_high_c": (NUMBER, _steady("high")),
    "mean_w": (NUMBER, lambda r: r.power.mean_w),
    "joules": (NUMBER, lambda r: _seconds(r, r.power.mean_w)),
    "gross_mj": (NUMBER, lambda r: r.energy.gross_mj),
    "net_mj": (NUMBER, lambda r: r.energy.net_mj),
    "rss_peak_mib": (NUMBER, lambda r: r.memory.rss_peak_mib),
    "leak": (TRUTH, lambda r: r.memory.leak),
    "tokens_in": (WHOLE, lambda r: r.generation and r.generation.tokens_in),
    "tokens_out": (WHOLE, lambda r: r.generation and r.generation.tokens_out),
    "prefill_tok_s": (NUMBER, lambda r: r.generation and r.generation.prefill_tok_s),
    "decode_tok_s": (NUMBER, lambda r: r.generation and r.generation.decode_tok_s),
    "ttft_p50_ms": (NUMBER, _token_time("ttft", "p50_ms")),
    "ttft_p99_ms": (NUMBER, _token_time("ttft", "p99_ms")),
    "itl_p50_ms": (NUMBER, _token_time("itl", "p50_ms")),
    "itl_p99_ms": (NUMBER, _token_time("itl", "p99_ms")),
    "j_per_token": (NUMBER, lambda r: r.generation and r.generation.j_per_token),
    "tail": (TEXT, lambda r: json.dumps({part.cause: part.count for part in r.tail.parts})),
    "judged_by": (TEXT, lambda _: __version__),
}

MANIFEST = "manifest"  # the text of session.json
FILES = "files"  # the session's files as JSON: [size, SHA-256] by table or name
SCHEMA = pa.schema([*((name, kind) for name, (kind, _) in COLUMNS.items()), (MANIFEST, TEXT), (FILES, TEXT)])


def row_of(report: Report, manifest: str, files: Mapping[str, Sequence[Any]]) -> bytes:
    """Return the session's row of the table `sessions`, as the bytes of a Parquet file.

    `manifest` is the text of session.json. `files` has `[size in bytes, SHA-256]` of each file of the session, by table
    or file name.
    """
    values = {name: to_json(read(report)) for name, (_, read) in COLUMNS.items()}
    values = {name: clean(value) if isinstance(value, str) else value for name, value in values.items()}
    table = pa.table([[one] for one in (*values.values(), manifest, json.dumps(files))], SCHEMA)
    sink = io.BytesIO()
    options = {"use_dictionary": False, "write_statistics": False, "store_schema": False}  # a third of the size
    pq.write_table(table, sink, compression="zstd", **options)
    return sink.getvalue()


def partition(day: str, board: str | None = None) -> str:
    """Return the folder in a lake for the sessions of one day, and of one board if `board` is given.

    `day` has the form YYYY-MM-DD. Raises InputError for an unsuitable name.

    >>> partition("2026-11-21", "pi-1")
    'date=2026-11-21/board=pi-1'
    """
    folder = f"date={component(day, 'the date')}"
    return folder if board is None else f"{folder}/board={component(board, 'the board')}"


def table_path(table: str, where: str, session: str) -> str:
    """Return the path in a lake of a session's file for one table.

    `where` is the folder that `partition` returns. `session` is the session's id, followed by the suffix of a piece if
    the session is running. Raises InputError for an unsuitable name.
    """
    return f"{table}/{where}/{component(session, 'the session')}.parquet"


PATH = re.compile(r"[^/]+/date=(?P<date>[\d-]+)/board=(?P<board>[^/]+)/(?P<session>[^/.]+)[^/]*\.parquet")
KEYS = ("date", "board", "session")
TABLES = {TABLE: SCHEMA, **ALL_SCHEMAS, "seconds": SECONDS_OF_TOKENS}


def dataset(place: Place, table: str, paths: Sequence[str]) -> Any:
    """Return a `pyarrow` dataset of one table.

    `paths` are the table's files, as `Place.files` lists them. Files with unexpected names are left out, and so are the
    pieces of a session that also has a whole table.
    """
    whole = {path for path in paths if path.count(".") == 1}
    found = [
        (path, match)
        for path in paths
        if (match := PATH.fullmatch(path)) and (path in whole or f"{path.rsplit('.', 2)[0]}.parquet" not in whole)
    ]
    # Read dictionary columns as plain text, since the dictionaries of different files differ.
    plain = [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in TABLES[table]]
    return ds.FileSystemDataset.from_paths(
        [place.at(path) for path, _ in found],
        schema=pa.schema([*plain, *((key, pa.string()) for key in KEYS)]),
        format=ds.ParquetFileFormat(),
        filesystem=place.fs,
        partitions=[reduce(and_, (ds.field(key) == match[key] for key in KEYS)) for _, match in found],
    )
