"""What the child does, in order: load, prepare, first inference, warm-up, measure, end.

`run_model` is the whole story and is the same in a thread of the app; `main` is what makes
it a process: file descriptors, the control pipe, and an end when the conductor goes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from . import frames, memory
from .adapters import choose
from .bursts import open_bursts
from .errors import EngineError, is_out_of_memory, one_line
from .inputs import InputSet, make_inputs, refuse_too_large
from .kept import keep_outputs
from .loop import Control, Loop, warm_up
from .outlet import PipeOutlet
from .pace import pace_of
from .shapes import resolve_shapes
from .streams import Lanes, Streams
from .virtual_board import Bind, on_board
from .waiting import sharpen_timers

EXIT_ORPHANED = 3

# How much likelier the kernel's OOM killer takes the engine than the conductor beside it
# (proc(5), oom_score_adj: -1000..1000; raising one's own needs no privilege).
OOM_SCORE_ADJ = "500"


def run_model(spec: Dict[str, Any], outlet: Any, control: Control) -> None:
    """Run `spec` to its end and tell `outlet` what happens. Never raises.

    spec: {"model", "format", "engine", "threads", "batch", "providers", "delegates", "xnnpack", "whole",
    "inputs", "shapes", "seed", "idle_ns", "warmup_runs", "warmup_ns", "warmup_until_steady",
    "runs", "duration_ns", "profile_every_ns", "rate_hz", "arrivals", "streams", "delay_ns",
    "duty_ns", "in_turns", "virtual_board", "keep_outputs", "outputs_file"}; see `edgetop.engines.spec`.
    """
    try:
        _run_model(spec, outlet, control)
    except EngineError as error:
        _fail(outlet, error.stage, error.message, error.advice)
    except BaseException as error:  # SystemExit too: in a thread, a runtime that calls exit() would end without a word
        _fail(outlet, "engine", "%s: %s" % (type(error).__name__, one_line(error)))


def _fail(outlet: Any, stage: str, message: str, advice: str = "") -> None:
    """Memory that runs out is not for the user's command line to mend, at whatever stage it does."""
    if is_out_of_memory(message):
        stage, message, advice = "engine", "out of memory: " + message, ""
    outlet.send(frames.FAILED, {"stage": stage, "message": message, "advice": advice})


def _run_model(spec: Dict[str, Any], outlet: Any, control: Control) -> None:
    memory.report(outlet, memory.INTERPRETER)
    begin = time.monotonic_ns()
    adapter, why = choose(spec["engine"], spec["format"], spec["providers"])
    adapter.open(spec, lambda: memory.report(outlet, memory.RUNTIME))
    shapes, assumptions = resolve_shapes(adapter.inputs, spec["shapes"], spec["batch"], spec["inputs"])
    refuse_too_large(adapter.inputs, shapes)
    adapter.reshape(shapes)
    loaded = time.monotonic_ns()
    memory.report(outlet, memory.MODEL)
    inputs = make_inputs(adapter.inputs, shapes, spec["inputs"], spec["seed"])
    _announce(outlet, adapter, why, shapes, assumptions, loaded - begin, inputs.length)
    if spec.get("rate_hz") is not None or spec.get("delay_ns") or spec.get("duty_ns") or spec.get("in_turns"):
        sharpen_timers()
    loop = _loop(spec, adapter, inputs, shapes, outlet, control)
    try:
        reason = _run_phases(
            spec,
            loop,
            outlet,
            control,
            lambda: _bursts(spec, adapter, outlet, control),
            lambda: keep_outputs(spec, adapter, inputs, shapes, outlet.send, lambda: control.stop_requested),
        )
    finally:
        if loop.bursts is not None:
            loop.bursts.close()
    outlet.send(frames.ENDED, {"reason": reason, "t_ns": time.monotonic_ns()})


def _announce(
    outlet: Any, adapter: Any, why: str, shapes: Dict[str, List[int]], assumptions: List[str], init_ns: int, steps: int
) -> None:
    message = adapter.describe()
    message.update(
        why=why,
        init_ns=init_ns,
        inputs=[dict(tensor.describe(), shape=shapes[tensor.name]) for tensor in adapter.inputs],
        assumptions=assumptions,
        input_steps=steps,
    )
    outlet.send(frames.LOADED, message)


def _loop(
    spec: Dict[str, Any], adapter: Any, inputs: InputSet, shapes: Dict[str, List[int]], outlet: Any, control: Any
) -> Any:
    """What repeats inferences: a loop, or one for each of several streams."""
    count = spec.get("streams", 1)
    if count == 1 and not spec.get("in_turns"):  # whose reader must know how far each engine has come
        return _one_loop(spec, adapter, inputs, outlet, control)
    lanes = Lanes(outlet, count)
    loops = [_one_loop(spec, adapter, inputs, lanes.all[0], control)]
    for stream in range(1, count):
        other = adapter.another(shapes)
        theirs = make_inputs(other.inputs, shapes, spec["inputs"], spec["seed"] + stream)
        loops.append(_one_loop(spec, other, theirs, lanes.all[stream], control, stream))
    return Streams(loops, lanes, control)


def _one_loop(spec: Dict[str, Any], adapter: Any, inputs: InputSet, outlet: Any, control: Any, stream: int = 0) -> Loop:
    bind = on_board(adapter.bind, spec.get("virtual_board"))
    call, stepper = bind(inputs.first()), _stepper(bind, inputs)
    return Loop(call, outlet, control, stepper, make_pace=lambda: pace_of(spec, stream), stream=stream)


def _bursts(spec: Dict[str, Any], adapter: Any, outlet: Any, control: Any) -> Any:
    if spec.get("streams", 1) > 1 and spec.get("profile_every_ns"):
        reason = "with several streams, what one of them does cannot be told from what the others do"
        outlet.send(frames.PROFILER, {"way": "", "reason": reason})
        return None
    return open_bursts(adapter, spec, outlet, control)


def _stepper(bind: Bind, inputs: InputSet) -> Optional[Callable[[], Any]]:
    if inputs.length <= 1:
        return None
    return lambda: bind(inputs.next())


def _run_phases(
    spec: Dict[str, Any],
    loop: Any,
    outlet: Any,
    control: Control,
    make_bursts: Callable[[], Any],
    keep: Callable[[], None],
) -> str:
    _begin(outlet, "first")
    reason: str = loop.repeat(frames.PHASE_FIRST, runs=1)
    memory.report(outlet, memory.FIRST)
    if reason != "stop" and spec["idle_ns"]:
        # Before the bursts are made ready, which may start a helper: nothing but the board itself may draw power.
        _begin(outlet, "idle")
        reason = _rest(spec["idle_ns"], control)
    if reason != "stop":
        # After an inference that nothing had touched, and before the warm-up, after which all has settled again.
        loop.bursts = make_bursts()
        _begin(outlet, "warmup")
        keep()
        reason = warm_up(loop, spec["warmup_runs"], spec["warmup_ns"], spec["warmup_until_steady"])
    if reason != "stop":
        memory.report(outlet, memory.STEADY)
        if spec.get("in_turns"):
            spec["turns"] = _await_turns(control)
            spec["duration_ns"] = max(0, spec["turns"][-1][1] - time.monotonic_ns()) if spec["turns"] else 0
        reason = loop.repeat(
            frames.PHASE_MEASURE,
            runs=spec["runs"],
            duration_ns=spec["duration_ns"],
            paced=True,
            announce=lambda: _begin(outlet, "measure"),
        )
    return reason


def _await_turns(control: Control) -> List[List[int]]:
    """Wait until it is known when this engine has its turns; there are none where a stop is asked for first."""
    while control.turns is None and not control.stop_requested:
        time.sleep(TURNS_LOOK_S)
    return control.turns or []


TURNS_LOOK_S = 0.01
REST_S = 0.1  # how late a stop may be heeded in it


def _rest(idle_ns: int, control: Control) -> str:
    """Do nothing for so long; "stop" where that is asked for meanwhile."""
    end = time.monotonic_ns() + idle_ns
    while not control.stop_requested:
        left = end - time.monotonic_ns()
        if left <= 0:
            return "duration"
        time.sleep(min(left / 1e9, REST_S))
    return "stop"


def _begin(outlet: Any, phase: str) -> None:
    outlet.send(frames.PHASE, {"phase": phase, "t_ns": time.monotonic_ns()})


def _leave_signals_to_the_conductor() -> None:
    """systemd ends a service by signals to all its processes at once (systemd.kill(5)): who conducts ends this one."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def main(argv: List[str]) -> int:
    options = _parse(argv)
    _leave_signals_to_the_conductor()
    if options.helper:
        from . import serve  # noqa: PLC0415  most engines never need it

        return serve.main(options.control, options.data)
    outlet = PipeOutlet(options.data)
    outlet.send(
        frames.HELLO,
        {
            "pid": os.getpid(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "executable": sys.executable,
        },
    )
    control = Control()
    commands = os.fdopen(options.control, "r", encoding="utf-8")
    os.set_inheritable(options.control, False)
    line = commands.readline()
    if not line:
        return EXIT_ORPHANED
    spec = json.loads(line)
    memory.yield_to_the_oom_killer(OOM_SCORE_ADJ)
    _pin(spec.get("cpus"))
    # Nothing here makes reference cycles, and a collection inside the timed loop would be measured.
    gc.disable()
    threading.Thread(target=_obey, args=(commands, control), name="control", daemon=True).start()
    run_model(spec, outlet, control)
    outlet.finish()
    # Leave without unloading the runtime: some crash in their destructors after a good run.
    os._exit(0)


def _parse(argv: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="edgetop-engine")
    parser.add_argument("--control", type=int, required=True, help="file descriptor to read commands from")
    parser.add_argument("--helper", action="store_true", help="be the helper of an engine, which profiles for it")
    parser.add_argument("--data", type=int, required=True, help="file descriptor to write frames to")
    return parser.parse_args(argv)


def _obey(commands: Any, control: Control) -> None:
    """Wait for commands; when the conductor is gone, be gone too, even within a long inference."""
    for line in commands:
        message = json.loads(line)
        command = message.get("command")
        if command == "stop":
            control.stop_requested = True
        elif command == "profile":
            control.profile_requested = True
        elif command == "turns":
            control.turns = message["turns"]
    os._exit(EXIT_ORPHANED)


def _pin(cpus: Optional[List[int]]) -> None:
    if cpus:
        os.sched_setaffinity(0, cpus)
