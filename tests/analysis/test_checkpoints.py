"""Checkpoints of an analysis: it continues from a copy of its state as if it had never left."""

from collections.abc import Callable

import numpy as np
import pytest

from edgetop.analysis.alerts.alert_rules import parse_rule
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.checkpoints import Checkpoints
from edgetop.session.batch import Batch, merge
from tests.support import scripts
from tests.support.scripts import Script
from tests.support.sessions import differences
from tests.support.thorough import mostly_thorough

RULES = (parse_rule("temp>61C for=3s"),)
SESSIONS: dict[str, Callable[[], Script]] = {
    "with power": lambda: scripts.measured_with_power(40),
    "paced, with gates": lambda: scripts.paced(40, p99="p99>33ms", memory="rss-growth>1MiB/h"),
    "throttled": lambda: scripts.measured(60, scripts.hot).profile(),
    "of little memory": lambda: scripts.scarce(30),
    "that leaks": scripts.leaking,
    "of hostile text": lambda: scripts.hostile("[bold]\x1b[31m\u202e"),
}


@pytest.mark.parametrize("name", mostly_thorough(SESSIONS, "with power", "throttled", "that leaks"))
def test_an_analysis_that_resumes_finds_the_same(name: str) -> None:
    batches = SESSIONS[name]().batches
    half = len(batches) // 2
    first, rest = merge(batches[:half]), merge(batches[half:])
    straight, resumed = Analysis(RULES), Analysis(RULES)
    straight.fold(first)
    resumed.save_checkpoint(20, straight)
    straight.fold(rest)  # does not change the checkpoint
    for _ in range(2):
        resumed.fold(Batch(restart=True, resumes_ns=20))
        resumed.fold(rest)
        assert differences(resumed.view(None), straight.view(None)) == []


def test_each_checkpoint_is_kept() -> None:
    kept = Checkpoints()
    for t_ns in (100, 200):
        kept.save(t_ns, {"t_ns": t_ns})
    assert [kept.load(t_ns)["t_ns"] for t_ns in (100, 200, 100)] == [100, 200, 100]
    with pytest.raises(KeyError):
        kept.load(150)


def test_arrays_come_back_to_be_written_to_as_fast_as_before() -> None:
    """Of a dtype that is not numpy's own object, `ufunc.at` takes fifteen times as long."""
    kept = Checkpoints()
    kept.save(0, {"a": np.zeros((3, 4)), "b": np.arange(6, dtype=np.int16)[::2], "none": np.empty((0, 2))})
    found = kept.load(0)
    a, b, none = (found[name] for name in ("a", "b", "none"))
    assert isinstance(a, np.ndarray)
    assert a.dtype is np.dtype(np.float64)
    a[1, 2] = 5
    assert (a.shape, a.sum()) == ((3, 4), 5)
    assert np.array_equal(b, [0, 2, 4])
    assert none.shape == (0, 2)
