"""What is told beside the figures: notices that judge the whole session, and hints on where its time goes."""

from typing import TYPE_CHECKING

from edgetop.analysis.growth import leak_notices
from edgetop.analysis.notices import notices
from edgetop.analysis.operator_hints import BurstHints, session_hints
from edgetop.analysis.trust import Known, Trust
from edgetop.session.batch import Batch
from edgetop.session.events import Notice

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis


class Advice:
    """Folds what only it needs."""

    def __init__(self) -> None:
        self._trust = Trust()
        self._hints = BurstHints()

    def fold(self, batch: Batch) -> None:
        self._trust.fold(batch)

    def on_screen(self, analysis: "Analysis") -> tuple[Notice, ...]:
        """With hints on the last bursts."""
        return (*self._of_session(analysis), *self._hints.now(analysis.operators, _providers(analysis)))

    def in_report(self, analysis: "Analysis") -> tuple[Notice, ...]:
        """With hints on all bursts."""
        return (*self._of_session(analysis), *session_hints(analysis.operators, _providers(analysis)))

    def _of_session(self, analysis: "Analysis") -> tuple[Notice, ...]:
        """The same on every screen and in reports."""
        return (
            *notices(
                analysis.manifest,
                analysis.progress.view(),
                analysis.statistics(),
                analysis.events.view(),
                analysis.overload(),
                analysis.precision_view(),
            ),
            *leak_notices(analysis.growth_view()),
            *self._doubts(analysis),
        )

    def _doubts(self, analysis: "Analysis") -> tuple[Notice, ...]:
        if analysis.manifest is None:
            return ()
        progress, tracks = analysis.progress.view(), analysis.tracks
        burst, sustained = analysis.spans() if progress.phase == "over" else (None, None)
        has_power = any(track.count for track in tracks.views("power"))
        precision = analysis.precision_view()
        return self._trust.notices(
            Known(analysis.manifest, progress, precision, tracks, analysis.own_load, has_power, burst, sustained)
        )


def _providers(analysis: "Analysis") -> tuple[str, ...]:
    return analysis.manifest.engine.preferred if analysis.manifest else ()
