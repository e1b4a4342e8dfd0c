"""Move each threshold of a judgement by a fifth, one at a time, and report the test that fails.

`python -m tests.mutations` moves all of them, up and down, and prints a table; `python -m tests.mutations detector
tail.RARE` moves those whose module and name contain one of these words. Each move runs the tests of `TESTS` in a forked
process that loads edgetop anew, with that one number moved. With `--after TABLE`, it runs the test that failed in an
earlier table first. The exit status is 1 if no test noticed a move.

Scores of many generated sessions and snapshots are not among these tests: they would not name what changed.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.moved_thresholds import ROOT, MovingFinder
from tests.support.thresholds import ALERTS, ANALYSIS, COMPARISON, FORECAST, SLOWDOWNS, all_thresholds

_SPANS = ("slowdowns/test_thresholds.py", "slowdowns/test_spans.py", "slowdowns/test_stages.py")
_STAGES = ("slowdowns/test_stage_thresholds.py", "slowdowns/test_stages.py")
_CAUSES = ("slowdowns/test_cause_thresholds.py", "slowdowns/test_causes_and_traps.py")
_START = ("slowdowns/test_start_thresholds.py", "slowdowns/test_contended.py", "slowdowns/test_from_start.py")
_THROTTLES = ("slowdowns/test_throttle_thresholds.py", "slowdowns/test_throttles.py")
_FORECAST = ("forecast/test_thresholds.py", "forecast/test_model.py", "forecast/test_forecast.py")

_COLUMNS = ((1.2, 2), (0.8, 3))  # The factor of a move, and where its test stands in a row of the table.

# The tests of tests/analysis, or of tests/comparison, that notice a move in a module, the likeliest first.
TESTS = {
    f"{SLOWDOWNS}.baseline": _SPANS,
    f"{SLOWDOWNS}.detector": _SPANS,
    f"{SLOWDOWNS}.slow_span": _SPANS,
    f"{SLOWDOWNS}.levels": (*_SPANS, "slowdowns/test_levels.py"),
    f"{SLOWDOWNS}.judgement": (
        "slowdowns/test_stage_thresholds.py",
        "slowdowns/test_cause_thresholds.py",
        *_SPANS,
        *_START,
    ),
    "edgetop.analysis.miss_risk": ("test_miss_risk.py",),
    f"{SLOWDOWNS}.slowdown": ("slowdowns/test_contended.py",),
    f"{SLOWDOWNS}.stages": (*_STAGES, *_CAUSES, *_SPANS),
    f"{SLOWDOWNS}.cause_finding": (*_CAUSES, *_STAGES, "slowdowns/test_refusals.py", "test_streams.py"),
    f"{SLOWDOWNS}.evidence": (*_CAUSES, *_STAGES, "slowdowns/test_refusals.py", "test_streams.py"),
    f"{SLOWDOWNS}.clock_parts": ("slowdowns/test_memory_clock.py", *_CAUSES),
    f"{SLOWDOWNS}.signals": (*_CAUSES, *_START, "test_streams.py"),
    f"{SLOWDOWNS}.equal_size": ("slowdowns/test_equal_size_thresholds.py",),
    f"{SLOWDOWNS}.from_start": _START,
    f"{SLOWDOWNS}.slow_inferences": ("slowdowns/test_tail.py",),
    f"{SLOWDOWNS}.counted_causes": ("slowdowns/test_tail.py", "test_late_starts.py"),
    f"{ANALYSIS}.longer_operators": ("test_longer_operators.py",),
    f"{ANALYSIS}.slow_inputs": ("test_slow_inputs.py",),
    f"{SLOWDOWNS}.throttle_spans": _THROTTLES,
    "edgetop.session.trips": ("../session/test_trips.py", "test_vitals.py", *_THROTTLES),
    f"{ANALYSIS}.tracks": (*_THROTTLES, "test_tracks.py"),
    f"{ANALYSIS}.verdict": ("test_verdict.py",),
    f"{ANALYSIS}.rolling_latency": ("test_latency.py", "test_verdict.py"),
    f"{ANALYSIS}.progress": ("test_progress.py",),
    f"{ANALYSIS}.vitals": ("test_vitals.py",),
    f"{ANALYSIS}.heat": ("test_thermal.py",),
    f"{ANALYSIS}.streams": ("test_streams.py",),
    f"{ANALYSIS}.event_counts": ("test_event_counts.py",),
    f"{ANALYSIS}.stream_verdicts": ("test_streams.py",),
    f"{ANALYSIS}.statistics": ("test_statistics.py", "test_streams.py"),
    f"{ANALYSIS}.precision": ("test_precision.py",),
    f"{ANALYSIS}.steady": ("test_steady.py",),
    f"{ANALYSIS}.notices": ("test_trust.py", "test_notices.py"),
    "edgetop.session.quiet": ("../comparison/test_thresholds.py", "test_trust.py", "test_notices.py"),
    f"{ANALYSIS}.operator_hints": ("test_operator_hints.py", "test_threads.py"),
    f"{ANALYSIS}.operator_bounds": ("test_roofline.py",),
    f"{ANALYSIS}.hotspots": ("test_operators.py",),
    f"{ANALYSIS}.deadline": ("test_deadline.py",),
    f"{ANALYSIS}.late_starts": ("test_late_starts.py", "test_deadline.py"),
    f"{ANALYSIS}.overload": ("test_overload.py",),
    f"{ANALYSIS}.memory_use": ("test_growth.py", "test_memory.py"),
    f"{ANALYSIS}.usage": ("test_usage.py",),
    f"{ANALYSIS}.energy": ("test_energy.py", "test_power.py"),
    f"{ANALYSIS}.rail_energy": ("test_rail_energy.py", "test_energy.py"),
    f"{FORECAST}.heat_forecast": (*_FORECAST, "forecast/test_elsewhere.py"),
    f"{FORECAST}.steady_load": ("forecast/test_load.py", *_FORECAST),
    f"{FORECAST}.elsewhere": ("forecast/test_elsewhere.py",),
    f"{ALERTS}.alerts": ("alerts/test_alerts.py",),
    f"{ALERTS}.alert": ("alerts/test_alert.py", "alerts/test_alerts.py"),
    f"{ALERTS}.values": ("alerts/test_values.py",),
    f"{ANALYSIS}.ab_figures": ("test_ab.py",),
    f"{ANALYSIS}.ab_quads": ("test_ab.py",),
    f"{ANALYSIS}.paired": ("test_paired.py", "test_ab.py"),
    f"{COMPARISON}.figures": ("../comparison/test_thresholds.py", "../comparison/test_compare.py"),
    f"{COMPARISON}.student": ("../comparison/test_student.py", "../comparison/test_thresholds.py"),
    f"{COMPARISON}.fairness": ("../comparison/test_thresholds.py", "../comparison/test_compare.py"),
    f"{COMPARISON}.device_fit": ("../comparison/test_fit.py",),
    f"{COMPARISON}.application_gap": ("../comparison/test_gap.py",),
    f"{COMPARISON}.input_sizes": ("../comparison/test_gap.py",),
    f"{COMPARISON}.ratios": ("../comparison/test_thresholds.py", "../comparison/test_compare.py"),
    f"{SLOWDOWNS}.equal_position": ("test_equal_position.py",),
    f"{SLOWDOWNS}.mix": ("slowdowns/test_mix.py",),
    f"{ANALYSIS}.event_index": ("test_event_index.py",),
    f"{ANALYSIS}.input_shapes": ("test_input_shapes.py",),
    f"{ANALYSIS}.meter_errors": ("test_meter_errors.py",),
    f"{ANALYSIS}.operator_energy": ("test_operator_energy.py",),
    f"{ANALYSIS}.operator_shares": ("test_operators.py",),
    f"{ANALYSIS}.token_energy": ("test_token_energy.py",),
    f"{ANALYSIS}.trace_alignment": ("test_power_trace.py",),
    f"{ANALYSIS}.trace_overview": ("test_power_trace.py",),
    f"{ANALYSIS}.trace_cut": ("test_power_trace.py",),
    f"{ANALYSIS}.trace_places": ("test_power_trace.py",),
    f"{ALERTS}.alert_rules": ("alerts/test_rules.py", "alerts/test_alerts.py"),
    "edgetop.session.operators": ("test_operators.py", "test_operator_hints.py"),
    "edgetop.sensors.plausible": ("../sensors/test_plausible.py", "../sensors/test_thermal.py"),
    "edgetop.wording.operator_words": ("../wording/test_operator_words.py",),
    "edgetop.wording.risk_words": ("../wording/test_risk_words.py",),
}


def moves(words: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield module and name of each number that is a threshold, or of those whose label contains one of the words."""
    for threshold in all_thresholds():
        for name in threshold.numbers:
            if not words or any(word in _label(threshold.module, name) for word in words):
                yield threshold.module, name


def _label(module: str, name: str) -> str:
    return f"{module.rpartition('.')[2]}.{name}"


def failed_test(module: str, name: str, factor: float, tests: Sequence[str] = ()) -> str:
    """Return the first test that fails if the number is moved by this factor, or "" if all pass.

    `tests`: those to run, relative to tests/; () means those of the module.
    """
    with tempfile.TemporaryFile("w+") as told:
        child = os.fork()
        if child == 0:
            status = 70
            try:
                status = _run_moved(module, name, factor, tests or _tests_of(module), told.fileno())
            except BaseException as error:  # noqa: BLE001  the parent reports it
                os.write(told.fileno(), repr(error).encode())
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told.seek(0)
        found = told.read()
    if status not in (0, 1, 2, 4):  # 4: a test of the earlier table is gone
        raise RuntimeError(f"pytest ended with {status} when {_label(module, name)} was moved by {factor}: {found}")
    return found


class _FirstFailure:
    """A plugin of pytest that writes down the first test that fails."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            os.write(self._descriptor, report.nodeid.removeprefix("tests/").encode())


def _tests_of(module: str) -> list[str]:
    return [os.path.normpath(f"analysis/{test}") for test in dict.fromkeys(TESTS[module])]


def _run_moved(module: str, name: str, factor: float, tests: Sequence[str], descriptor: int) -> int:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.meta_path.insert(0, MovingFinder(module, name, factor))
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=no", "--timeout=100"]
    return int(pytest.main([*options, *(f"tests/{test}" for test in tests)], plugins=[_FirstFailure(descriptor)]))


def value_of(module: str, name: str) -> str:
    """Return the value, read in a child process, because edgetop must not be loaded in this one."""
    with tempfile.TemporaryFile("w+") as told:
        if os.fork() == 0:
            value = eval(name, vars(import_module(module)))
            os.write(told.fileno(), f"{value:.6g}".encode())
            os._exit(0)
        os.wait()
        told.seek(0)
        return told.read()


def failed_before(table: Path) -> dict[tuple[str, float], str]:
    """Return the test that failed for each move in a table, by its label and factor."""
    rows = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in table.read_text().splitlines()]
    tests = [((row[0], factor), row[column]) for row in rows if len(row) == 4 for factor, column in _COLUMNS]
    return {move: test for move, test in tests if "::" in test}


def main(arguments: Sequence[str]) -> int:
    words, before = list(arguments), dict[tuple[str, float], str]()
    if "--after" in words:
        place = words.index("--after")
        before, words[place : place + 2] = failed_before(Path(words[place + 1])), []
    os.chdir(ROOT)
    assert not any(name.partition(".")[0] == "edgetop" for name in sys.modules), "edgetop is loaded already"
    for heavy in ("numpy", "pyarrow"):  # Loaded once, for all moves.
        import_module(heavy)
    print("| constant | value | 20 % more | 20 % less |\n| --- | --- | --- | --- |", flush=True)
    is_noticed = True
    for module, name in moves(words):
        tests = []
        for factor, _ in _COLUMNS:
            first = before.get((_label(module, name), factor))
            tests.append(
                (first and failed_test(module, name, factor, [first])) or failed_test(module, name, factor) or "NONE"
            )
        print(f"| {_label(module, name)} | {value_of(module, name)} | {' | '.join(tests)} |", flush=True)
        is_noticed = is_noticed and "NONE" not in tests
    return 0 if is_noticed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
