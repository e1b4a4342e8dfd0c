"""Builds a session from a `RunRequest`, runs it, and shows it until it ends."""

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgetop.cli.config import line_settings, screen_settings
from edgetop.cli.output import print_text
from edgetop.cli.running import session_parts, trial_run, unattended
from edgetop.cli.running.exporters import Exporters
from edgetop.cli.running.first_manifest import first_manifest
from edgetop.cli.running.live_session import LiveSession, Observer
from edgetop.cli.running.run_request import (
    DemoSubject,
    ModelSubject,
    ProgramSubject,
    RunRequest,
    Showing,
    Subject,
    VariantsSubject,
    model_of,
)
from edgetop.cli.running.session_board import (
    BoardInUse,
    cool_board,
    find_sensors,
    log_spec,
    open_board,
    refuse_unknown_ambient,
    with_one_wire,
)
from edgetop.cli.running.session_end import End, end_of
from edgetop.cli.terminal import PROMPT_HINT, Terminal, how_to_come_back
from edgetop.cli.viewing import signals_to, why_no_screen
from edgetop.engines.engine_protocol import Engine
from edgetop.engines.formats import ModelFile
from edgetop.engines.process_engine import measure_shapes
from edgetop.engines.spec import EngineSpec
from edgetop.errors import InputError
from edgetop.feeds.live import LiveFeed
from edgetop.frozen import frozen
from edgetop.recording.recorder import BackgroundRecorder, Recorder
from edgetop.recording.session_folder import LOG, PROGRAM_LOG, FolderHandle
from edgetop.recording.table_writer import ChildTableWriter
from edgetop.runner.cgroup_limits import enclosed
from edgetop.runner.conductor import Conductor
from edgetop.runner.delegation import FullyDelegated
from edgetop.runner.engine_limit import Limit
from edgetop.runner.measured_ceilings import default_path, stored
from edgetop.runner.rotation import Rotation
from edgetop.runner.session_sensors import SessionSensors
from edgetop.runner.session_state import SessionState
from edgetop.runner.sized_inputs import SizedInputs
from edgetop.sensors.discovery import discover_engine
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Found, sampled
from edgetop.session.batch import Batch
from edgetop.session.clock import SystemClock
from edgetop.session.event_kinds import AlertRuleSet, GateSet, Remark
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.typed_json import Document

if TYPE_CHECKING:
    from edgetop.engines.spawn import Child
    from edgetop.ui.screen_settings import ScreenSettings

BEGINNING_PATIENCE_S = 60.0  # --detach returns after this time even if the model is still loading
PROGRAM_PATIENCE_NS = 3_000_000_000  # the same for a watched program, which may never run an inference
BEGINNING_LOOK_S = 0.1
LOADING_GRACE_S = 0.1  # wait before a screen opens, so that a quick failure to load is reported without one
NO_SCREEN_ADVICE = "edgetop {command} --headless prints lines instead, and --detach leaves it running"
THROTTLE_SIGNS = frozenset({"temp", "freq", "cooling", "throttle", "power"})  # kinds of sensors that show throttling
_M_ARENA_MAX, _M_TRIM_THRESHOLD = -8, -1  # malloc.h of glibc


def run_session(request: RunRequest, terminal: Terminal, engine_child: "Child | None" = None) -> End:
    """Run the requested session to its end, and return how it ended. Raises InputError if it cannot begin.

    `terminal` is where the session is shown. `engine_child` is a process that already waits to become the engine; None
    to start one.
    """
    settings, showing = None, request.showing
    if _has_screen(showing):
        settings = screen_settings(showing.screen)
    else:
        refresh_ns, is_ascii = line_settings(showing.screen)
        showing = replace(showing, screen=replace(showing.screen, refresh_ns=refresh_ns, ascii_only=is_ascii))
        request = replace(request, showing=showing)
    if showing.junit:
        from edgetop.cli.printing.junit import refuse_unwritable  # noqa: PLC0415  where it is asked for

        refuse_unwritable(showing.junit)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # mallopt(3); musl has and needs none
    is_thread = isinstance(request.subject, ModelSubject) and request.subject.isolation == "thread"
    if mallopt and not is_thread:  # an engine that runs as a thread of this process needs several arenas
        mallopt(_M_ARENA_MAX, 1)  # one arena for all threads saves 4 MiB
        mallopt(_M_TRIM_THRESHOLD, 128 * 1024)  # return free memory at the end of the heap to the system at once
    with contextlib.ExitStack() as last:
        with contextlib.ExitStack() as stack, contextlib.ExitStack() as signals:
            exporters, managers = Exporters(request.metrics, stack, last), unattended.service_managers(stack)
            session = _assemble(request, stack, signals, engine_child)
            exporters.session_state = session.state
            session.conductor.start()
            session.analyse([*_observers(request, session, stack), *exporters.observers, *managers])
            if request.keeping.quota_bytes:
                unattended.keep_room(session, request.keeping.quota_bytes, stack)
            stack.callback(session.stop_observers)
            _show(session, showing, terminal, settings)
        return end_of(session, request)


def _has_screen(showing: Showing) -> bool:
    return not (showing.headless or showing.detach)


def _command_of(subject: Subject) -> str:
    """Return the name of the edgetop command that runs or watches `subject`, such as `run`."""
    match subject:
        case ProgramSubject():
            return "watch"
        case VariantsSubject():
            return "ab"
        case DemoSubject():
            return "demo"
        case ModelSubject():
            return "run"


@frozen
class _Setup:
    """The prepared parts of a session that has not begun."""

    model: ModelFile
    board: BoardInUse
    board_sensors: Found
    spec: EngineSpec
    folder: Path | None  # folder of the recording, if there is one
    manifest: Manifest
    engine: Engine


def _set_up(
    request: RunRequest, stack: contextlib.ExitStack, clock: SystemClock, engine_child: "Child | None"
) -> _Setup:
    subject, keeping = request.subject, request.keeping
    if isinstance(subject, ProgramSubject):
        model = session_parts.program_file(subject.program)
    else:
        model = session_parts.find_model(model_of(subject))
    if isinstance(subject, VariantsSubject):
        session_parts.find_model(subject.variants[1].model)
    board = stack.enter_context(open_board(request))
    spec = session_parts.spec_of(request, model, board.page_path)
    folder = session_parts.recording_folder(request, model)
    name = folder.stem if folder else model.path.stem
    session_parts.refuse_absent(request, folder)
    log_spec(request.board.power_log)
    no_screen = (
        why_no_screen(NO_SCREEN_ADVICE.format(command=_command_of(subject))) if _has_screen(request.showing) else None
    )
    board_sensors = with_one_wire(keeping.ambient_sensor, board.discover(), board.root)
    refuse_unknown_ambient(keeping.ambient_sensor, board_sensors)
    cooldown = None if no_screen else cool_board(request, board, board_sensors)
    manifest = first_manifest(request, name, model, spec, board.identity(), clock, cooldown)
    spec = session_parts.with_end_note(session_parts.with_outputs_file(spec, folder), folder, keeping)
    engine: Engine
    match subject:
        case ProgramSubject(program, limit):
            program.output = folder / PROGRAM_LOG if folder else None
            # In a container, the runtime sets the limits.
            enclosure = stack.enter_context(enclosed(limit if program.executable else Limit()))
            program.prefix, program.cgroups = enclosure.scope, enclosure.cgroups
            engine = program
        case VariantsSubject():
            engine = session_parts.engine_in_turns(request, board_sensors, stack, folder)
        case ModelSubject() | DemoSubject():
            engine = _model_engine(subject, spec, stack, engine_child)
    if no_screen:  # told after what is wrong in the command line
        find_sensors(request.board, board_sensors, board.root, clock.monotonic_ns)
        unrunnable = None if isinstance(subject, ProgramSubject) else trial_run.why_unrunnable(request)
        raise unrunnable or no_screen
    if request.board.monitor_cpus:
        os.sched_setaffinity(0, request.board.monitor_cpus)
    return _Setup(model, board, board_sensors, spec, folder, manifest, engine)


def _assemble(
    request: RunRequest,
    stack: contextlib.ExitStack,
    signals: contextlib.ExitStack,
    engine_child: "Child | None" = None,
) -> LiveSession:
    """Build the session, ready to start. The order of the steps matters.

    `stack` closes the parts of the session. Until `signals` is closed, a signal ends the session cleanly.
    `engine_child` is a process that already waits to become the engine; None to start one.
    """
    clock = SystemClock()
    setup = _set_up(request, stack, clock, engine_child)
    board, manifest, engine, folder = setup.board, setup.manifest, setup.engine, setup.folder
    state = SessionState(manifest, setup.spec, clock, partial(stored, path=default_path()))
    session = LiveSession(LiveFeed(outlives_its_screen=folder is not None), state)
    origin_ns = manifest.clock.origin_monotonic_ns
    sensors = find_sensors(request.board, setup.board_sensors, board.root, lambda: clock.monotonic_ns() - origin_ns)
    _record_request(state, request, setup.model, sensors)
    signals.enter_context(signals_to(session.on_signal))
    retention = session_parts.retention(request.keeping)
    recorder = Recorder(folder, manifest, retention, ChildTableWriter()) if folder else None
    rotation = None
    if request.keeping.rotate_ns:
        report = partial(state.add_event, Remark("rotation-failed"), "critical", "edgetop")
        make = partial(unattended.following, request, setup.model, session)
        rotation = Rotation(request.keeping.rotate_ns, make, report)
    subject = request.subject
    url = None if isinstance(subject, ProgramSubject) else model_of(subject).url
    of_engine = partial(_engine_sensors, board, isolation=engine.isolation, url=url, sample_s=request.board.sample_s)
    python = None if isinstance(subject, ProgramSubject) else session_parts.interpreter(model_of(subject).python)
    conductor = Conductor(
        engine=engine,
        sensors=SessionSensors(Sampler((), clock, origin_ns), sensors, of_engine, state),
        recorder=BackgroundRecorder(recorder) if recorder else None,
        feed=session,
        session_state=state,
        clock=clock,
        derived=partial(_derived, in_turns=isinstance(subject, VariantsSubject)),
        rotation=rotation,
        measure_shapes=partial(measure_shapes, setup.spec, python),
    )
    board.start(partial(state.add_event, Remark("virtual-board"), "info", "virtual board"))
    session.begin(conductor, recorder.handle if recorder else None)
    return session


def _observers(request: RunRequest, session: LiveSession, stack: contextlib.ExitStack) -> list[Observer]:
    """Return the functions to call with the analysis once a second.

    Functions that must be closed are registered with `stack`. The modules of the functions are imported here, while the
    engine loads its model.
    """
    observers: list[Observer] = []
    if request.judging.fail_fast:
        from edgetop.cli.running.early_end import FailFast  # noqa: PLC0415

        observers.append(FailFast(session.state, session.conductor.stop).observe)
    if isinstance(request.subject, VariantsSubject):
        from edgetop.cli.running.early_end import stop_when_resolved  # noqa: PLC0415

        observers.append(partial(stop_when_resolved, session.conductor.stop))
    if request.judging.hooks:
        from edgetop.cli.event_hooks import EventHooks  # noqa: PLC0415

        hooks = EventHooks(request.judging.hooks, session.state, SystemClock(), partial(_about, session))
        stack.callback(hooks.finish)
        observers.append(hooks.observe)
    return observers


def _about(session: LiveSession) -> Document:
    """Return what commands of `--on-event` learn about the session: name, id, path, and whether it is simulated."""
    manifest, path = session.state.manifest, str(session.name) if session.folder else None
    return {"name": manifest.name, "id": manifest.id, "path": path, "simulated": manifest.board.simulated}


def _record_request(session_state: SessionState, request: RunRequest, model: ModelFile, sensors: Found) -> None:
    """Record the gates (`--fail-if`) and alert rules of the request as events, to be applied again by reports.

    Further events say if the model is the built-in one, if its file has a wrong suffix, and if no sensor can show
    throttling.
    """
    subject = request.subject
    choice = None if isinstance(subject, ProgramSubject) else model_of(subject)
    if choice and choice.path is None and choice.url is None:
        text = "no model was given, so this is the built-in demo model"
        session_state.add_event(Remark("demo-model"), "info", "edgetop", text)
    if model.misnamed:
        session_state.add_event(
            Remark("model-misnamed"), "warning", "edgetop", f"{model.path.name} holds a {model.format} model"
        )
    for gate in request.judging.gates:
        session_state.add_event(GateSet(gate.text), "info", "user", f"fails if {gate.text}")
    for rule in request.judging.alerts:
        session_state.add_event(AlertRuleSet(rule.text), "info", "user", f"alert if {rule.text}")
    if not any(info.kind in THROTTLE_SIGNS for source in sensors.sources for info in source.sensors):
        text = "no temperature, clock or power sensor can be read, so throttling cannot be detected"
        session_state.add_event(Remark("no-sensors"), "warning", "edgetop", text)


def _engine_sensors(
    board: BoardInUse, pid: int, *, isolation: str, url: str | None = None, sample_s: float | None = None
) -> Found:
    """Return the sensors of the engine's process, such as its memory and CPU use.

    `pid` is the engine's process id. `isolation` is `process`, `thread` or `program`. `url` is the URL of a
    language-model server; if the server runs on this machine, its process is measured instead. For Ollama, that is the
    process that runs its model, if exactly one is loaded. `sample_s` is the interval of readings in s; None lets each
    sensor choose.
    """
    if url is not None:
        from edgetop.engines.child.ollama import runner_of  # noqa: PLC0415  of servers alone
        from edgetop.sensors.listening import listener_of  # noqa: PLC0415

        parts = urlsplit(url)
        pid = listener_of(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)) or pid
        pid = runner_of(pid) or pid
    board.engine_started(pid)
    kinds = {"shares_process": isolation == "thread", "is_program": isolation == "program"}
    return sampled(discover_engine(pid, **kinds, board=board.root), sample_s)


def _model_engine(
    subject: ModelSubject | DemoSubject, spec: EngineSpec, stack: contextlib.ExitStack, child: "Child | None"
) -> Engine:
    engine: Engine
    if isinstance(subject, ModelSubject) and subject.isolation == "thread":
        from edgetop.engines.thread import OutputCapture, ThreadEngine  # noqa: PLC0415  with all that the child loads

        engine = ThreadEngine(spec, stack.enter_context(OutputCapture()))
    else:
        engine = session_parts.process_engine(subject.model, spec, stack, child)
    engine = SizedInputs(engine)
    if not subject.model.needs_full_delegation:
        return engine
    if not spec.profile_every_ns:
        raise InputError("--require-full-delegation needs --profile-every, which shows where operators run")
    return FullyDelegated(engine, spec)


def _derived(*, in_turns: bool) -> Callable[[Batch], tuple[Event, ...]]:
    """Return a function that takes the next data of the session and returns new events, such as throttling.

    `in_turns` is true for an A/B session.
    """
    from edgetop.analysis.slowdowns.throttles import ThrottleEvents  # noqa: PLC0415  not before the engine has started
    from edgetop.wording.event_words import worded  # noqa: PLC0415

    folds: list[Callable[[Batch], tuple[Event, ...]]] = [ThrottleEvents().fold]
    if in_turns:
        from edgetop.analysis.ab_quads import QuadEvents  # noqa: PLC0415

        folds.append(QuadEvents().fold)
    return lambda batch: tuple(worded(event) for fold in folds for event in fold(batch))


def _show(session: LiveSession, showing: Showing, terminal: Terminal, settings: "ScreenSettings | None") -> None:
    """Show the session until it is over. A screen stays open until the user leaves it.

    `settings` are the settings of the screen; None for no screen.
    """
    from edgetop.cli.running.headless import follow  # noqa: PLC0415  loaded while the engine loads its model

    print_lines = partial(
        follow,
        session.feed,
        session.analysis,
        pause=session.feed.ended.wait,
        live_ns=showing.screen.refresh_ns if showing.live else None,
        notifies=showing.screen.notify,
        ascii_only=bool(showing.screen.ascii_only),
    )
    if showing.detach:
        _await_beginning(session)
    elif settings:
        if session.folder:
            settings = replace(settings, recording=session.folder.name, recorded_in=lambda: session.name)
        from edgetop.cli.running.other_processes import OtherProcesses  # noqa: PLC0415  of a screen alone

        settings = replace(settings, processes=OtherProcesses())
        from edgetop.ui.app import show  # noqa: PLC0415  Textual loads while the engine loads its model

        session.conductor.began_measuring.wait(LOADING_GRACE_S)
        if not (session.conductor.outcome and isinstance(session.conductor.outcome.error, InputError)):
            failure = show(session.feed, session.analysis, settings, lambda: session.leave_now, session.note_interrupt)
            if failure:
                print_text(f"edgetop: the screen failed ({failure}); the session continues without it", err=True)
    if not showing.detach and (showing.headless or not (session.folder or session.feed.ended.is_set())):
        print_lines(lambda: session.hung_up)
    if session.folder and session.is_running:
        _run_in_background(session, session.folder, terminal, pipes_too=showing.detach)
    if not session.feed.ended.is_set():
        print_lines(log=session.folder.path / LOG if session.folder else None)


def _await_beginning(session: LiveSession) -> None:
    """Wait until the first inference has ended, for 60 s at most.

    So an early failure is printed while the user still looks at the terminal.
    """
    until_s = time.monotonic() + BEGINNING_PATIENCE_S
    while session.is_running and not session.hung_up and time.monotonic() < until_s:
        session.feed.ended.wait(BEGINNING_LOOK_S)
        session.analysis.catch_up(session.feed)
        progress = session.analysis.progress.view()
        if progress.phase in ("warmup", "measure") or (progress.is_program and progress.now_ns > PROGRAM_PATIENCE_NS):
            return


def _run_in_background(session: LiveSession, folder: FolderHandle, terminal: Terminal, *, pipes_too: bool) -> None:
    """Release the terminal and continue without it. `pipes_too` also releases standard streams that are pipes.

    `folder` is the folder of the recording, where output goes from then on.
    """
    launcher_died = terminal.has_lost_launcher
    if launcher_died or not session.hung_up:
        print_text(how_to_come_back(folder.name), err=True)
    if launcher_died:
        print_text(PROMPT_HINT, err=True)
    try:
        terminal.release(folder.path / LOG, pipes_too=pipes_too)
    except OSError as error:  # such as a full disk: staying on the terminal is better than ending
        print_text(f"edgetop: {folder.name / LOG}: {error.strerror}: the run stays on this terminal", err=True)
        return
    why = "the terminal hung up" if session.hung_up else "its screen was left"
    if launcher_died:
        why = "the process that waited for the run was killed"
    session.state.add_event(Remark("detached"), "info", "edgetop", f"{why}: the run continues without it")
