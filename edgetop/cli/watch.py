"""Builds a session from what the user asked for, and sees it to its end."""

import contextlib
import ctypes
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgetop.analysis.throttle_words import ThrottleEvents
from edgetop.cli import request, unattended
from edgetop.cli.board import BoardInUse, cool_board, find_sensors, open_board
from edgetop.cli.control_endpoint import ControlEndpoint
from edgetop.cli.exporters import Exporters
from edgetop.cli.leaving import how_to_come_back
from edgetop.cli.live_session import LiveSession, Observer
from edgetop.cli.output import print_text
from edgetop.cli.request import Options
from edgetop.cli.terminal import Terminal
from edgetop.cli.viewing import line_settings, require_screen, screen_settings, signals_to
from edgetop.engines.formats import ModelFile
from edgetop.engines.process import measure_shapes
from edgetop.engines.protocol import Engine
from edgetop.engines.spec import EngineSpec
from edgetop.errors import (
    EXIT_DONE,
    EXIT_GATE_FAILED,
    EXIT_INTERRUPTED,
    EdgetopError,
    InputError,
    OutputError,
    ReaderLeftError,
)
from edgetop.feeds.live import LiveFeed
from edgetop.paths import recordings_home
from edgetop.recording.files import LOG, FolderHandle
from edgetop.recording.recorder import BackgroundRecorder, Recorder
from edgetop.recording.registry import write_outcome
from edgetop.recording.table_writer import ChildTableWriter
from edgetop.runner.conductor import Conductor
from edgetop.runner.delegation import FullyDelegated
from edgetop.runner.roofline import default_path, stored
from edgetop.runner.rotation import Rotation
from edgetop.runner.session_state import SessionState
from edgetop.sensors.discovery import discover_engine
from edgetop.sensors.protocol import Found
from edgetop.sensors.sampler import Sampler
from edgetop.session.batch import Batch
from edgetop.session.clock import SystemClock
from edgetop.session.events import Event
from edgetop.taps.process import WatchedProcess
from edgetop.taps.program import WatchedProgram

if TYPE_CHECKING:
    from edgetop.analysis.report import Report
    from edgetop.ui.settings import ScreenSettings

BEGINNING_PATIENCE_S = 60.0  # of --detach: a model that loads for longer is left to itself
BEGINNING_LOOK_S = 0.1
LOADING_GRACE_S = 0.1  # a model that cannot be loaded is told before a screen opens, where that is quick
TELLING = frozenset({"temp", "freq", "cooling", "throttle", "power"})  # kinds of sensors
_M_ARENA_MAX, _M_TRIM_THRESHOLD = -8, -1  # malloc.h of glibc


@dataclass(frozen=True, slots=True)
class End:
    error: EdgetopError | None
    interrupted: bool  # by SIGINT
    gates_failed: bool = False
    folder: Path | None = None  # of the recording; None: there is none

    def exit_code(self) -> int:
        """Of the command. Raises the error that ended the session."""
        if self.error:
            raise self.error
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_GATE_FAILED if self.gates_failed else EXIT_DONE


def watch(options: Options, terminal: Terminal) -> End:
    """Run the session that `options` describe. Raises InputError where it cannot begin."""
    settings = None
    if not (options["headless"] or options["detach"]):
        require_screen("edgetop run --headless prints lines instead, and --detach leaves it running")
        settings = screen_settings(
            options["refresh"],
            options["theme"],
            options["ascii_only"],
            notify=options["notify"],
            config_file=options["config_file"],
        )
    else:
        refresh_ns, is_ascii = line_settings(options["refresh"], options["ascii_only"], options["config_file"])
        options = {**options, "refresh": refresh_ns, "ascii_only": is_ascii}
    request.refuse_unmeant_misses(options)
    if options["junit"]:
        from edgetop.cli.junit import refuse_unwritable  # noqa: PLC0415  where it is asked for

        refuse_unwritable(options["junit"])
    if options["isolation"] == "process":  # a runtime that is a thread of this process keeps its arenas
        _return_memory_early()
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as signals:
        exporters, managers = Exporters(options, stack), unattended.service_managers(stack)
        session = _assemble(options, stack, signals)
        session.conductor.start()
        session.analyse([*_observers(options, session, stack), *exporters.observers_of(session.state), *managers])
        if options.get("sessions_quota"):
            unattended.keep_room(session, options["sessions_quota"], stack)
        stack.callback(session.leave)
        _see(session, options, terminal, settings)
    return _end(session, options)


def _end(session: LiveSession, options: Options) -> End:
    """Write and print what came of it."""
    from edgetop.analysis.report import report  # noqa: PLC0415  what only the end needs does not delay the beginning
    from edgetop.cli import junit  # noqa: PLC0415
    from edgetop.cli.gatekeeper import tell_failed  # noqa: PLC0415
    from edgetop.cli.session_list import outcome_of  # noqa: PLC0415

    outcome = session.outcome()
    if isinstance(outcome.error, InputError):
        return End(outcome.error, session.interrupted)
    result = report(session.analysis)
    if session.folder:
        write_outcome(session.folder.path, outcome_of(session.analysis))
    unwritten: list[OutputError] = []
    with _noted(unwritten):
        _print_result(result, session.folder, options)
    if options.get("page"):
        from edgetop.cli.agreement import outputs_lines  # noqa: PLC0415
        from edgetop.cli.report_page import write_report  # noqa: PLC0415  loads Bokeh

        kept_in = session.folder.path if session.folder else None
        with _noted(unwritten):
            write_report(options["page"], session.analysis, result, list(outputs_lines(kept_in, options.get("judge"))))
    if options["junit"]:
        with _noted(unwritten):
            junit.write(options["junit"], result, outcome.error)
    failed = tell_failed(result, options.get("ratio_gates", ()))
    folder = session.folder.name if session.folder else None
    return End(next(filter(None, [outcome.error, *unwritten]), None), session.interrupted, failed, folder)


def _return_memory_early() -> None:
    """4 MiB: threads share one arena, and free memory at its end goes back at once (mallopt(3)); musl needs neither."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, 128 * 1024)


@contextlib.contextmanager
def _noted(unwritten: list[OutputError]) -> Iterator[None]:
    """What cannot be written keeps nothing else from being written, nor said; nor does a reader that has left."""
    try:
        with contextlib.suppress(ReaderLeftError):
            yield
    except OutputError as error:
        unwritten.append(error)


def _assemble(options: Options, stack: contextlib.ExitStack, signals: contextlib.ExitStack) -> LiveSession:
    """Everything the session is made of, ready to start.

    In one function, however long: the parts know one another, and the order in which they are made matters.
    From the moment that there is a recording until `signals` is left, a signal ends the session in order.
    """
    clock = SystemClock()
    program: WatchedProgram | WatchedProcess | None = options.get("program")
    model = request.program_file(program) if program else request.find_model(options)
    board = stack.enter_context(open_board(options))
    spec = request.program_spec(options, model) if program else request.engine_spec(options, model, board.page_path)
    folder = request.recording_folder(options, model)
    name = folder.stem if folder else model.path.stem
    on_board = board.discover()
    cooldown = cool_board(options, board, on_board)
    manifest = request.first_manifest(options, name, model, spec, board.identity(), clock, cooldown)
    if program:
        manifest = request.of_program(manifest, program)
        program.output = folder / request.PROGRAM_LOG if folder else None
    engine = program or _delegating(
        _engine(options, request.keeping(spec, folder), stack, on_board, folder), options, spec
    )
    session_state = SessionState(manifest, spec, clock, partial(stored, path=default_path()))
    _tell_what_was_asked(session_state, options, model)
    if options["monitor_cpus"]:
        os.sched_setaffinity(0, options["monitor_cpus"])
    feed = LiveFeed(outlives_its_screen=folder is not None)
    control_endpoint = ControlEndpoint(feed)
    origin_ns = manifest.clock.origin_monotonic_ns
    sensors = find_sensors(options, on_board, board.root, lambda: clock.monotonic_ns() - origin_ns)
    _tell_what_is_missing(session_state, sensors)
    successors = unattended.Successors(options, model, control_endpoint)
    early = _heed_signals(successors, signals)
    recorder = Recorder(folder, manifest, request.retention(options), ChildTableWriter()) if folder else None
    told = partial(session_state.add_event, "rotation-failed", "critical", "edgetop")
    conductor = Conductor(
        engine=engine,
        sampler=Sampler((), clock, origin_ns),
        board=sensors,
        engine_sensors=partial(_engine_sensors, board, isolation=engine.isolation),
        recorder=BackgroundRecorder(recorder) if recorder else None,
        feed=control_endpoint,
        session_state=session_state,
        clock=clock,
        derived=partial(_derived, options),
        rotation=Rotation(options["rotate"], successors.make, told) if options.get("rotate") else None,
        measure_shapes=partial(measure_shapes, spec, request.engine_python(options)),
    )
    feed.connect(conductor)
    board.start(partial(session_state.add_event, "virtual-board", "info", "virtual board"))
    if recorder:
        control_endpoint.open(recorder.handle, conductor, session_state)
    session = successors.session = LiveSession(conductor, feed, recorder.handle if recorder else None, session_state)
    for number in early:
        session.heed(number)
    return session


def _heed_signals(successors: unattended.Successors, signals: contextlib.ExitStack) -> list[int]:
    """Until `signals` is left, a signal is for the session of `successors`; those that come before there is one."""
    early: list[int] = []

    def on_signal(number: int) -> None:
        if successors.session:
            successors.session.heed(number)
        else:
            early.append(number)

    signals.enter_context(signals_to(on_signal))
    return early


def _tell_what_is_missing(session_state: SessionState, sensors: Found) -> None:
    if not any(info.kind in TELLING for source in sensors.sources for info in source.sensors):
        text = "no sensor of heat, clocks or power can be read here: throttling will not be seen"
        session_state.add_event("no-sensors", "warning", "edgetop", text)


def _observers(options: Options, session: LiveSession, stack: contextlib.ExitStack) -> list[Observer]:
    """Who looks at the session beside its screen; loaded while the engine loads its model."""
    from edgetop.cli.event_hooks import EventHooks  # noqa: PLC0415
    from edgetop.cli.gatekeeper import Gatekeeper  # noqa: PLC0415

    observers: list[Observer] = []
    if options["fail_fast"]:
        observers.append(Gatekeeper(session.state, session.conductor.stop))
    if "variants" in options:
        from edgetop.cli.ab_session import Resolution  # noqa: PLC0415

        observers.append(Resolution(session.conductor.stop))
    if options["hooks"]:
        hooks = EventHooks(options["hooks"], session.state, SystemClock(), partial(_about, session))
        stack.callback(hooks.finish)
        observers.append(hooks)
    return observers


def _about(session: LiveSession) -> dict[str, Any]:
    """What hooks hear of the session."""
    manifest, path = session.state.manifest, str(session.name) if session.folder else None
    return {"name": manifest.name, "id": manifest.id, "path": path, "simulated": manifest.board.simulated}


def _tell_what_was_asked(session_state: SessionState, options: Options, model: ModelFile) -> None:
    """Gates and rules are kept as events: replays and reports judge them again."""
    if options["model"] is None and "program" not in options:
        session_state.add_event("demo-model", "info", "edgetop", "no model was given: this is the built-in demo model")
    if model.misnamed:
        session_state.add_event(
            "model-misnamed", "warning", "edgetop", f"{model.path.name} holds a {model.format} model"
        )
    for gate in options["gates"]:
        session_state.add_event("gate", "info", "user", f"fails if {gate.text}", expr=gate.text)
    for rule in options["alerts"]:
        session_state.add_event("alert-rule", "info", "user", f"tell if {rule.text}", rule=rule.text)


def _engine_sensors(board: BoardInUse, pid: int, *, isolation: str) -> Found:
    board.engine_started(pid)
    kinds = {"shares_process": isolation == "thread", "is_program": isolation == "program"}
    return discover_engine(pid, **kinds, board=board.root)


def _engine(
    options: Options, spec: EngineSpec, stack: contextlib.ExitStack, board: Found, folder: Path | None
) -> Engine:
    if "variants" in options:
        from edgetop.cli.ab_session import engine_in_turns  # noqa: PLC0415  where it is asked for

        return engine_in_turns(options, board, stack, folder)
    if options["isolation"] == "process":
        return request.process_engine(options, spec, stack)
    from edgetop.engines.thread import OutputCapture, ThreadEngine  # noqa: PLC0415  with all that the child loads

    return ThreadEngine(spec, stack.enter_context(OutputCapture()))


def _delegating(engine: Engine, options: Options, spec: EngineSpec) -> Engine:
    """The engine, which ends the session where the CPU runs operators, if --require-full-delegation asks for that."""
    if not options["require_full_delegation"]:
        return engine
    if not spec.profile_every_ns:
        raise InputError("--require-full-delegation needs --profile-every, which shows where operators run")
    return FullyDelegated(engine, spec)


def _derived(options: Options) -> Callable[[Batch], tuple[Event, ...]]:
    """The events that follow from what is recorded."""
    throttles = ThrottleEvents()
    if "variants" not in options:
        return throttles.fold
    from edgetop.analysis.ab import QuadEvents  # noqa: PLC0415  where it is asked for

    quads = QuadEvents()
    return lambda batch: (*throttles.fold(batch), *quads.fold(batch))


def _see(session: LiveSession, options: Options, terminal: Terminal, settings: "ScreenSettings | None") -> None:
    """Show the session until it is over and, on a screen, until the user has seen how it ended."""
    from edgetop.cli.headless import follow  # noqa: PLC0415  loaded while the engine loads its model

    prints = partial(
        follow,
        session.feed,
        session.analysis,
        pause=session.feed.ended.wait,
        live_ns=options["refresh"] if options["live"] else None,
        notifies=options["notify"],
        ascii_only=bool(options["ascii_only"]),
    )
    if options["detach"]:
        _await_beginning(session)
    elif settings:
        if session.folder:
            settings = replace(settings, recording=session.folder.name, moved=session)
        failure = _on_screen(session, settings)
        if failure:
            print_text(f"edgetop: the screen failed ({failure}); the session goes on without it", err=True)
    if not options["detach"] and (options["headless"] or not (session.folder or session.feed.ended.is_set())):
        prints(lambda: session.hung_up)
    if session.folder and session.goes_on:
        _go_on_alone(session, session.folder, terminal, options)
    if not session.feed.ended.is_set():
        prints(log=session.folder.path / LOG if session.folder else None)


def _but(folder: FolderHandle) -> str:
    return f", but {folder.why_gone}" if folder.why_gone else ""


def _await_beginning(session: LiveSession) -> None:
    """Until an inference is through: before that, what fails is the user's to mend, and is told here."""
    until_s = time.monotonic() + BEGINNING_PATIENCE_S
    while session.goes_on and not session.hung_up and time.monotonic() < until_s:
        session.feed.ended.wait(BEGINNING_LOOK_S)
        session.analysis.catch_up(session.feed)
        if session.analysis.progress.view().phase in ("warmup", "measure"):
            return


def _go_on_alone(session: LiveSession, folder: FolderHandle, terminal: Terminal, options: Options) -> None:
    """Give the terminal back to whoever has it next."""
    launcher_died = terminal.has_lost_launcher
    if launcher_died or not session.hung_up:
        print_text(how_to_come_back(folder.name), err=True)
    try:
        terminal.let_go(folder.path / LOG, pipes_too=options["detach"])
    except OSError as error:  # a full disk: better here than not at all
        print_text(f"edgetop: {folder.name / LOG}: {error.strerror}: the run stays on this terminal", err=True)
        return
    why = "the terminal hung up" if session.hung_up else "its screen was left"
    if launcher_died:
        why = "the process that waited for it was killed"
    session.state.add_event("detached", "info", "edgetop", f"{why}: the run goes on without")


def _on_screen(session: LiveSession, settings: "ScreenSettings") -> str | None:
    """Open the screen; what it failed of, if it did."""
    from edgetop.ui.app import show  # noqa: PLC0415  Textual loads while the engine loads its model

    session.conductor.began_measuring.wait(LOADING_GRACE_S)
    if session.conductor.outcome and isinstance(session.conductor.outcome.error, InputError):
        return None
    return show(session.feed, session.analysis, settings, leave_now=lambda: session.leave_now)


def _print_result(result: "Report", folder: FolderHandle | None, options: Options) -> None:
    from edgetop.analysis.report import to_json  # noqa: PLC0415
    from edgetop.cli.agreement import outputs_lines, with_outputs  # noqa: PLC0415
    from edgetop.cli.summary import brief_summary, summary, wrapped  # noqa: PLC0415

    kept_in = folder.path if folder and options.get("keep_outputs") else None
    if options["as_json"]:
        click.echo(json.dumps(with_outputs(to_json(result), kept_in, options.get("judge")), indent=1))
        return
    text = summary(result)  # which nothing else will print
    if folder:
        session = folder.name.stem if folder.name.parent == recordings_home() else shlex.quote(str(folder.name))
        where = f"recorded in {folder.name}{_but(folder)}"
        lines = (brief_summary(result), *wrapped(outputs_lines(kept_in, options.get("judge"))), where)
        text = "\n".join((*lines, f"more: edgetop report {session}"))
    print_text(text, ascii_only=bool(options["ascii_only"]))
