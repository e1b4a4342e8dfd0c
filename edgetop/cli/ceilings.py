"""`edgetop doctor --roofline`: measures the peak FLOP/s and bandwidth with each runtime, and stores them."""

from collections.abc import Iterator, Mapping
from typing import Any

from edgetop.cli import request
from edgetop.engines.child.adapters import RUNTIMES
from edgetop.engines.process import ProcessEngine
from edgetop.engines.spec import ALIASES, EngineSpec, engine_for
from edgetop.errors import EdgetopError, InputError
from edgetop.formatting import clean
from edgetop.runner.roofline import Measured, default_path, measure, store
from edgetop.session.ceilings import DTYPE
from edgetop.session.clock import SystemClock
from edgetop.session.manifest import Board

LITERT_ONLY = ("GPU", "NPU")  # its accelerators: ONNX Runtime has no provider of such a name


def measure_ceilings(options: Mapping[str, Any], board: Board) -> list[Measured]:
    """Measure the ceilings of the chosen engine, or of one for each format. Raises InputError where there is none."""
    python = request.engine_python(options)
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
    """Or why not: a runtime that is not installed is no trouble where another one is."""
    try:
        return measure(spec, lambda probe: ProcessEngine(probe, python), board, SystemClock())
    except EdgetopError as error:
        return error


def _specs(options: Mapping[str, Any]) -> Iterator[EngineSpec]:
    """Raises InputError for an engine that is unknown or does not take the provider or delegate."""
    formats = list(dict.fromkeys(runtime[0] for runtime in RUNTIMES.values()))
    asked: str | None = options["engine"]
    if asked is not None:
        canonical = ALIASES.get(asked.lower(), asked.lower())
        formats = [RUNTIMES[canonical][0]] if canonical in RUNTIMES else formats
    if options["providers"]:
        wanted = "tflite" if options["providers"][0][0].upper() in LITERT_ONLY else "onnx"
        formats = [model_format for model_format in formats if model_format == wanted] or formats
    if options["delegates"]:
        formats = [model_format for model_format in formats if model_format == "tflite"] or formats
    for model_format in formats:
        yield EngineSpec(
            model="",
            format=model_format,
            engine=engine_for(asked, model_format),
            threads=options["threads"],
            providers=options["providers"],
            delegates=options["delegates"],
        )


def ceilings_json(found: list[Measured]) -> list[dict[str, Any]]:
    return [{**measured.kind.to_json(), **measured.ceilings.to_json()} for measured in found]


def ceilings_lines(found: list[Measured]) -> Iterator[str]:
    yield ""
    for measured in found:
        kind, top = measured.kind, measured.ceilings
        engine = f"{kind.runtime} {kind.version} on {', '.join(kind.providers)}, {kind.threads or 'default'} threads"
        most = f"{top.flops_per_s / 1e9:.1f} GFLOP/s, {top.bytes_per_s / 1e9:.1f} GB/s"
        yield f"ceilings  {clean(engine)}: {most} ({DTYPE})"
    yield "          stored; edgetop run and ops show with them what limits each operator"
