"""A memory clock that falls is a cause if the model waits for the memory, and a consequence if it does not."""

import numpy as np
import pytest

from edgetop.analysis.slowdowns.clue import Clue
from edgetop.wording.clue_words import clue_words
from tests.analysis.slowdowns.test_causes_and_traps import HEALTHY, SLOW, changing, the_one
from tests.support.slow_sessions import slowdowns_of

FELL = {"freq/memory": changing(2133, 1600)}  # by as much as the latency rises
LOAD_ROSE, LOAD_HELD, LOAD_FELL = changing(50, 62), changing(50, 50), changing(50, 36)

PROOFS = {
    "the clock alone": FELL,
    "beside a steady CPU": FELL | {"freq/cpu0": changing(1800, 1800)},
    "while the memory is busier": FELL | {"load/emc": LOAD_ROSE},
    "while the memory is as busy": FELL | {"load/emc": LOAD_HELD},
    "while more is moved in a cycle": FELL | {"dram/read": changing(4e9, 4e9), "dram/write": changing(1e9, 0.9e9)},
    "of the uncore": {"freq/uncore": changing(2400, 1800)},
    "of a GPU": {"freq/gpu-memory": changing(9501, 7126)},
    "by its cap": FELL | {"freqcap/memory": changing(2133, 1600)},
    "while others take a little CPU, and the memory is busier": FELL
    | {"load/emc": LOAD_ROSE, "rate/involuntary-switches": changing(1, 50)},
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_clock_of_the_memory_that_falls_is_the_cause(name: str) -> None:
    found = the_one(PROOFS[name])
    assert (found.cause, found.confidence >= 0.6) == ("memory-clock", True)


CONSEQUENCES = {
    "others take the CPU": ("contention", FELL | {"rate/run-queue-wait": changing(5, 300)}),
    "the same, and less data moves": (
        "contention", FELL | {"rate/run-queue-wait": changing(5, 300), "load/emc": LOAD_FELL}),
    "heat": ("thermal", FELL | {"throttle/thermal": changing(0, 1), "freq/cpu0": changing(1800, 1300)}),
    "a limit of all clocks": (
        "power-cap", FELL | {"throttle/power-limit": changing(0, 1), "freq/cpu0": changing(1800, 1300)}),
    "the CPU's clock": ("clock-change", FELL | {"freq/cpu0": changing(1800, 1300)}),
    "the CPU's clock, and less data moves": (
        "clock-change", FELL | {"freq/cpu0": changing(1800, 1300), "load/emc": LOAD_FELL}),
    "nothing known, and less data moves": ("unknown", FELL | {"load/emc": LOAD_FELL}),
    "nothing known, and less is moved in a cycle": (
        "unknown", FELL | {"dram/read": changing(4e9, 2e9), "dram/write": changing(1e9, 0.5e9)}),
    "nothing known, and a clock that fell by too little": ("unknown", {"freq/memory": changing(2133, 2010)}),
    "a load without a clock": ("unknown", {"load/emc": changing(30, 80)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_a_clock_that_follows_the_traffic_is_not_the_cause(name: str) -> None:
    cause, sensors = CONSEQUENCES[name]
    assert the_one(sensors).cause == cause


def test_the_evidence_is_the_clock_and_the_load() -> None:
    fell = Clue("fell", "freq/memory", "MHz", 1600, 2133, at_s=70)
    assert the_one(FELL | {"load/emc": LOAD_ROSE}).evidence == (fell, Clue("rose", "load/emc", "%", 62, 50))
    moved = {"dram/read": changing(4.266e9, 4e9), "dram/write": changing(2.133e9, 1.6e9)}
    assert the_one(FELL | moved).evidence == (
        fell,
        Clue("rose", "memory-per-cycle", "B", pytest.approx(3.5), pytest.approx(3.0)),
    )
    assert (
        clue_words(the_one(FELL | moved).evidence[1]) == "what the memory moves in a clock cycle rose from 3.0 to 3.5 B"
    )


def test_a_refused_memory_clock_has_its_reason() -> None:
    found = the_one(FELL | {"rate/run-queue-wait": changing(5, 300)})
    assert [of.reason for of in found.considered if of.cause == "memory-clock"] == ["outweighed"]
    found = the_one({"rate/run-queue-wait": changing(5, 300), "load/emc": LOAD_HELD})
    assert [of.reason for of in found.considered if of.cause == "memory-clock"] == ["no-sensor"]


@pytest.mark.parametrize(("during", "cause"), [(54.0, "contention"), (56.0, "memory-clock")])
def test_a_memory_that_is_a_tenth_busier_was_slowed_first(during: float, cause: str) -> None:
    sensors = FELL | {"load/emc": changing(50, during), "rate/involuntary-switches": changing(1, 50)}
    assert the_one(sensors).cause == cause


@pytest.mark.parametrize(("during", "cause"), [(44.5, "unknown"), (45.5, "memory-clock")])
def test_a_memory_that_is_a_tenth_less_busy_follows(during: float, cause: str) -> None:
    assert the_one(FELL | {"load/emc": changing(50, during)}).cause == cause


@pytest.mark.parametrize(("part", "cause"), [(0.24, "unknown"), (0.26, "memory-clock")])
def test_the_clock_must_explain_a_quarter_of_the_slowdown(part: float, cause: str) -> None:
    assert the_one({"freq/memory": changing(2000, 2000 * 1.4**-part)}).cause == cause


def generated(seed: int) -> tuple[str, bool]:
    """Make a session of a model that waits for the memory for a part of its time; return the cause that is found.

    Latency is the time of the CPU, and the time of the memory, which grows as its clock falls. In every second session,
    other programs slow the model instead, and a governor lowers the memory's clock because less data moves.
    """
    random = np.random.default_rng(seed)
    of_memory, is_true = random.uniform(0.5, 1.0), seed % 2 == 0
    clocks = random.choice([(2133, 1600), (2112, 1068), (3199, 2133), (1600, 800)])
    slower = 1 - of_memory + of_memory * clocks[0] / clocks[1]
    length = HEALTHY + SLOW
    is_slow = np.arange(length) >= HEALTHY

    def noisy(before: float, during: float, noise: float) -> list[float]:
        values = np.where(is_slow, during, before) * (1 + random.normal(0, noise, length))
        return [float(value) for value in values]

    busy = random.uniform(30, 60)
    traffic = 1 / slower if is_true else random.uniform(0.5, 0.95) / slower  # the busy share follows at the new clock
    load = min(busy * traffic * clocks[0] / clocks[1], 99.0)
    sensors = {
        "freq/memory": noisy(clocks[0], clocks[1], 0.0),
        "freq/cpu0": noisy(1800, 1800, 0.005),
        "rate/run-queue-wait": noisy(8, 8 if is_true else random.uniform(150, 500), 0.2),
    }
    if random.random() < 0.5:
        sensors["load/emc"] = noisy(busy, load, 0.03)
    found = slowdowns_of(noisy(10.0, 10.0 * slower, 0.008), sensors)
    return (found[0].cause if found else "none"), is_true


@pytest.mark.thorough
def test_generated_sessions_have_the_right_cause() -> None:
    found = [generated(seed) for seed in range(100, 148)]
    right = [cause == ("memory-clock" if is_true else "contention") for cause, is_true in found]
    assert np.mean(right) >= 0.95, found
