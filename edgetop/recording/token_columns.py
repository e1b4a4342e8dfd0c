"""The extra columns of `seconds` in a session with a language model, and the table of its requests.

Columns that begin with `itl_` are about the times between tokens, those that begin with `ttft_` about the times to the
first token. After the prefix comes the name of another column of `seconds`. All these columns are null in a second that
was rebuilt after a crash.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from edgetop.recording.columns import SCHEMAS, SECONDS, from_arrow, table_schema, to_arrow
from edgetop.recording.stream_columns import SECONDS_OF_STREAMS
from edgetop.session.records import FINISH_REASONS, PHASES, REQUEST, Requests
from edgetop.session.seconds import OF_DEADLINE, TOKEN_SECOND, Seconds, TokenSeconds

_TIMES = {
    "itl": "time between two successive tokens of a request",
    "ttft": "time from a request's due time to its first token",
}
_OF_EACH = tuple(
    field
    for field in SECONDS
    if field.name not in ("t_ns", "errors", *OF_DEADLINE) and not field.name.startswith("response_")
)
_SUMS = ("count", "sum_ns", "m2_ns2", "jitter_sum_ns", "jitter_count")
_FIGURES = {
    "requests": "requests that ended in this second, without those that a stop cut off",
    "tokens_in": "tokens of their prompts",
    "tokens_cached": "of these, tokens that were found in a cache",
    "prefill_ns": "time in which their prompts were processed",
    "tokens_out": "tokens generated in this second",
    "position_mean": "mean number of tokens before each of these in the context, without first tokens",
    "position_max": "most tokens in the context",
}
_ACTIVE = {
    "active": "requests that generated at the same time: the least number with a tenth of the tokens; 0 if unknown",
    "active_count": "tokens of this second, without first tokens, with this number",
    "active_p50_ns": "their median time since the token before",
    "active_position": "mean number of tokens before each of these in the context",
}  # which older recordings lack
_TYPES = {
    "requests": pa.int32(), "position_mean": pa.float64(), "position_max": pa.int32(), "active": pa.int32(),
    "active_position": pa.float64(),
}  # fmt: skip
_COLUMNS = [
    *((name, _TYPES.get(name, pa.int64()), text) for name, text in _FIGURES.items()),
    *((f"{kind}_{f.name}", f.type, f"as {f.name}, of {text}") for kind, text in _TIMES.items() for f in _OF_EACH),
]
_COLUMNS += [(name, _TYPES.get(name, pa.int64()), text) for name, text in _ACTIVE.items()]
_FIELDS = [pa.field(name, kind, metadata={"meaning": text}) for name, kind, text in _COLUMNS]
_MEANINGS = {f"meaning:{name}": text for name, _, text in _COLUMNS}
SECONDS_OF_TOKENS = pa.schema([*SECONDS, *_FIELDS], metadata={**(SECONDS.metadata or {}), **_MEANINGS})
SECONDS_OF_ALL = pa.schema(  # every column that a file may have
    [*SECONDS_OF_STREAMS, *_FIELDS], metadata={**(SECONDS_OF_STREAMS.metadata or {}), **_MEANINGS}
)

_NUMBERS = {
    "wait_ns": "actual start minus intended start; 0 back to back",
    "latency_ns": "start to last token",
    "ttft_ns": "intended start to first token; 0: unknown",
    "tokenize_ns": "time in which the prompt was divided into tokens",
    "prefill_ns": "time in which the tokens of the prompt were processed",
    "decode_ns": "first token to last token",
    "sample_ns": "time in which the tokens were chosen, in all",
}
_COUNTS = {
    "tokens_in": "tokens of the prompt",
    "tokens_cached": "of these, tokens that were found in a cache",
    "tokens_out": "generated tokens",
    "position": "tokens in the context at the end",
    "prompt": "number of the prompt, from 0",
}
_SYMBOL = pa.dictionary(pa.int32(), pa.string())
REQUESTS = table_schema(
    [
        ("t_ns", pa.int64(), "when the request started, ns of CLOCK_MONOTONIC since the session's origin"),
        *((name, pa.int64(), text) for name, text in _NUMBERS.items()),
        *((name, pa.int32(), text) for name, text in _COUNTS.items()),
        ("phase", _SYMBOL, "first, warmup or measure"),
        ("finish", _SYMBOL, "why it ended: length, stop (the model's own end), context (full) or cancelled"),
    ]
)
ALL_SCHEMAS = {**SCHEMAS, "requests": REQUESTS}


def requests_to_arrow(requests: Requests) -> pa.Table:
    named = {"phase": PHASES, "finish": FINISH_REASONS}
    columns = []
    for field in REQUESTS:
        values = np.ascontiguousarray(requests[field.name])
        if field.name in named:
            codes = pa.array(values.astype(np.int32))
            columns.append(pa.DictionaryArray.from_arrays(codes, pa.array(named[field.name])))
        else:
            columns.append(pa.array(values))
    return pa.table(columns, schema=REQUESTS)


def requests_from_arrow(table: pa.Table) -> Requests:
    """Return the requests in an Arrow table.

    Raises KeyError if a column is missing, or ValueError if a phase or the reason why a request ended is unknown.
    """
    requests = np.zeros(len(table), REQUEST)
    named = {"phase": PHASES, "finish": FINISH_REASONS}
    for field in REQUESTS:
        if field.name in named:
            requests[field.name] = [named[field.name].index(text) for text in table[field.name].to_pylist()]
        else:
            requests[field.name] = np.asarray(table[field.name])
    return requests


def with_token_columns(table: pa.Table, seconds: Seconds) -> pa.Table:
    """Return the table made from `seconds`, with columns for tokens added."""
    tokens = seconds.tokens
    if tokens is None:
        columns = [pa.nulls(len(seconds), kind) for _, kind, _ in _COLUMNS]
    else:
        columns = [pa.array(np.ascontiguousarray(tokens.rows[name])) for name in _FIGURES]
        for part in (tokens.itl, tokens.ttft):
            flat = to_arrow("seconds", part)
            columns += [flat[field.name].combine_chunks() for field in _OF_EACH]
        columns += [pa.array(np.ascontiguousarray(tokens.rows[name])) for name in _ACTIVE]
    has_streams = table.num_columns > len(SECONDS)
    return pa.table([*table.columns, *columns], schema=SECONDS_OF_ALL if has_streams else SECONDS_OF_TOKENS)


def _filled(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with zeros in place of nulls. Seconds that were rebuilt after a crash have nulls."""
    return column.fill_null(0) if column.null_count else column


def with_tokens_of(table: pa.Table, seconds: Seconds) -> Seconds:
    """Return `seconds` with the figures of tokens that `table` has, if any.

    Raises ValueError if the mean position of the tokens of a second in the context is NaN or infinite.
    """
    has_active = all(name in table.column_names for name in _ACTIVE)
    if any(name not in table.column_names for name, _, _ in _COLUMNS if name not in _ACTIVE) or not len(table):
        return seconds
    rows = np.zeros(len(table), TOKEN_SECOND)
    for name in (*_FIGURES, *(_ACTIVE if has_active else ())):
        rows[name] = np.asarray(_filled(table[name]))
    if not (np.isfinite(rows["position_mean"]) & np.isfinite(rows["active_position"])).all():
        raise ValueError("a mean position is no number")
    zeros = pa.array(np.zeros(len(table), np.int32))
    parts = []
    for kind in _TIMES:
        flat = {field.name: table[f"{kind}_{field.name}"] for field in _OF_EACH}
        flat |= {
            field.name: _filled(flat[field.name]) for field in _OF_EACH if not field.nullable and field.name in _SUMS
        }
        parts.append(from_arrow("seconds", pa.table({"t_ns": table["t_ns"], "errors": zeros, **flat})))
    return replace(seconds, tokens=TokenSeconds(rows, *parts))
