"""The histogram of latencies in the session format, with log-linear buckets.

Histograms can be merged without loss. The relative error is at most 1 %. A bucket is 10 ns wide below 2.56 us. Above,
its width is at most 1/128 of its latency.

The bucket number follows from u = `UNIT_NS`, b = `SUB_BUCKET_BITS` and q = latency_ns // u. For q < 2^(b+1), the number
is q. For larger q, the number is e*2^b + (q >> e), with e = floor(log2 q) - b. HdrHistogram
(https://hdrhistogram.github.io/HdrHistogram/) works in the same way, with other constants.
"""

import math

import numpy as np
import numpy.typing as npt

UNIT_NS = 10
SUB_BUCKET_BITS = 7

_SUB = 1 << SUB_BUCKET_BITS

_MANTISSA_BITS, _EXPONENT_BIAS = 52, 1023
_OFFSET = (_EXPONENT_BIAS + SUB_BUCKET_BITS - 1) << SUB_BUCKET_BITS

Counts = npt.NDArray[np.int64]

# Number of buckets. They reach up to 2^42 ns, over an hour; longer latencies count in the last one.
SIZE = int(((42 - 4) - SUB_BUCKET_BITS) * _SUB + 2 * _SUB)


def bucket_of(latency_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of the histogram bucket of each latency. The array has the shape of `latency_ns`.

    Negative latencies count as 0.
    """
    q = np.maximum(latency_ns, 0) // UNIT_NS
    # An IEEE 754 double has the biased exponent in its high bits and below it the mantissa without the leading one. Its
    # upper bits, down to the first b bits of the mantissa, are therefore the bucket plus a constant.
    number = q.astype(np.float64).view(np.int64) >> (_MANTISSA_BITS - SUB_BUCKET_BITS)
    return np.asarray(np.where(q < _SUB, q, np.minimum(number - _OFFSET, SIZE - 1)))


def lower_edge_ns(bucket: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the smallest latency, in ns, of each histogram bucket. `bucket` has bucket numbers."""
    exponent = np.maximum(bucket // _SUB - 1, 0)
    return np.asarray(((bucket - exponent * _SUB) << exponent) * UNIT_NS)


def count_buckets(latency_ns: npt.NDArray[np.int64]) -> Counts:
    """Return the number of latencies in each histogram bucket, as an array of length SIZE."""
    return np.bincount(bucket_of(latency_ns), minlength=SIZE).astype(np.int64)


def sparse(counts: Counts) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int32]]:
    """Return the numbers of the histogram buckets that are not empty, and the count of each.

    >>> [array.tolist() for array in sparse(np.array([0, 4, 0, 2]))]
    [[1, 3], [4, 2]]
    """
    bucket = np.flatnonzero(counts)
    return bucket.astype(np.int16), counts[bucket].astype(np.int32)


def percentiles(
    counts: Counts, quantiles: tuple[float, ...], lowest_ns: int, highest_ns: int, *, first_bucket: int = 0
) -> tuple[float, ...]:
    """Return the percentiles in ns of a histogram at `quantiles`, such as 0.99, interpolated within buckets.

    `counts` has the count of each bucket, beginning with bucket `first_bucket`. `lowest_ns` and `highest_ns` are the
    exact extremes of the latencies, and limit the results. Raises ValueError if the histogram is empty.
    """
    (bucket,) = counts.nonzero()
    held = counts[bucket]
    cumulative = held.cumsum()
    if not len(cumulative):
        raise ValueError("an empty histogram has no percentiles")
    total = int(cumulative[-1])
    ranks = [nearest_rank(total, quantile) + 1 for quantile in quantiles]
    places = cumulative.searchsorted(ranks)
    low, high = lower_edge_ns(bucket[places] + first_bucket + np.array([[0], [1]])).astype(np.float64)
    within = (np.asarray(ranks) - (cumulative[places] - held[places]) - 0.5) / held[places]
    return tuple(float(min(max(value, lowest_ns), highest_ns)) for value in (low + (high - low) * within).tolist())


def count_above(counts: Counts, latency_ns: int | None) -> int:
    """Return how many latencies of a histogram are above `latency_ns`, or 0 if `latency_ns` is None.

    The result may be too large by the latencies in the bucket of `latency_ns`.
    """
    if latency_ns is None:
        return 0
    return int(counts[bucket_of(np.array([latency_ns], np.int64))[0] :].sum())


def nearest_rank(count: int, quantile: float) -> int:
    """Return the index of a quantile, such as 0.99, in `count` sorted values.

    The result is the lowest index up to which at least this share of the values lies.

    >>> nearest_rank(100, 0.99), nearest_rank(100, 0.5), nearest_rank(1, 0.999)
    (98, 49, 0)
    """
    # Products of quantiles and counts are not exact in binary: 0.07 * 100 is 7.000000000000001.
    return min(max(math.ceil(quantile * count - 1e-9) - 1, 0), count - 1)
