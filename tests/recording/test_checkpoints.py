"""What an analysis knew comes back as it was then, whatever the session has in it."""

from collections.abc import Callable

import numpy as np
import pytest

from edgetop.analysis.alerts.rules import parse_rule
from edgetop.analysis.analysis import Analysis
from edgetop.recording.by_time import BEGINNING, START
from edgetop.recording.checkpoints import Checkpoints
from edgetop.session.batch import Batch, merge
from tests.support import scripts
from tests.support.scripts import Script
from tests.support.sessions import differences

RULES = (parse_rule("temp>61C for=3s"),)
SESSIONS: dict[str, Callable[[], Script]] = {
    "with power": lambda: scripts.measured_with_power(40),
    "paced, with gates": lambda: scripts.paced(40, p99="p99>33ms", memory="rss-growth>1MiB/h"),
    "throttled": lambda: scripts.measured(60, scripts.hot).profile(),
    "of little memory": lambda: scripts.scarce(30),
    "that leaks": scripts.leaking,
    "of hostile text": lambda: scripts.hostile("[bold]\x1b[31m\u202e"),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_who_goes_on_from_what_was_known_finds_the_same(name: str) -> None:
    batches = SESSIONS[name]().batches
    half = len(batches) // 2
    first, rest = merge(batches[:half]), merge(batches[half:])
    straight, kept = Analysis(RULES), Checkpoints()
    straight.fold(first)
    kept.save(BEGINNING, straight.checkpoint())
    straight.fold(rest)  # does not change what is kept
    for _ in range(2):
        found = kept.before(0)
        assert found
        gone_on = straight.twin()
        gone_on.fold(Batch(restart=True, checkpoint=found[1]))
        gone_on.fold(rest)
        assert differences(gone_on.view(None), straight.view(None)) == []


def test_the_last_one_up_to_a_time_is_found() -> None:
    kept = Checkpoints()
    assert kept.before(10**18) is None
    for t_ns in (100, 200):
        kept.save(type(BEGINNING)(t_ns, 0, START, START, START, START), {"t_ns": t_ns, "array": np.arange(5)})
    assert kept.before(99) is None
    found = [kept.before(t_ns) for t_ns in (100, 199, 200, 10**18)]
    assert [known and known[1]["t_ns"] for known in found] == [100, 100, 200, 200]


def test_arrays_come_back_to_be_written_to_as_fast_as_before() -> None:
    """Of a dtype that is not numpy's own object, `ufunc.at` takes fifteen times as long."""
    kept = Checkpoints()
    kept.save(BEGINNING, {"a": np.zeros((3, 4)), "b": np.arange(6, dtype=np.int16)[::2], "none": np.empty((0, 2))})
    found = kept.before(0)
    assert found
    a, b, none = (found[1][name] for name in ("a", "b", "none"))
    assert isinstance(a, np.ndarray)
    assert a.dtype is np.dtype(np.float64)
    a[1, 2] = 5
    assert (a.shape, a.sum()) == ((3, 4), 5)
    assert np.array_equal(b, [0, 2, 4])
    assert none.shape == (0, 2)
