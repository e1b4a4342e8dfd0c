"""Ends a session early: when a gate is certain to fail (`--fail-fast`), or when an A/B difference is known well enough.

Some values only grow, such as a count of errors. Once above its limit, that value stays there, and the session ends at
once. Other values may fall again. For such a value, the session ends only if the value rests on enough inferences and
stays above its limit for 10 s.
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
    """Stops the session once one of its gates (`--fail-if`) is certain to fail."""

    def __init__(self, session_state: SessionState, stop: Callable[[str], None]) -> None:
        """Begin to watch the gates (conditions of `--fail-if`) of a session.

        `session_state` receives an event for the failed gate. `stop` ends the session, and gets the reason `"slo"`.
        """
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
    """Call `stop("resolved")` when an A/B session knows the ratio of B to A precisely enough.

    Only the width of the confidence interval counts. To stop at a wished result would bias the ratio.
    """
    view = analysis.ab_view()
    if view is not None and view.is_resolved:
        stop("resolved")


def print_failed_gates(report: Report, ratio_gates: "Sequence[RelativeGate]" = (), also: Sequence[str] = ()) -> bool:
    """Print the failed gates (`--fail-if`) of a session to stderr. Return whether one failed or ended the session.

    `ratio_gates` are the gates on the ratio of B to A in an A/B session. `also` holds lines about gates that other code
    has found to fail.
    """
    failed = [gate_words(gate) for gate in report.gates or () if not gate.ok]
    failed += [f"gates: {fault_words(fault)}" for name, fault in (report.unavailable or {}).items() if name == "gates"]
    failed += filter(None, (_beyond(report, gate) for gate in ratio_gates))
    return print_failures([*failed, *also]) or report.session.end_reason == "slo"


def _beyond(report: Report, gate: "RelativeGate") -> str | None:
    """Return a line that says why the gate, a limit on the ratio of B to A, fails, or None if it passes.

    The gate fails if the whole confidence interval of the ratio lies beyond the limit, or if the ratio is unknown.
    """
    ratio = report.ab.ratios[gate.name] if report.ab else None
    if ratio is None:
        return f"{gate.text}: the ratio of {gate.name} is not known"
    low, high = ((end - 1) * 100 for end in ratio.ci95)
    is_beyond = low > gate.limit if gate.is_above else high < gate.limit
    return f"{gate.text}: B to A is {change_words(ratio)}" if is_beyond else None
