"""The result of `edgetop ops`: measured times joined with the model file and the ceilings of the board."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

from edgetop.analysis.notices import ADVICE
from edgetop.analysis.operator_hints import operator_hints
from edgetop.analysis.operator_shares import BurstInfo, OperatorView, Tally, overhead_ratio
from edgetop.analysis.operators import by_type
from edgetop.analysis.roofline import Rates, applicable, bound, rates
from edgetop.analysis.threads import ThreadTally, ThreadView
from edgetop.engines.process import measure_shapes
from edgetop.engines.protocol import BurstTaken, Loaded
from edgetop.engines.spec import EngineSpec
from edgetop.models.executed import Origin, main_dtype, origins
from edgetop.models.inspection import Inspection, inspected, read_model
from edgetop.runner.profiling import Profiled
from edgetop.session.ceilings import Ceilings
from edgetop.session.events import Notice
from edgetop.session.operators import burst_of


@dataclass(frozen=True, slots=True)
class Row:
    """An operator, in run order. Times are those of instrumented inferences."""

    view: OperatorView
    start_ns: float  # what the operators before it take
    first_ns: int | None  # in the first inference that was instrumented; None: not run in it
    mean_ns: float  # in one inference, all its calls
    cumulative: float  # share of it and of all that take more
    rates: Rates
    bound: str | None
    origin: Origin | None  # what it was in the file


@dataclass(frozen=True, slots=True)
class TypeRow:
    """All operators of one type, in one inference."""

    op_type: str
    count: int
    calls: float
    mean_ns: float
    share: float
    cumulative: float  # share of it and of all that take more
    flops: int | None  # of one call of each; None: not known of all
    bytes: int | None


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    loaded: Loaded
    way: str
    reason: str  # why not a better way
    runs: int  # instrumented inferences that count
    bursts: int  # in which these were
    left_out_runs: int  # instrumented inferences, because others took from them
    is_disturbed: bool  # others took from all of them, so that none is left out
    is_enough: bool  # for advice
    p50_ns: float | None  # of inferences that were not instrumented
    run_ns: float | None  # of those that were
    others: int  # inferences that were not instrumented
    rows: tuple[Row, ...]  # in run order
    first_burst: BurstTaken
    ceilings: Ceilings | None
    precision: str | None  # what most of the model is computed on; None: not known
    inspection: Inspection | None  # None: the file cannot be read without its runtime
    hints: tuple[Notice, ...]
    threads: ThreadView | None = None  # None: the runtime does not report it, or has one thread
    overhead_ratio: float | None = None  # `run_ns` over `p50_ns`; None: not known, see operator_shares.py
    preferred: tuple[str, ...] = ()  # whoever was asked for, and then what the engine has

    @property
    def views(self) -> tuple[OperatorView, ...]:
        return tuple(row.view for row in self.rows)

    def types(self) -> Iterator[TypeRow]:
        """Largest share first."""
        cumulative = 0.0
        for of in by_type(self.views):
            members = [row for row in self.rows if row.view.op_type == of.op_type]
            cumulative += of.share
            yield TypeRow(
                op_type=of.op_type,
                count=of.count,
                calls=sum(row.view.calls for row in members),
                mean_ns=sum(row.mean_ns for row in members),
                share=of.share,
                cumulative=cumulative,
                flops=_total(row.view.flops for row in members),
                bytes=_total(row.view.bytes for row in members),
            )


def _total(numbers: Iterable[int | None]) -> int | None:
    """None where one is not known: a sum that lacks something is no sum."""
    found = list(numbers)
    return None if None in found else sum(number or 0 for number in found)


def put_together(
    profiled: Profiled, spec: EngineSpec, ceilings: Ceilings | None, python: str | None = None
) -> OperatorProfile:
    """`python`: in which the engine ran; edgetop's own by default."""
    assert profiled.loaded
    assert profiled.chosen
    tally, threads = _tallies(profiled)
    inspection = _inspected(spec, profiled.loaded, python)
    precision = None if inspection is None else main_dtype(inspection.operators)
    views = tally.views()
    found = _origins(inspection, profiled.bursts, views)
    views = tuple(
        view if origin is None else replace(view, flops=origin.flops, bytes=origin.bytes, origin=origin.name)
        for view, origin in zip(views, found, strict=True)
    )
    providers = (*spec.requested, *profiled.loaded.providers)
    hints = operator_hints(views, profiled.p50_ns, providers, threads.view(), is_enough=tally.is_enough)
    return OperatorProfile(
        loaded=profiled.loaded,
        way=profiled.chosen.way,
        reason=profiled.chosen.reason,
        runs=profiled.runs,
        bursts=tally.bursts,
        left_out_runs=profiled.all_runs - profiled.runs,
        is_disturbed=tally.is_disturbed,
        is_enough=tally.is_enough,
        p50_ns=profiled.p50_ns,
        run_ns=profiled.run_ns,
        others=profiled.measured,
        rows=_rows(views, found, tally, profiled.bursts[0], applicable(ceilings, precision)),
        first_burst=profiled.bursts[0],
        ceilings=ceilings,
        precision=precision,
        inspection=inspection,
        hints=(*_loading_notices(profiled.loaded), *hints),
        threads=threads.view(),
        overhead_ratio=_overhead_ratio(profiled),
        preferred=providers,
    )


def _tallies(profiled: Profiled) -> tuple[Tally, ThreadTally]:
    """Sum up the bursts that count."""
    tally, threads = Tally(), ThreadTally()
    for number, burst in enumerate(profiled.bursts):
        tally.add(burst_of(0, number, burst.operators), _info(burst))
        if burst.threads:
            threads.add(burst.threads)
    return tally, threads


def _info(burst: BurstTaken) -> BurstInfo:
    return BurstInfo(len(burst.run_ns), int(median(burst.run_ns)), burst.disturbed)


def _overhead_ratio(profiled: Profiled) -> float | None:
    """Medians of either kind of inferences, where bursts agree that it is known."""
    compared = [replace(_info(burst), plain_ns=profiled.plain_ns(burst)) for burst in profiled.bursts]
    if overhead_ratio(compared) is None or not profiled.run_ns or not profiled.p50_ns:
        return None
    return profiled.run_ns / profiled.p50_ns


def _loading_notices(loaded: Loaded) -> Iterator[Notice]:
    """The warnings of a session about how the model was loaded."""
    for sentence in loaded.assumptions:
        yield Notice("assumed-shape", sentence, ADVICE["assumed-shape"])
    if loaded.dropped:
        yield Notice("provider-dropped", loaded.dropped, ADVICE["provider-dropped"])
    if loaded.left:
        yield Notice("partly-accelerated", loaded.left, ADVICE["partly-accelerated"])


def _inspected(spec: EngineSpec, loaded: Loaded, python: str | None) -> Inspection | None:
    """None where the file cannot be understood: the runtime ran it all the same, and its times are known."""
    try:
        declared = read_model(Path(spec.model), spec.format)
        shapes = {tensor.name: tensor.shape for tensor in loaded.inputs}
        return inspected(declared, shapes, partial(measure_shapes, spec, python))
    except Exception:  # noqa: BLE001  a model that nobody has foreseen
        return None


def _origins(
    inspection: Inspection | None, bursts: Sequence[BurstTaken], views: Sequence[OperatorView]
) -> list[Origin | None]:
    if inspection is None:
        return [None] * len(views)
    infos = [operator.info for operator in bursts[0].operators]
    found = dict(zip([(i.name, i.op_type, i.provider) for i in infos], origins(inspection, infos), strict=True))
    return [found.get((view.name, view.op_type, view.provider)) for view in views]


def _rows(
    views: Sequence[OperatorView],
    found: Sequence[Origin | None],
    tally: Tally,
    first: BurstTaken,
    ceilings: Ceilings | None,
) -> tuple[Row, ...]:
    first_ns: dict[int, int] = {}
    for place, ns in first.first_run:
        first_ns[place] = first_ns.get(place, 0) + ns
    firsts = {(o.name, o.op_type, o.provider): first_ns.get(place) for place, o in enumerate(first.operators)}
    below: dict[int, float] = {}
    cumulative = 0.0
    for view in sorted(views, key=lambda view: -view.share):
        cumulative += view.share
        below[view.position] = cumulative
    rows, start_ns, means_ns = [], 0.0, tally.means_ns()
    for view, origin in zip(views, found, strict=True):
        key = (view.name, view.op_type, view.provider)
        mean_ns = means_ns.get(key, 0.0)
        each_ns = mean_ns / view.calls if view.calls else None
        rows.append(
            Row(
                view,
                start_ns,
                firsts.get(key),
                mean_ns,
                below[view.position],
                rates(view.flops, view.bytes, each_ns),
                bound(view.flops, view.bytes, each_ns, ceilings),
                origin,
            )
        )
        start_ns += mean_ns
    return tuple(rows)
