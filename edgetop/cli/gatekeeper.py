"""Ends a session as soon as one of its gates has failed for sure: `--fail-fast`.

Some values only grow, and a limit that they exceed stays exceeded. Others come back: they must have
enough inferences behind them, and stay over their limit for a while.
"""

from collections.abc import Callable

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.gates import GateResult
from edgetop.analysis.report import Report
from edgetop.cli.tell import tell
from edgetop.runner.session_state import SessionState
from edgetop.session.seconds import NS

STAYS_NS = 10 * NS


class Gatekeeper:
    """Looks at an analysis once a second."""

    def __init__(self, session_state: SessionState, stop: Callable[[str], None]) -> None:
        """`stop` is given the reason."""
        self._session_state = session_state
        self._stop = stop
        self._has_stopped = False
        self._failing_since_ns: dict[str, int] = {}  # by gate

    def look(self, analysis: Analysis) -> None:
        progress = analysis.progress.view()
        if self._has_stopped or progress.phase != "measure":
            return
        for result in analysis.promises().gates:
            if self._has_failed(result, progress.now_ns):
                self._session_state.tell("gate-failed", "critical", "edgetop", result.reason, expr=result.gate.text)
                self._stop("slo")
                self._has_stopped = True
                return

    def _has_failed(self, result: GateResult, now_ns: int) -> bool:
        if not result.fails_for_sure:
            self._failing_since_ns.pop(result.gate.text, None)
            return False
        since_ns = self._failing_since_ns.setdefault(result.gate.text, now_ns)
        return result.gate.is_final or now_ns - since_ns >= STAYS_NS


def tell_failed(report: Report) -> bool:
    """Say on stderr which gates failed; whether any did, or one ended the session."""
    failed = [gate for gate in report.gates or () if not gate.ok]
    for gate in failed:
        tell(f"edgetop: gate failed: {gate.reason}", err=True)
    return bool(failed) or report.session.end_reason == "slo"
