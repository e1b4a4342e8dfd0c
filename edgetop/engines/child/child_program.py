"""The program of the engine child: load, prepare, first inference, warm-up, measure, end.

`run_model` does all of this, in the child as well as in a thread of edgetop. `main` adds what a process needs: file
descriptors, a pipe for commands, and the end when edgetop itself is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fcntl
import functools
import gc
import importlib
import json
import os
import platform
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np

from . import message_frames, own_memory
from .adapters import choose
from .board_page import on_board
from .bursts import open_bursts
from .engine_error import EngineError, essence, is_out_of_memory, one_line, typed_line
from .inputs import InputSet, make_inputs, refuse_too_large, resolve_shapes, set_images
from .loop import Control, Loop, warm_up
from .pace import pace_of, sharpen_timers
from .parallel_streams import Lanes, Streams
from .placement import count_migrations
from .profilers import Allowance
from .profilers.noted_events import samples_of
from .record_outlet import Outlet
from .stored_outputs import keep_outputs

EXIT_ORPHANED = 3

# Makes the kernel's OOM killer choose the helper first, then the engine, and not the conductor
# (proc(5), oom_score_adj: -1000..1000; a process may raise its own without privileges).
OOM_SCORE_ADJ, HELPER_OOM_SCORE_ADJ = "500", "900"


def run_model(spec: Dict[str, Any], outlet: Any, control: Control) -> None:
    """Load and run the model as `spec` says, and send everything that happens by `outlet`. Never raises.

    `spec` has the fields of `edgetop.engines.spec.EngineSpec` by name. `outlet` is an `Outlet`, which leads to
    edgetop's main process. `control` says when the user requests a stop. If memory runs out, that is reported as
    the engine's failure and not as the user's, since no option can mend it.
    """
    try:
        _run_model(spec, outlet, control)
        return
    except EngineError as error:
        stage, message, advice = error.stage, error.message, error.advice
    except BaseException as error:  # also SystemExit: in a thread, a runtime that calls exit() would end silently
        stage, message, advice = "engine", typed_line(error), ""
    if is_out_of_memory(message):
        stage, message, advice = "engine", "out of memory: " + message, ""
    outlet.send(message_frames.FAILED, {"stage": stage, "message": message, "advice": advice})


def _run_model(spec: Dict[str, Any], outlet: Any, control: Control) -> None:
    own_memory.report(outlet, own_memory.INTERPRETER)
    if spec.get("generation"):
        at_end: Optional[Callable[[], None]] = None
        if spec["generation"].get("url"):
            from . import server_load  # noqa: PLC0415  of servers alone

            requests, at_end = server_load.prepared(spec, outlet, control)
            profile = keep = _nothing
        else:
            from . import generation  # noqa: PLC0415  of language models alone

            requests, profile, keep = generation.prepared(spec, outlet, control)

        def begin_warmup() -> None:
            profile()
            _begin(outlet, "warmup")
            keep()

        reason = _run_phases(spec, requests, outlet, control, begin_warmup)
        if at_end is not None:
            at_end()
        outlet.send(message_frames.ENDED, {"reason": reason, "t_ns": time.monotonic_ns()})
        return
    begin = time.monotonic_ns()
    adapter, why = choose(spec["engine"], spec["format"], spec["providers"])
    adapter.open(spec, lambda: own_memory.report(outlet, own_memory.RUNTIME))
    set_images(adapter.inputs, spec)
    shapes, assumptions = resolve_shapes(adapter.inputs, spec["shapes"], spec["batch"], spec["inputs"])
    refuse_too_large(adapter.inputs, shapes)
    with _blaming_batch(spec):
        adapter.reshape(shapes)
    init_ns = time.monotonic_ns() - begin
    own_memory.report(outlet, own_memory.MODEL, adapter.arena() if hasattr(adapter, "arena") else None)
    inputs = make_inputs(adapter.inputs, shapes, spec["inputs"], spec["seed"], varying=_varying(spec, adapter))
    loaded = dict(adapter.describe(), why=why, init_ns=init_ns, assumptions=assumptions, input_steps=inputs.length)
    loaded["input_elements"] = inputs.elements()
    loaded["inputs"] = [dict(tensor.describe(), shape=shapes[tensor.name]) for tensor in adapter.inputs]
    outlet.send(message_frames.LOADED, loaded)
    if spec.get("rate_hz") is not None or spec.get("delay_ns") or spec.get("duty_ns") or spec.get("in_turns"):
        sharpen_timers()
    loop = _make_loop(spec, adapter, inputs, shapes, outlet, control)

    def prepare() -> None:
        # After the first inference, which must be undisturbed, and before the warm-up, in which everything settles.
        loop.bursts = open_bursts(adapter, spec, outlet, control)
        _begin(outlet, "warmup")
        keep_outputs(spec, adapter, inputs, shapes, outlet.send, lambda: control.stop_requested)

    try:
        reason = _run_phases(spec, loop, outlet, control, prepare)
    finally:
        if loop.bursts is not None:
            loop.bursts.close()
    outlet.send(message_frames.ENDED, {"reason": reason, "t_ns": time.monotonic_ns()})


def _nothing() -> None:
    """Do nothing. It stands for a step that the user did not ask for: to profile operators or to store outputs."""


def _varying(spec: Dict[str, Any], adapter: Any) -> List[str]:
    """Return the names of the inputs whose shape may change from one inference to the next.

    Inputs with a `--shape` are left out. The list is empty if `--batch` was given, or if the runtime prepares the model
    for fixed shapes.
    """
    if spec["batch"] is not None or not getattr(adapter, "takes_any_shape", False):
        return []
    return [tensor.name for tensor in adapter.inputs if tensor.name not in spec["shapes"]]


def _make_loop(
    spec: Dict[str, Any], adapter: Any, inputs: InputSet, shapes: Dict[str, List[int]], outlet: Any, control: Any
) -> Any:
    """Return the loop that runs the model: a `Loop`, or a `Streams` with several loops. Both have the same interface.

    A `Streams` is returned for several parallel inferences. It is also returned for an engine that runs in turns with
    another engine, because a `Streams` reports up to which time all records have been sent. `spec` has the fields of
    `EngineSpec` by name. `adapter` runs the model with `inputs`. `shapes` are the inputs' shapes, by name. `outlet`
    sends records, and `control` says when to stop.
    """

    def make(adapter: Any, inputs: InputSet, outlet: Any, stream: int) -> Loop:
        bind = on_board(adapter.bind, spec.get("virtual_board"))
        next_call = (lambda: bind(inputs.next())) if inputs.length > 1 else None
        call, pace = bind(inputs.first()), functools.partial(pace_of, spec, stream)
        # Streams have arrays of their own, whose numbers mean nothing beside each other.
        place = inputs.place if next_call is not None and spec.get("streams", 1) == 1 else None
        return Loop(call, outlet, control, next_call, make_pace=pace, stream=stream, place=place)

    count = spec.get("streams", 1)
    if count == 1 and not spec.get("in_turns"):  # in turns, the reader must know how far each engine has come
        return make(adapter, inputs, outlet, 0)
    lanes = Lanes(outlet, count)
    loops = [make(adapter, inputs, lanes, 0)]
    for stream in range(1, count):
        other = copy.copy(adapter) if adapter.serves_all_streams else type(adapter)()
        if not adapter.serves_all_streams:
            other.open(dict(spec, profile_every_ns=0))
            other.reshape(shapes)
        set_images(other.inputs, spec)
        varying = _varying(spec, other)
        other_inputs = make_inputs(other.inputs, shapes, spec["inputs"], spec["seed"] + stream, varying=varying)
        loops.append(make(other, other_inputs, lanes, stream))
    return Streams(loops, lanes, control)


def _run_phases(spec: Dict[str, Any], loop: Any, outlet: Any, control: Control, prepare: Callable[[], None]) -> str:
    """Run all phases: the first inference, a rest without inferences, the warm-up, the measurement.

    Return why the last phase ended: "stop", "runs" or "duration". `spec` has the fields of `EngineSpec` by name. `loop`
    runs the inferences. `outlet` sends messages, and `control` says when to stop. `prepare` is called after the rest.
    It prepares the warm-up and reports that the warm-up begins.
    """
    _begin(outlet, "first")
    with _blaming_batch(spec):
        reason: str = loop.repeat(message_frames.PHASE_FIRST, runs=1)
    own_memory.report(outlet, own_memory.FIRST)
    if reason != "stop" and spec["idle_ns"]:
        # Before `prepare`, which may start a helper process: only the idle board may draw power here.
        _begin(outlet, "idle")
        reason = _rest(spec["idle_ns"], control)
    if reason != "stop":
        prepare()
        reason = warm_up(loop, spec["warmup_runs"], spec["warmup_ns"], spec["warmup_until_steady"])
    if reason == "stop":
        return reason
    own_memory.report(outlet, own_memory.STEADY)
    if spec.get("in_turns"):
        while control.turns is None and not control.stop_requested:
            time.sleep(TURNS_POLL_S)
        spec["turns"] = control.turns or []
        spec["duration_ns"] = max(0, spec["turns"][-1][1] - time.monotonic_ns()) if spec["turns"] else 0
    limits = {"runs": spec["runs"], "duration_ns": spec["duration_ns"]}
    return str(
        loop.repeat(message_frames.PHASE_MEASURE, paced=True, announce=lambda: _begin(outlet, "measure"), **limits)
    )


@contextlib.contextmanager
def _blaming_batch(spec: Dict[str, Any]) -> Iterator[None]:
    """Context manager: if `--batch` is above 1, an EngineError in the `with` block becomes one that blames `--batch`.

    The usual cause is a model that declares an open batch but has a fixed one inside.
    """
    try:
        yield
    except EngineError as error:
        if (spec.get("batch") or 1) == 1 or is_out_of_memory(error.message):
            raise
        text = "--batch %d: the model does not run with it: %s" % (spec["batch"], essence(error.message))
        advice = "its batch is fixed inside: export it with a dynamic batch, or leave --batch out"
        raise EngineError("input", text, advice) from None


TURNS_POLL_S = 0.01
REST_S = 0.1  # a stop is noticed within this time while the engine rests


def _rest(idle_ns: int, control: Control) -> str:
    """Do nothing for `idle_ns` ns. Return "duration", or "stop" as soon as a stop is requested."""
    end = time.monotonic_ns() + idle_ns
    while not control.stop_requested:
        left = end - time.monotonic_ns()
        if left <= 0:
            return "duration"
        time.sleep(min(left / 1e9, REST_S))
    return "stop"


def _begin(outlet: Any, phase: str) -> None:
    outlet.send(message_frames.PHASE, {"phase": phase, "t_ns": time.monotonic_ns()})


def main(argv: List[str]) -> int:
    parser = argparse.ArgumentParser(prog="edgetop-engine")
    parser.add_argument("--control", type=int, required=True, help="file descriptor to read commands from")
    parser.add_argument("--helper", action="store_true", help="be the helper of an engine, which profiles for it")
    parser.add_argument("--data", type=int, required=True, help="file descriptor to write frames to")
    options = parser.parse_args(argv)
    # systemd ends a service by signals to all its processes (systemd.kill(5)), but this one is ended by the conductor.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _continue_at_news(options.control)
    if options.helper:
        return _help(options.control, options.data)
    outlet = Outlet(options.data)
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    outlet.send(message_frames.HELLO, {"pid": os.getpid(), "executable": sys.executable, **versions})
    control = Control()
    commands = os.fdopen(options.control, "r", encoding="utf-8")
    os.set_inheritable(options.control, False)
    line = commands.readline()
    if not line:
        return EXIT_ORPHANED
    spec = json.loads(line)
    own_memory.yield_to_the_oom_killer(OOM_SCORE_ADJ)
    if spec.get("cpus"):
        os.sched_setaffinity(0, spec["cpus"])
    # No code here makes reference cycles, and a collection within the timed loop would be measured.
    gc.disable()
    note = spec.get("end_note", "")
    threading.Thread(target=_obey, args=(commands, control, outlet, note), name="control", daemon=True).start()
    count_migrations()  # before the runtime has threads
    run_model(spec, outlet, control)
    outlet.finish()
    # Exit without unloading the runtime, since the destructors of some runtimes crash.
    os._exit(0)


def _continue_at_news(control_fd: int) -> None:
    """Let the kernel continue this process, if stopped, when a command arrives or edgetop is gone.

    Without this, a stopped process would not notice that edgetop has ended, and would stay for ever. `control_fd` is
    the pipe of the commands. Each event of the pipe sends SIGCONT. A running process ignores it (fcntl(2), F_SETSIG;
    fs/pipe.c, pipe_release).
    """
    with contextlib.suppress(OSError, AttributeError):  # the kernel or Python lacks it
        fcntl.fcntl(control_fd, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(control_fd, fcntl.F_SETSIG, signal.SIGCONT)
        fcntl.fcntl(control_fd, fcntl.F_SETFL, fcntl.fcntl(control_fd, fcntl.F_GETFL) | os.O_ASYNC)


def _obey(commands: Any, control: Control, outlet: Outlet, end_note: str) -> None:
    """Carry out edgetop's commands until edgetop is gone, then exit the process, even within a long inference.

    `commands` yields lines of JSON. `control` and `outlet` belong to the run that the commands are for. `end_note` is
    the path of a note for `edgetop recover`, or "" for no note. The exit status is 0 if the run was already over, else
    EXIT_ORPHANED.
    """
    with contextlib.suppress(OSError):  # code in this process has closed the pipe, and nothing can stop it any more
        for line in commands:
            message = json.loads(line)
            command = message.get("command")
            if command == "stop":
                control.stop_requested = True
            elif command == "profile":
                control.profile_requested = True
            elif command == "turns":
                control.turns = message["turns"]
    if not outlet.is_over and end_note:
        _leave_note(end_note, outlet.put_count)
    os._exit(0 if outlet.is_over else EXIT_ORPHANED)


def _leave_note(path: str, count: int) -> None:
    """Write a file with the time and `count`, the number of inferences sent so far.

    `edgetop recover` learns from the file how much of the recording is lost. `count` may lack the inferences of the
    last 20 ms.
    """
    with contextlib.suppress(OSError):  # the folder is gone, or full
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="ascii") as file:
            json.dump({"t_ns": time.monotonic_ns(), "inferences": count}, file)


def _help(control_fd: int, data_fd: int) -> int:
    """Run as an engine's helper (profilers/helper.py): make a profiler, and answer each request with a profile.

    `control_fd` is the pipe of the requests, and `data_fd` is the pipe of the answers. Both carry lines of JSON.
    Returns the exit code.
    """
    import queue  # noqa: PLC0415  only for helpers

    os.set_inheritable(control_fd, False)
    os.set_inheritable(data_fd, False)
    requests: "queue.Queue[Dict[str, Any]]" = queue.Queue()
    threading.Thread(target=_listen, args=(control_fd, requests), daemon=True).start()
    own_memory.yield_to_the_oom_killer(HELPER_OOM_SCORE_ADJ)
    first = requests.get()
    try:
        adapter, _ = choose(first["spec"]["engine"], first["spec"]["format"])
        module = importlib.import_module(".profilers." + first["service"], __package__)
        service = module.Service(first["spec"], adapter)
        _send(data_fd, {"way": service.way})
        samples = samples_of(first["spec"])
        while True:
            request = requests.get()
            begin = time.monotonic_ns()
            service.make_ready()
            # The preparation has made the pause long already, so runs may take as much time again.
            budget_ns = max(request["budget_ns"], time.monotonic_ns() - begin)
            _send(data_fd, service.burst(Allowance(budget_ns, lambda: False, request["max_runs"], samples)))
    except Exception as error:  # runtimes raise errors of any type
        _send(data_fd, {"refused": one_line(error)})
    return 0


def _listen(control_fd: int, requests: Any) -> None:
    """Put the engine's requests into the queue `requests`.

    When the engine is gone, exit, even within a long inference.
    """
    with os.fdopen(control_fd, encoding="utf-8") as lines:
        for line in lines:
            requests.put(json.loads(line))
    os._exit(0)


def _send(data_fd: int, message: Dict[str, Any]) -> None:
    left = json.dumps(message).encode() + b"\n"
    while left:
        left = left[os.write(data_fd, left) :]
