"""Whether each threshold of a judgement is held by a test: one that moves by a fifth must make a test fail.

The tests that may notice are few, so that all moves together take minutes. The score of generated sessions, and what
compares a judgement with itself, is not among them: it would not name what changed.
"""

import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.support.moved_thresholds import ROOT, threshold_names

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]

SLOWDOWNS = "edgetop.analysis.slowdowns"
FORECAST = "edgetop.analysis.forecast"
_SPANS = ("slowdowns/test_thresholds.py", "slowdowns/test_spans.py", "slowdowns/test_stages.py")
_CAUSES = ("slowdowns/test_cause_thresholds.py", "slowdowns/test_causes_and_traps.py", "slowdowns/test_stages.py")
_START = ("slowdowns/test_start_thresholds.py", "slowdowns/test_contended.py", "slowdowns/test_from_start.py")
_FORECAST = ("forecast/test_thresholds.py", "forecast/test_model.py", "forecast/test_forecast.py")

# Not `forecast.model`: its numbers are the prior and the noise of a statistical model, which a score judges.
# The tests under tests/analysis that may notice, the likeliest first.
MODULES = {
    f"{SLOWDOWNS}.baseline": _SPANS,
    f"{SLOWDOWNS}.detector": _SPANS,
    f"{SLOWDOWNS}.levels": (*_SPANS, "slowdowns/test_levels.py"),
    f"{SLOWDOWNS}.judgement": (*_SPANS, *_START),
    f"{SLOWDOWNS}.slowdown": (*_SPANS, "slowdowns/test_begins.py"),
    f"{SLOWDOWNS}.stages": (*_CAUSES, *_SPANS),
    f"{SLOWDOWNS}.evidence": _CAUSES,
    f"{SLOWDOWNS}.signals": (*_CAUSES, *_START),
    f"{SLOWDOWNS}.from_start": _START,
    f"{SLOWDOWNS}.tail": ("slowdowns/test_tail.py",),
    f"{SLOWDOWNS}.throttle_spans": ("slowdowns/test_throttles.py",),
    "edgetop.analysis.verdict": ("test_verdict.py",),
    "edgetop.analysis.notices": ("test_trust.py", "test_notices.py"),
    "edgetop.analysis.deadline": ("test_deadline.py",),
    "edgetop.analysis.late_starts": ("test_late_starts.py",),
    "edgetop.analysis.steady": ("test_steady.py",),
    f"{FORECAST}.steady_load": ("forecast/test_load.py", *_FORECAST),
    f"{FORECAST}.heat_forecast": (*_FORECAST, "forecast/test_elsewhere.py"),
    f"{FORECAST}.elsewhere": ("forecast/test_elsewhere.py",),
}

# Numbers that decide nothing by a little more or less of them.
NO_THRESHOLDS = {
    "baseline": {"LEAST_SCATTER"},  # keeps a division from zero: with a third of it any change is certain
    "detector": {"RECENT", "MAX_WINDOWS", "MAX_POINTS"},  # how much is stored
    "evidence": {"NEVER", "_HUGE"},  # marks, and a bound of foreign data
    "judgement": {"MAX_ROWS"},
    "levels": {"NEPER", "SURE", "_PER_MAD", "OF_MEDIANS", "OF_FIVE", "MAX_LEVELS"},  # units and statistics
    "slowdown": {"MAX_SLOWDOWNS"},
    "tail": {"NAMED"},
    "throttle_spans": {"MAX_SPANS", "MOST_LEVEL", "NEVER", "COUNTED"},
    "steady": {"LEVELS"},
    "steady_load": {"BLOCKS"},
}  # fmt: skip


class Move(NamedTuple):
    module: str
    name: str
    factor: float


def moves(module: str) -> list[Move]:
    known = NO_THRESHOLDS.get(module.rpartition(".")[2], set())
    names = [name for name in threshold_names(module) if name.partition("[")[0] not in known]
    return [Move(module, name, factor) for name in names for factor in (1.2, 0.8)]


def failed_tests(move: Move) -> list[str]:
    """Return the first test that fails, in a list; [] if none does."""
    tests = [f"tests/analysis/{name}" for name in MODULES[move.module]]
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no", "-rf"]
    command = [sys.executable, "-m", "tests.support.moved_thresholds", *map(str, move), *options, *dict.fromkeys(tests)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return re.findall(r"^FAILED tests/analysis/(\S.*?)(?: - .*)?$", done.stdout, re.MULTILINE)


# No test names what these decide yet.
NOT_HELD = {
    "judgement": {"LIKELY"},
    "stages": {
        "PATIENCE", "STRONG", "RECENT", "LEAST_SPARSE", "STILL", "NAMED_FROM", "NAMED_EVERY", "LONGEST", "DEEPEST"
    },
    "throttle_spans": {"NEAR_NS", "BEGIN_S", "FREE"},
    "heat_forecast": {"NOW_BLOCKS", "IDLE_SETTLING", "IDLE_C", "PACES_S", "SLOWEST_S"},
    "steady_load": {"LEAST_LASTING", "LONGER", "ALTERNATES", "ALTERNATES_AT", "WIDTHS_S"},
    "elsewhere": {"ERROR_SHARE"},
}  # fmt: skip


def is_held(move: Move) -> bool:
    return move.name.partition("[")[0] not in NOT_HELD.get(move.module.rpartition(".")[2], set())


@pytest.mark.parametrize(
    "move", [move for module in MODULES for move in moves(module)], ids=lambda move: "-".join(map(str, move))
)
def test_a_moved_threshold_is_noticed(move: Move) -> None:
    if not is_held(move):
        pytest.xfail("no test names what it decides yet")
    assert failed_tests(move)
