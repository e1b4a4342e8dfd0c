"""Reasons to end a session early: a gate that is certain to fail (`--fail-fast`), or a resolved A/B difference.

Some values only grow, so a limit that they exceed stays exceeded. Other values may fall again: they must come from
enough inferences and exceed their limit for a while before the session ends.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import Report
from edgetop.cli.output import print_failures
from edgetop.runner.session_state import SessionState
from edgetop.session.event_kinds import GateFailed
from edgetop.session.seconds import NS
from edgetop.wording.ab_words import change_words
from edgetop.wording.fault_words import fault_words
from edgetop.wording.gate_words import gate_words

if TYPE_CHECKING:
    from edgetop.comparison.comparison_gates import RelativeGate

STAYS_NS = 10 * NS


class FailFast:
    """Observer that stops the session once a gate is certain to fail."""

    def __init__(self, session_state: SessionState, stop: Callable[[str], None]) -> None:
        """`stop` ends the session; its argument is the reason."""
        self._session_state = session_state
        self._stop = stop
        self._has_stopped = False
        self._failing_since_ns: dict[str, int] = {}  # session time by gate

    def observe(self, analysis: Analysis) -> None:
        progress = analysis.progress.view()
        if self._has_stopped or progress.phase != "measure":
            return
        for result in analysis.gate_results():
            if not result.fails_for_sure:
                self._failing_since_ns.pop(result.gate.text, None)
                continue
            since_ns = self._failing_since_ns.setdefault(result.gate.text, progress.now_ns)
            if result.gate.is_final or progress.now_ns - since_ns >= STAYS_NS:
                self._session_state.add_event(GateFailed(result.gate.text), "critical", "edgetop", gate_words(result))
                self._stop("slo")
                self._has_stopped = True
                return


def stop_when_resolved(stop: Callable[[str], None], analysis: Analysis) -> None:
    """End an A/B session when its interval is narrow enough. The result itself plays no role, or it would be biased."""
    view = analysis.ab_view()
    if view is not None and view.is_resolved:
        stop("resolved")


def print_failed_gates(report: Report, ratio_gates: "Sequence[RelativeGate]" = (), also: Sequence[str] = ()) -> bool:
    """Print the failed gates to stderr. Return whether a gate has failed or has ended the session.

    `ratio_gates`: gates on B divided by A, in an A/B session. `also`: reasons why other gates have failed.
    """
    failed = [gate_words(gate) for gate in report.gates or () if not gate.ok]
    failed += [f"gates: {fault_words(fault)}" for name, fault in (report.unavailable or {}).items() if name == "gates"]
    failed += filter(None, (_beyond(report, gate) for gate in ratio_gates))
    return print_failures([*failed, *also]) or report.session.end_reason == "slo"


def _beyond(report: Report, gate: "RelativeGate") -> str | None:
    """Return why the gate fails, or None if it passes.

    It fails if the whole interval lies beyond the limit, or if the ratio is unknown.
    """
    ratio = report.ab.ratios[gate.name] if report.ab else None
    if ratio is None:
        return f"{gate.text}: the ratio of {gate.name} is not known"
    low, high = ((end - 1) * 100 for end in ratio.ci95)
    is_beyond = low > gate.limit if gate.is_above else high < gate.limit
    return f"{gate.text}: B to A is {change_words(ratio)}" if is_beyond else None
