"""A sample of the calls whose inputs have various sizes: two readings, the size and the latency, with equal times.

Latency can be compared only at equal size, and the seconds of a session do not have the sizes of their inferences.
"""

import numpy as np
import numpy.typing as npt

# Most calls of a stream that are sampled at a time, which is a few times a second. Larger: recordings grow by megabytes
# an hour; smaller: the times of a second at equal size rest on too few calls.
MOST_CALLS = 16

Floats = npt.NDArray[np.float64]
Samples = dict[str, list[tuple[int, float]]]  # (time in ns, value) by sensor id


def sensors_of(stream: int) -> tuple[str, str]:
    """Return the ids of the sensors of a stream's sampled calls: the size in elements, and the latency in ms."""
    return f"input/{stream}-size", f"call/{stream}-sized"


class SizedCalls:
    """Chooses the calls of a session that are sampled. Its choice depends only on the numbers of calls that it gets."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def sample(
        self, stream: int, t_ns: npt.NDArray[np.int64], latency_ns: npt.NDArray[np.int64], elements: Floats,
        most: int = MOST_CALLS,
    ) -> Samples:  # fmt: skip
        """Return samples of at most `most` of these calls, by sensor.

        The calls are chosen at random, because the sizes of many programs and folders repeat in a cycle.
        """
        count = len(t_ns)
        if not count or most < 1:
            return {}
        chosen = np.arange(count) if count <= most else np.sort(self._random.choice(count, most, replace=False))
        # Two readings of a sensor never have the same time.
        chosen = chosen[np.unique(t_ns[chosen], return_index=True)[1]]
        size, took = sensors_of(stream)
        times = t_ns[chosen].tolist()
        return {
            size: list(zip(times, elements[chosen].tolist(), strict=True)),
            took: list(zip(times, (latency_ns[chosen] / 1e6).tolist(), strict=True)),
        }
