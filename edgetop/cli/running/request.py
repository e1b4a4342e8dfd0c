"""The options of a run, checked, as the values that a session is built from."""

import importlib.util
import itertools
import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetop import __version__, demo
from edgetop.engines.child.adapters import RUNTIMES
from edgetop.engines.formats import ModelFile, identify
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import DEFAULT_WARMUP_RUNS, EngineSpec, engine_for
from edgetop.errors import InputError
from edgetop.installation import extra_command
from edgetop.paths import as_component, is_there, recordings_home
from edgetop.recording.kept_outputs import outputs_file
from edgetop.recording.session_folder import END_NOTE, SUFFIX, Retention, session_folder
from edgetop.runner.cgroup_limits import Limit, enclosed, joined
from edgetop.runner.cooldown import Cooldown
from edgetop.sensors.sensor_protocol import Found
from edgetop.session.clock import Clock, anchor, boot_id, format_utc
from edgetop.session.manifest import (
    FORMAT_VERSION,
    Ab,
    Board,
    ClockInfo,
    Constraints,
    EngineInfo,
    Load,
    Manifest,
    Methodology,
    Model,
    Variant,
    Watched,
    shortened,
)
from edgetop.session.seconds import NS

if TYPE_CHECKING:
    from edgetop.engines.turn_engine import TurnsEngine
    from edgetop.taps.watched_process import WatchedProcess
    from edgetop.taps.watched_program import WatchedProgram

Options = Mapping[str, Any]
EXTRAS = {"onnxruntime": "onnx", "litert": "tflite", "tflite-runtime": "tflite-runtime"}  # of edgetop, by runtime
POWER_TURN_NS = NS  # of an A/B session where a sensor reads the board's power, which is seldom updated more often


def find_model(options: Options) -> ModelFile:
    """The user's model, or the built-in one in a format that an installed runtime has."""
    if options["model"] is not None:
        return identify(options["model"])
    if options["engine"] in RUNTIMES:
        return identify(demo.model_path(RUNTIMES[options["engine"]][0]))
    if options["engine_python"] is not None:  # another interpreter can only be asked by running it
        return identify(demo.model_path("onnx"))
    for model_format, module, *_ in RUNTIMES.values():  # ONNX first
        if importlib.util.find_spec(module) is not None:
            return identify(demo.model_path(model_format))
    raise InputError("no inference runtime is installed", f"{extra_command('onnx')}, or {extra_command('tflite')}")


def engine_spec(options: Options, model: ModelFile, virtual_board: str | None = None) -> EngineSpec:
    """Raises InputError for an engine that is unknown or does not fit the model."""
    steady = options["warmup_runs"] is None
    engine = engine_for(options["engine"], model.format)
    if options["engine_python"] is None:
        _require_runtime(engine, model.format)
    return EngineSpec(
        model=str(model.path.absolute()),
        format=model.format,
        engine=engine,
        threads=options["threads"] or limit_of(options).cpus or 0,
        batch=options["batch"],
        providers=options["providers"],
        delegates=options["delegates"],
        xnnpack=not options["no_xnnpack"],
        whole=options["require_full_delegation"],
        inputs=_once(options["inputs"], "--input"),
        shapes=_once(options["shapes"], "--shape"),
        seed=options["seed"],
        warmup_runs=DEFAULT_WARMUP_RUNS if steady else options["warmup_runs"],
        idle_ns=options["idle_baseline"],
        warmup_ns=options["warmup_time"],
        warmup_until_steady=steady,
        runs=options["runs"],
        duration_ns=options["duration"],
        profile_every_ns=options["profile_every"],
        **_load_options(options, model),
        in_turns="variants" in options,
        cpus=_engine_cpus(options),
        keep_outputs=options.get("keep_outputs") or 0,
        virtual_board=virtual_board,
    )


def _require_runtime(engine: str, model_format: str) -> None:
    """Raise InputError if this Python has no such runtime. How it is added depends on how edgetop was installed."""
    names = [name for name, runtime in RUNTIMES.items() if engine in ("auto", name) and runtime[0] == model_format]
    if not any(importlib.util.find_spec(RUNTIMES[name][1]) for name in names):
        what = f"no runtime for {model_format} models is" if engine == "auto" else f"{engine} is not"
        advice = f"{extra_command(EXTRAS[names[0]])}, or name an interpreter that has it with --engine-python"
        raise InputError(f"{what} installed", advice)


def with_outputs_file(spec: EngineSpec, folder: Path | None, side: str = "") -> EngineSpec:
    """Add the file for stored outputs to the engine's specification; `side` of an A/B session: "A" or "B"."""
    return replace(spec, outputs_file=str(folder / outputs_file(side))) if spec.keep_outputs and folder else spec


def with_end_note(spec: EngineSpec, folder: Path | None, options: Options) -> EngineSpec:
    """Have the engine note in the recording's folder how far it came; not with rotation, when the folder changes."""
    return replace(spec, end_note=str(folder.absolute() / END_NOTE)) if folder and not options.get("rotate") else spec


def limit_of(options: Options) -> Limit:
    """Return the limits of `--limit`. Raises InputError where they contradict each other."""
    try:
        return joined(options.get("limits", ()))
    except ValueError as error:
        raise InputError(f"--limit: {error}") from None


def process_engine(options: Options, spec: EngineSpec, stack: ExitStack) -> ProcessEngine:
    """Return an engine in its own process, within the requested limits until `stack` is closed.

    Raises InputError where these cannot be had.
    """
    limit = limit_of(options)
    prefix = stack.enter_context(enclosed(limit)).prefix
    child = options.get("engine_child")
    return ProcessEngine(spec, engine_python(options), prefix=prefix, memory_limit=limit.memory_bytes, child=child)


def engine_in_turns(options: Options, board: Found, stack: ExitStack, folder: Path | None) -> "TurnsEngine":
    """The two engines of an A/B session as one. Each variant has limits of its own.

    Raises InputError for a model or an interpreter that is not there.
    """
    from edgetop.engines.turn_engine import TurnsEngine  # noqa: PLC0415  of `ab` alone
    from edgetop.session.turns import SHORTEST_NS, SIDES, plan  # noqa: PLC0415

    engines = []
    for variant, side in zip(options["variants"], SIDES, strict=True):
        own = {**variant, "variants": ()}
        engines.append(process_engine(own, with_outputs_file(engine_spec(own, find_model(own)), folder, side), stack))
    has_power = any(info.kind == "power" and info.role == "total" for s in board.sources for info in s.sensors)
    least_ns = options["turn"] or (POWER_TURN_NS if has_power else SHORTEST_NS)
    make = partial(plan, duration_ns=options["duration"], seed=options["order_seed"], least_ns=least_ns)
    return TurnsEngine((engines[0], engines[1]), make)


def _load_options(options: Options, model: ModelFile) -> dict[str, Any]:
    """Fields of an EngineSpec; a command without such options runs back to back."""
    if "rate" not in options:
        return {}
    if options.get("pace_of"):
        from edgetop.cli.running.recorded_arrivals import arrivals_of  # noqa: PLC0415  loads Arrow

        starts_ns = arrivals_of(options["pace_of"], str(model.path))
        rate_hz = (len(starts_ns) - 1) / starts_ns[-1] * 1e9
        pauses_ns = (after - before for before, after in itertools.pairwise(starts_ns))
        return {"rate_hz": rate_hz, "arrivals": "replayed", "starts_ns": starts_ns, "delay_ns": max(pauses_ns)}
    return {
        "rate_hz": options["rate"],
        "arrivals": options["arrivals"] or "fixed",
        "streams": options["streams"],
        "delay_ns": options["delay"] or 0,
        "duty_ns": options["duty"],
    }


def refuse_unmeant_misses(options: Options) -> None:
    """Raises InputError where a gate or a rule needs a deadline, and there is none."""
    if options["deadline"] is None:
        for option, asked in (("--fail-if", options["gates"]), ("--alert", options["alerts"])):
            if any(one.name == "misses" for one in asked):
                raise InputError(f"{option} misses needs --deadline", "say what is missed: --deadline 33ms")


def load_of(options: Options, spec: EngineSpec) -> Load:
    """The load, as in the manifest."""
    on_ns, off_ns = spec.duty_ns or (None, None)
    is_random = spec.rate_hz is not None and spec.arrivals == "poisson"
    return Load(
        mode="closed" if spec.rate_hz is None else spec.arrivals,  # type: ignore[arg-type]  # one of these
        rate_hz=spec.rate_hz,
        deadline_ns=options["deadline"],
        streams=spec.streams,
        batch=spec.batch,
        input=", ".join(sorted(set(spec.inputs.values()))) or "random",
        delay_ns=spec.delay_ns or None,
        duty_on_ns=on_ns,
        duty_off_ns=off_ns,
        seed=spec.seed if is_random else None,
    )


def engine_python(options: Options) -> str | None:
    """The interpreter for the engine: a path, or a name on PATH. None: edgetop's own.

    Links are not followed: a virtual environment's python is one.
    """
    given = options["engine_python"]
    if given is None:
        return None
    path = given.expanduser()
    if path.exists():
        return str(path.absolute())
    program = shutil.which(str(path))
    if program is None:
        raise InputError(f"--engine-python {given}: no such file", "give the path of a Python interpreter")
    return program


def _once(pairs: tuple[tuple[str, Any], ...], option: str) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise InputError(f"{option} is given twice for the same input")
    return named


def _engine_cpus(options: Options) -> tuple[int, ...]:
    """Return the engine's CPUs; (): those of this process. It must not inherit a pinning meant for the monitor."""
    here = os.sched_getaffinity(0)
    for option in ("engine_cpus", "monitor_cpus"):
        if not set(options[option] or ()) <= here:
            name = option.replace("_", "-")
            raise InputError(f"--{name}: this process may use CPUs {', '.join(map(str, sorted(here)))} only")
    limited, own = limit_of(options).cpus, tuple(options["engine_cpus"] or sorted(here))
    if limited is not None:
        if limited > len(own):
            raise InputError(f"--limit cpus={limited}: there are {len(own)} of them", "leave it out, or give fewer")
        return own[:limited]
    if options["engine_cpus"]:
        return own
    return tuple(sorted(here)) if options["monitor_cpus"] else ()


def recording_folder(options: Options, model: ModelFile) -> Path | None:
    """Return the folder to record in; None: no recording."""
    if options["no_record"]:
        return None
    if options["output"]:
        return session_folder(options["output"].absolute())
    models = "-or-".join([model.path.stem, *(variant["model"].stem for variant in options.get("variants", ())[1:])])
    stem = f"{as_component(models)}-{datetime.now().astimezone():%Y%m%d-%H%M%S}"
    candidates = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    home = recordings_home()
    free = [home / f"{name}{SUFFIX}" for name in candidates if not is_there(home / f"{name}{SUFFIX}")]
    return free[0]


def retention(options: Options) -> Retention:
    return Retention(not options["no_raw"], options["max_size"], options["fsync_interval"])


HOOK = "--on-event"


def first_manifest(
    options: Options,
    name: str,
    model: ModelFile,
    spec: EngineSpec,
    board: Board,
    clock: Clock,
    cooldown: Cooldown | None = None,
) -> Manifest:
    """Return the manifest as far as it is complete before anything runs."""
    origin, limit = clock.monotonic_ns(), limit_of(options)
    return Manifest(
        format_version=FORMAT_VERSION,
        id=str(uuid.uuid4()),
        name=name,
        state="live",
        edgetop_version=__version__,
        created_utc=format_utc(clock.utc()),
        clock=ClockInfo(origin, boot_id(), (anchor(clock, origin),)),
        board=board,
        model=_model(model),
        engine=_engine(options, spec),
        load=load_of(options, spec),
        methodology=_methodology(options, cooldown),
        constraints=Constraints(
            memory_bytes=limit.memory_bytes,
            quota_pct=limit.quota_pct,
            quota_period_ms=limit.period_us / 1000 if limit.quota_pct is not None else None,
        ),
        labels=dict(options["labels"]),
        ab=_ab(options) if "variants" in options else None,
        command=shortened(typed(sys.argv[1:])),
    )


def _methodology(options: Options, cooldown: Cooldown | None) -> Methodology:
    """Return the requested methodology, with the result of the cool-down."""
    return Methodology(
        cooldown_s=round(cooldown.seconds, 1) if cooldown else None,
        cooldown_to_c=cooldown.target_c if cooldown else None,
        cooldown_c=cooldown.reached.celsius if cooldown and cooldown.reached else None,
        idle_baseline_s=options["idle_baseline"] / 1e9 or None,
        ambient_c=options["ambient"],
        enclosure=options["enclosure"],
        notes=tuple(options["notes"]),
        battery=options["battery"],
    )


def typed(arguments: Sequence[str]) -> tuple[str, ...]:
    """The command line, without the commands of hooks, which may hold secrets.

    >>> typed(["run", "m.onnx", "--on-event", "any=curl token", "--on-event=leak=x", "--runs", "9"])
    ('edgetop', 'run', 'm.onnx', '--runs', '9')
    """
    before = ("", *arguments)
    words = zip(before, arguments, strict=False)
    return ("edgetop", *(word for last, word in words if HOOK not in (last, word.partition("=")[0])))


def _model(model: ModelFile) -> Model:
    return Model(path=str(model.path), size_bytes=model.size_bytes, format=model.format)


def _engine(options: Options, spec: EngineSpec) -> EngineInfo:
    return EngineInfo(
        threads=spec.threads,
        isolation=options["isolation"],
        asked=spec.requested,
        xnnpack=None if spec.xnnpack else False,
    )


def _ab(options: Options) -> Ab:
    variants = []
    for variant in options["variants"]:
        model = find_model(variant)
        variants.append(Variant(_model(model), _engine(options, engine_spec(variant, model)), variant["written"]))
    return Ab(tuple(variants), options["until"], options["order_seed"])


def program_file(program: "WatchedProgram | WatchedProcess") -> ModelFile:
    """The program in the place of a model, until one is seen: the session is named after it."""
    words = [word for word in program.spec.command if not word.startswith("-")]
    named = next((word for word in words[1:] if word.endswith(".py")), words[0] if words else program.spec.command[0])
    return ModelFile(Path(Path(named).name), "", 0, misnamed=False)


def program_spec(options: Any, model: ModelFile) -> EngineSpec:
    """Return the limits of an engine that also hold for a watched program."""
    return EngineSpec(str(model.path), "", runs=options["runs"], duration_ns=options["duration"], warmup_runs=0)


def of_program(manifest: Manifest, program: "WatchedProgram | WatchedProcess") -> Manifest:
    """`manifest` of a session whose inferences the program makes."""
    command = program.spec.command
    return replace(
        manifest,
        model=Model(path=shlex.join(shortened(command))),
        engine=EngineInfo(isolation=program.isolation),
        load=replace(manifest.load, input="as the program gives it"),
        watched=Watched(shortened(command)),
    )
