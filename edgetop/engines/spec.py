"""The specification of an engine: everything that it needs, as values that JSON can hold."""

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any

from edgetop.engines.child.adapters import RUNTIMES, runtimes_of
from edgetop.engines.child.plugins import GROUP, entry_points
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint

if TYPE_CHECKING:
    from edgetop.session.load_settings import ImageInput

DEFAULT_WARMUP_RUNS = 50
GENERATION_WARMUP_RUNS = 1  # of a language model, whose warm-up needs no more than its weights in memory


@frozen
class GenerationSpec:
    """What a language model is asked: the prompts, how many tokens it generates, and how."""

    context: int  # tokens; 0 if it is unknown
    max_tokens: int  # most generated tokens of a request
    prompt_tokens: int = 0  # length of random prompts, if there are no texts
    prompts: tuple[str, ...] = ()  # texts, taken in turn
    temperature: float = 0.0
    gpu_layers: int | None = None  # None means the runtime's default
    url: str = ""  # URL of the server that generates; "" for an engine
    parallel: int = 1  # most requests at the same time


@frozen
class SessionChoices:
    """The session options of ONNX Runtime that the user sets. The defaults are those of ONNX Runtime."""

    optimize: int | None = None  # 0 to 3
    inter_threads: int | None = None  # threads that run operators beside each other; 0 means as many as CPUs
    execution: str = ""  # "sequential" or "parallel"
    arena: bool = True  # whether memory of the CPU is kept for the next inference
    config: Mapping[str, str] = field(default_factory=dict)  # config entries by key
    custom_ops: tuple[str, ...] = ()  # paths of libraries with custom operators

    @property
    def given(self) -> str:
        """The first of the options that the user gave, such as `--optimize`, or "" if there is none."""
        names = ("--optimize", "--inter-op-threads", "--execution-mode", "--no-arena", "--session-option")
        values = (
            self.optimize is not None,
            self.inter_threads is not None,
            self.execution,
            not self.arena,
            self.config,
        )
        asked = (*zip(names, values, strict=True), ("--custom-ops", self.custom_ops))
        return next((name for name, value in asked if value), "")


@frozen
class EngineSpec:
    model: str  # path
    # One of formats.SUFFIXES, "server" for a language model behind a URL, or the name of a plug-in.
    format: str
    engine: str = "auto"  # a name of the registry, or "auto"
    threads: int = 0  # 0 means the runtime's default
    batch: int | None = None
    providers: tuple[tuple[str, Mapping[str, str]], ...] = ()  # (name, options)
    delegates: tuple[tuple[str, Mapping[str, str]], ...] = ()  # (path, options)
    xnnpack: bool = True  # whether a TFLite runtime may use its default delegate
    signature: str = ""  # key of a TFLite model's signature that runs; "" for its first graph
    session: SessionChoices = field(default_factory=SessionChoices)  # of ONNX Runtime
    whole: bool = False  # refuse a model that the requested providers cannot run as a whole, if the engine knows that
    inputs: Mapping[str, str] = field(default_factory=dict)  # source by input name; "" is for all other inputs
    images: "ImageInput | None" = None  # how pictures become inputs; None: as by default
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    seed: int = 0
    idle_ns: int = 0  # pause after the first inference to measure idle power; 0 for none
    warmup_runs: int = DEFAULT_WARMUP_RUNS
    warmup_ns: int = 0
    warmup_until_steady: bool = False
    runs: int | None = None  # measured inferences; None for no limit
    duration_ns: int | None = None  # of the measured phase; None for no limit
    profile_every_ns: int = 0  # interval between bursts of instrumented inferences; 0 for no bursts
    # Events of the CPU that are counted in each operator, as (name, type, config) of perf_event_open(2).
    noted_events: tuple[tuple[str, int, int], ...] = ()
    rate_hz: float | None = None  # of each stream; None means that an inference starts when the previous one is done
    arrivals: str = "fixed"  # or "poisson", or "replayed"
    starts_ns: tuple[int, ...] = ()  # starts replayed in a loop, ascending from 0; the last number is the loop's length
    streams: int = 1  # number of concurrent streams
    delay_ns: int = 0  # pause after each inference without a rate
    duty_ns: tuple[int, int] | None = None  # durations of work and rest in a duty cycle
    in_turns: bool = False  # whether it runs only in turns, which it receives later (engines/turn_engine.py)
    cpus: tuple[int, ...] = ()  # CPUs to which the engine is pinned; empty for all
    keep_outputs: int = 0  # number of inferences before the warm-up whose outputs are stored
    outputs_file: str = ""  # path of the file for them
    end_note: str = ""  # path at which the engine notes how far it came if its conductor dies; "" for no note
    generation: GenerationSpec | None = None  # of a language model
    virtual_board: str | None = None  # path of the shared page of a virtual board (child/board_page.py)

    @property
    def at_once(self) -> int:
        """The largest number of inferences that may be in progress at the same time."""
        return self.generation.parallel if self.generation else self.streams

    @property
    def requested(self) -> tuple[str, ...]:
        """The names of the requested providers, then the paths of the delegates, in the order of the request."""
        return tuple(name for name, _ in (*self.providers, *self.delegates))

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return fields


ALIASES = {
    "onnx": "onnxruntime",
    "ort": "onnxruntime",
    "ai-edge-litert": "litert",
    "tflite_runtime": "tflite-runtime",
    "ov": "openvino",
    **dict.fromkeys(("llamacpp", "llama-cpp", "llama_cpp", "xllamacpp"), "llama.cpp"),
}


def engine_for(name: str | None, model_format: str) -> str:
    """Return the usual name of the engine that the user named, such as "onnxruntime" for "ort".

    `name` is what the user gave, or None. Returns "auto" if `name` is None, "auto" or the same as `model_format`.
    `model_format` is a format such as "onnx", or the name of the plug-in engine for the file. Raises InputError if the
    engine is unknown or does not run models of this format.

    >>> engine_for("ort", "onnx"), engine_for(None, "onnx")
    ('onnxruntime', 'auto')
    """
    if name is None or name in ("auto", model_format):
        return "auto"
    canonical = ALIASES.get(name.lower(), name.lower())
    if canonical not in RUNTIMES:
        plugins = entry_points(GROUP)
        if name in plugins:
            return name
        raise InputError(f"--engine {name}: unknown", nearest_hint(canonical, [*RUNTIMES, *plugins]))
    if model_format not in RUNTIMES[canonical].formats:
        fitting = ", ".join(runtimes_of(model_format))
        raise InputError(f"--engine {name} does not run {model_format} models", f"use {fitting}")
    return canonical
