"""The manifest (the description of a session) with which a session begins, before its engine has reported anything."""

import shlex
import sys
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgetop import __version__
from edgetop.cli.running.run_request import ModelSubject, ProgramSubject, RunRequest, VariantsSubject, model_of
from edgetop.engines.child.literals import input_words
from edgetop.engines.formats import ModelFile
from edgetop.engines.spec import EngineSpec, GenerationSpec
from edgetop.runner.cooldown import Cooldown
from edgetop.session.clock import Clock, anchor, boot_id, format_utc
from edgetop.session.generation_settings import Generation
from edgetop.session.load_settings import Load
from edgetop.session.manifest import (
    FORMAT_VERSION,
    Ab,
    Board,
    ClockInfo,
    Constraints,
    EngineInfo,
    Manifest,
    Methodology,
    Model,
    Variant,
    Watched,
    shortened,
)

if TYPE_CHECKING:
    from edgetop.taps.watched_container import WatchedContainer
    from edgetop.taps.watched_process import WatchedProcess
    from edgetop.taps.watched_program import WatchedProgram
from edgetop.cli.running.session_parts import find_model, variant_spec


def _generated_input(spec: EngineSpec) -> str:
    """Return a short description of the input that edgetop makes for a run, such as `random` or `prompts`."""
    generation = spec.generation
    if generation is None:
        return "random"
    if not spec.in_turns:
        return "prompts" if generation.prompts else "random"
    texts = "text" if generation.prompts else f"{generation.prompt_tokens} random tokens"
    return f"{texts} in, {generation.max_tokens} tokens out"


def load_of(deadline_ns: int | None, spec: EngineSpec) -> Load:
    """Return the load (rate, streams, input and so on) for the manifest, which describes the session.

    `deadline_ns` is the deadline of an inference in ns, or None.
    """
    on_ns, off_ns = spec.duty_ns or (None, None)
    return Load(
        mode="closed" if spec.rate_hz is None else spec.arrivals,  # type: ignore[arg-type]  # one of these
        rate_hz=spec.rate_hz,
        deadline_ns=deadline_ns,
        streams=spec.streams,
        batch=None if spec.generation else spec.batch,  # of a language model, no number of items
        input=input_words(spec.inputs) or _generated_input(spec),
        images=spec.images,
        delay_ns=spec.delay_ns or None,
        duty_on_ns=on_ns,
        duty_off_ns=off_ns,
        seed=spec.seed,
    )


HOOK = "--on-event"


def first_manifest(
    request: RunRequest,
    name: str,
    model: ModelFile,
    spec: EngineSpec,
    board: Board,
    clock: Clock,
    cooldown: Cooldown | None = None,
) -> Manifest:
    """Return the session's manifest (what runs, where and how) with all that is known before anything runs.

    `name` is the session's name. `cooldown` is the result of the wait for a cool board; None if there was none.
    """
    origin, subject = clock.monotonic_ns(), request.subject
    limit = subject.limit if isinstance(subject, ProgramSubject) else model_of(subject).limit
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        id=str(uuid.uuid4()),
        name=name,
        state="live",
        edgetop_version=__version__,
        created_utc=format_utc(clock.utc()),
        clock=ClockInfo(origin, boot_id(), (anchor(clock, origin),)),
        board=board,
        model=_model(model) if not (spec.generation and spec.generation.url) else Model(path=spec.generation.url),
        engine=_engine(spec, subject.isolation if isinstance(subject, ModelSubject) else "process"),
        load=load_of(request.load.deadline_ns, spec),
        methodology=_methodology(request, cooldown),
        constraints=Constraints(
            memory_bytes=limit.memory_bytes,
            quota_pct=limit.quota_pct,
            quota_period_ms=limit.period_us / 1000 if limit.quota_pct is not None else None,
            swap_bytes=limit.swap_bytes or None,
            io_bytes_per_s=limit.io_bytes_per_s,
        ),
        labels=dict(request.keeping.labels),
        ab=_ab(request, subject) if isinstance(subject, VariantsSubject) else None,
        # In turns, the recorded inferences are whole requests, which have the same lengths on both sides.
        generation=_generation(spec.generation) if spec.generation and not spec.in_turns else None,
        command=shortened(typed(sys.argv[1:])),
    )
    return _of_program(manifest, subject.program) if isinstance(subject, ProgramSubject) else manifest


def _generation(spec: GenerationSpec) -> Generation:
    return Generation(
        context=spec.context or None,
        max_tokens=None if spec.url and not spec.prompts else spec.max_tokens,
        prompt_tokens=spec.prompt_tokens or None,
        prompts=len(spec.prompts) or None,
        temperature=spec.temperature,
        gpu_layers=spec.gpu_layers,
        url=spec.url or None,
        parallel=spec.parallel,
    )


def _methodology(request: RunRequest, cooldown: Cooldown | None) -> Methodology:
    """Return how the session is measured: cool-down, idle baseline, room temperature. The manifest stores this."""
    keeping = request.keeping
    return Methodology(
        cooldown_s=round(cooldown.seconds, 1) if cooldown else None,
        cooldown_to_c=cooldown.target_c if cooldown else None,
        cooldown_c=cooldown.reached.celsius if cooldown and cooldown.reached else None,
        idle_baseline_s=request.phases.idle_ns / 1e9 or None,
        ambient_c=keeping.ambient_c,
        ambient_sensor=keeping.ambient_sensor,
        enclosure=keeping.enclosure,
        notes=keeping.notes,
        battery=keeping.battery,
    )


def typed(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the user's command line without the commands of `--on-event`, which may hold secrets.

    >>> typed(["run", "m.onnx", "--on-event", "any=curl token", "--on-event=leak=x", "--runs", "9"])
    ('edgetop', 'run', 'm.onnx', '--runs', '9')
    """
    before = ("", *arguments)
    words = zip(before, arguments, strict=False)
    return ("edgetop", *(word for last, word in words if HOOK not in (last, word.partition("=")[0])))


def _model(model: ModelFile) -> Model:
    return Model(
        path=str(model.path), size_bytes=model.size_bytes, format=model.format, beside_bytes=model.beside_bytes
    )


def _engine(spec: EngineSpec, isolation: str = "process") -> EngineInfo:
    return EngineInfo(
        threads=spec.threads,
        isolation=isolation,
        asked=spec.requested,
        xnnpack=None if spec.xnnpack else False,
    )


def _ab(request: RunRequest, subject: VariantsSubject) -> Ab:
    variants = (
        Variant(_model(find_model(each.model)), _engine(variant_spec(request, each.model)), each.written)
        for each in subject.variants
    )
    return Ab(tuple(variants), subject.until, subject.order_seed)


def _of_program(manifest: Manifest, program: "WatchedProgram | WatchedProcess | WatchedContainer") -> Manifest:
    """Return the manifest with the watched program's command in place of a model."""
    command = program.spec.command
    return replace(
        manifest,
        model=Model(path=shlex.join(shortened(command))),
        engine=EngineInfo(isolation=program.isolation),
        load=replace(manifest.load, input="chosen by the program"),
        watched=Watched(shortened(command), container=program.in_container),
    )
