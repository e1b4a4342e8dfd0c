"""Runs a sweep: records one session after another, and prints a table row for each.

A sweep can continue after its terminal is gone.
"""

import contextlib
import math
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgetop import formatting
from edgetop.cli.comparing import program_runs, sweep_program
from edgetop.cli.comparing.plan_words import plan_words
from edgetop.cli.comparing.sweep_folder import held_folder, new_folder
from edgetop.cli.comparing.sweep_options import SweepOptions
from edgetop.cli.comparing.sweep_result import Outputs, print_result
from edgetop.cli.output import print_text
from edgetop.cli.printing.markdown import markdown_output
from edgetop.cli.printing.output_agreement_words import judge_of
from edgetop.cli.printing.page import refuse_html
from edgetop.cli.running import demo, run, session_parts, trial_run
from edgetop.cli.running.child_run import ChildRun, show_progress
from edgetop.cli.running.run_request import DemoSubject, RunRequest, model_of
from edgetop.cli.running.session_board import log_spec, open_board
from edgetop.cli.shell_words import path_word
from edgetop.cli.terminal import Terminal, trim_log
from edgetop.cli.viewing import signals_to
from edgetop.control.control_socket import NotRunningError, give
from edgetop.errors import EXIT_DONE, EXIT_INTERRUPTED, InputError, OutputError
from edgetop.files import read_text, why
from edgetop.formatting import UNKNOWN, clean, quantity
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.removal import remove_session
from edgetop.recording.session_folder import is_live
from edgetop.runner.cooldown import hottest
from edgetop.sensors.sensor_protocol import Closable
from edgetop.session.events import Order
from edgetop.session.typed_json import Document
from edgetop.sweep_plan import (
    METRIC,
    ORDERS,
    SUFFIX,
    Plan,
    Run,
    Settings,
    combined,
    figures_of,
    ordered,
    refuse_others,
    without_orders,
    write_plan,
)  # fmt: skip

LOOK_S = 0.5
REST_C = 2.0  # runs start at most this much warmer than the first run
ENDING_S = 30.0
LOG = "sweep.log"
ELSEWHERE = "choose another path with --csv"
BOARD = "board.json"  # file with the heat of a virtual board
HEADS = {"p50_ms": "p50 ms", "p99_ms": "p99 ms", "throughput_hz": "1/s", "gross_mj": "mJ", "rss_peak_mib": "MiB",
         "max_c": "max °C", "cooldown_s": "cool s"}  # fmt: skip
PROGRAM_HEADS = {"total_time_ms": "time ms", "cpu_mean_pct": "CPU %", "rss_peak_mib": "MiB", "run_j": "J",
                 "p50_ms": "p50 ms", "max_c": "max °C", "cooldown_s": "cool s"}  # fmt: skip
MOST_RUNS = 10_000
WANTED = ("goal", "deadline", "max_temp", "max_rss", "classes", "metric")


def start_sweep(
    options: SweepOptions,
    run_options: list[str],
    terminal: Terminal,
    program: Sequence[str] | None = None,
    seed: int = 0,
) -> int:
    """Start a new sweep, and return the exit code. Raises InputError if an option cannot be used.

    `run_options` are options for each run, as words of a command line. `program` is the command of a program to watch,
    with placeholders such as `{model}`; None for a sweep over models. `terminal` is the terminal of this process.
    `seed` decides the random order of the runs.
    """
    combinations = _combinations(options, is_program=program is not None)
    _outputs(options)
    if program is None:
        request = _checked(combinations, run_options)
        seed, name = model_of(request.subject).seed, None
    else:
        request, name = program_runs.checked(combinations, run_options, program), sweep_program.program_name(program)
    if len(combinations) * options.repeat > MOST_RUNS:
        raise InputError("there are too many runs", f"a sweep has at most {MOST_RUNS}")
    plan = Plan(
        runs=tuple(ordered(combinations, options.repeat, seed, name or "")),
        options=tuple(run_options),
        folder=str(Path.cwd()),
        seed=seed,
        duration_s=request.phases.duration_ns / 1e9 if request.phases.duration_ns else None,
        cooldown_max_s=request.board.cooldown_max_ns / 1e9,
        rest_s=request.board.cooldown_ns / 1e9,
        cooldown_to_c=options.cooldown_to,
        wanted=_wanted(options, WANTED),
        program=name,
        command_sha256=None if program is None else sweep_program.digest(program),
    )
    if options.dry_run:
        print_text(plan_words(plan, None, None, each=program or ()))
        return EXIT_DONE
    if program is None:
        _refuse_unrunnable(combinations, run_options)
    else:
        program_runs.refuse_unlimitable(run_options)
    folder = new_folder(options.output, "sweep", SUFFIX, "edgetop sweep --resume {}")
    with held_folder(folder):
        if isinstance(request.subject, DemoSubject):
            request = replace(request, subject=replace(request.subject, board_state=folder / BOARD))
        heat = heat_now(request)
        target = plan.cooldown_to_c if plan.cooldown_to_c is not None else heat[1] + REST_C if heat else None
        plan = replace(plan, start_c=heat[1] if heat else None, cooldown_to_c=target if heat else None)
        print_text(plan_words(plan, folder, heat), err=True)
        return Sweep(folder, plan, terminal, program).run(options)


def _combinations(options: SweepOptions, *, is_program: bool) -> tuple[Settings, ...]:
    """Return every combination of the given models and settings.

    `is_program` is true for a sweep over a program, which needs no model. Raises InputError if a model is missing or is
    not a file.
    """
    given, providers = (*options.models, *options.more_models), [name for each in options.providers for name in each]
    has_models = bool(given or options.models_file) or not is_program
    dimensions = (
        models_of(given, options.models_file) if has_models else [""],
        options.threads or (None,),
        tuple(dict.fromkeys(providers)) or (None,),
        options.batch or (None,),
        options.rate or (None,),
    )
    values = dict(options.values)
    session = {name: getattr(options, name) or (None,) for name in ("optimize", "execution_mode", "inter_op_threads")}
    if math.prod(map(len, (*dimensions, *values.values(), *session.values()))) > MOST_RUNS:
        raise InputError("there are too many runs", f"a sweep has at most {MOST_RUNS}")
    return tuple(dict.fromkeys(combined(*dimensions, values, session)))


def _outputs(options: SweepOptions) -> Outputs:
    """Return where to write the result. Raises InputError if a file cannot be used."""
    force, csv_file = options.force, None
    if options.csv_file:
        csv_file = NamedOutput.of_option("--csv", options.csv_file, force=force, elsewhere=ELSEWHERE)
    written = str(options.csv_file) if options.csv_file else None
    return Outputs(
        as_json=options.as_json,
        csv_file=csv_file,
        page=refuse_html(options.html, force=force) if options.html else None,
        markdown=markdown_output(options.md_file, as_json=options.as_json, csv=written, force=force),
    )


def _checked(combinations: Sequence[Settings], run_options: Sequence[str]) -> RunRequest:
    """Check the command line of the first run before anything runs, and return its request. Raises InputError.

    `combinations` are the settings of the runs. `run_options` are options for each run, as words of a command line.
    """
    request = _request_of([*combinations[0].arguments, *run_options])
    session_parts.refuse_absent(request, None)
    session_parts.interpreter(model_of(request.subject).python)
    log_spec(request.board.power_log)
    return request


def _refuse_unrunnable(combinations: Sequence[Settings], run_options: Sequence[str]) -> None:
    """Raise InputError if no combination can run. Run one inference of each in order, until an inference works.

    All combinations may fail because of an input, for example. If only some fail, the sweep begins and reports their
    runs as failed, since not every model runs on every provider. `run_options` are options for each run, as words of a
    command line.
    """
    first: InputError | None = None
    for one in combinations:
        error = trial_run.why_unrunnable(_request_of([*one.arguments, *run_options]))
        if error is None:
            return
        first = first or error
    if first:
        raise first


def _request_of(words: list[str]) -> RunRequest:
    """Return the request for the command line of one run, given as words. Raises InputError or click.UsageError."""
    if any(word.startswith("--scenario") for word in words):
        return demo.demo_request(demo.command.make_context("demo", words).params)
    return run.model_request(run.command.make_context("run", words).params)


def resume_sweep(
    folder: Path,
    plan: Plan,
    options: SweepOptions,
    given: Sequence[str],
    orders: Sequence[str],
    terminal: Terminal,
    program: Sequence[str] | None = None,
) -> int:
    """Continue the sweep in `folder`, or show its result if it is complete. Return the exit code.

    `given` are the names of the options on the command line. `orders` are words such as `--delegate=lib.so`: options
    that run or load something, which a plan does not store. `program` is the command of a program to watch, with
    placeholders such as `{model}`; None for a sweep over models.
    """
    if program is not None or (plan.program is not None and plan.next_run):
        again = None if program is None else _combinations(options, is_program=True)
        sweep_program.refuse_another(folder, plan, program, again)
    plan = without_orders(plan)
    plan = replace(plan, wanted={**plan.wanted, **_wanted(options, given)})
    if METRIC in plan.asked and not plan.wanted.get("metric"):
        print_text(f"edgetop: without {METRIC}, which a plan does not store: give it again to use it", err=True)
    if not plan.next_run:
        return EXIT_DONE if options.dry_run else Sweep(folder, plan, terminal).run(options)
    refuse_others(folder)
    if not Path(plan.folder).is_dir():
        raise InputError(
            f"{clean(plan.folder)}: the sweep began in this folder, which no longer exists", "create it again"
        )
    plan = replace(plan, options=(*plan.options, *_given_again(folder, plan, orders, options)))
    with held_folder(folder):
        print_text(plan_words(plan, folder, None), err=True)
        if options.dry_run:
            return EXIT_DONE
        return Sweep(folder, plan, terminal, program).run(options)


def _given_again(folder: Path, plan: Plan, orders: Sequence[str], options: SweepOptions) -> list[str]:
    """Check `orders` against the sweep's plan, and return them.

    `orders` are the options on the command line that run or load something, such as `--delegate=lib.so`. They may come
    only from the command line, never from a plan. Raises InputError if an option is missing, or was not used when the
    sweep began.
    """
    asked = [name for name in plan.asked if name in ORDERS]
    given = [word.partition("=")[0] for word in orders]
    missing = [f"{name} ..." for name in asked if name not in given]
    providers = {run.settings.provider for run in plan.runs if ":" in (run.settings.provider or "")}
    again = {name for each in options.providers for name in each}
    if plan.program is not None:  # its providers are words of the command, which have been compared
        providers, again = set(), set()
    missing += [f"--provider {shlex.quote(name or '')}" for name in sorted(providers - again, key=str)]
    if missing:
        advice = f"edgetop sweep --resume {path_word(folder)} {' '.join(missing)}"
        raise InputError(
            f"{folder}: the sweep began with options that run or load something: repeat them", clean(advice)
        )
    if wrong := next((name for name in given if name not in asked), None):
        raise InputError(f"--resume continues a plan, which {wrong} cannot change")
    if wrong := next((name for name in again if name not in providers), None):
        raise InputError(f"--resume continues a plan, which --provider {wrong} cannot change")
    return list(orders)


def _wanted(options: SweepOptions, names: Sequence[str]) -> Document:
    """Return the values of the options in `names`, by name, such as `{"goal": "p99"}`.

    Options that a plan does not store are left out. Raises InputError if the files of `--labels` or `--metric` cannot
    be used.
    """
    wanted = {name: getattr(options, name) for name in WANTED if name in names}
    judge_of(wanted.get("classes"), wanted.get("metric"))
    if wanted.get("classes"):
        wanted["classes"] = str(wanted["classes"].absolute())
    return wanted


def heat_now(request: RunRequest) -> tuple[str, float] | None:
    """Return `(sensor, °C)` of the hottest place on the board, or None if no temperature can be read."""
    with open_board(request) as board:
        sensors = board.discover()
        heat = hottest(sensors)
        for source in sensors.sources:
            if isinstance(source, Closable):
                source.close()
    return (heat.sensor, heat.celsius) if heat else None


class Sweep:
    """Runs the plan of a sweep. This process must hold the lock of the sweep's folder."""

    def __init__(self, folder: Path, plan: Plan, terminal: Terminal, program: Sequence[str] | None = None) -> None:
        """Prepare the sweep in `folder` with its `plan`. Nothing runs yet.

        `program` is the command of a program to watch, with placeholders such as `{model}`; None for models.
        """
        self._folder, self._terminal, self._program = folder, terminal, program
        self._plan = plan
        self._child: ChildRun | None = None
        self._stopped: int | None = None  # signal that stopped the sweep
        self._hung_up = False
        self._width = max(len(plan.name_of(settings)) for settings in plan.combinations)
        self._took_s: list[float] = []  # durations of the runs of this process

    def run(self, options: SweepOptions) -> int:
        """Do the runs that are left, until all are done or a signal stops the sweep. Return the exit code."""
        outputs = _outputs(options)
        if self._plan.next_run:
            self._write()
        with signals_to(self._on_signal):
            if self._plan.next_run:
                if options.detach:
                    self._leave(is_asked=True)
                self._run_all()
        if self._stopped is not None or self._plan.next_run:
            done = sum(one.state != "planned" for one in self._plan.runs)
            text = (
                f"stopped after {done} of {quantity(len(self._plan.runs), 'run')}; continue: {self._resuming(options)}"
            )
            self._say(f"edgetop: {text}")
            return EXIT_INTERRUPTED if self._stopped == signal.SIGINT else EXIT_DONE
        return print_result(self._folder, self._plan, outputs)

    def _resuming(self, options: SweepOptions) -> str:
        """Return the shell command that continues this sweep."""
        if self._program is None:
            return f"edgetop sweep --resume {self._folder}"
        words = ["edgetop", "sweep", "--resume", str(self._folder), *sweep_program.again(options, self._program)]
        return clean(shlex.join(words))

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGHUP:
            self._hung_up = True
            return
        self._stopped = number
        if self._child:
            self._child.stop()

    def _run_all(self) -> None:
        self._say(self._row("", "settings", self._heads.values()))
        for done in (one for one in self._plan.runs if one.state != "planned"):
            self._say(self._row_of(done))
        while self._stopped is None and (one := self._plan.next_run):
            began_s = time.monotonic()
            changes = self._run_one(one)
            if changes is None:
                return
            self._took_s.append(time.monotonic() - began_s)
            self._plan = self._plan.amended(one, **changes)
            self._write()
            self._say(self._row_of(next(each for each in self._plan.runs if each.session == one.session)))

    def _run_one(self, one: Run) -> Document | None:
        """Do one run. Return the changes to the run's entry in the plan.

        The changes are such as `{"state": "failed", "reason": "..."}`. Return None if the run was stopped and must be
        repeated.
        """
        folder = self._folder / one.session
        _clear(folder)
        is_program = self._program is not None
        is_virtual = any(word.startswith("--scenario") for word in self._plan.options)
        cool = [] if self._plan.cooldown_to_c is None else [f"--cooldown-to={self._plan.cooldown_to_c:.2f}C"]
        board = [f"--board-state={self._folder / BOARD}"] if is_virtual else []
        label = [f"--label=sweep={self._folder.stem}", f"--label=combination={self._plan.name_of(one.settings)}"]
        command = ["watch", "--app-log"] if is_program else ["demo" if is_virtual else "run", *one.settings.arguments]
        arguments = [*command, *self._plan.options, *cool, *board, *label, "-o", str(folder)]
        words = sweep_program.filled(self._program or (), one.settings)
        self._child = ChildRun(arguments, self._folder, self._plan.folder, program=words)
        outcome, self._child = self._child.run(partial(self._follow, one)), None
        if outcome.is_complete and not outcome.reason:
            assert outcome.report
            return {"state": "done", "figures": figures_of(outcome.report)}
        if self._stopped is not None or outcome.end_reason in ("user", "signal") or outcome.code == EXIT_INTERRUPTED:
            return None
        reason = outcome.reason or f"it ended: {outcome.end_reason}"
        return {"state": "failed", "reason": program_runs.why_failed(outcome, folder) if is_program else reason}

    @property
    def _heads(self) -> Mapping[str, str]:
        return HEADS if self._plan.program is None else PROGRAM_HEADS

    def _follow(self, one: Run) -> None:
        """Show the progress of the run on one line, if stderr is a terminal. Leave the terminal if it has hung up."""
        if self._hung_up or self._terminal.has_lost_launcher:
            self._hung_up = False
            self._leave(is_asked=False)
        assert self._child
        if sys.stderr.isatty():
            place, left = self._plan.runs.index(one) + 1, ""
            if self._took_s:  # estimate from the runs so far
                to_go = sum(one.state == "planned" for one in self._plan.runs)
                left = f", {formatting.stopwatch(sum(self._took_s) / len(self._took_s) * to_go * 1e9)} left"
            now = self._child.progress or "starting"
            line = f"{place}/{len(self._plan.runs)}{left}  {self._plan.name_of(one.settings)}: {now}"
            show_progress(formatting.cut(clean(line), shutil.get_terminal_size().columns - 1))

    def _leave(self, *, is_asked: bool) -> None:
        """Release the terminal and continue without it. Output goes to a log in the sweep's folder from then on.

        `is_asked` is true if the user asked for that (`--detach`).
        """
        if is_asked or self._terminal.has_lost_launcher:
            folder = path_word(self._folder)
            self._say(
                f"edgetop: the sweep continues; edgetop attach shows the run, edgetop stop {folder} ends it,\n"
                f"  edgetop sweep --resume {folder} shows the result"
            )
        try:
            self._terminal.release(self._folder / LOG, pipes_too=is_asked)
        except OSError as error:
            self._say(f"edgetop: {self._folder / LOG}: {error.strerror}: the sweep stays on this terminal")

    def _say(self, text: str) -> None:
        show_progress("")
        with contextlib.suppress(OSError):  # the terminal may have closed
            print_text(text, err=True)
        trim_log(self._folder / LOG)

    def _row_of(self, one: Run) -> str:
        place, name = f"{self._plan.runs.index(one) + 1}", self._plan.name_of(one.settings)
        if one.state == "failed":
            return f"{place:>3}  {clean(name):<{self._width}}  failed: {clean(one.reason or UNKNOWN)}"
        values = [one.figures.get(key) for key in self._heads]
        cells = (formatting.or_unknown(value, formatting.plain) for value in values)
        return self._row(place, name, cells)

    def _row(self, place: str, name: str, cells: Iterable[str]) -> str:
        return f"{place:>3}  {clean(name):<{self._width}}" + "".join(f" {cell:>7}" for cell in cells)

    def _write(self) -> None:
        try:
            write_plan(self._folder, self._plan)
        except OSError as error:
            raise OutputError(f"{self._folder}: cannot be written: {error.strerror}") from None


def _clear(folder: Path) -> None:
    """End and remove the session that an interrupted run left in `folder`, so that the run can be repeated.

    Raises InputError or OutputError if that is not possible.
    """
    if folder.is_symlink():
        raise InputError(f"{folder}: is a link, not a session of this sweep", "remove it")
    until_s = time.monotonic() + ENDING_S
    while folder.exists() and is_live(folder):
        if time.monotonic() > until_s:
            raise InputError(f"{folder}: is still running", f"edgetop stop {path_word(folder)}")
        with contextlib.suppress(NotRunningError):
            give(folder, Order("stop"))
        time.sleep(LOOK_S)
    if not folder.exists():
        return
    try:
        left = remove_session(folder).left
    except OSError as error:
        raise OutputError(f"{folder}: cannot be removed: {error.strerror}") from None
    if left:
        raise InputError(f"{folder}: contains {left[0]}, which edgetop did not write", "move it elsewhere")


def models_of(models: Sequence[Path], models_file: Path | None) -> list[str]:
    """Return the absolute paths of the given models and of the models that the file lists, one per line.

    Raises InputError if there is no model, or if a path is not a file.
    """
    paths = list(models)
    if listing := models_file:
        try:
            lines = read_text(listing).splitlines()
        except (OSError, ValueError) as error:
            raise InputError(f"-f {listing}: cannot be read: {why(error)}") from None
        paths += [listing.parent / line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    paths = [Path(part) for path in paths for part in ([path] if path.exists() else str(path).split(","))]
    if not paths:
        raise InputError("no model is given", "give one or more models, or a list of them: -f models.txt")
    for path in paths:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    return list(dict.fromkeys(os.path.abspath(path) for path in paths))  # noqa: PTH100  links are kept
