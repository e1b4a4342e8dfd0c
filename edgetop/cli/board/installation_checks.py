"""The checks of `edgetop self-test`: use each part of edgetop once, in a private folder, and judge the result."""

import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from edgetop import __version__, demo
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.cli.board.check_lines import check_lines
from edgetop.cli.board.lacking import Lack, lacking
from edgetop.cli.board.screen_check import COLUMNS, ROWS, SCREEN, check_screen
from edgetop.cli.config import NAME, load_config, settings_file
from edgetop.cli.running.child_run import ChildRun, Outcome
from edgetop.cli.running.session_parts import EXTRAS
from edgetop.cli.scratch_folder import scratch_folder
from edgetop.doctor.check import Check, Status, ok, problem, warning, worst
from edgetop.engines.child.adapters import RUNTIMES, runtimes_of
from edgetop.errors import EdgetopError, InputError
from edgetop.files import why
from edgetop.formatting import clean, quantity, size
from edgetop.frozen import frozen
from edgetop.installation import extra_command
from edgetop.paths import bytes_below, config_home
from edgetop.recording.reader import Recording
from edgetop.recording.session_folder import session_folder
from edgetop.sensors.root import Root
from edgetop.session.typed_json import Document
from edgetop.ui.characters import is_utf8
from edgetop.wording.report_document import to_json

SETTINGS, ENGINE, RECORDING, REPORT, TERMINAL = "settings", "engine", "recording", "report", "terminal"
RUNS, WARMUP_RUNS = 30, 3
STOP_S = 1.0  # time that a run gets to end cleanly when the time limit is reached


@frozen
class SelfTest:
    checks: tuple[Check, ...]
    lacks: tuple[Lack, ...]
    seconds: float

    @property
    def status(self) -> Status:
        return worst(self.checks)


def self_test(limit_s: float) -> SelfTest:
    """Run all checks and return their results.

    The checks that run the built-in model have `limit_s` seconds together. The result of a check that has not ended by
    then is a problem.
    """
    began_s = time.monotonic()
    checks = [check_settings()]
    with scratch_folder("self-test") as folder:
        checks += _check_sessions(folder, began_s + limit_s)
    checks.append(check_terminal(os.environ, shutil.get_terminal_size((0, 0))))
    return SelfTest(tuple(checks), tuple(lacking(Root())), time.monotonic() - began_s)


def document(result: SelfTest) -> Document:
    """Return the JSON document that `self-test --json` prints (edgetop help install)."""
    from dataclasses import asdict  # noqa: PLC0415  for this document alone

    return {
        "edgetop_version": __version__,
        "checks": [asdict(check) for check in result.checks],
        "lacks": [asdict(lack) for lack in result.lacks],
        "seconds": round(result.seconds, 3),
        "status": result.status,
    }


def lines(result: SelfTest) -> Iterator[str]:
    *checks, total = check_lines(result.checks)
    yield from checks
    for lack in result.lacks:
        yield f"lacks    {lack.what}, for {lack.purpose}"
        yield f"         fix: {clean(lack.fix)}"
    if result.lacks:
        yield ""
    yield f"{total}, in {result.seconds:.1f} s"


def check_settings() -> Check:
    """Return the result of reading the user's settings: a problem if a settings file is invalid."""
    try:
        load_config(config_home())
    except EdgetopError as error:
        return problem(SETTINGS, str(error))
    file = settings_file(config_home())
    return ok(SETTINGS, f"{file} is valid" if file else f"the defaults, since there is no {config_home() / NAME}")


def _check_sessions(folder: Path, until_s: float) -> Iterator[Check]:
    # Neither the user's settings nor his recordings take part: a hook in them would be run, a full disk be met.
    private = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    formats = installed_formats()
    if not formats:
        fix = f"{extra_command('onnx')}  or  {extra_command('tflite')}"
        yield problem(ENGINE, "no inference runtime is installed", None, fix)
    runs: dict[str, ChildRun] = {}
    outcomes: dict[str, Outcome] = {}
    try:
        for model_format in formats:  # at the same time, which takes half as long
            runs[model_format] = ChildRun(_arguments(model_format, folder), folder, environment=private)
        for model_format, run in runs.items():
            outcome = _outcome(run, until_s)
            yield check_engine(model_format, outcome)
            if outcome is not None and outcome.is_complete:
                outcomes[model_format] = outcome
    except OSError as error:
        yield problem(ENGINE, f"no process can be started in {folder}: {why(error)}")
    finally:
        for run in runs.values():
            run.kill()
    yield from check_recordings({session_folder(folder / name): outcome for name, outcome in outcomes.items()})
    if outcomes:
        yield check_screen(session_folder(folder / next(iter(outcomes))), private, until_s)
    else:
        yield problem(SCREEN, "not tried: there is no session to draw")


def installed_formats() -> list[str]:
    """Return the formats of the built-in model, such as "onnx", for which a runtime is installed in this Python."""
    found = (
        runtime.formats[0] for runtime in RUNTIMES.values() if importlib.util.find_spec(runtime.module) is not None
    )
    return [model_format for model_format in dict.fromkeys(found) if model_format in demo.FORMATS]


def _arguments(model_format: str, folder: Path) -> list[str]:
    model = str(demo.model_path(model_format))
    phases = ("--runs", str(RUNS), "--warmup-runs", str(WARMUP_RUNS), "--profile-every", "0", "--threads", "1")
    return ["run", model, *phases, "-o", str(folder / model_format)]


class _TimeOverError(Exception):
    """Raised when a run takes too long and must be ended."""


def _outcome(run: ChildRun, until_s: float) -> Outcome | None:
    """Wait for a run. Return its outcome, or None if it has not ended at `until_s`, a time of time.monotonic()."""

    def look() -> None:
        if time.monotonic() > until_s:
            raise _TimeOverError

    try:
        return run.run(look, STOP_S)
    except _TimeOverError:
        return None


def check_engine(model_format: str, outcome: Outcome | None) -> Check:
    """Judge an engine by its run of the built-in model. Return the result.

    `model_format` is such as "onnx". `outcome` is the result of the run, or None if it did not end in time.
    """
    name = f"{ENGINE}-{model_format}"
    if outcome is None:
        return problem(name, "no result in time", "a slow or busy board needs longer: add --timeout 5m")
    if not outcome.is_complete or outcome.report is None:
        fix = extra_command(EXTRAS[runtimes_of(model_format)[0]])
        return problem(name, outcome.reason or f"the run ended: {outcome.end_reason}", "reinstall the runtime", fix)
    engine, latency = outcome.report["session"]["engine"], outcome.report["latency"]
    providers = ", ".join(engine["providers"])
    return ok(
        name, f"{engine['runtime']} {engine['version']} on {providers}: {quantity(latency['count'], 'inference')}"
    )


def check_recordings(outcomes: Mapping[Path, Outcome]) -> Iterator[Check]:
    """Yield two results: whether sessions can be read back, and whether their reports equal what the runs printed.

    `outcomes` has the result of each run, by the folder of its session.
    """
    if not outcomes:
        yield problem(RECORDING, "not tried: no run was completed")
        yield problem(REPORT, "not tried: there is no session to report")
        return
    unreadable: list[str] = []
    different: list[str] = []
    for folder, outcome in outcomes.items():
        try:
            with Recording(folder) as recording:
                read = to_json(report(Analysis.of(recording.play())))
        except (InputError, OSError) as error:
            unreadable.append(f"{folder.stem}: {error}")
            continue
        unreadable += recording.problems
        assert outcome.report is not None
        if read["latency"] != outcome.report["latency"]:
            different.append(folder.stem)
    if unreadable:
        yield problem(RECORDING, f"cannot be read back: {'; '.join(unreadable)}")
    else:
        written = f"{quantity(len(outcomes), 'session')} written and read back"
        yield ok(RECORDING, f"{written}, {size(sum(map(bytes_below, outcomes)))}")
    if different:
        yield problem(REPORT, f"differs from what the run printed: {', '.join(different)}")
    elif not unreadable:
        yield ok(REPORT, "the same from the recording as from the run")
    else:
        yield problem(REPORT, "not tried: there is no session to report")


def check_terminal(environment: Mapping[str, str], terminal: os.terminal_size) -> Check:
    """Judge the terminal in which this command runs. Return the result.

    `environment` are the environment variables, and `terminal` is the terminal's size. The result is never a problem,
    since every command works without a terminal.
    """
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr is not None and sys.stderr.isatty()):
        return ok(TERMINAL, "none here: edgetop run --headless needs none")
    term = clean(environment.get("TERM", ""))
    found = f"{term or 'TERM is not set'}, {terminal.columns}x{terminal.lines}"
    if term == "dumb":
        return warning(
            TERMINAL, found, "this terminal cannot show a screen: use --headless", "export TERM=xterm-256color"
        )
    if terminal.columns < COLUMNS or terminal.lines < ROWS:
        return warning(TERMINAL, found, f"below {COLUMNS}x{ROWS} the screen leaves panes out")
    if not is_utf8(environment):
        return warning(TERMINAL, f"{found}, no UTF-8", "the screen is drawn in ASCII", "export LANG=C.UTF-8")
    return ok(TERMINAL, f"{found}, UTF-8")
