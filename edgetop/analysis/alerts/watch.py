"""Alerts with what they follow from, and nothing else: for whoever watches a session without showing it."""

from edgetop.analysis.alerts.alert import AlertsView
from edgetop.analysis.alerts.alerts import Alerts
from edgetop.analysis.alerts.found import Findings
from edgetop.analysis.growth import GrowthView, MemoryGrowth
from edgetop.analysis.overload import Backlog
from edgetop.analysis.progress import Progress
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.throttles import Throttles, ThrottlesView
from edgetop.analysis.tracks import Tracks
from edgetop.analysis.verdict import is_stalled
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load, Manifest


class AlertWatch:
    """Folds batches."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._manifest: Manifest | None = None
        self._tracks, self._progress = Tracks(), Progress()
        self._alerts, self._slowdowns = Alerts((), self._tracks), Slowdowns(self._tracks)
        self._backlog, self._growth, self._throttles = Backlog(), MemoryGrowth(), Throttles()

    def fold(self, batch: Batch) -> None:
        if batch.restart:
            self._forget()
        if batch.manifest is not None:
            self._manifest = batch.manifest
        self._progress.fold(batch)
        for part in self._tracks.parts(batch):
            self._slowdowns.fold(part)
            self._alerts.fold(part)
        self._throttles.fold(batch)
        self._backlog.fold(batch.seconds, self._manifest.load if self._manifest else Load())
        self._growth.fold(batch)

    def view(self) -> AlertsView:
        growth, throttles = self._growth.view(self._progress.measured_until_ns), self._throttles.view()
        return alerts_from(
            self._alerts, self._progress, self._slowdowns, throttles, self._backlog, growth, self._manifest
        )


def alerts_from(
    alerts: Alerts,
    progress: Progress,
    slowdowns: Slowdowns,
    throttles: ThrottlesView,
    backlog: Backlog,
    growth: GrowthView,
    manifest: Manifest | None,
) -> AlertsView:
    """All alerts, from what these have folded up to now."""
    now, stalls = progress.view(), alerts.stalls
    is_open = is_stalled(now, alerts.longest_ns or None, manifest)
    going_on = (now.now_ns - (now.silent_ns or 0), None)
    return alerts.view(
        Findings(
            slowdowns=slowdowns.view().slowdowns,
            throttles=throttles,
            overload=backlog.view(),
            overloads=backlog.spans,
            stalls=(*stalls, going_on) if is_open else stalls,
            growth=growth,
            began_measuring_ns=progress.began_measuring_ns,
        )
    )
