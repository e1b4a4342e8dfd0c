"""The summary of a session for a viewer of many boards: its verdict, gates and figures. The board makes the summary."""

from collections.abc import Sequence

import numpy as np

from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.heat import view_thermal
from edgetop.analysis.report_generation import joules_per_token
from edgetop.analysis.session_report import judged_gates
from edgetop.analysis.timeline import Axis, Lens, Points
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS
from edgetop.session.session_summary import COURSE, MAX_GATES, Course, Json, Summary, changes, to_json
from edgetop.wording import verdict_words
from edgetop.wording.event_words import worded
from edgetop.wording.gate_words import gate_words
from edgetop.wording.rule_words import gate_of

WINDOW_NS = 10 * NS
STEPS_S = (3, 10, 30)  # of a chart: it covers the last minute, the last few, ten
FIRST_EVENTS, MORE_EVENTS = 20, 5
MAX_MESSAGE = 160


class Summaries:
    """Makes the messages about one session for one viewer.

    The first message has the whole summary. Each later message has only what changed since the previous message.
    """

    def __init__(self, gates: Sequence[str]) -> None:
        """Begin without data. `gates` are conditions such as `p99>33ms`, whose results the summary shows.

        Raises ValueError for an invalid gate, or for too many gates.
        """
        if len(gates) > MAX_GATES:
            raise ValueError(f"at most {MAX_GATES} gates")
        self._gates = tuple(map(gate_of, gates))
        self._analysis = Analysis()
        self._sent: dict[str, Json] = {}
        self._known: frozenset[tuple[str, int]] = frozenset()  # events that were sent, or are too old for it
        self._courses: tuple[int, int, Course, Course] = (0, 0, (), ())

    def fold(self, batch: Batch) -> None:
        self._analysis.fold(batch)

    def message(self) -> dict[str, Json]:
        """Return what changed since the last message, such as `{"changed": {"p50_ms": 4.2}, "events": [...]}`.

        `changed` has the new values of the changed fields, and `events` the new events; without new events, it is left
        out.
        """
        view = self._analysis.view(WINDOW_NS, Lens())
        now = to_json(self._summary(view))
        changed, self._sent = changes(self._sent, now), now
        landmarks = [event for event in view.events.newest_first if event.is_landmark]
        most = MORE_EVENTS if self._known else FIRST_EVENTS
        new = [event for event in landmarks if (event.kind, event.t_ns // NS) not in self._known]
        self._known = frozenset((event.kind, event.t_ns // NS) for event in landmarks)
        # A log line is shortened: viewers show it in one line.
        events = [
            [round((view.progress.now_ns - event.t_ns) / NS, 1), event.severity, event.message[:MAX_MESSAGE]]
            for event in map(worded, reversed(new[:most]))
        ]
        return {"changed": changed, **({"events": events} if events else {})}

    def _summary(self, view: MonitorView) -> Summary:
        manifest, verdict, progress = view.manifest, view.verdict, view.progress
        latency, is_over = view.latency, progress.phase == "over"
        window, felt = latency.window, latency.window_response
        if is_over:
            window, felt = latency.session, latency.session_response
        window = (felt if view.deadline else None) or window
        throttles, power, room = view.throttles, view.power.board, view.memory.room
        zone, trip_c, best_mhz = view.thermal.zone, view.thermal.trip_c, throttles.best_mhz
        temperature = None if zone is None or zone.is_lost else zone.value
        step_s, _, p99, heat = self._take_courses(view)
        failed = {result.gate.text: gate_words(result) for result in judged_gates(self._analysis, self._gates)
                  if not result.ok}  # fmt: skip
        return Summary(
            session=manifest.name if manifest else "",
            model=manifest.model_name if manifest else "",
            board=(manifest.board.model or manifest.board.cpu or "") if manifest else "",
            simulated=bool(manifest and manifest.board.simulated),
            phase=progress.phase,
            word=verdict_words.state_word(verdict), level=verdict.level, words=verdict_words.words(verdict),
            throttled=throttles.now is not None if throttles.has_flag else None,
            elapsed_s=progress.now_ns // NS,
            asked_s=progress.duration_ns / NS if progress.duration_ns else None,
            deadline_ms=view.deadline.deadline_ns / 1e6 if view.deadline else None,
            p50_ms=window.percentile_ns(0.50) / 1e6 if window else None,
            p99_ms=window.percentile_ns(0.99) / 1e6 if window else None,
            settled=bool(window and view.is_settled(window, 0.99)),
            misses=view.deadline.misses if view.deadline else None,
            miss_rate=view.deadline.miss_rate if view.deadline else None,
            sensor=zone.info.id if zone else "",
            temperature_c=temperature,
            headroom_c=trip_c - temperature if trip_c is not None and temperature is not None else None,
            clock_share=throttles.clock_mhz / best_mhz if throttles.clock_mhz and best_mhz else None,
            power_w=power.track.value if power and not power.track.is_lost else None,
            memory_left_mib=room.value if room and not room.is_lost else None,
            course_step_s=step_s or None, p99_course_ms=p99, temperature_course_c=heat,
            failed_gates=failed if self._gates else None,
            **_token_figures(view),
        )  # fmt: skip

    def _take_courses(self, view: MonitorView) -> tuple[int, int, Course, Course]:
        """Return `(step_s, end_s, p99 course, heat course)`. A course is a series of values, one for each step of time.

        `step_s` is the length of a step and `end_s` the end of the last step, in session seconds. The result changes
        only when a step ends.
        """
        now_s = view.progress.now_ns // NS
        step_s = next((step for step in STEPS_S if now_s < COURSE * step), STEPS_S[-1])
        end_s = now_s // step_s * step_s
        if (step_s, end_s) != self._courses[:2]:
            axis = Axis(max(0, end_s - COURSE * step_s), max(end_s, COURSE * step_s))
            steps = (end_s - axis.from_s) // step_s
            heat = view_thermal(self._analysis.tracks, axis).hottest_points
            p99 = _course(self._analysis.shown_latency()[0].points(axis), steps, 1e-6)
            self._courses = step_s, end_s, p99, _course(heat, steps, 1.0)
        return self._courses


def _token_figures(view: MonitorView) -> dict[str, float | None]:
    """Return the fields of a summary about the tokens of a language model. The result is empty for other models."""
    tokens = view.generation if view.manifest and view.manifest.generation else None
    if tokens is None:
        return {}
    figures: dict[str, float | None] = {
        f"{name}_{key}": of.percentile_ns(share) / 1e6
        for name, of in (("ttft", tokens.ttft), ("itl", tokens.itl))
        for key, share in (("p50_ms", 0.50), ("p99_ms", 0.99))
        if of is not None
    }
    rate = tokens.recent_decode_per_s if view.progress.phase != "over" else tokens.decode_per_s
    joules = joules_per_token(view.energy, tokens.tokens_out)
    return {**figures, "decode_tok_s": rate, "j_per_token": joules, "context_used": float(tokens.position)}


def _course(points: Points | None, steps: int, scale: float) -> Course:
    """Return the highest value of a timeline in each of `steps` equal steps of time, multiplied by `scale`.

    The value is None for a step without data. If there is no timeline (`points` is None), return ().
    """
    if points is None or not steps:
        return ()
    highest = np.fmax.reduce(points.high.reshape(COURSE, -1), axis=1)[:steps] * scale
    return tuple(None if np.isnan(value) else float(f"{value:.4g}") for value in highest)
