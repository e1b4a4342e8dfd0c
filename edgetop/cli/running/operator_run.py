"""Times the operators of a model for `edgetop ops`, and relates the times to its file and the board's peak speeds."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from statistics import median

import click

from edgetop.analysis.hotspots import ThreadTally, ThreadView, TypeView, by_type, partitions
from edgetop.analysis.operator_bounds import Rates, applicable, of_provider, rates
from edgetop.analysis.operator_counts import Bound, OperatorCounts, OperatorEvents, bound_of, with_bytes
from edgetop.analysis.operator_hints import operator_hints
from edgetop.analysis.operator_shares import BurstInfo, OperatorView, Tally, key_of, overhead_ratio
from edgetop.cli.output import print_text
from edgetop.cli.running import session_parts
from edgetop.cli.running.run_request import GenerationRequest, ModelChoice, Phases
from edgetop.engines.engine_protocol import BurstTaken, Engine, Loaded, ProfilerChosen
from edgetop.engines.process_engine import ProcessEngine, measure_shapes
from edgetop.engines.spec import GENERATION_WARMUP_RUNS, EngineSpec
from edgetop.errors import EdgetopError
from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.models.executed import Origin, main_dtype, origins
from edgetop.models.inspection import Inspection, inspected, read_model
from edgetop.runner import measured_ceilings
from edgetop.runner.delegation import FullyDelegated
from edgetop.runner.loaded_engine import loading_warnings
from edgetop.runner.profiling import PROFILE_EVERY_NS, Profiled, Profiling
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.core_pmus import core_pmus, line_bytes
from edgetop.sensors.root import Root
from edgetop.session.caches import Cache, smallest_holding
from edgetop.session.ceilings import Ceilings
from edgetop.session.clock import SystemClock
from edgetop.session.events import Notice
from edgetop.session.manifest import Board
from edgetop.session.operators import CPU, ON_CPU, burst_of
from edgetop.wording.notice_words import ADVICE, notice

PROMPT_TOKENS, MAX_TOKENS = 16, 8  # of the requests to a language model between its profiled tokens


@frozen
class Row:
    """One operator, with its times in inferences that were run with a profiler."""

    view: OperatorView
    start_ns: float  # total time of the operators that run before it
    first_ns: int | None  # time in the first instrumented inference; None if it did not run in that one
    mean_ns: float  # time of all its calls in one inference
    cumulative: float  # share of this operator and of all that take longer
    rates: Rates
    bound: Bound
    events: OperatorEvents | None  # what the CPU and the kernel counted in an inference; None if nothing was counted
    fits_in: str | None  # the smallest cache that holds what it reads and writes, or "memory"; None if unknown
    origin: Origin | None  # the operator in the model's file


@frozen
class OperatorProfile:
    profiled: Profiled
    loaded: Loaded
    chosen: ProfilerChosen
    tally: Tally  # times of the profiles that count
    rows: tuple[Row, ...]  # in run order
    ceilings: Ceilings | None
    precision: str | None  # data type on which most of the model is computed; None if unknown
    inspection: Inspection | None  # None if the file cannot be read without its runtime
    hints: tuple[Notice, ...]
    threads: ThreadView | None  # None if the runtime has one thread or does not report them
    caches: tuple[Cache, ...]  # of the CPU; empty if unknown
    counts: OperatorCounts  # what was counted in the operators
    preferred: tuple[str, ...]  # the requested providers, then the other providers of the engine

    @property
    def views(self) -> tuple[OperatorView, ...]:
        return tuple(row.view for row in self.rows)

    @property
    def main_provider(self) -> str:
        """Return the provider whose operators take the most time, such as "CPU"."""
        by_provider: dict[str, float] = {}
        for view in self.views:
            by_provider[view.provider] = by_provider.get(view.provider, 0.0) + view.share
        return max(by_provider, key=lambda provider: by_provider[provider], default=CPU)

    @property
    def crossing_ns(self) -> float | None:
        """Return how many ns it takes to hand over from one provider to the next, such as from GPU to CPU.

        None if unknown, or if one provider runs all operators.
        """
        parts, all_ns = partitions(self.views), self.profiled.crossing_ns
        return None if all_ns is None or not parts or parts < 2 else all_ns / (parts - 1)

    @property
    def overhead_ratio(self) -> float | None:
        """Return the median time of profiled inferences divided by the median time of plain ones. None if unknown."""
        of = self.profiled
        compared = [replace(_info(burst), plain_ns=of.plain_ns(burst)) for burst in of.bursts]
        if overhead_ratio(compared) is None or not of.run_ns or not of.p50_ns:
            return None
        return of.run_ns / of.p50_ns

    def types(self) -> Iterator[tuple[TypeView, float, list[Row]]]:
        """Yield `(type, cumulative share, operators of this type)` for each operator type, the largest share first.

        Shares are parts of the time of all operators, 0..1.
        """
        cumulative = 0.0
        for of in by_type(self.views):
            cumulative += of.share
            yield of, cumulative, [row for row in self.rows if row.view.op_type == of.op_type]


def profile(
    choice: ModelChoice, runs: int, warmup_runs: int | None, *, has_roofline: bool = True
) -> tuple[str, OperatorProfile]:
    """Run a model and time its operators. Return `(path of the model, profile)`.

    `runs` is the number of inferences to run with a profiler. `warmup_runs` is the number of inferences before them;
    None to warm up until latency is steady. `has_roofline` is whether to measure the board's peak speeds. If it is
    false, stored speeds are used. Raises EdgetopError if the model cannot be profiled.
    """
    model = session_parts.find_model(choice)
    if model.format == "gguf":  # Tokens are timed between short requests. No ceiling is known for llama.cpp.
        choice = replace(choice, generation=GenerationRequest(prompt_tokens=PROMPT_TOKENS, max_tokens=MAX_TOKENS))
        warmup_runs, has_roofline = min(warmup_runs or 0, GENERATION_WARMUP_RUNS), False
    phases = Phases(warmup_runs=warmup_runs, profile_every_ns=PROFILE_EVERY_NS)
    spec = session_parts.engine_spec(choice, model, phases)
    python = session_parts.interpreter(choice.python)
    root = Root()
    board = read_board(root)
    engine: Engine = ProcessEngine(spec, python)
    profiled = _profiled(FullyDelegated(engine, spec) if choice.needs_full_delegation else engine, runs)
    ceilings = None if spec.generation else _ceilings(spec, python, board, profiled, measures=has_roofline)
    return str(model.path), put_together(
        profiled, spec, ceilings, python, board.caches, line_bytes(root, core_pmus(root))
    )


def _profiled(engine: Engine, runs: int) -> Profiled:
    shows = sys.stderr.isatty()

    def show(profiled: Profiled) -> None:
        if shows:
            text = f"\r{profiled.runs} of {quantity(runs, 'instrumented inference')}, {profiled.measured} others\x1b[K"
            click.echo(text, nl=False, err=True)

    try:
        return Profiling(engine, show).run(runs)
    finally:
        if shows:
            click.echo("\r\x1b[K", nl=False, err=True)


def _ceilings(
    spec: EngineSpec, python: str | None, board: Board, profiled: Profiled, *, measures: bool
) -> Ceilings | None:
    """Return the peak FLOP/s and bytes/s of the board, or None if they are unknown.

    `measures` is whether to measure these speeds now, with the engine that `spec` describes. If not, or if the
    measurement fails, the stored values are returned. `profiled` tells with which runtime the values were stored.
    `python` is the engine's interpreter; None for edgetop's own.
    """
    assert profiled.loaded
    path = measured_ceilings.default_path()
    kept = measured_ceilings.stored(measured_ceilings.kind_of(board, profiled.loaded, spec), path)
    if not measures:
        return kept
    try:
        measured = measured_ceilings.measure(spec, lambda probe: ProcessEngine(probe, python), board, SystemClock())
    except EdgetopError as error:
        print_text(f"edgetop: {error}", err=True)
        return kept
    with contextlib.suppress(OSError):  # if it cannot be stored, the next profile measures it again
        measured_ceilings.store(measured, path)
    return measured.ceilings


def put_together(
    profiled: Profiled,
    spec: EngineSpec,
    ceilings: Ceilings | None,
    python: str | None = None,
    caches: tuple[Cache, ...] = (),
    line_bytes: int | None = None,
) -> OperatorProfile:
    """Return the full profile: the measured times, joined with the model's file and with the limits of the board.

    `ceilings` holds the board's peak speeds; None if unknown. `python` is the engine's interpreter; None for edgetop's
    own. `caches` are the caches of the CPU, for telling which cache an operator's data fits into. `line_bytes` is the
    number of bytes that a cache miss fetches from memory; None if unknown.
    """
    loaded, chosen = profiled.loaded, profiled.chosen
    assert loaded
    assert chosen
    tally, threads, counts = Tally(), ThreadTally(), OperatorCounts()
    for number, burst in enumerate(profiled.bursts):
        rows = burst_of(0, number, burst.operators)
        tally.add(rows, _info(burst))
        counts.add(rows.infos, burst.counts)
        if burst.threads:
            threads.add(burst.threads)
    inspection = None
    with contextlib.suppress(Exception):  # times are still useful if the file of the model cannot be analysed
        declared = read_model(Path(spec.model), spec.format)
        shapes = {tensor.name: tensor.shape for tensor in loaded.inputs}
        inspection = inspected(declared, shapes, partial(measure_shapes, spec, python))
    precision = None if inspection is None else main_dtype(inspection.operators)
    about = _Board(ceilings, precision, caches, counts, line_bytes)
    found = tuple(_rows(profiled.bursts[0], tally, inspection, about))
    views, providers = tuple(row.view for row in found), (*spec.requested, *loaded.providers)
    hints = operator_hints(views, profiled.p50_ns, providers, threads.view(), is_enough=tally.is_enough)
    notices = (*(Notice(kind, text, ADVICE[kind]) for kind, _, text in loading_warnings(loaded)), *map(notice, hints))
    return OperatorProfile(
        profiled, loaded, chosen, tally, found, ceilings, precision, inspection, notices, threads.view(), caches,
        counts, providers,
    )  # fmt: skip


def _info(burst: BurstTaken) -> BurstInfo:
    return BurstInfo(len(burst.run_ns), int(median(burst.run_ns)), burst.disturbed)


@frozen
class _Board:
    """What limits the speed of operators: the board's peak speeds, the data type of the model, the CPU's caches.

    `counts` has the hardware events counted in the operators. `line_bytes` is the number of bytes that a cache miss
    fetches from memory; None if unknown.
    """

    ceilings: Ceilings | None
    precision: str | None
    caches: tuple[Cache, ...]
    counts: OperatorCounts
    line_bytes: int | None


def _rows(first: BurstTaken, tally: Tally, inspection: Inspection | None, board: _Board) -> Iterator[Row]:
    limits = applicable(board.ceilings, board.precision)
    infos = [operator.info for operator in first.operators]
    in_file = zip(map(key_of, infos), origins(inspection, infos), strict=True) if inspection else ()
    origin_of, means_ns = dict(in_file), tally.means_ns()
    by_place: dict[int, int] = {}
    for place, ns in first.first_run:
        by_place[place] = by_place.get(place, 0) + ns
    first_ns = {key_of(info): by_place.get(place) for place, info in enumerate(infos)}
    largest = sorted(tally.views(), key=lambda view: -view.share)
    cumulative = dict(zip(map(key_of, largest), accumulate(view.share for view in largest), strict=True))
    start_ns = 0.0
    for measured in tally.views():
        key, view = key_of(measured), measured
        if origin := origin_of.get(key):
            view = replace(view, flops=origin.flops, bytes=origin.bytes, origin=origin.name)
        mean_ns = means_ns.get(key, 0.0)
        each_ns = mean_ns / view.calls if view.calls else None
        achieved = rates(view.flops, view.bytes, each_ns, of_provider(board.ceilings, view.provider))
        on_cpu = view.provider in ON_CPU
        events = with_bytes(board.counts.of(key), board.line_bytes) if on_cpu else None
        limit = bound_of(view.flops, view.bytes, events, view.calls, each_ns, of_provider(limits, view.provider))
        fits_in = smallest_holding(view.bytes, board.caches) if on_cpu else None
        yield Row(view, start_ns, first_ns.get(key), mean_ns, cumulative[key], achieved, limit, events, fits_in, origin)
        start_ns += mean_ns
