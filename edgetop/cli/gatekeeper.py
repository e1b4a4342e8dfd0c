"""Ends a session as soon as one of its gates has failed for sure: `--fail-fast`.

It stands between the conductor and the screen's feed, so that a session whose screen is closed is
judged as well. Some values only grow, and a limit that they exceed stays exceeded. Others come
back: they must have enough inferences behind them, and stay over their limit for a while.
"""

from typing import Protocol

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.gates import GateResult
from edgetop.analysis.report import Report, gate_results
from edgetop.cli.tell import tell
from edgetop.runner.conductor import BatchSink
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch

NS = 1_000_000_000
LOOK_EVERY_NS = NS
STAYS_NS = 10 * NS


class Stoppable(Protocol):
    def stop(self, reason: str = "user") -> None: ...


class Gatekeeper:
    """A sink of batches that looks at what it hands on."""

    def __init__(self, sink: BatchSink, session_state: SessionState) -> None:
        self._sink = sink
        self._session_state = session_state
        self._session: Stoppable | None = None
        self._analysis = Analysis()
        self._looked_ns = 0
        self._failing_since_ns: dict[str, int] = {}  # by gate

    def connect(self, session: Stoppable) -> None:
        self._session = session

    def put(self, batch: Batch) -> None:
        self._sink.put(batch)
        self._analysis.fold(batch)
        is_due = batch.until_ns - self._looked_ns >= LOOK_EVERY_NS
        if self._session is None or not is_due or self._analysis.progress.view().phase != "measure":
            return
        self._looked_ns = batch.until_ns
        for result in gate_results(self._analysis):
            if self._has_failed(result, batch.until_ns):
                self._session_state.tell("gate-failed", "critical", "edgetop", result.reason, expr=result.gate.text)
                self._session.stop("slo")
                self._session = None
                return

    def _has_failed(self, result: GateResult, now_ns: int) -> bool:
        if not result.fails_for_sure:
            self._failing_since_ns.pop(result.gate.text, None)
            return False
        since_ns = self._failing_since_ns.setdefault(result.gate.text, now_ns)
        return result.gate.is_final or now_ns - since_ns >= STAYS_NS

    def close(self) -> None:
        self._sink.close()


def tell_failed(report: Report) -> bool:
    """Say on stderr which gates failed; whether any did, or one ended the session."""
    failed = [gate for gate in report.gates or () if not gate.ok]
    for gate in failed:
        tell(f"edgetop: gate failed: {gate.reason}", err=True)
    return bool(failed) or report.session.end_reason == "slo"
