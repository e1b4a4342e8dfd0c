"""The frames of a watched program, such as camera images, in words."""

from collections.abc import Mapping

from edgetop.analysis.program_frames import BETWEEN, QUEUE, TOTAL, FramesView, StageView
from edgetop.formatting import count, fine_percent, milliseconds
from edgetop.session.typed_json import Document

_NAMES: Mapping[str, str] = {TOTAL: "frame", BETWEEN: "between stages", QUEUE: "waiting for a thread"}


def stage_name(stage: StageView) -> str:
    """Return the name of a stage (one part of a frame's time). The time between stages has a name, too.

    >>> [stage_name(StageView(id, 1, 1.0, 1.0, 1.0, 1.0)) for id in ("stage/capture", BETWEEN)]
    ['capture', 'between stages']
    """
    return _NAMES.get(stage.id) or stage.name


def frame_words(view: FramesView) -> str:
    """Return a line about frames: their p50 and p99 in ms, their number, and how many were late or dropped."""
    total, missed = view.total, ""
    if view.misses is not None:
        share = fine_percent(view.misses / max(total.count, 1))
        missed = f"; {share} over the deadline of {view.deadline_ms:g} ms ({view.misses})"
    p50, p99 = (milliseconds(ms * 1e6) for ms in (total.p50_ms, total.p99_ms))
    return f"p50 {p50}  p99 {p99} ms  n {count(total.count)}{missed}; {view.dropped} dropped"


def stage_document(stage: StageView) -> Document:
    """Return the times of a stage (one part of a frame's time) as JSON.

    The keys must stay the same, because programs of users read them.
    """
    return {
        "name": stage_name(stage),
        "count": stage.count,
        "mean_ms": stage.mean_ms,
        "p50_ms": stage.p50_ms,
        "p99_ms": stage.p99_ms,
        "share": stage.share,
    }
