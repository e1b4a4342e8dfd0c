"""How often a generated delay is put down to its cause: also causes that a machine with cores of one kind cannot have.

In each session, the engine's counters are those that a kernel would count: an injected cause takes its time, and other
programs take a CPU now and then all the time. The truth is what was injected.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from edgetop.session.event_codec import read_event
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.session.typed_json import JsonValue
from tests.support.sessions import MS, MadeSession, folded, make_inferences, make_manifest, phase_event
from tests.support.slow_sessions import readings_of, sensor

pytestmark = pytest.mark.benchmark

SEEDS = range(430_300, 430_340)  # not used while building
LENGTH_S, BASE_MS, RATE = 150, 10.0, 20
QUOTA = "pressure/cpu-quota"


class Made:
    """A session with random delays, each with one cause."""

    def __init__(self, seed: int, busy_ms: float, *, is_quiet: bool = False) -> None:
        """`busy_ms` is the mean wait of each inference for other programs."""
        self.chance, self._busy_ms = np.random.default_rng(seed), busy_ms
        self.truth: dict[int, str] = {}
        self._quota = [0.0] * LENGTH_S
        self._events: list[Event] = [phase_event(0, "measure")]
        start_ns, latency_ns = [], []
        injected = [] if is_quiet else self.chance.choice(np.arange(30, LENGTH_S), 20, replace=False).tolist()
        for second in range(LENGTH_S):
            cause = str(self.chance.choice(list(CAUSES))) if second in injected else ""
            for at in range(RATE):
                t_ns = second * NS + at * NS // RATE
                took_ms = self._infer(second, t_ns, cause if at == RATE // 2 else "")
                start_ns.append(t_ns)
                latency_ns.append(int(took_ms * MS))
        self._inferences = make_inferences(start_ns, latency_ns)

    def _infer(self, second: int, t_ns: int, cause: str) -> float:
        waited_ms = float(self.chance.exponential(self._busy_ms)) if self._busy_ms else 0.0
        ran_ms = BASE_MS * float(self.chance.normal(1, 0.02))
        counts: dict[str, JsonValue] = {}
        slept_ms = 0.0
        if cause:
            self.truth[t_ns] = cause
            more_ms, counts, kind = CAUSES[cause](self)
            if kind in ("ran", "spun"):
                ran_ms += more_ms
            elif kind == "slept":
                slept_ms += more_ms
            else:
                waited_ms += more_ms
            if cause == "cpu-quota":
                self._quota[second] += more_ms / 10  # in percent of the second
        took_ms = ran_ms + waited_ms + slept_ms
        if cause or waited_ms > 2 * self._busy_ms:
            counted = {"preempted": int(waited_ms // 4), "major_faults": 0, "minor_faults": 0} | counts
            times = {"waited_ns": waited_ms, "slept_ns": slept_ms, "idle_ns": slept_ms, "latency_ns": took_ms}
            in_ns = {name: int(ms * MS) for name, ms in times.items()}
            self._events.append(read_event(t_ns, "slow-inference", "info", "engine", "", counted | in_ns))
        return took_ms

    def burner(self) -> tuple[float, dict[str, JsonValue], str]:
        return float(self.chance.uniform(15, 80)), {}, "waited"

    def small_core(self) -> tuple[float, dict[str, JsonValue], str]:
        capacity = float(self.chance.uniform(0.2, 0.6))
        return BASE_MS * (1 / capacity - 1), {"capacity": capacity}, "ran"

    def page_cache(self) -> tuple[float, dict[str, JsonValue], str]:
        faults = int(self.chance.integers(1, 40))
        return float(self.chance.uniform(8, 60)), {"major_faults": faults, "loop_major_faults": faults}, "slept"

    def quota(self) -> tuple[float, dict[str, JsonValue], str]:
        return float(self.chance.uniform(30, 90)), {}, "waited"

    def taskset(self) -> tuple[float, dict[str, JsonValue], str]:
        return float(self.chance.uniform(8, 30)), {"lost_cpus": 1}, "waited"

    def waiting_worker(self) -> tuple[float, dict[str, JsonValue], str]:
        """The loop spins for a thread that waits for a CPU, so it runs all the time itself."""
        more_ms = float(self.chance.uniform(8, 60))
        return more_ms, {"lacking_ns": self._lacking_ns(more_ms), "preempted": int(self.chance.integers(1, 6))}, "spun"

    def faulting_worker(self) -> tuple[float, dict[str, JsonValue], str]:
        """The loop spins for a thread that sleeps for a page."""
        more_ms = float(self.chance.uniform(8, 60))
        return (
            more_ms,
            {"lacking_ns": self._lacking_ns(more_ms), "major_faults": int(self.chance.integers(1, 6))},
            "spun",
        )

    def _lacking_ns(self, more_ms: float) -> int:
        """A tick of the timer is left out, and the count may be a tick late or early."""
        return int(max(0.0, more_ms - 4 + float(self.chance.uniform(-4, 4))) * MS)

    def session(self) -> MadeSession:
        sensors = {QUOTA: self._quota}
        return MadeSession(
            manifests=((0, make_manifest(*map(sensor, sensors))),),
            inferences=self._inferences,
            readings=readings_of(sensors),
            events=tuple(self._events),
            end_ns=LENGTH_S * NS,
        )


# What delays an inference. The cause is the part of the name before a colon.
CAUSES: dict[str, Callable[[Made], tuple[float, dict[str, JsonValue], str]]] = {
    "contention": Made.burner,
    "small-cores": Made.small_core,
    "page-faults": Made.page_cache,
    "cpu-quota": Made.quota,
    "fewer-cpus": Made.taskset,
    "contention: of a worker": Made.waiting_worker,
    "page-faults: of a worker": Made.faulting_worker,
}


@pytest.mark.parametrize("busy_ms", [0.0, 0.5, 2.0])
def test_generated_delays_are_given_to_their_causes(busy_ms: float, say: Callable[[str], None]) -> None:
    found: Counter[tuple[str, str]] = Counter()
    for seed in SEEDS:
        made = Made(seed, busy_ms)
        causes = {one.t_ns: one.cause for one in folded(made.session().batches()).tail().slowest}
        found.update((truth, causes[t_ns]) for t_ns, truth in made.truth.items() if t_ns in causes)
    for truth in CAUSES:
        of_truth = {cause: count for (true, cause), count in found.items() if true == truth}
        say(f"waits of {busy_ms} ms for others, {truth}: {of_truth}")
    right = sum(count for (truth, cause), count in found.items() if truth.partition(":")[0] == cause)
    say(f"waits of {busy_ms} ms for others: {right} of {found.total()} injected delays are given to their cause")
    assert found.total() >= 10 * len(SEEDS)
    assert right >= 0.9 * found.total()


def test_a_quiet_generated_session_blames_nothing(say: Callable[[str], None]) -> None:
    slow = Counter(
        one.cause
        for seed in SEEDS
        for one in folded(Made(seed, 0.02, is_quiet=True).session().batches()).tail().slowest
    )
    count = len(SEEDS) * LENGTH_S * RATE
    say(f"quiet: causes of {count} inferences: {dict(slow)}")
    assert all(number <= 0.05 * count for cause, number in slow.items())
