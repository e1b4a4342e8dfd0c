"""Runs what `edgetop ops` asks for: files are checked first, then the model runs, then the probe."""

import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from edgetop.cli import request
from edgetop.cli.operator_document import csv_rows, operator_document, write_trace
from edgetop.cli.operator_profile import put_together
from edgetop.cli.operator_table import operator_tables
from edgetop.cli.output import print_text, write_csv
from edgetop.engines.process import ProcessEngine
from edgetop.engines.protocol import Engine
from edgetop.engines.spec import EngineSpec
from edgetop.errors import EdgetopError, InputError
from edgetop.recording.export.protocol import NamedOutput
from edgetop.runner import roofline
from edgetop.runner.delegation import FullyDelegated
from edgetop.runner.profiling import PROFILE_EVERY_NS, Profiled, Profiling
from edgetop.sensors.board import read_board
from edgetop.sensors.root import Root
from edgetop.session.ceilings import Ceilings
from edgetop.session.clock import SystemClock
from edgetop.session.manifest import Board

Options = Mapping[str, Any]


def profile(options: Options) -> None:
    """Raises EdgetopError, nothing written then."""
    if options["csv_file"] is not None and options["csv_file"] == options["trace_file"]:
        raise InputError(f"--csv and --trace name the same file: {options['csv_file']}")
    csv, trace = (_output(options, name) for name in ("csv", "trace"))
    model = request.find_model(options)
    spec = request.engine_spec({**options, **_DEFAULTS}, model)
    python = request.engine_python(options)
    board = read_board(Root())
    engine: Engine = ProcessEngine(spec, python)
    profiled = _profiled(
        FullyDelegated(engine, spec) if options["require_full_delegation"] else engine, options["runs"]
    )
    ceilings = _ceilings(options, spec, python, board, profiled)
    found = put_together(profiled, spec, ceilings, python)
    if csv:
        write_csv(csv, csv_rows(found))
    if trace:
        write_trace(found, trace)
    document = operator_document(str(model.path), found)
    if options["as_json"]:
        click.echo(json.dumps(document, indent=1))
    else:
        print_text(operator_tables(str(model.path), found))


# Options of `run` that `ops` does not have.
_DEFAULTS: Options = {
    "idle_baseline": 0,
    "warmup_time": 0,
    "runs": None,
    "duration": None,
    "profile_every": PROFILE_EVERY_NS,
    "monitor_cpus": (),
}


def _output(options: Options, name: str) -> NamedOutput | None:
    path: Path | None = options[f"{name}_file"]
    if path is None:
        return None
    if not path.absolute().parent.is_dir():
        raise InputError(f"--{name} {path}: {path.parent} is no folder", "make it first, or name another place")
    return NamedOutput(path, force=options["force"], elsewhere=f"name another place with --{name}")


def _profiled(engine: Engine, runs: int) -> Profiled:
    shows = sys.stderr.isatty()

    def show(profiled: Profiled) -> None:
        _say(f"\r{profiled.runs} of {runs} instrumented inferences, {profiled.measured} others\x1b[K")

    try:
        return Profiling(engine, show if shows else lambda _: None).run(runs)
    finally:
        if shows:
            _say("\r\x1b[K")


def _say(text: str) -> None:
    click.echo(text, nl=False, err=True)


def _ceilings(
    options: Options, spec: EngineSpec, python: str | None, board: Board, profiled: Profiled
) -> Ceilings | None:
    """The stored ones with --no-roofline, or where measuring fails."""
    assert profiled.loaded
    path = roofline.default_path()
    kept = roofline.stored(roofline.kind_of(board, profiled.loaded, spec), path)
    if options["no_roofline"]:
        return kept
    try:
        measured = roofline.measure(spec, lambda probe: ProcessEngine(probe, python), board, SystemClock())
    except EdgetopError as error:
        print_text(f"edgetop: {error}", err=True)
        return kept
    with contextlib.suppress(OSError):  # the next one measures it again
        roofline.store(measured, path)
    return measured.ceilings
