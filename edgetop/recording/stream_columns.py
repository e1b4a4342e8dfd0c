"""The extra columns of the table of seconds in a session of several models, and their conversion.

For each column of `seconds` except the time, there is an extra column with the same figure of each stream (model). Each
value is a list with one item for each stream that ran in the second, or null if only stream 0 ran.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from edgetop.recording.columns import SECONDS, from_arrow, to_arrow
from edgetop.session.seconds import Seconds, StreamSeconds

_NUMBER = "stream"
_OF_EACH = tuple(field for field in SECONDS if field.name != "t_ns")
_COLUMNS = [
    (_NUMBER, pa.list_(pa.uint8()), "which streams ran in it, ascending; null where stream 0 alone did"),
    *((f"stream_{field.name}", pa.list_(field.type), f"as {field.name}, of each stream") for field in _OF_EACH),
]
SECONDS_OF_STREAMS = pa.schema(
    [*SECONDS, *(pa.field(name, kind, metadata={"meaning": text}) for name, kind, text in _COLUMNS)],
    metadata={**(SECONDS.metadata or {}), **{f"meaning:{name}": text for name, _, text in _COLUMNS}},
)


def with_stream_columns(table: pa.Table, seconds: Seconds) -> pa.Table:
    """Return the table made from `seconds`, with columns added for the separate statistics of each stream."""
    streams = seconds.streams
    if streams is None:
        columns = [pa.nulls(len(seconds), kind) for _, kind, _ in _COLUMNS]
    else:
        flat = to_arrow("seconds", streams.seconds)
        values = [pa.array(streams.number), *(flat[field.name].combine_chunks() for field in _OF_EACH)]
        offsets, alone = pa.array(streams.offsets), pa.array(np.diff(streams.offsets) == 0)
        columns = [pa.ListArray.from_arrays(offsets, each, mask=alone) for each in values]
    return pa.table([*table.columns, *columns], schema=SECONDS_OF_STREAMS)


def with_streams_of(table: pa.Table, seconds: Seconds) -> Seconds:
    """Return `seconds` with the separate statistics of each stream that `table` has, if any.

    Raises ValueError if the columns with these statistics do not fit together.
    """
    if any(name not in table.column_names for name, _, _ in _COLUMNS):
        return seconds
    columns = [table[name].combine_chunks() for name, _, _ in _COLUMNS]
    offsets = np.asarray(columns[0].offsets).astype(np.int64)
    if offsets[0] == offsets[-1]:
        return seconds
    values = []
    for column in columns:
        own = np.asarray(column.offsets).astype(np.int64)
        if not np.array_equal(own - own[0], offsets - offsets[0]):
            raise ValueError("the lists of a second's streams are not of one length")
        values.append(column.values.slice(own[0], own[-1] - own[0]))
    if values[0].null_count:
        raise ValueError("a stream has no number")
    offsets -= offsets[0]
    flat = {field.name: pa.chunked_array([each]) for field, each in zip(_OF_EACH, values[1:], strict=True)}
    t_ns = np.repeat(seconds.rows["t_ns"], np.diff(offsets))
    rows = from_arrow("seconds", pa.table({"t_ns": t_ns, **flat}))
    if seconds.response is None:
        rows = replace(rows, response=None)
    elif rows.response is None:
        raise ValueError("streams without response time, unlike their seconds")
    return replace(seconds, streams=StreamSeconds(offsets.astype(np.int32), np.asarray(values[0]), rows))
