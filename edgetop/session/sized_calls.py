"""A sample of the calls of models whose inputs vary in size. Each call gives two readings: its size and its latency.

Latencies of such models can be compared only at equal size, and the table of seconds contains no sizes.
"""

import numpy as np
import numpy.typing as npt

# Most calls of a stream that are sampled at a time, which is a few times a second. Larger: recordings grow by megabytes
# an hour; smaller: the times of a second at equal size rest on too few calls.
MOST_CALLS = 16
# Numbers of the stream of a language model's prompts, whose size is their number of tokens: of an engine, which has no
# other stream, and of a watched program, whose models are streams up to number 254.
PREFILL, PREFILL_OF_PROGRAM = 1, 255

Floats = npt.NDArray[np.float64]
Samples = dict[str, list[tuple[int, float]]]  # (time in ns, value) by sensor id


def sensors_of(stream: int) -> tuple[str, str]:
    """Return the ids of two sensors for the sampled calls of a stream: input size (in elements) and latency (in ms).

    >>> sensors_of(0)
    ('input/0-size', 'call/0-sized')
    """
    return f"input/{stream}-size", f"call/{stream}-sized"


class SizedCalls:
    """Chooses at random which calls of a session are sampled, with the same random numbers in each session."""

    def __init__(self) -> None:
        self._random: np.random.Generator | None = None  # made when it is needed: numpy.random takes 7 MiB

    def sample(
        self, stream: int, t_ns: npt.NDArray[np.int64], latency_ns: npt.NDArray[np.int64], elements: Floats,
        most: int = MOST_CALLS,
    ) -> Samples:  # fmt: skip
        """Return the sizes and latencies of at most `most` calls of a stream, chosen at random.

        The result has `(time in ns, value)` pairs, by sensor id (see `sensors_of`). `t_ns` (start), `latency_ns` and
        `elements` (input size) have one value for each call.
        """
        count = len(t_ns)
        if not count or most < 1:
            return {}
        if count <= most:
            chosen = np.arange(count)
        else:
            # At random, because the sizes of many programs repeat in a cycle.
            self._random = self._random or np.random.default_rng(0)
            chosen = np.sort(self._random.choice(count, most, replace=False))
        # Two readings of a sensor never have the same time.
        chosen = chosen[np.unique(t_ns[chosen], return_index=True)[1]]
        size, took = sensors_of(stream)
        times = t_ns[chosen].tolist()
        return {
            size: list(zip(times, elements[chosen].tolist(), strict=True)),
            took: list(zip(times, (latency_ns[chosen] / 1e6).tolist(), strict=True)),
        }
