"""Measure the highest FLOP/s and bytes/s that a board reaches with a runtime, and store them for later runs.

A damaged or unknown entry in the file of stored values is never an error. The values are measured again.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from edgetop.engines.engine_protocol import Engine, Loaded
from edgetop.engines.spec import EngineSpec
from edgetop.errors import EdgetopError, InputError
from edgetop.files import read_json, write_file
from edgetop.frozen import frozen
from edgetop.paths import recordings_home
from edgetop.roofline_models import COPY, MULTIPLY, int8_probe_path, probe_path
from edgetop.runner.profiling import PROFILE_EVERY_NS, Profiled, Profiling
from edgetop.session.ceilings import Ceilings, ceilings_from
from edgetop.session.clock import Clock, format_utc
from edgetop.session.manifest import Board
from edgetop.session.operators import ON_CPU, OperatorInfo
from edgetop.session.typed_json import Document

RUNS = 12
WARMUP_RUNS = 3
MAX_STORED = 64  # kinds of run; those measured longest ago are dropped
VERSION = 1


@frozen
class Kind:
    """The conditions under which measured FLOP/s and bytes/s hold, such as the board, power mode and runtime."""

    board: str | None
    cpu: str | None
    power_mode: str | None
    runtime: str
    version: str
    providers: tuple[str, ...]
    threads: int  # 0 means the runtime's default
    cpus: tuple[int, ...]  # CPUs to which the engine is pinned

    def to_json(self) -> Document:
        return {**asdict(self), "providers": list(self.providers), "cpus": list(self.cpus)}


def kind_of(board: Board, loaded: Loaded, spec: EngineSpec) -> Kind:
    runtime = (loaded.runtime, loaded.version, loaded.providers)
    return Kind(board.model, board.cpu, board.power_mode, *runtime, spec.threads, spec.cpus)


@frozen
class Measured:
    kind: Kind
    ceilings: Ceilings


def measure(spec: EngineSpec, engine_for: Callable[[EngineSpec], Engine], board: Board, clock: Clock) -> Measured:
    """Return the highest FLOP/s and bytes/s, measured with small test models in about three seconds.

    `spec` describes the engine, and `engine_for` creates it. Raises InputError if the first test model cannot be run on
    the CPU, or if its operators cannot be timed.
    """
    probe = _probe(spec, probe_path(spec.format))
    try:
        profiled = Profiling(engine_for(probe)).run(RUNS)
    except EdgetopError as error:
        raise InputError(f"the ceilings cannot be measured: {error}") from None
    assert profiled.loaded
    fastest = _fastest(profiled, probe)
    if not {COPY, MULTIPLY} <= fastest.keys():
        raise InputError("the ceilings cannot be measured: the runtime does not report the probe's operators")
    (copy_ns, copy), (multiply_ns, multiply) = fastest[COPY], fastest[MULTIPLY]
    if multiply.provider not in ON_CPU:
        raise InputError(
            f"the ceilings cannot be measured: they are the CPU's, and the probe ran on {multiply.provider}"
        )
    integer = _int8_flops_per_s(_probe(spec, int8_probe_path(spec.format)), engine_for)
    flops_per_s, bytes_per_s = (multiply.flops or 0) / multiply_ns * 1e9, (copy.bytes or 0) / copy_ns * 1e9
    ceilings = Ceilings(flops_per_s, bytes_per_s, format_utc(clock.utc()), integer)
    return Measured(kind_of(board, profiled.loaded, spec), ceilings)


def _probe(spec: EngineSpec, path: Path) -> EngineSpec:
    return replace(
        spec, model=str(path), batch=None, inputs={}, shapes={}, warmup_runs=WARMUP_RUNS, warmup_ns=0,
        warmup_until_steady=False, runs=None, duration_ns=None, profile_every_ns=PROFILE_EVERY_NS, whole=False,
    )  # fmt: skip


def _int8_flops_per_s(probe: EngineSpec, engine_for: Callable[[EngineSpec], Engine]) -> float | None:
    """Return the highest number of int8 operations per second, or None if the engine cannot run the test model.

    `probe` describes an engine that runs this model.
    """
    try:
        fastest = _fastest(Profiling(engine_for(probe)).run(RUNS), probe)
    except EdgetopError:  # not every provider has integer products
        return None
    if MULTIPLY not in fastest:
        return None
    multiply_ns, multiply = fastest[MULTIPLY]
    return (multiply.flops or 0) / multiply_ns * 1e9 or None


def _fastest(profiled: Profiled, probe: EngineSpec) -> dict[str, tuple[float, OperatorInfo]]:
    """Return, by operator name, the shortest time of a call in ns and the operator.

    Operators without a time are left out. `probe` names the model that was profiled.
    """
    from edgetop.models.executed import with_work  # noqa: PLC0415  not needed if the ceilings are stored
    from edgetop.models.inspection import inspected, read_model  # noqa: PLC0415

    inspection = inspected(read_model(Path(probe.model), probe.format), {})
    # The fastest counts, because other load can only make an operator slower.
    fastest: dict[str, tuple[float, OperatorInfo]] = {}
    for burst in profiled.bursts:
        infos = with_work(inspection, tuple(operator.info for operator in burst.operators))
        for operator, info in zip(burst.operators, infos, strict=True):
            ns = operator.total_ns / operator.calls
            if ns > 0 and info.origin and (info.origin not in fastest or ns < fastest[info.origin][0]):
                fastest[info.origin] = ns, info
    return fastest


def default_path() -> Path:
    return recordings_home() / "roofline.json"


def stored(kind: Kind, path: Path) -> Ceilings | None:
    """Return the FLOP/s and bytes/s that `store` wrote last for this kind of run, or None if there are none."""
    wanted = kind.to_json()
    return next((ceilings_from(entry) for entry in reversed(_entries(path)) if entry.get("kind") == wanted), None)


def store(measured: Measured, path: Path) -> None:
    """Write measured FLOP/s and bytes/s to the file at `path`, in place of older values of the same kind.

    Raises OSError if the file cannot be written.
    """
    kind = measured.kind.to_json()
    entries = [entry for entry in _entries(path) if entry.get("kind") != kind][1 - MAX_STORED :]
    content = {"version": VERSION, "ceilings": [*entries, {"kind": kind, **measured.ceilings.to_json()}]}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_file(path, json.dumps(content, indent=1))


def _entries(path: Path) -> list[Document]:
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return []
    entries = content.get("ceilings") if isinstance(content, dict) and content.get("version") == VERSION else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
