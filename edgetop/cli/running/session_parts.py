"""Makes the parts of a session from a `RunRequest`: the engine and its specification, the folder, the manifest.

This module reads files, but writes none.
"""

import errno
import importlib.util
import itertools
import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgetop import demo
from edgetop.cli.options import AUTO_WARMUP
from edgetop.cli.running.run_request import (
    Keeping,
    LoadRequest,
    ModelChoice,
    Phases,
    ProgramSubject,
    RunRequest,
    VariantsSubject,
    model_of,
)
from edgetop.engines.child.adapters import RUNTIMES, runtimes_of
from edgetop.engines.child.literals import is_literal, is_made_up
from edgetop.engines.child.plugins import GROUP, entry_points
from edgetop.engines.formats import ModelFile, identify
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import ALIASES, DEFAULT_WARMUP_RUNS, GENERATION_WARMUP_RUNS, EngineSpec, engine_for
from edgetop.errors import InputError
from edgetop.formatting import quantity
from edgetop.installation import extra_command
from edgetop.paths import as_component, is_there, recordings_home
from edgetop.recording.kept_outputs import outputs_file
from edgetop.recording.session_folder import END_NOTE, SUFFIX, Retention, refuse_folder, session_folder
from edgetop.runner.cgroup_limits import enclosed
from edgetop.sensors.core_pmus import core_pmus
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found
from edgetop.session.seconds import NS

if TYPE_CHECKING:
    from edgetop.engines.spawn import Child
    from edgetop.engines.turn_engine import TurnsEngine
    from edgetop.taps.watched_container import WatchedContainer
    from edgetop.taps.watched_process import WatchedProcess
    from edgetop.taps.watched_program import WatchedProgram

EXTRAS = {
    "onnxruntime": "onnx",
    "litert": "tflite",
    "tflite-runtime": "tflite-runtime",
    "llama.cpp": "llm",
    "openvino": "openvino",
    "ncnn": "ncnn",
}  # extra by runtime
SERVER = "server"  # the format and the engine of a language model behind a URL
POWER_TURN_NS = NS  # shortest turn if a sensor reads the power of the board, since few update more often


def find_model(choice: ModelChoice) -> ModelFile:
    """Return the model file that the user named, or else the built-in model.

    The built-in model is taken in a format that an installed runtime can run. Raises InputError if there is no such
    file or no runtime.
    """
    if choice.url is not None:
        return server_file(choice.url)
    if choice.path is not None:
        is_plugin = choice.engine is not None and choice.engine not in (*RUNTIMES, *ALIASES, "auto")
        return identify(choice.path, choice.engine if is_plugin and choice.engine in entry_points(GROUP) else "")
    if choice.engine in RUNTIMES:
        own = next((one for one in RUNTIMES[choice.engine].formats if one in demo.FORMATS), None)
        if own is not None:
            return identify(demo.model_path(own))
    if choice.python is not None:  # what another interpreter has installed is only known by running it
        return identify(demo.model_path("onnx"))
    for runtime in RUNTIMES.values():  # ONNX first
        if runtime.formats[0] in demo.FORMATS and importlib.util.find_spec(runtime.module) is not None:
            return identify(demo.model_path(runtime.formats[0]))
    raise InputError("no inference runtime is installed", f"{extra_command('onnx')}, or {extra_command('tflite')}")


def engine_spec(
    choice: ModelChoice,
    model: ModelFile,
    phases: Phases,
    load: LoadRequest | None = None,
    *,
    keep_outputs: int = 0,
    in_turns: bool = False,
    monitor_cpus: Sequence[int] = (),
    virtual_board: str | None = None,
) -> EngineSpec:
    """Return what an engine process needs to know: the model, its runtime and options, the phases and the load.

    `load` None means one inference right after another. `keep_outputs` is the number of inferences whose outputs are
    kept. `in_turns` is true in an A/B session. `monitor_cpus` are the CPUs that edgetop itself is pinned to; () for no
    pinning. The engine must not inherit this pinning. `virtual_board` is the path of the file that the engine shares
    with a simulated board; None for a real board. Raises InputError if the engine is unknown or cannot run the model.
    """
    engine = engine_for(choice.engine, model.format) if choice.url is None else SERVER
    if choice.session.given:
        engine = _with_session_options(engine, model.format, choice.session.given)
    if model.format == "ncnn" and choice.batch is not None:
        raise InputError("--batch: a model of ncnn has no batch dimension", "leave it out, or use --streams")
    if choice.python is None and choice.url is None:
        _require_runtime(engine, model.format)
    generation, default_runs = None, DEFAULT_WARMUP_RUNS
    if choice.url is not None:
        from edgetop.cli.running.generation_parts import server_spec  # noqa: PLC0415  of language models alone

        generation = server_spec(choice.generation, choice.url)
        default_runs = GENERATION_WARMUP_RUNS
    elif model.format == "gguf":
        from edgetop.cli.running.generation_parts import generation_spec  # noqa: PLC0415  of language models alone

        generation = generation_spec(choice.generation, model, choice.limit.memory_bytes)
        default_runs = GENERATION_WARMUP_RUNS
    elif given := choice.generation.given:
        raise InputError(f"{given} is for language models", "give a .gguf file")
    spec = EngineSpec(
        model=str(model.path.absolute()),
        format=model.format,
        engine=engine,
        threads=choice.threads or choice.limit.cpus or 0,
        batch=choice.batch,
        providers=choice.providers,
        delegates=choice.delegates,
        xnnpack=_has_xnnpack(choice, model.format),
        signature=choice.signature or "",
        session=choice.session,
        images=choice.images,
        whole=choice.needs_full_delegation,
        inputs=choice.inputs,
        shapes=choice.shapes,
        seed=choice.seed,
        warmup_runs=default_runs if phases.warmup_runs in (None, AUTO_WARMUP) else phases.warmup_runs,
        idle_ns=phases.idle_ns,
        warmup_ns=phases.warmup_ns,
        warmup_until_steady=phases.warmup_runs is None,
        runs=phases.runs,
        duration_ns=phases.duration_ns,
        profile_every_ns=0 if choice.url is not None else phases.profile_every_ns,
        noted_events=_noted_events() if phases.profile_every_ns and not generation else (),
        in_turns=in_turns,
        cpus=_engine_cpus(choice, monitor_cpus),
        keep_outputs=keep_outputs,
        generation=generation,
        virtual_board=virtual_board,
    )
    return spec if load is None else _with_load(spec, load, model)


def _noted_events() -> tuple[tuple[str, int, int], ...]:
    """Return the hardware events that the CPU can count, as `(name, type, config)` of perf_event_open(2)."""
    return tuple((event.name, event.type, event.config) for pmu in core_pmus(Root()) for event in pmu.events)


def spec_of(request: RunRequest, model: ModelFile, virtual_board: str | None = None) -> EngineSpec:
    """Return the specification of the session's engine. In an A/B session, return the specification for A.

    `virtual_board` is the path of the file that the engine shares with a simulated board; None for a real board.
    """
    subject, phases = request.subject, request.phases
    if isinstance(subject, ProgramSubject):  # only the limits apply to a watched program
        return EngineSpec(str(model.path), "", runs=phases.runs, duration_ns=phases.duration_ns, warmup_runs=0)
    return engine_spec(
        model_of(subject),
        model,
        phases,
        request.load,
        keep_outputs=request.keeping.keep_outputs,
        in_turns=isinstance(subject, VariantsSubject),
        monitor_cpus=request.board.monitor_cpus,
        virtual_board=virtual_board,
    )


def _require_runtime(engine: str, model_format: str) -> None:
    """Raise InputError if this Python lacks the runtime. The error says how to install it.

    `engine` is a runtime's name, or `auto` for any that runs `model_format`, such as `onnx`.
    """
    names = [name for name in runtimes_of(model_format) if engine in ("auto", name)]
    if names and not any(importlib.util.find_spec(RUNTIMES[name].module) for name in names):
        what = f"no runtime for {model_format} models is" if engine == "auto" else f"{engine} is not"
        advice = f"{extra_command(EXTRAS[names[0]])}, or choose an interpreter that has it with --engine-python"
        raise InputError(f"{what} installed", advice)


def with_outputs_file(spec: EngineSpec, folder: Path | None, side: str = "") -> EngineSpec:
    """Return `spec` with the path of a file added. The engine writes the outputs to keep into this file.

    `folder` is the folder of the recording; None leaves `spec` as it is. `side` is "A" or "B" in an A/B session, else
    "".
    """
    return replace(spec, outputs_file=str(folder / outputs_file(side))) if spec.keep_outputs and folder else spec


def with_end_note(spec: EngineSpec, folder: Path | None, keeping: Keeping) -> EngineSpec:
    """Return `spec` with the path of a file in `folder` added. The engine notes its progress in this file.

    `spec` stays as it is without a recording (`folder` None), or if `keeping` asks for `--rotate`.
    """
    return replace(spec, end_note=str(folder.absolute() / END_NOTE)) if folder and not keeping.rotate_ns else spec


def process_engine(
    choice: ModelChoice, spec: EngineSpec, stack: ExitStack, child: "Child | None" = None
) -> ProcessEngine:
    """Return an engine in its own process. The limits of `--limit` hold until `stack` is closed.

    `child` is a process that already waits for `spec`; None to start one. Raises InputError if the limits cannot be
    set.
    """
    return engine_maker(choice, stack, child)(spec)


def engine_maker(
    choice: ModelChoice, stack: ExitStack, child: "Child | None" = None
) -> Callable[[EngineSpec], ProcessEngine]:
    """Return a function that makes an engine in its own process from a specification.

    The limits of `--limit` hold for all of these engines together, until `stack` is closed. `child` is a process that
    already waits to become the engine; None to start one.
    """
    prefix = stack.enter_context(enclosed(choice.limit)).prefix
    python = interpreter(choice.python)
    return partial(ProcessEngine, python=python, prefix=prefix, memory_limit=choice.limit.memory_bytes, child=child)


def engine_in_turns(request: RunRequest, board: Found, stack: ExitStack, folder: Path | None) -> "TurnsEngine":
    """Return one engine that runs the two variants of an A/B session in turns.

    The engine can load each variant again. `board` holds the board's sensors. Each variant has its own limits, until
    `stack` is closed. `folder` is the folder of the recording, or None. Raises InputError if a model or an interpreter
    does not exist.
    """
    from edgetop.engines.turn_engine import TurnsEngine, reloading  # noqa: PLC0415  of `ab` alone
    from edgetop.session.turns import SHORTEST_NS, SIDES, Planner  # noqa: PLC0415

    subject, duration_ns = request.subject, request.phases.duration_ns
    assert isinstance(subject, VariantsSubject)
    assert duration_ns is not None
    engines, makers = [], []
    for variant, side in zip(subject.variants, SIDES, strict=True):
        spec = variant_spec(request, variant.model)
        make = engine_maker(variant.model, stack)
        engines.append(make(with_outputs_file(spec, folder, side)))
        makers.append(partial(make, reloading(spec)))
    has_power = any(info.kind == "power" and info.role == "total" for s in board.sources for info in s.sensors)
    least_ns = subject.turn_ns or (POWER_TURN_NS if has_power else SHORTEST_NS)
    planner = Planner(duration_ns, subject.order_seed, least_ns)
    return TurnsEngine((engines[0], engines[1]), planner, lambda side: makers[side]())


def variant_spec(request: RunRequest, choice: ModelChoice) -> EngineSpec:
    """Return the specification of the engine for one variant of an A/B session. `choice` is the variant's model."""
    return engine_spec(
        choice,
        find_model(choice),
        request.phases,
        keep_outputs=request.keeping.keep_outputs,
        in_turns=True,
        monitor_cpus=request.board.monitor_cpus,
    )


def _with_session_options(engine: str, model_format: str, option: str) -> str:
    """Return "onnxruntime", the only engine that takes session options. Raises InputError if another engine is to run.

    `engine` is the requested engine or "auto". `model_format` is the format of the model, such as "onnx". `option` is
    the session option that the user gave; the error names it.
    """
    if engine == "onnxruntime" or (engine == "auto" and model_format == "onnx"):
        return "onnxruntime"
    runtimes = runtimes_of(model_format)
    other = engine if engine != "auto" else runtimes[0] if runtimes else model_format
    raise InputError(f"{option} is for ONNX Runtime, and {other} runs this model", "leave it out")


def _has_xnnpack(choice: ModelChoice, model_format: str) -> bool:
    """Whether the engine is allowed to use XNNPACK, the default accelerator of TFLite runtimes on CPUs.

    `model_format` is such as `tflite`. `--provider CPU` without other providers switches XNNPACK off. Raises InputError
    if the options both request and forbid it.
    """
    if model_format != "tflite":
        return choice.xnnpack
    asked = {name.upper() for name, _ in choice.providers}
    if not choice.xnnpack and "XNNPACK" in asked:
        raise InputError("--no-xnnpack and --provider XNNPACK contradict each other")
    return choice.xnnpack and asked != {"CPU"}


def _with_load(spec: EngineSpec, load: LoadRequest, model: ModelFile) -> EngineSpec:
    if load.pace_of:
        from edgetop.cli.running.recorded_arrivals import arrivals_of  # noqa: PLC0415  loads Arrow

        starts_ns = arrivals_of(load.pace_of, str(model.path))
        rate_hz = (len(starts_ns) - 1) / starts_ns[-1] * 1e9
        pauses_ns = (after - before for before, after in itertools.pairwise(starts_ns))
        return replace(spec, rate_hz=rate_hz, arrivals="replayed", starts_ns=starts_ns, delay_ns=max(pauses_ns))
    return replace(
        spec,
        rate_hz=load.rate_hz,
        arrivals=load.arrivals,
        streams=load.streams,
        delay_ns=load.delay_ns,
        duty_ns=load.duty_ns,
    )


def interpreter(given: Path | None) -> str | None:
    """Return the path of the Python interpreter for the engine. None means the interpreter that runs edgetop.

    `given` is a path, a name on PATH, or None. Symbolic links are kept, because the python of a virtual environment is
    a link. Raises InputError if there is no such file.
    """
    if given is None:
        return None
    try:
        path = given.expanduser()
    except RuntimeError:  # `~NAME` of a user that does not exist
        path = given
    if is_there(path):
        return str(path.absolute())
    program = shutil.which(str(path))
    if program is None:
        raise InputError(f"--engine-python {given}: no such file", "give the path of a Python interpreter")
    return program


def _engine_cpus(choice: ModelChoice, monitor_cpus: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the CPUs to pin the engine to, or () for no pinning.

    If `choice` has `--engine-cpus`, the engine gets these CPUs. If it has `--limit cpus=N`, the engine gets only the
    first N CPUs. With neither option, the engine gets all CPUs that this process is allowed to use if edgetop itself is
    pinned to `monitor_cpus`, since it must not inherit this pinning. If `monitor_cpus` is empty, the result is ().
    Raises InputError if a requested CPU is not allowed.
    """
    here = os.sched_getaffinity(0)
    _refuse_cpus("--engine-cpus", choice.cpus)
    limited, own = choice.limit.cpus, choice.cpus or tuple(sorted(here))
    if limited is not None:
        if limited > len(own):
            raise InputError(
                f"--limit cpus={limited}: this process may use {quantity(len(own), 'CPU')}", "choose fewer"
            )
        return own[:limited]
    if choice.cpus:
        return own
    return tuple(sorted(here)) if monitor_cpus else ()


def _refuse_cpus(option: str, cpus: Sequence[int]) -> None:
    """Raise InputError if `option` names a CPU in `cpus` that this process is not allowed to use."""
    here = os.sched_getaffinity(0)
    if not here.issuperset(cpus):
        raise InputError(f"{option}: this process may use CPUs {', '.join(map(str, sorted(here)))} only")


def recording_folder(request: RunRequest, model: ModelFile) -> Path | None:
    """Return the folder of the recording, from `-o` or from the model's name and the time.

    None if nothing is recorded.
    """
    keeping, subject = request.keeping, request.subject
    if not keeping.is_recorded:
        return None
    if keeping.output:
        return session_folder(keeping.output).absolute()
    others = subject.variants[1:] if isinstance(subject, VariantsSubject) else ()
    models = "-or-".join([model.path.stem, *(other.model.path.stem for other in others if other.model.path)])
    stem = f"{as_component(models)}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    candidates = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    home = recordings_home()
    free = [home / f"{name}{SUFFIX}" for name in candidates if not is_there(home / f"{name}{SUFFIX}")]
    return free[0]


def retention(keeping: Keeping) -> Retention:
    return Retention(keeping.has_raw, keeping.max_size_bytes, keeping.fsync_interval_ns)


def server_file(url: str) -> ModelFile:
    """Return a stand-in for the file of a model behind a URL.

    Its name, such as `server-localhost:8080`, names the session.
    """
    parts = urlsplit(url)
    return ModelFile(
        Path(as_component(f"server-{parts.netloc.rpartition('@')[2]}".replace(".", "-"))), SERVER, 0, misnamed=False
    )


def program_file(program: "WatchedProgram | WatchedProcess | WatchedContainer") -> ModelFile:
    """Return a stand-in for the model's file of a watched program.

    Its name is that of the program, such as `app.py`. The session is named after the program.
    """
    words = [word for word in program.spec.command if not word.startswith("-")]
    named = next((word for word in words[1:] if word.endswith(".py")), words[0] if words else program.spec.command[0])
    return ModelFile(Path(Path(named).name), "", 0, misnamed=False)


def refuse_absent(request: RunRequest, folder: Path | None) -> None:
    """Raise InputError if a given file, program or CPU does not exist, or if the folder of the recording exists.

    Call this function before all slower checks, so that the user learns of such errors at once. `folder` is the
    folder of the recording; None means no recording.
    """
    subject = request.subject
    _refuse_cpus("--monitor-cpus", request.board.monitor_cpus)
    if folder:
        refuse_folder(folder)
    if isinstance(subject, ProgramSubject):
        name = subject.program.executable
        if name and shutil.which(name) is None:
            number = errno.EACCES if "/" in name and os.path.lexists(name) else errno.ENOENT
            text = f"{shlex.quote(name)}: cannot be started: {os.strerror(number)}"
            raise InputError(text, "give a program and its arguments")
        return
    models = [each.model for each in subject.variants] if isinstance(subject, VariantsSubject) else [model_of(subject)]
    for source in (source for model in models for source in model.inputs.values()):
        if not is_made_up(source) and not is_literal(source) and not is_there(Path(source)):
            raise InputError(
                f"{source}: no such file", "give random, random:N, zeros, numbers, a .npy, .npz, .pb or a folder"
            )
