"""The search for the least memory, and what counts as running well."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetop.cli.comparing import fit_memory
from edgetop.cli.comparing.fit_memory import MIB, Trial, judged, least_that
from edgetop.cli.running.child_run import ChildRun, Outcome
from tests.support.waiting import wait_until

WHOLE = Trial(None, p50_ms=10.0, major_faults_hz=0.5)
WELL = Trial(64 * MIB, p50_ms=10.5, major_faults_hz=1.0, limit_hits_hz=3.0)


@given(st.integers(1, 4_000), st.integers(1, 1_000), st.integers(1, 16))
def test_the_least_is_found_in_few_trials(needs_mib: int, likely_mib: int, resolution_mib: int) -> None:
    tried = []

    def runs_well(limit: int) -> bool:
        tried.append(limit)
        return limit >= needs_mib * MIB

    resolution = resolution_mib * MIB
    least = least_that(runs_well, likely_mib * MIB, resolution)
    if least is None:
        assert needs_mib > 8 * likely_mib
    else:
        assert least % resolution == 0
        assert needs_mib * MIB <= least < needs_mib * MIB + resolution
        assert least in tried
    assert len(tried) <= 30


def test_where_it_never_runs_well_the_search_ends() -> None:
    tried: list[int] = []
    assert least_that(lambda limit: tried.append(limit) or False, 100 * MIB, 4 * MIB) is None  # type: ignore[func-returns-value]
    assert tried == [100 * MIB, 200 * MIB, 400 * MIB, 800 * MIB, 1600 * MIB]


CASES = {
    "as without a limit": (WELL, ""),
    "slower at its limit": (replace(WELL, p50_ms=13.0), "p50 is 30 % higher"),
    "slower, but never at its limit": (replace(WELL, p50_ms=30.0, limit_hits_hz=0.0), ""),
    "slower, where hits are not counted": (replace(WELL, p50_ms=30.0, limit_hits_hz=None), "p50 is 200 % higher"),
    "a few faults": (replace(WELL, major_faults_hz=3.0), ""),
    "many faults": (replace(WELL, major_faults_hz=80.0, limit_hits_hz=0.0), "80 major page faults a second"),
    "it died": (Trial(MIB, ok=False, reason="out of memory"), "out of memory"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_runs_well(case: str) -> None:
    trial, why = CASES[case]
    found = judged(trial, WHOLE, 10.0)
    assert (found.ok, found.reason) == (not why, why)


def test_a_row_has_a_dash_where_nothing_is_known() -> None:
    assert WELL.row == "   64 MiB     10.5        -        -        1        3  ok"
    assert CASES["it died"][0].row.endswith("        -  out of memory")


STUBBORN = "#!/bin/sh\ntrap '' TERM\ntouch {ready}\nexec sleep 20\n"


def test_a_trial_that_does_not_end_is_not_waited_for_when_the_user_interrupts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, ready = tmp_path / "python", tmp_path / "ready"
    program.write_text(STUBBORN.format(ready=ready))
    program.chmod(0o755)
    children = []

    class Interrupted(ChildRun):
        def run(self, look: Callable[[], None], *patience: float) -> Outcome:
            children.append(self._process)
            wait_until(ready.exists)
            return super().run(interrupt, *patience)

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setattr(fit_memory, "ChildRun", Interrupted)
    monkeypatch.setattr(fit_memory, "PATIENCE_S", 0.1)
    with pytest.raises(KeyboardInterrupt):
        fit_memory._trial(Path("model.onnx"), [], None)
    (child,) = children
    assert child.poll() is None
    child.kill()
    child.wait()
