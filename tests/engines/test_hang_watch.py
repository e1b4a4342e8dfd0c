"""When a silent engine counts as hung, on a clock of the test's own."""

import pytest

from edgetop.engines.hang_watch import NS, HangWatch
from edgetop.engines.spec import EngineSpec


class World:
    def __init__(self, **options: object) -> None:
        self.now = self.cpu = 0
        spec = EngineSpec("m.onnx", "onnx", **options)  # type: ignore[arg-type]
        self.watch = HangWatch(spec, lambda: self.cpu, lambda: self.now)

    def passes(self, seconds: int, busy: float = 0.0) -> str:
        """Return what the watch says in the end. `busy`: the share of a core that the engine uses."""
        said = ""
        for _ in range(seconds):
            self.now += NS
            self.cpu += int(busy * NS)
            said = self.watch.why()
            if said:
                break
        return said


def test_silence_without_cpu_time_is_a_hang() -> None:
    assert World().passes(299) == ""
    assert "for 301 s it has said nothing and used no CPU time" in World().passes(400)


@pytest.mark.parametrize("busy", [0.02, 1.0])
def test_an_engine_that_computes_may_take_its_time(busy: float) -> None:
    assert World().passes(5000, busy) == ""


def test_a_sign_of_life_begins_the_silence_anew() -> None:
    world = World()
    assert world.passes(290) == ""
    world.watch.heard()
    assert world.passes(290) == ""
    assert world.passes(20)


@pytest.mark.parametrize(
    "options",
    [
        {"rate_hz": 0.02, "arrivals": "poisson"},
        {"starts_ns": (0, 1000 * NS)},
        {"delay_ns": 1000 * NS},
        {"rate_hz": 1e-3},
        {"duty_ns": (NS, 1000 * NS)},
        {"idle_ns": 1000 * NS},
        {"in_turns": True},
    ],
)
def test_a_rest_that_the_load_asks_for_is_no_hang(options: dict[str, object]) -> None:
    assert World(**options).passes(1000) == ""


def test_a_duration_that_is_over_ends_even_an_engine_that_computes() -> None:
    world = World(duration_ns=10 * NS)
    world.watch.heard(began_measuring=True)
    assert "after the end of its duration" in world.passes(100, busy=1.0)
    assert world.now > 70 * NS


def test_a_slow_model_may_end_its_last_inference() -> None:
    world = World(duration_ns=10 * NS)
    world.passes(30, busy=1.0)
    world.watch.heard(began_measuring=True)
    assert world.passes(300, busy=1.0) == ""
    assert world.passes(20, busy=1.0)
