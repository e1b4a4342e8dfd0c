"""How often power is read, and why at uneven intervals."""

import itertools
import random
from dataclasses import dataclass

import pytest

from edgetop.sensors.sampler import NS, Schedule
from edgetop.sensors.sensor_protocol import Found, Reader, Source, paced, sampled, sensor
from edgetop.session.manifest import SensorInfo


@dataclass(frozen=True)
class Plain:
    """A source with a cadence of its own, that has news again after `fastest_s`."""

    sensors: tuple[SensorInfo, ...]
    cadence_s: float = 1.0
    name: str = "plain"

    def read(self) -> list[float]:
        return [1.0]


@dataclass(frozen=True)
class Quick(Plain):
    fastest_s: float = 0.02


POWER = (sensor("power", "in", "/x"), sensor("volt", "in", "/x"))
HEAT = (sensor("temp", "in", "/x"),)


def one(source: Source, hz: float | None = None) -> Source:
    (found,) = paced(Found((source,)), hz).sources
    return found


def test_only_power_is_jittered() -> None:
    heat = Plain(HEAT)
    assert one(heat, 10) is heat
    jittered = one(Plain(POWER))
    assert isinstance(jittered, Reader)
    assert jittered.interval_s is not None


@pytest.mark.parametrize(
    ("source", "hz", "cadence_s", "interval_s"),
    [
        (Quick(POWER), None, 1.0, (0.5, 1.5)),
        (Quick(POWER), 10, 0.1, (0.05, 0.15)),
        (Quick(POWER), 0.1, 10.0, (5.0, 15.0)),
        (Quick(POWER), 1000, 0.02, (0.02, 0.03)),  # no faster than it has news
        (Plain(POWER), 10, 1.0, (1.0, 1.5)),  # nothing is known of it but its cadence
    ],
)
def test_a_rate_is_never_faster_than_a_source_has_news(
    source: Source, hz: float | None, cadence_s: float, interval_s: tuple[float, float]
) -> None:
    jittered = one(source, hz)
    assert isinstance(jittered, Reader)
    assert jittered.cadence_s == pytest.approx(cadence_s)
    assert jittered.interval_s == pytest.approx(interval_s)


def reads_at_s(source: Source, seconds: float) -> list[float]:
    """When a schedule reads it; reads take no time."""
    schedule = Schedule([source], 0)
    times = []
    while (due := schedule.next_due_ns()) is not None and due < seconds * NS:
        entry = schedule.take(due)
        assert entry is not None
        schedule.put(entry, due, due, [1.0])
        times.append(due / NS)
    return times


def test_intervals_are_spread_over_their_range_and_keep_the_rate() -> None:
    times = reads_at_s(one(Quick(POWER), 10), 100)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert 950 < len(times) < 1050
    assert 0.05 <= min(gaps) < 0.06
    assert 0.14 < max(gaps) <= 0.15


def test_the_same_run_is_sampled_the_same_way() -> None:
    assert reads_at_s(one(Quick(POWER)), 30) == reads_at_s(one(Quick(POWER)), 30)


def busy_share(times: list[float], begin_s: float) -> float:
    """Of a load of 100 ms that is busy for 30, as sampled at these times."""
    return sum((t - begin_s) % 0.1 < 0.03 for t in times) / len(times)


def test_jitter_measures_a_load_that_even_sampling_gets_wrong() -> None:
    even, uneven = (reads_at_s(source, 60) for source in (Plain(POWER, 0.1), one(Quick(POWER), 10)))
    for begin_s in random.Random(1).sample(range(100), 10):
        assert busy_share(even, begin_s / 1000 + 1e-6) in (0, 1)  # always the same phase
        assert busy_share(uneven, begin_s / 1000) == pytest.approx(0.3, abs=0.06)


def test_a_sample_time_sets_the_interval_of_the_kinds_that_are_meant() -> None:
    network, memory = (Reader((sensor(kind, "x", "/x"),), lambda: [1.0]) for kind in ("net", "mem"))
    power = Reader((sensor("power", "y", "/y"),), lambda: [1.0], interval_s=(0.1, 0.2))
    found = Found((network, memory, power))
    assert sampled(found, None) is found
    assert [source.cadence_s for source in sampled(found, 0.5).sources] == [0.5, 0.5, 1.0]
    assert [source.cadence_s for source in sampled(found, 0.5, ("net",)).sources] == [0.5, 1.0, 1.0]
