"""The report of a session: one frozen value that contains all results.

The JSON document (`--json`), the text summary and the JUnit file show it (`edgetop.wording`). The field names are the
keys of the JSON document, which is a contract with users (`edgetop help report`). To add a part, add a field to
`Report` with the function that makes it. To add a figure, add a field to a part. An unknown value is None.
"""

# ruff: noqa: RUF009  `_part` makes fields of a dataclass

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgetop.analysis.ab_figures import AbView
from edgetop.analysis.alerts.alert import AlertsView
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.energy import EnergyView, PowerView
from edgetop.analysis.event_counts import EventFigures
from edgetop.analysis.faults import Fault, UnavailableError, note, noted, noting
from edgetop.analysis.findings import Finding
from edgetop.analysis.folds import Folds, once
from edgetop.analysis.forecast.heat_forecast import ForecastView
from edgetop.analysis.input_shapes import InputSizes, ShapeView
from edgetop.analysis.notices import notices
from edgetop.analysis.program_frames import FramesView
from edgetop.analysis.provider_shares import ProviderShare, provider_shares
from edgetop.analysis.recent_events import OutputFigures
from edgetop.analysis.report_generation import GenerationFigures, generation_figures
from edgetop.analysis.report_operators import (
    OperatorFigures,
    Profile,
    counted_figures,
    operator_figures,
    partition_count,
    profile,
)
from edgetop.analysis.report_parts import (
    EnergyFigures,
    LatencyFigures,
    Memory,
    Overhead,
    Phases,
    PowerFigures,
    Span,
    Temperature,
    Warmup,
    energy_figures,
    is_throttled,
    latency_figures,
    memory,
    phases,
    power_figures,
    span,
    stream_latency,
    throttled_share,
)
from edgetop.analysis.session_gates import Gate, GateResult, judge_gate, judge_streams
from edgetop.analysis.slowdowns.slow_inferences import TailView
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import NO_THROTTLES, ThrottlesView
from edgetop.analysis.stream_verdicts import Judged, join_verdicts
from edgetop.analysis.streams import StreamView
from edgetop.analysis.usage import UsageFigures
from edgetop.analysis.verdict import judge, with_ab
from edgetop.analysis.verdict_data import Evidence, Verdict
from edgetop.analysis.verdict_reasons import FaultFound, State
from edgetop.formatting import rounded
from edgetop.frozen import OMIT
from edgetop.session.ceilings import Ceilings
from edgetop.session.manifest import Lost, Manifest

Part = Any  # a part of a report, or a view that parts need: of the type of its field in `Report`


class _Parts:
    """The parts of a report, as attributes. Each part is computed when it is first read.

    Most gates need only the latency, once a second, and the other parts are then never computed. `with_risk`: whether
    to estimate the risk of missing a deadline, which takes milliseconds. Reading a part raises UnavailableError if the
    part depends on data that an internal error makes unavailable.
    """

    def __init__(self, analysis: Folds, manifest: Manifest, *, with_risk: bool) -> None:
        self.analysis, self.manifest, self.with_risk = analysis, manifest, with_risk
        # For each unavailable part, the failed folds and figures that it depends on.
        self._unavailable: dict[str, frozenset[str]] = {}
        self._views: dict[str, tuple[Part, set[str]]] = {}

    def __getattr__(self, name: str) -> Part:
        if name not in _MAKERS:
            raise AttributeError(name)
        if name not in self._unavailable:
            own = f"report: {name}"
            value, failed = self.analysis.faults.attempt(own, lambda: _MAKERS[name](self), lambda: None)
            if not failed or (name in _WITHOUT_FAILED and own not in failed):
                setattr(self, name, value)
                return value
            self._unavailable[name] = failed
        note(self._unavailable[name])
        raise UnavailableError(self.analysis.faults.behind(self._unavailable[name]))

    @property
    def power_view(self) -> PowerView:
        view: PowerView = self._kept("power", self.analysis.power_view)
        return view

    @property
    def energy_view(self) -> EnergyView:
        view: EnergyView = self._kept("energy", lambda: self.analysis.energy_view(self.power_view))
        return view

    @property
    def only(self) -> StreamView | None:
        """The stream if the session has exactly one, or None if it has several."""
        return self.analysis.only_stream

    @property
    def of_streams(self) -> Mapping[str, "_StreamParts"]:
        """A dict with the parts of each stream, by the stream's name. The busiest stream comes first."""
        views = self.analysis.stream_views()
        made: Mapping[str, _StreamParts] = self._kept(
            "streams", lambda: {view.name: _StreamParts(view, self) for view in views}
        )
        return made

    def _kept(self, name: str, make: Callable[[], Part]) -> Part:
        """Return what `make` returns, a view that several parts share. It is made once, and stored as `name`.

        If parts of the analysis failed while the view was made, each part of the report that uses the view becomes
        unavailable.
        """
        if name not in self._views:
            with noting() as failed:
                view = make()
            self._views[name] = view, failed
        view, failed = self._views[name]
        note(failed)
        return view


class _StreamParts:
    """The parts of one stream's report, as attributes. Each part is computed when it is first read."""

    def __init__(self, view: StreamView, whole: _Parts) -> None:
        self._view, self._whole = view, whole

    @noted
    def latency(self) -> LatencyFigures:
        whole = self._whole
        return stream_latency(self._view, whole.analysis, whole.manifest, with_risk=whole.with_risk)

    @property
    def drift_ratio(self) -> float | None:
        return self._view.drift_ratio

    @property
    def input_sizes(self) -> InputSizes | None:
        return self._view.input_sizes

    def report(self) -> "StreamReport":
        view, analysis = self._view, self._whole.analysis
        slowdowns = view.slowdowns
        return StreamReport(
            name=view.name,
            latency=self.latency,
            burst=span(view.burst, analysis, view),
            sustained=span(view.sustained, analysis, view),
            drift_ratio=view.drift_ratio,
            slowdowns=slowdowns.slowdowns if slowdowns.is_settled or slowdowns.slowdowns else None,
            verdict=judge(Evidence(analysis, (), view)),
            deadline=self.latency.deadline,
            shapes=analysis.shapes.view(view.number),
            input_sizes=view.input_sizes,
        )


def _part(make: Callable[[_Parts], Part], metadata: Mapping[str, object] | None = None) -> Part:
    """Return a dataclass field for `Report`.

    `make`: the function that makes the field's value. `metadata`: further metadata of the field, such as OMIT.
    """
    return field(metadata={"make": make, **(metadata or {})})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReport:
    """The results of one stream, for example of one model in a watched program or of one side of an A/B session.

    A session with one model has one stream.
    """

    name: str  # Unique in the session.
    latency: LatencyFigures
    burst: Span | None
    sustained: Span | None
    drift_ratio: float | None  # Sustained p50 divided by burst p50; None if unknown or if inputs differ in size.
    slowdowns: tuple[Slowdown, ...] | None
    verdict: Verdict
    deadline: DeadlineView | None
    # Latency by the size of inputs; None if the program's hook reports no changes of shape.
    shapes: tuple[ShapeView, ...] | None = field(default=None, metadata=OMIT)
    # None if the program's hook reports no sizes.
    input_sizes: InputSizes | None = field(default=None, metadata=OMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All results of a session. The fields have the order of the JSON document."""

    session: Manifest = _part(lambda of: of.manifest)
    verdict: Verdict = _part(lambda of: verdict(of.analysis))
    lost: Lost | None = _part(lambda of: of.manifest.lost)
    latency: LatencyFigures = _part(lambda of: latency_figures(of.analysis, of.manifest, with_risk=of.with_risk))
    streams: tuple[StreamReport, ...] = _part(
        lambda of: tuple(parts.report() for parts in of.of_streams.values())
    )  # The busiest stream comes first.
    tail: TailView = _part(lambda of: of.analysis.tail())
    phases: Phases = _part(lambda of: phases(of.analysis, of.manifest))
    burst: Span | None = _part(lambda of: span(of.analysis.spans()[0], of.analysis, of.only))
    sustained: Span | None = _part(lambda of: span(of.analysis.spans()[1], of.analysis, of.only))
    drift_ratio: float | None = _part(lambda of: of.only and of.only.drift_ratio)  # As of a stream.
    input_sizes: InputSizes | None = _part(lambda of: of.only and of.only.input_sizes, OMIT)  # As of a stream.
    throttled: bool | None = _part(lambda of: is_throttled(of.analysis))
    throttled_share: float | None = _part(lambda of: rounded(throttled_share(of.analysis)))
    throttles: ThrottlesView = _part(lambda of: of.analysis.throttles.view())
    slowdowns: tuple[Slowdown, ...] | None = _part(lambda of: _slowdowns(of.analysis))
    alerts: AlertsView = _part(lambda of: of.analysis.alerts_view())
    temperature: Mapping[str, Temperature] = _part(lambda of: _temperature(of.analysis))  # By sensor.
    forecast: ForecastView = _part(lambda of: of.analysis.forecast_view())
    power: PowerFigures = _part(lambda of: power_figures(of.power_view))
    energy: EnergyFigures = _part(lambda of: energy_figures(of.energy_view, _program_ns(of.analysis)))
    memory: Memory = _part(lambda of: memory(of.analysis))
    usage: UsageFigures | None = _part(lambda of: of.analysis.usage_figures())  # None if nothing was measured.
    # Of an inference; None if the session has no counters.
    counters: EventFigures | None = _part(lambda of: counted_figures(of.analysis, of.manifest))
    # In run order; None if operators were not profiled.
    operators: tuple[OperatorFigures, ...] | None = _part(
        lambda of: operator_figures(of.analysis, of.manifest, of.energy_view)
    )
    partitions: int | None = _part(lambda of: partition_count(of.analysis, of.manifest))
    # What was requested of each provider, and what it ran; None if no provider is known.
    providers: tuple[ProviderShare, ...] | None = _part(
        lambda of: provider_shares(
            of.manifest.engine, of.analysis.operators.session.views(), of.analysis.operators.fallback
        )
    )
    profile: Profile | None = _part(lambda of: profile(of.analysis))
    roofline: Ceilings | None = _part(lambda of: of.analysis.operators.ceilings)
    overhead: Overhead = _part(lambda of: _overhead(of.analysis))
    gates: tuple[GateResult, ...] | None = _part(
        lambda of: tuple(_judged_gate(gate, of) for gate in of.analysis.gates) or None
    )
    # None unless this is a session of a language model.
    generation: GenerationFigures | None = _part(
        lambda of: generation_figures(of.analysis, of.manifest, of.energy_view), OMIT
    )
    # The numbers in the stored outputs; None if none were stored.
    outputs: OutputFigures | None = _part(lambda of: of.analysis.events.outputs(), OMIT)
    frames: FramesView | None = _part(lambda of: of.analysis.frames.view(), OMIT)  # None if no stages were reported.
    ab: AbView | None = _part(lambda of: of.analysis.ab_view(), OMIT)  # None unless this is an A/B session.
    warnings: tuple[Finding, ...] = _part(lambda of: notices(of.analysis))
    # Parts that an internal error of edgetop makes unavailable, each with the error. Their values are null.
    unavailable: Mapping[str, Fault] | None = field(default=None, metadata=OMIT)


_MAKERS: Mapping[str, Callable[[_Parts], Part]] = {
    one.name: one.metadata["make"] for one in dataclasses.fields(Report) if "make" in one.metadata
}
_WITHOUT_FAILED = ("verdict", "alerts", "gates", "warnings")  # These parts say themselves what failed.
_NOTHING_KNOWN: Mapping[str, object] = {
    "streams": (),
    "latency": LatencyFigures(count=None, errors=None),
    "tail": TailView(),
    "phases": Phases(None, None, None, Warmup(None, None)),
    "throttles": NO_THROTTLES,
    "alerts": AlertsView((), 0),
    "temperature": {},
    "forecast": ForecastView(),
    "power": PowerFigures(rails={}),
    "energy": EnergyFigures(reason=None, rails={}),
    "memory": Memory(*[None] * len(dataclasses.fields(Memory))),
    "overhead": Overhead(None, None),
    "warnings": (),
}


def report(analysis: Folds) -> Report:
    """Return the report of a session. Raises ValueError if `analysis` has not received the session's manifest yet."""
    if analysis.manifest is None:
        raise ValueError("no manifest")
    parts, values, unavailable = _Parts(analysis, analysis.manifest, with_risk=True), {}, {}
    for name in _MAKERS:
        try:
            values[name] = getattr(parts, name)
        except UnavailableError as error:  # noqa: PERF203  Each part may fail by itself.
            values[name], unavailable[name] = _NOTHING_KNOWN.get(name), error.fault
    return Report(**values, unavailable=unavailable or None)


def judged_gates(analysis: Folds, gates: Sequence[Gate]) -> tuple[GateResult, ...]:
    """Return the result of each of `gates`, as if the session ended now. Before the first batch, return ()."""
    if not gates or analysis.manifest is None:
        return ()
    with_risk = any(gate.name == "miss-risk" for gate in gates)
    parts = _Parts(analysis, analysis.manifest, with_risk=with_risk)
    return tuple(_judged_gate(gate, parts) for gate in gates)


def _judged_gate(gate: Gate, parts: _Parts) -> GateResult:
    """Return the result of one gate. A gate whose value is unavailable fails, because it could not be checked."""
    faults, name = parts.analysis.faults, f"gate {gate.text}"
    result, failed = faults.attempt(name, lambda: _judged_by(gate, parts), lambda: None)
    return result or GateResult(gate, None, ok=False, unknown=faults.first(failed))


def _judged_by(gate: Gate, parts: _Parts) -> GateResult:
    if gate.metric.is_per_stream and (gate.stream or parts.analysis.only_stream is None):
        return judge_streams(gate, parts.of_streams)
    return judge_gate(gate, parts)


@once
def gate_results(folds: Folds) -> tuple[GateResult, ...]:
    """Return the result of each gate that the session was started with, as for a session that ends now."""
    return judged_gates(folds, folds.gates)


@once
def verdict(folds: Folds) -> Verdict:
    """Return the verdict on the session up to now, which the screen, reports, lists and hooks show."""
    judged, _ = folds.faults.attempt("verdict", lambda: _verdict(folds), lambda: _no_verdict(folds))
    return judged


def _verdict(folds: Folds) -> Verdict:
    gates, views = gate_results(folds), folds.stream_views()
    first = Evidence(folds, gates, views[0])
    verdicts = [judge(seen) for seen in (first, *(first.of_stream(view) for view in views[1:]))]
    if len(views) > 1:
        whole_ns = sum(view.busy_ns for view in views)
        pairs = zip(views, verdicts, strict=True)
        verdicts = [join_verdicts([Judged(view.name, view.busy_ns / whole_ns, verdict) for view, verdict in pairs])]
    return with_ab(verdicts[0], folds.ab_view(), folds.progress.view())


def _no_verdict(folds: Folds) -> Verdict:
    fault = folds.faults.first(folds.faults.found)
    reasons = () if fault is None else (FaultFound(fault),)
    return Verdict(State.INTERNAL_ERROR, "warning", reasons, at_end=State.INTERNAL_ERROR)


def _slowdowns(analysis: Folds) -> tuple[Slowdown, ...] | None:
    """Return the slowdowns, or None if no slowdown can be known yet because no time was steady."""
    view = analysis.slowdowns_view()
    return tuple(view.slowdowns) if view.is_settled or view.slowdowns else None


def _temperature(analysis: Folds) -> dict[str, Temperature]:
    tracks = (track for track in analysis.tracks.views("temp") if track.count)
    return {
        track.info.id: Temperature(*map(rounded, (track.min, track.mean, track.max, track.value))) for track in tracks
    }


def _program_ns(analysis: Folds) -> int | None:
    """Return how long a program without inferences has run, in ns, or None for any other session."""
    progress = analysis.progress.view()
    return progress.measured_ns if progress.is_program else None


def _overhead(analysis: Folds) -> Overhead:
    own = analysis.tracks.one("mem/edgetop")
    return Overhead(rounded(analysis.own_load.mean), rounded(own.max) if own else None)
