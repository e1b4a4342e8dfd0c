"""Reads the inferences of a recorded application and when each began, for `--pace-of` and `edgetop gap`."""

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from edgetop.errors import InputError

if TYPE_CHECKING:
    from edgetop.comparison.gap_evidence import Evidence

LEAST_ARRIVALS, MOST_ARRIVALS = 3, 100_000
MOST_INFERENCES = 2_000_000  # only the newest are read; more would not change the means


def read_evidence(session: str, problems: list[str], *, completes: bool = True) -> "Evidence":
    """Return the inferences, sensor readings and frames of a recorded session.

    `session` is its name or path. A line about each unreadable part is appended to `problems`. `completes` allows to
    complete the recording on disk if its writer was killed. Raises InputError if the session cannot be opened.
    """
    import numpy as np  # noqa: PLC0415

    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415
    from edgetop.comparison.gap_evidence import Evidence, is_timed  # noqa: PLC0415
    from edgetop.paths import recordings_home  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415
    from edgetop.recording.registry import locate  # noqa: PLC0415
    from edgetop.session.records import NO_INFERENCES, join  # noqa: PLC0415

    with Recording(locate(session, recordings_home()), completes=completes) as recording:
        analysis = Analysis()
        inferences, readings, times = NO_INFERENCES, defaultdict(list), defaultdict(list)
        ids = [info.id for info in recording.manifest.sensors]
        for batch in recording.play(inferences=True):
            analysis.fold(batch)
            kept = batch.inferences[batch.inferences["ok"]]
            inferences = join([inferences, kept])[-MOST_INFERENCES:]
            for place in np.unique(batch.readings["sensor"]).tolist():
                own = batch.readings[batch.readings["sensor"] == place]
                readings[ids[place]].append(own["value"])
                if is_timed(ids[place]):
                    times[ids[place]].append(own["t_ns"])
    problems += recording.problems
    return Evidence(
        manifest=analysis.manifest or recording.manifest,
        inferences=inferences,
        readings={name: np.concatenate(each) for name, each in readings.items()},
        frames=analysis.frames.view(),
        throttled_share=analysis.throttles.view().share or 0.0,
        times={name: np.concatenate(each) for name, each in times.items()},
    )


def arrivals_of(session: str, model: str) -> tuple[int, ...]:
    """Return the start times of the inferences of `model` in a recorded session, followed by their period.

    All values are in ns. Start times count from the first start. After each period, a caller can repeat the start
    times. At most the first 100,000 measured inferences are used. `session` is the name or path of the session, whose
    files are not changed. `model` is the path of the model to look for. Raises InputError if the session has fewer than
    three inferences of that model.
    """
    from edgetop.comparison.application_gap import stream_of  # noqa: PLC0415
    from edgetop.session.manifest import Model  # noqa: PLC0415
    from edgetop.session.records import MEASURE  # noqa: PLC0415

    app = read_evidence(session, [], completes=False)
    try:
        number = stream_of(app.manifest, replace(app.manifest, model=Model(model)), None)
    except ValueError as error:
        raise InputError(f"--pace-of {session}: {error}") from None
    counts = app.inferences["phase"] == MEASURE
    if number is not None:
        counts &= app.inferences["stream"] == number
    starts_ns = app.inferences["t_ns"][counts][:MOST_ARRIVALS]
    if len(starts_ns) < LEAST_ARRIVALS or starts_ns[-1] == starts_ns[0]:
        raise InputError(f"--pace-of {session}: it has fewer than {LEAST_ARRIVALS} single inferences of that model")
    starts_ns = starts_ns - starts_ns[0]
    return (*starts_ns.tolist(), int(starts_ns[-1] * len(starts_ns) / (len(starts_ns) - 1)))
