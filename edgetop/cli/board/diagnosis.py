"""The work of `edgetop doctor`: run the checks, measure the peak speeds of runtimes, format the results."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from edgetop import demo
from edgetop.cli.board.check_lines import check_lines
from edgetop.cli.board.sensor_table import board_line
from edgetop.cli.running import session_parts
from edgetop.cli.running.run_request import WithOptions
from edgetop.cli.running.session_board import board_root
from edgetop.doctor import counter_checks, link_checks, logout, machine_checks, setting_checks, state_checks
from edgetop.doctor.check import Check, Facts, Status, worst
from edgetop.engines.child.adapters import RUNTIMES
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import ALIASES, EngineSpec, engine_for
from edgetop.errors import EdgetopError, InputError
from edgetop.formatting import clean, threads
from edgetop.frozen import frozen
from edgetop.paths import recordings_home
from edgetop.runner.measured_ceilings import Measured, default_path, measure, store
from edgetop.sensors.process_table import why_unseen
from edgetop.sensors.survey import RATE_INTERVAL_S, survey_board
from edgetop.session.clock import SystemClock
from edgetop.session.manifest import Board
from edgetop.session.typed_json import Document
from edgetop.wording.operator_words import ceiling_words

LITERT_ONLY = ("GPU", "NPU")  # accelerators of LiteRT; ONNX Runtime has no providers with these names

Examine = Callable[[Facts], list[Check]]

OF_THE_BOARD: tuple[Examine, ...] = (
    setting_checks.check_place, setting_checks.check_governor, setting_checks.check_power_mode,
    setting_checks.check_clocks, link_checks.check_links,
    state_checks.check_heat, state_checks.check_memory,
)  # fmt: skip

# Checks of the machine on which edgetop runs. They would be wrong for a captured board.
OF_THIS_MACHINE: dict[str, Examine] = {
    state_checks.BACKGROUND: state_checks.check_background,
    machine_checks.PERMISSIONS: machine_checks.check_permissions,
    machine_checks.UPROBES: machine_checks.check_uprobes,
    counter_checks.CALLED: counter_checks.check_counters,
    machine_checks.RUNTIMES: machine_checks.check_runtimes,
    machine_checks.DISK: machine_checks.check_disk,
    machine_checks.CLOCK_SYNC: machine_checks.check_clock,
    logout.NAME: partial(logout.check, uid=os.getuid()),
}


@frozen
class DoctorOptions:
    """The parsed options of `edgetop doctor`."""

    as_json: bool = False
    governor: str | None = None
    power_mode: str | None = None
    engine_python: Path | None = None
    sysroot: Path | None = None
    roofline: bool = False
    engine: str | None = None
    providers: tuple[WithOptions, ...] = ()
    delegates: tuple[WithOptions, ...] = ()
    threads: int = 0


@frozen
class Diagnosis:
    board: Board
    checks: tuple[Check, ...]
    left_out: tuple[str, ...] = ()  # checks that are impossible for a captured board
    measured: tuple[Measured, ...] = ()  # ceilings, if requested

    @property
    def status(self) -> Status:
        return worst(self.checks)


def diagnose(options: DoctorOptions) -> Diagnosis:
    python = session_parts.interpreter(options.engine_python)
    root = board_root(options.sysroot)
    survey = survey_board(root)
    busy: dict[str, float] = {}
    is_told = root.is_host  # other processes are known only on this machine
    try:
        with state_checks.watch_processes(busy, RATE_INTERVAL_S) if is_told else contextlib.nullcontext():
            survey.read_whole()
    except OSError:
        is_told = False
    facts = Facts(
        root=root,
        board=survey.board,
        rows=survey.rows,
        missing=survey.missing,
        power_mode=options.power_mode,
        governor=options.governor,
        busy=busy if is_told else None,
        unseen=why_unseen(),
        recordings=recordings_home(),
        python=python or sys.executable,
    )
    checks = tuple(examine(facts))
    measured = measure_ceilings(options, survey.board, python) if options.roofline else ()
    return Diagnosis(survey.board, checks, () if root.is_host else tuple(OF_THIS_MACHINE), tuple(measured))


def examine(facts: Facts) -> list[Check]:
    """Return the results of all checks of `facts`, which describe the board. The checks change nothing."""
    checks = [*OF_THE_BOARD, *(OF_THIS_MACHINE.values() if facts.root.is_host else ())]
    return [found for check in checks for found in check(facts)]


def document(diagnosis: Diagnosis) -> Document:
    """Return the JSON document that `doctor --json` prints (edgetop help doctor)."""
    ceilings = [{**of.kind.to_json(), **of.ceilings.to_json()} for of in diagnosis.measured]
    return {
        "board": asdict(diagnosis.board),
        "checks": [asdict(check) for check in diagnosis.checks],
        "status": diagnosis.status,
        **({"ceilings": ceilings} if ceilings else {}),
    }


def lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield from (board_line(diagnosis.board), "")
    yield from check_lines(diagnosis.checks)
    if diagnosis.measured:
        yield ""
        for measured in diagnosis.measured:
            kind, top = measured.kind, measured.ceilings
            engine = f"{kind.runtime} {kind.version} on {', '.join(kind.providers)}, {threads(kind.threads)}"
            yield f"ceilings  {clean(engine)}: {ceiling_words(top)}"
        yield "          stored; edgetop run and ops use them to show what limits each operator"


def measure_ceilings(options: DoctorOptions, board: Board, python: str | None) -> list[Measured]:
    """Measure the peak FLOP/s and bytes/s of engines, store the results, and return them.

    `options` may choose one engine. Without that choice, one engine for each model format is measured. `board` is the
    board that the results are stored for. `python` is the interpreter for the engines; None means the one that runs
    edgetop. Raises InputError if no engine can be measured.
    """
    tried = [_measured(spec, python, board) for spec in _specs(options)]
    found = [each for each in tried if isinstance(each, Measured)]
    if not found:
        raise InputError(*map(str, tried[:1]))
    try:
        for measured in found:
            store(measured, default_path())
    except OSError as error:
        raise InputError(f"{default_path()}: cannot be written: {error.strerror}") from None
    return found


def _measured(spec: EngineSpec, python: str | None, board: Board) -> Measured | EdgetopError:
    try:
        return measure(spec, lambda probe: ProcessEngine(probe, python), board, SystemClock())
    except EdgetopError as error:
        return error


def _specs(options: DoctorOptions) -> Iterator[EngineSpec]:
    """Yield the description of each engine to measure.

    Raises InputError if an engine is unknown, or if it lacks the requested provider or delegate.
    """
    formats = list(dict.fromkeys(runtime.formats[0] for runtime in RUNTIMES.values()))
    formats = [
        model_format for model_format in formats if model_format in demo.FORMATS
    ]  # of the models that measure it
    asked = options.engine
    if asked is not None:
        canonical = ALIASES.get(asked.lower(), asked.lower())
        own = RUNTIMES[canonical].formats if canonical in RUNTIMES else ()
        formats = [model_format for model_format in formats if model_format in own][:1] or formats
    if options.providers:
        wanted = "tflite" if options.providers[0][0].upper() in LITERT_ONLY else "onnx"
        formats = [model_format for model_format in formats if model_format == wanted] or formats
    if options.delegates:
        formats = [model_format for model_format in formats if model_format == "tflite"] or formats
    for model_format in formats:
        yield EngineSpec(
            model="",
            format=model_format,
            engine=engine_for(asked, model_format),
            threads=options.threads,
            providers=options.providers,
            delegates=options.delegates,
        )
