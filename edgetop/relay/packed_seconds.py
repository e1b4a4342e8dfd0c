"""Seconds as columns, and back, checked for what no window could be made of."""

from dataclasses import replace

import numpy as np

from edgetop.relay.credible import lies, require, take_rows
from edgetop.session import byte_shuffle, histogram
from edgetop.session.byte_shuffle import Columns
from edgetop.session.seconds import NS, SECOND, Seconds

OLD_S = 602  # more than the longest window, and the seconds at its ends


def pack_seconds(seconds: Seconds) -> bytes:
    """Behind them the same of response time, where the load has it."""
    lengths = np.diff(seconds.offsets)
    return (
        byte_shuffle.pack_table(seconds.rows)
        + byte_shuffle.pack(lengths)
        + byte_shuffle.pack_steps(seconds.bucket)
        + byte_shuffle.pack(seconds.bucket_count)
        + (pack_seconds(seconds.response) if seconds.response else b"")
    )


def read_seconds(data: bytes, until_ns: int) -> Seconds:
    columns = Columns(data)
    service = _take_seconds(columns, until_ns)
    response = None if columns.is_over else _take_seconds(columns, until_ns)
    require(columns.is_over)
    if response is None:
        return service
    require(len(response) == len(service))
    require(all(bool((response.rows[name] == service.rows[name]).all()) for name in ("t_ns", "count")))
    return replace(service, response=response)


def _take_seconds(columns: Columns, until_ns: int) -> Seconds:
    """An old row, which no window reaches, may have its histogram added to that of another one (`past`)."""
    rows = take_rows(columns, SECOND)
    lengths = columns.take(len(rows))
    bucket = columns.take_steps()
    count = columns.take(len(bucket))
    require(lies(lengths, 0, len(bucket)) and int(lengths.sum()) == len(bucket))
    require(lies(bucket, 0, histogram.SIZE - 1) and lies(count, 0, 2**31 - 1))
    row = np.repeat(np.arange(len(rows)), lengths)
    held = np.bincount(row, weights=count, minlength=len(rows))
    require(bool((rows["t_ns"] % NS == 0).all()) and int(count.sum()) == int(rows["count"].astype(np.int64).sum()))
    require(bool((held == rows["count"])[rows["t_ns"] > until_ns - OLD_S * NS].all()))
    for name in ("count", "errors", "sum_ns", "jitter_sum_ns", "jitter_count"):
        require(bool((rows[name] >= 0).all()))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return Seconds(rows, offsets, bucket.astype(np.int16), count.astype(np.int32))
