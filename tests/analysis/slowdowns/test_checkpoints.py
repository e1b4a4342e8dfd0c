"""A session that was judged once is judged from its last checkpoint when one seeks in it, and found to be the same."""

from dataclasses import replace

import pytest

from edgetop.analysis.slowdowns.checkpoints import FIRST_APART_S, MOST, Checkpoints
from edgetop.analysis.slowdowns.judgement import Judgement
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.tail import Tail
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from tests.support.sessions import differences
from tests.support.slow_sessions import session_of

HOURS_S = 3 * 3600


def long_session(name: str = "one") -> Batch:
    """Slow for three minutes in every half hour, with a clock that falls then, and a cap of it in some."""
    slow = [i % 1800 >= 1500 and i % 1800 < 1680 for i in range(HOURS_S)]
    latency = [13.0 if is_slow else 10.0 for is_slow in slow]
    capped = [is_slow and i // 1800 % 2 == 1 for i, is_slow in enumerate(slow)]
    sensors = {
        "freq/cpu0": [1200e6 if is_slow else 1800e6 for is_slow in slow],
        "throttle/soft-temp": [float(is_capped) for is_capped in capped],
    }
    batch = session_of(latency, sensors, rate_hz=8)
    assert batch.manifest
    return replace(batch, manifest=replace(batch.manifest, id=name, state="finished"))


def until(batch: Batch, end_s: int) -> Batch:
    rows = batch.seconds.rows["t_ns"] < end_s * NS
    return replace(
        batch, seconds=batch.seconds.where(rows), readings=batch.readings[batch.readings["t_ns"] < end_s * NS]
    )


def found_in(batch: Batch, checkpoints: Checkpoints | None) -> object:
    fold = Slowdowns(checkpoints)
    fold.fold(batch)
    return fold.view(), fold.tail(10e6), fold.last_flag_ns


def test_wherever_one_seeks_to_the_same_is_found() -> None:
    batch, checkpoints = long_session(), Checkpoints()
    seeks = [HOURS_S, 7_300, HOURS_S - 1, 1_600, 1_801, 2_100, 5_000, 9_000, HOURS_S]
    for end_s in seeks:
        part = until(batch, end_s)
        assert differences(found_in(part, checkpoints), found_in(part, None)) == [], end_s
    assert found_in(batch, None)[0].total == 6  # type: ignore[index]


def test_a_stage_that_goes_on_at_a_checkpoint_goes_on_from_there() -> None:
    """Throttled from the first minute on; others take the CPU in ten minutes of each half hour."""
    crowded = [i % 1800 >= 1500 or i % 1800 < 300 if i > 1000 else False for i in range(HOURS_S)]
    latency = [10.0 if i < 60 else 19.0 if busy else 13.0 for i, busy in enumerate(crowded)]
    sensors = {
        "throttle/soft-temp": [float(i >= 60) for i in range(HOURS_S)],
        "rate/run-queue-wait": [400.0 * busy for busy in crowded],
    }
    batch = session_of(latency, sensors, rate_hz=8)
    assert batch.manifest
    batch = replace(batch, manifest=replace(batch.manifest, state="finished"))
    checkpoints = Checkpoints()
    for end_s in (HOURS_S, 1_900, 2_110, 2_200, 5_405, 7_205, HOURS_S):
        part = until(batch, end_s)
        assert differences(found_in(part, checkpoints), found_in(part, None)) == [], end_s
    causes = [slowdown.cause for slowdown in found_in(batch, checkpoints)[0].slowdowns]  # type: ignore[index]
    assert causes == ["thermal", "contention"] * 6


def test_what_was_judged_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, checkpoints = long_session(), Checkpoints()
    found_in(batch, checkpoints)
    judged = []
    advance = Judgement.advance

    def counted(self: Judgement, rows: object, until_s: int, *more: object) -> None:
        judged.append(until_s)
        advance(self, rows, until_s, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Judgement, "advance", counted)
    found_in(until(batch, 9_200), checkpoints)
    assert min(judged) > 9_200 - FIRST_APART_S


def test_another_session_and_one_that_goes_on_are_judged_from_their_beginning() -> None:
    checkpoints = Checkpoints()
    found_in(long_session(), checkpoints)
    other = session_of([10.0] * 4_000 + [13.0] * 2_000, rate_hz=8)
    assert other.manifest
    for changes in ({"id": "two", "state": "finished"}, {"id": "one", "state": "live"}):
        batch = replace(other, manifest=replace(other.manifest, **changes))  # type: ignore[arg-type]
        assert differences(found_in(batch, checkpoints), found_in(batch, None)) == []


def test_there_are_never_many() -> None:
    checkpoints, judgement = Checkpoints(), Judgement()
    kept = set()
    for hour in range(1, 24 * 14):
        judgement.until_s = hour * 3_600
        checkpoints.offer(judgement, Signals(), Tail())
        found = checkpoints.before(10**9)
        assert found
        kept.add(found.until_s)
    lying = {found.until_s for t in range(0, 10**6, 600) if (found := checkpoints.before(t))}
    assert len(lying) <= MOST
    assert len(lying) >= MOST // 2 - 1
    assert checkpoints.before(FIRST_APART_S) is None
